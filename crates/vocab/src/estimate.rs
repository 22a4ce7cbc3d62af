//! A number with its interval.

use crate::units::Unit;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A number with its 95 % interval, all in the same unit. Where no interval was estimated both
/// ends are the value, and are written as `null`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Written<U>", from = "Written<U>")]
#[serde(bound(serialize = "U: Clone + PartialEq + Serialize"))]
#[serde(bound(deserialize = "U: Clone + Deserialize<'de>"))]
pub struct Estimate<U> {
    /// The best single value.
    pub value: U,
    /// Lower end of the interval.
    pub low: U,
    /// Upper end of the interval.
    pub high: U,
}

impl<U: JsonSchema> JsonSchema for Estimate<U> {
    fn schema_name() -> Cow<'static, str> {
        format!("Estimate_of_{}", U::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Written::<U>::json_schema(generator)
    }
}

/// A number with its 95 % interval, all in the same unit; `low` and `high` are null where no
/// interval was estimated.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Written<U> {
    value: U,
    low: Option<U>,
    high: Option<U>,
}

impl<U: Clone + PartialEq> From<Estimate<U>> for Written<U> {
    fn from(estimate: Estimate<U>) -> Self {
        let Estimate { value, low, high } = estimate;
        let known = low != value || high != value;
        Self { value, low: known.then_some(low), high: known.then_some(high) }
    }
}

impl<U: Clone> From<Written<U>> for Estimate<U> {
    fn from(written: Written<U>) -> Self {
        let Written { value, low, high } = written;
        let (low, high) = (low.unwrap_or(value.clone()), high.unwrap_or(value.clone()));
        Self { value, low, high }
    }
}

impl<U: Unit> Estimate<U> {
    /// From three bare numbers in the unit `U`.
    pub fn of(value: f64, low: f64, high: f64) -> Self {
        Self { value: U::of(value), low: U::of(low), high: U::of(high) }
    }

    /// Half of the interval's width, in the unit.
    pub fn half_width(&self) -> f64 {
        (self.high.get() - self.low.get()) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Ratio;

    #[test]
    fn no_interval_is_null() {
        let reported = |low, high| {
            let estimate = Estimate::<Ratio>::of(1.0, low, high);
            let text = serde_json::to_string(&estimate).unwrap();
            assert_eq!(serde_json::from_str::<Estimate<Ratio>>(&text).unwrap(), estimate);
            text
        };
        assert_eq!(reported(1.0, 1.0), r#"{"value":1.0,"low":null,"high":null}"#);
        assert_eq!(reported(0.9, 1.1), r#"{"value":1.0,"low":0.9,"high":1.1}"#);
    }
}
