//! Lengths of time with their units, and where a parameter comes from.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time in seconds, written as `"3.5 us"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Length(pub f64);

const UNITS: [(&str, f64); 5] =
    [("ps", 1e-12), ("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
/// A day: longer than any step of a program.
const LONGEST: f64 = 86_400.0;

impl Length {
    /// Reads `"3.5 us"`; units are ps, ns, us, ms and s.
    ///
    /// # Errors
    /// What is wrong with the text, in words.
    pub fn read(text: &str) -> Result<Self, String> {
        let split = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let expected = "expected a length of time such as \"3.5 us\" (ps, ns, us, ms or s)";
        let number: f64 = number.trim().parse().map_err(|_| format!("`{text}`: {expected}"))?;
        let found = UNITS.iter().find(|(name, _)| *name == unit.trim());
        let (_, scale) = found.ok_or_else(|| format!("`{text}`: {expected}"))?;
        let seconds = number * scale;
        if !(0.0..=LONGEST).contains(&seconds) {
            return Err(format!("`{text}`: a length of time lies between 0 and a day"));
        }
        Ok(Self(seconds))
    }
}

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Length {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fits = UNITS.iter().rev().find(|(_, scale)| self.0 >= *scale);
        let (name, scale) = fits.copied().unwrap_or(("s", 1.0));
        serializer.serialize_str(&format!("{} {name}", self.0 / scale))
    }
}

/// Where a parameter comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Read off a measurement.
    Measured,
    /// Taken from elsewhere; `source` says from where.
    #[default]
    Assumed,
    /// Chosen so that the model agrees with measured levels.
    Fitted,
}

/// A length of time and where it comes from: `"3.5 us"`, or
/// `{ value = "3.5 us", from = "measured", low = "3 us", high = "4 us", source = "..." }`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Quantity {
    /// The value that is used.
    pub value: Length,
    /// Where it comes from.
    pub from: Origin,
    /// Lower end of its interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<Length>,
    /// Upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<Length>,
    /// Which measurement, document or fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {
    value: Length,
    #[serde(default)]
    from: Origin,
    low: Option<Length>,
    high: Option<Length>,
    source: Option<String>,
}

impl From<Length> for Quantity {
    fn from(value: Length) -> Self {
        Self { value, ..Self::default() }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a length of time such as \"3.5 us\", or a table with `value`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
                Length::read(text).map(Quantity::from).map_err(E::custom)
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Quantity, A::Error> {
                let full = Full::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                let Full { value, from, low, high, source } = full;
                Ok(Quantity { value, from, low, high, source })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_units() {
        let read = |text| Length::read(text).map(|length| length.0);
        assert_eq!(read("2 us"), Ok(2e-6));
        assert_eq!(read("1.5ms"), Ok(1.5e-3));
        assert_eq!(read("1e3 ns"), Ok(1e3 * 1e-9));
        for wrong in ["", "3", "us", "3 minutes", "-1 us", "nan us", "1e9 s"] {
            assert!(Length::read(wrong).is_err(), "{wrong}");
        }
    }
}
