//! Variants: single changes of a workload's settings, from the catalogue or a recipe's own.
//!
//! One is a `[[variant]]` stanza, in `treatment/catalogue.toml` or in a recipe. It is proven active
//! by the workload itself, which reads factors back from the running system (see
//! [`crate::System`]); one of which the workload reads nothing back stays unproven.

pub mod offers;

use crate::environment::{self, ENVIRONMENT};
use crate::scheduling::Scheduling;
use kneepoint_vocab::{VariantId, VariantPlan, VariantRole};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Asks for the variants that fit, in place of one by its name.
pub const AUTO: &str = "auto";

/// One change that may cure a system.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Treatment {
    /// Its name, and that of its variant.
    pub id: String,
    /// One line for people, e.g. `private page caches`.
    pub label: String,
    /// The workload that it is for.
    pub workload: String,
    /// Another variant that it adds to; the baseline where absent.
    pub over: Option<String>,
    /// The settings it changes; none make the baseline once more.
    pub set: BTreeMap<String, String>,
    /// Variables that it adds to those that the system is started with.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Where and how its threads run; not in the catalogue, since that is the machine's.
    #[serde(skip)]
    pub scheduling: Scheduling,
    /// What it should relieve, for people; empty where nobody said.
    pub expects: String,
    /// What shows that it is active, for people; empty where nobody said.
    pub shown_by: String,
}

impl Treatment {
    /// Its entry in a plan.
    #[must_use]
    pub fn variant_plan(&self) -> VariantPlan {
        VariantPlan {
            id: VariantId::new(&self.id),
            role: VariantRole::Treatment,
            label: self.label.clone(),
            over: VariantId::new(self.over.as_deref().unwrap_or(VariantId::BASELINE)),
            changes: self.changes(),
        }
    }

    /// What it changes, a line each, without secrets.
    fn changes(&self) -> Vec<String> {
        let set = self.set.iter().map(|(key, value)| format!("{key} = {value}"));
        let variable = |(name, value): (&String, &String)| {
            let (name, value) = environment::reported(name, value);
            format!("{name}={value}")
        };
        let scheduling = self.scheduling.pairs().into_iter();
        let scheduling = scheduling.map(|(key, value)| format!("{key} = {value}"));
        set.chain(self.environment.iter().map(variable)).chain(scheduling).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    variant: Vec<Treatment>,
}

static CATALOGUE: LazyLock<Vec<Treatment>> = LazyLock::new(|| {
    let text = include_str!("treatment/catalogue.toml");
    let catalogue: Catalogue = toml::from_str(text).expect("the built-in catalogue is tested");
    catalogue.variant
});

/// All of the catalogue, in the catalogue's order.
#[must_use]
pub fn all() -> &'static [Treatment] {
    &CATALOGUE
}

/// The catalogue's variant of this id.
#[must_use]
pub fn named(id: &str) -> Option<&'static Treatment> {
    all().iter().find(|treatment| treatment.id == id)
}

/// The catalogue's variants for the workload of this name.
pub fn for_workload(name: &str) -> impl Iterator<Item = &'static Treatment> {
    all().iter().filter(move |treatment| treatment.workload == name)
}

/// The settings of a variant: the baseline's, changed by what it adds to, which is one of
/// `among`, then by itself. A variant stands behind what it adds to, so this comes to an end.
#[must_use]
pub fn apply(
    treatment: &Treatment,
    among: &[Treatment],
    baseline: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut settings = baseline.clone();
    for one in with_bases(treatment, among) {
        settings.extend(one.set.clone());
        if !one.environment.is_empty() {
            let all = environment::added(settings.get(ENVIRONMENT), &one.environment);
            settings.insert(ENVIRONMENT.to_owned(), all);
        }
    }
    settings
}

/// Where and how the threads of a variant run: as what it adds to says, then as it says itself.
#[must_use]
pub fn scheduling(treatment: &Treatment, among: &[Treatment]) -> Scheduling {
    let all = with_bases(treatment, among);
    all.into_iter().fold(Scheduling::default(), |sum, one| sum.with(&one.scheduling))
}

/// A variant behind all that it adds to.
fn with_bases<'a>(treatment: &'a Treatment, among: &'a [Treatment]) -> Vec<&'a Treatment> {
    let own = among.iter().position(|other| other.id == treatment.id).unwrap_or(among.len());
    let earlier = &among[..own];
    let base = treatment.over.as_ref().and_then(|over| earlier.iter().find(|t| &t.id == over));
    let mut all = base.map_or_else(Vec::new, |base| with_bases(base, earlier));
    all.push(treatment);
    all
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
            let settings = apply(treatment, all(), &BTreeMap::new());
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
        let settings = apply(mmap, all(), &baseline);
        let wanted =
            [("cache", "private"), ("database", "file"), ("mmap", "256MiB"), ("rows", "5")];
        assert!(settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).eq(wanted));
        assert_eq!(mmap.variant_plan().over, VariantId::new("sqlite-private-cache"));
        assert_eq!(mmap.variant_plan().changes, ["mmap = 256MiB"]);
    }

    #[test]
    fn variables_add_to_those_of_the_base_and_secrets_are_not_reported() {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let of = |id: &str, over: Option<&str>, environment: &[(&str, &str)]| Treatment {
            id: id.to_owned(),
            label: id.to_owned(),
            workload: "command".to_owned(),
            over: over.map(str::to_owned),
            set: BTreeMap::new(),
            environment: environment.iter().map(|(n, v)| variable(n, v)).collect(),
            scheduling: Scheduling::default(),
            expects: String::new(),
            shown_by: String::new(),
        };
        let first = of("one", None, &[("A", "1"), ("MY_TOKEN", "x")]);
        let second = of("two", Some("one"), &[("A", "2"), ("B", "3 4")]);
        let all = [first.clone(), second.clone()];
        let baseline = BTreeMap::from([variable(ENVIRONMENT, "Z=0")]);
        assert_eq!(apply(&first, &all, &baseline)[ENVIRONMENT], "Z=0 A=1 MY_TOKEN=x");
        assert_eq!(apply(&second, &all, &baseline)[ENVIRONMENT], "Z=0 MY_TOKEN=x A=2 'B=3 4'");
        assert_eq!(first.variant_plan().changes, ["A=1", "MY_TOKEN=(left out)"]);
    }

    #[test]
    fn threads_run_as_the_base_says_but_for_what_is_changed() {
        let mut first = named("sqlite-private-cache").unwrap().clone();
        let mut second = named("sqlite-mmap").unwrap().clone();
        first.scheduling.set("nice", "5").unwrap();
        first.scheduling.set("cpus", "0").unwrap();
        second.scheduling.set("cpus", "1").unwrap();
        let all = [first, second];
        let pairs = scheduling(&all[1], &all).pairs();
        assert_eq!(pairs, [("cpus", "1".to_owned()), ("nice", "5".to_owned())]);
        assert_eq!(all[1].variant_plan().changes, ["mmap = 256MiB", "cpus = 1"]);
    }
}
