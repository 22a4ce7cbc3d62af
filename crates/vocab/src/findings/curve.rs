//! The scaling curve.

use super::{CurvePoint, Estimate, Fit, Knee, Shape};
use crate::plan::Level;
use crate::units::Ratio;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The scaling curve. Where nothing was measured, the level of the peak, the knee and what follows
/// from them mean nothing, and are written as `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "Written", from = "Written")]
pub struct Curve {
    /// One point a level, ascending.
    pub points: Vec<CurvePoint>,
    /// Level of the greatest throughput.
    pub peak: Level,
    /// The knee.
    pub knee: Knee,
    /// Throughput at the last level over that at the peak.
    pub last_over_peak: Estimate<Ratio>,
    /// Whether it falls, and how far.
    pub shape: Shape,
    /// Fitted laws.
    pub fits: Vec<Fit>,
    /// Half-width of the machine's drift on the absolute scale, as a ratio.
    pub drift: Ratio,
}

/// A curve as programs read it.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Written {
    points: Vec<CurvePoint>,
    peak: Option<Level>,
    knee: Option<Knee>,
    last_over_peak: Option<Estimate<Ratio>>,
    shape: Option<Shape>,
    fits: Vec<Fit>,
    drift: Option<Ratio>,
}

impl From<Curve> for Written {
    fn from(curve: Curve) -> Self {
        let Curve { points, peak, knee, last_over_peak, shape, fits, drift } = curve;
        let measured = !points.is_empty();
        Self {
            points,
            peak: measured.then_some(peak),
            knee: measured.then_some(knee),
            last_over_peak: measured.then_some(last_over_peak),
            shape: measured.then_some(shape),
            fits,
            drift: measured.then_some(drift),
        }
    }
}

impl From<Written> for Curve {
    fn from(written: Written) -> Self {
        let Written { points, peak, knee, last_over_peak, shape, fits, drift } = written;
        let none = Level { clients: 0, cores: 0 };
        let nowhere = Knee { level: none, low: none, high: none, beyond_last: false };
        Self {
            points,
            peak: peak.unwrap_or(none),
            knee: knee.unwrap_or(nowhere),
            last_over_peak: last_over_peak.unwrap_or_else(|| Estimate::of(1.0, 1.0, 1.0)),
            shape: shape.unwrap_or(Shape::Flat),
            fits,
            drift: drift.unwrap_or(Ratio(0.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_of_nothing_tells_nothing() {
        let curve = Curve::from(Written {
            points: Vec::new(),
            peak: None,
            knee: None,
            last_over_peak: None,
            shape: None,
            fits: Vec::new(),
            drift: None,
        });
        let value = serde_json::to_value(&curve).unwrap();
        for field in ["peak", "knee", "last_over_peak", "shape", "drift"] {
            assert!(value[field].is_null(), "{field}: {value}");
        }
        assert_eq!(serde_json::from_value::<Curve>(value).unwrap(), curve);
    }
}
