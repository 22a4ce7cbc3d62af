//! Which machine something is of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a machine within one run. Files leave the name of the machine that Kneepoint runs
/// on out, as those of runs before machines had names do.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Held {
        #[serde(default, skip_serializing_if = "MachineName::is_local")]
        machine: MachineName,
    }

    #[test]
    fn the_machine_itself_is_left_out_of_files_and_read_from_those_without_names() {
        let own = Held { machine: MachineName::default() };
        assert_eq!(serde_json::to_string(&own).unwrap(), "{}");
        assert_eq!(serde_json::from_str::<Held>("{}").unwrap(), own);
        let other = Held { machine: MachineName::new("db-1") };
        let text = serde_json::to_string(&other).unwrap();
        assert_eq!(text, r#"{"machine":"db-1"}"#);
        assert_eq!(serde_json::from_str::<Held>(&text).unwrap(), other);
        assert_eq!(other.machine.as_str(), "db-1");
    }
}
