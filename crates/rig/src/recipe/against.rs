//! The baseline of an earlier run as a variant: measured again, between the slices of this one.

use super::Recipe;
use super::variants::{self, Baseline};
use crate::treatment::Treatment;
use kneepoint_vocab::Proof;
use std::collections::BTreeMap;

/// The id of that variant.
pub const AGAINST: &str = "against";

/// What an earlier run measured, and what of that is not the recipe's.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    /// Its baseline's settings of the workload.
    pub settings: BTreeMap<String, String>,
    /// Variables that its processes had and that this run's have not, or otherwise.
    pub environment: BTreeMap<String, String>,
}

impl Recipe {
    /// Adds what an earlier run measured, to be tried at every level of the sweep too. It stands
    /// before all variants that are not added yet, so that they can add to it.
    ///
    /// # Errors
    /// One line: it is the baseline once more, or differs in what no variant can change.
    pub fn add_against(&mut self, label: &str, earlier: &Earlier) -> Result<(), String> {
        let extra = self.settings.keys().find(|key| !earlier.settings.contains_key(*key));
        if let Some(key) = extra {
            return Err(format!(
                "{key} is set here and was not in that run: leave it out, or give both"
            ));
        }
        let differs = |(key, value): &(&String, &String)| self.settings.get(*key) != Some(*value);
        let set: BTreeMap<String, String> = earlier
            .settings
            .iter()
            .filter(differs)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if set.is_empty() && earlier.environment.is_empty() {
            let control = "every run has that as its A/A control";
            return Err(format!(
                "the same is measured here, program, settings and variables: {control}"
            ));
        }
        if self.treatments.iter().any(|other| other.id == AGAINST) {
            return Err(format!("the recipe has a variant that is called {AGAINST}: rename it"));
        }
        let variant = Treatment {
            id: AGAINST.to_owned(),
            label: label.to_owned(),
            workload: self.workload.name().to_owned(),
            over: None,
            set,
            environment: earlier.environment.clone(),
            scheduling: crate::scheduling::Scheduling::default(),
            expects: String::new(),
            shown_by: String::new(),
        };
        let baseline =
            Baseline { workload: self.workload, settings: &self.settings, system: &*self.baseline };
        if let Some((_, problem)) = variants::misfit(baseline, &variant, &self.treatments) {
            return Err(problem);
        }
        let lacking = self.lacking(&variant);
        if !lacking.is_empty() {
            return Err(format!("it needs {}", lacking.join(", ")));
        }
        self.treatments.push(variant.clone());
        self.sweep_treatments.push(variant);
        Ok(())
    }

    /// The programs that its baseline is going to run, with their builds, as far as they are
    /// known before.
    #[must_use]
    pub fn programs(&self) -> Vec<Proof> {
        self.baseline.programs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Recipe {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Recipe::of_command(&words, BTreeMap::new()).unwrap()
    }

    fn earlier(recipe: &Recipe) -> Earlier {
        Earlier { settings: recipe.settings.clone(), environment: BTreeMap::new() }
    }

    #[test]
    fn another_command_is_a_variant_at_every_level() {
        let mut recipe = command(&["sh", "-c", "echo 2"]);
        let old = command(&["sh", "-c", "echo 1"]);
        recipe.add_against("as in before", &earlier(&old)).unwrap();
        let [variant] = &recipe.treatments[..] else { panic!() };
        assert_eq!((variant.id.as_str(), variant.label.as_str()), (AGAINST, "as in before"));
        assert_eq!(recipe.settings_of(variant), old.settings);
        assert_eq!(recipe.sweep_treatments, recipe.treatments);
        // Others can add to it.
        recipe.add_variant("more: over=against A=1").unwrap();
        assert_eq!(recipe.settings_of(&recipe.treatments[1])["run"], old.settings["run"]);
        let twice = recipe.add_against("again", &earlier(&old)).unwrap_err();
        assert!(twice.contains("called against"), "{twice}");
    }

    #[test]
    fn other_variables_are_enough_and_nothing_else_is_refused() {
        let mut recipe = command(&["sh"]);
        let mut same = earlier(&recipe);
        let why = recipe.add_against("x", &same).unwrap_err();
        assert!(why.contains("A/A control") && !why.contains('\n'), "{why}");
        same.environment.insert("MALLOC_ARENA_MAX".to_owned(), "1".to_owned());
        recipe.add_against("x", &same).unwrap();
        assert_eq!(recipe.settings_of(&recipe.treatments[0])["environment"], "MALLOC_ARENA_MAX=1");
    }

    #[test]
    fn what_no_variant_can_change_is_refused() {
        let mut recipe = command(&["sh"]);
        let mut old = earlier(&recipe);
        old.settings.insert("setup".to_owned(), "sh".to_owned());
        assert!(recipe.add_against("x", &old).unwrap_err().contains("takes effect once a run"));
        old.settings.remove("setup");
        old.settings.insert("run".to_owned(), "./no-such-program".to_owned());
        assert!(recipe.add_against("x", &old).unwrap_err().contains("needs ./no-such-program"));
        recipe.settings.insert("work".to_owned(), "5".to_owned());
        assert!(recipe.add_against("x", &old).unwrap_err().contains("work is set here"));
        assert!(recipe.treatments.is_empty() && recipe.sweep_treatments.is_empty());
    }
}
