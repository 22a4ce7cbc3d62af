//! The catalogue of treatments: single changes of a workload's settings, each with its proof.
//!
//! A treatment is a stanza in `treatment/catalogue.toml`. It is proven active by the workload
//! itself, which reads every factor back from the running system (see [`crate::System`]).

use kneepoint_vocab::{ArmId, ArmPlan, ArmRole};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// One change that may cure a system.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Treatment {
    /// Its name, and that of its arm.
    pub id: String,
    /// One line for people, e.g. `private page caches`.
    pub label: String,
    /// The workload that it is for.
    pub workload: String,
    /// Another treatment that it adds to; the baseline where absent.
    pub over: Option<String>,
    /// The settings it changes.
    pub set: BTreeMap<String, String>,
    /// What it should relieve, for people.
    pub expects: String,
    /// What shows that it is active, for people.
    pub proof: String,
}

impl Treatment {
    /// Its entry in a plan.
    #[must_use]
    pub fn arm_plan(&self) -> ArmPlan {
        ArmPlan {
            id: ArmId::new(&self.id),
            role: ArmRole::Treatment,
            label: self.label.clone(),
            over: ArmId::new(self.over.as_deref().unwrap_or(ArmId::BASELINE)),
            changes: self.set.iter().map(|(key, value)| format!("{key} = {value}")).collect(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    treatment: Vec<Treatment>,
}

static CATALOGUE: LazyLock<Vec<Treatment>> = LazyLock::new(|| {
    let text = include_str!("treatment/catalogue.toml");
    let catalogue: Catalogue = toml::from_str(text).expect("the built-in catalogue is tested");
    catalogue.treatment
});

/// All treatments, in the catalogue's order.
#[must_use]
pub fn all() -> &'static [Treatment] {
    &CATALOGUE
}

/// The treatment of this id.
#[must_use]
pub fn named(id: &str) -> Option<&'static Treatment> {
    all().iter().find(|treatment| treatment.id == id)
}

/// The treatments for the workload of this name.
pub fn for_workload(name: &str) -> impl Iterator<Item = &'static Treatment> {
    all().iter().filter(move |treatment| treatment.workload == name)
}

/// The settings of a treatment's arm: the baseline's, changed by what it adds to, then by itself.
#[must_use]
pub fn apply(
    treatment: &Treatment,
    baseline: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut settings = match treatment.over.as_deref().and_then(named) {
        Some(over) => apply(over, baseline),
        None => baseline.clone(),
    };
    settings.extend(treatment.set.clone());
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;

    #[test]
    fn every_stanza_is_whole() {
        assert!(!all().is_empty());
        for (index, treatment) in all().iter().enumerate() {
            let known = workload::named(&treatment.workload);
            let workload = known.unwrap_or_else(|| panic!("{}: no such workload", treatment.id));
            assert!(!treatment.set.is_empty(), "{} changes nothing", treatment.id);
            let settings = apply(treatment, &BTreeMap::new());
            workload.check(&settings).unwrap_or_else(|e| panic!("{}: {e}", treatment.id));
            let earlier = &all()[..index];
            assert!(
                !earlier.iter().any(|other| other.id == treatment.id),
                "{} twice",
                treatment.id
            );
            if let Some(over) = &treatment.over {
                assert!(earlier.iter().any(|t| &t.id == over), "{over} must come first");
            }
        }
    }

    #[test]
    fn a_treatment_over_another_has_the_changes_of_both() {
        let mmap = named("sqlite-mmap").unwrap();
        let baseline = BTreeMap::from([("rows".to_owned(), "5".to_owned())]);
        let settings = apply(mmap, &baseline);
        let wanted =
            [("cache", "private"), ("database", "file"), ("mmap", "256MiB"), ("rows", "5")];
        assert!(settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).eq(wanted));
        assert_eq!(mmap.arm_plan().over, ArmId::new("sqlite-private-cache"));
        assert_eq!(mmap.arm_plan().changes, ["mmap = 256MiB"]);
    }
}
