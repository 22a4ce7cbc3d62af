//! Units as newtypes. A bare `f64` crosses no crate border except in `stats`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::{Add, AddAssign, Sub};

/// A quantity with a unit that can carry an interval.
pub trait Unit: Copy {
    /// The unit's symbol as printed, e.g. `"ops/s"`; empty for a ratio.
    const SYMBOL: &'static str;
    /// The bare number, in this unit.
    fn get(self) -> f64;
    /// The quantity of `value` units.
    fn of(value: f64) -> Self;
}

macro_rules! float_unit {
    ($(#[$doc:meta])* $name:ident, $symbol:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        #[derive(Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub f64);

        impl Unit for $name {
            const SYMBOL: &'static str = $symbol;
            fn get(self) -> f64 { self.0 }
            fn of(value: f64) -> Self { Self(value) }
        }
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self { Self(self.0 + other.0) }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self { Self(self.0 - other.0) }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) { self.0 += other.0; }
        }
        impl std::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
                Self(items.map(|item| item.0).sum())
            }
        }
    };
}

float_unit!(
    /// Wall, CPU or waiting seconds; the context says which.
    Seconds, "s"
);
float_unit!(
    /// Events each second: throughput, waits, switches.
    PerSecond, "/s"
);
float_unit!(
    /// Core-seconds each second: how many cores something keeps busy or idle.
    Cores, "cores"
);
float_unit!(
    /// A mean number of things: threads, requests.
    Count, ""
);
float_unit!(
    /// A quotient of two like quantities; 1 means equal.
    Ratio, ""
);

/// Nanoseconds, as kernels count them.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The same length in seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    pub fn seconds(self) -> Seconds {
        Seconds(self.0 as f64 / 1e9)
    }

    /// From milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// As a standard duration, for sleeping.
    #[must_use]
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        Self(items.map(|item| item.0).sum())
    }
}
