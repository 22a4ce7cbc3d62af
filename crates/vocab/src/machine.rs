//! Which machine something is of.

use serde::{Deserialize, Serialize};

/// The name of a machine within one run. Files leave the name of the machine that Kneepoint runs
/// on out, as those of runs before machines had names do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MachineName(String);

impl MachineName {
    /// The machine that Kneepoint runs on.
    pub const LOCAL: &str = "local";

    /// A machine of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the machine that Kneepoint runs on.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.0 == Self::LOCAL
    }
}

impl Default for MachineName {
    fn default() -> Self {
        Self::new(Self::LOCAL)
    }
}
