//! Two variants together: the fourth cell of a 2×2, `A,B` on the command line.

use super::Recipe;
use super::variants::{self, Baseline};
use crate::environment::PRELOAD;
use crate::treatment::Treatment;
use std::collections::BTreeSet;

/// Longest id.
const LONGEST: usize = 64;

impl Recipe {
    /// Adds the variant that has the changes of two others, as they are typed with a comma between
    /// them: it adds to the first what the second changes.
    ///
    /// # Errors
    /// One line: there are no such two variants, they are one, or both change the same thing.
    pub fn add_cross(&mut self, typed: &str) -> Result<(), String> {
        let [one, other] = typed.split(',').map(str::trim).collect::<Vec<_>>()[..] else {
            return Err(format!("write two names with a comma between them (found {typed:?})"));
        };
        let (one, other) = (self.crossable(one)?, self.crossable(other)?);
        if one.id == other.id {
            return Err(format!("a variant cannot be crossed with itself (found {typed:?})"));
        }
        let both = self.both(one, other)?;
        self.treatments.push(both);
        Ok(())
    }

    /// The variant of this id or name.
    fn crossable(&self, name: &str) -> Result<&Treatment, String> {
        if let Some(found) = self.treatment(name) {
            return Ok(found);
        }
        let known: Vec<&str> = self.treatments.iter().map(|one| one.id.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(format!("no variant is named {name:?}; there are: {known}"))
    }

    fn both(&self, one: &Treatment, other: &Treatment) -> Result<Treatment, String> {
        let (a, b) = (&one.id, &other.id);
        if one.over != other.over {
            return Err(format!("{a} and {b} do not change the same: they add to two variants"));
        }
        if let Some(key) = keys(one).intersection(&keys(other)).next() {
            return Err(format!("{a} and {b} both change {key}: they cannot be had together"));
        }
        let id: String = format!("{a}-and-{b}").chars().take(LONGEST).collect();
        if self.treatments.iter().any(|known| known.id == id) || variants::is_taken(&id) {
            return Err(format!("{a} and {b} are crossed already, or another variant is {id}"));
        }
        let both = Treatment { id, over: Some(a.clone()), ..other.clone() };
        let baseline =
            Baseline { workload: self.workload, settings: &self.settings, system: &*self.baseline };
        match variants::misfit(baseline, &both, &self.treatments) {
            None => Ok(both),
            Some((_, problem)) => Err(format!("{a} and {b} together: {problem}")),
        }
    }
}

/// What a variant changes.
fn keys(variant: &Treatment) -> BTreeSet<String> {
    let scheduling = variant.scheduling.pairs().into_iter().map(|(key, _)| key.to_owned());
    // Libraries that are loaded first are had together.
    let variables = variant.environment.keys().filter(|name| *name != PRELOAD);
    let all = variant.set.keys().chain(variables).cloned();
    all.chain(scheduling).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn command(variants: &[&str]) -> Recipe {
        let words = ["sh", "-c", "true"].map(str::to_owned);
        let mut recipe = Recipe::of_command(&words, BTreeMap::new()).unwrap();
        variants.iter().for_each(|variant| recipe.add_variant(variant).unwrap());
        recipe
    }

    #[test]
    fn both_have_the_changes_of_each() {
        let mut recipe = command(&["One: A=1", "two: sh -c 'echo 2'", "nice: nice=5"]);
        recipe.add_cross("one, two").unwrap();
        recipe.add_cross("two,nice").unwrap();
        let [.., first, second] = &recipe.treatments[..] else { panic!() };
        assert_eq!((first.id.as_str(), first.over.as_deref()), ("one-and-two", Some("one")));
        assert_eq!((first.label.as_str(), second.label.as_str()), ("two", "nice"));
        let settings = recipe.settings_of(first);
        assert_eq!(settings["environment"], "A=1");
        assert!(settings["run"].contains("echo 2"));
        assert_eq!(recipe.scheduling_of(second).nice, Some(5));
        assert!(recipe.settings_of(second)["run"].contains("echo 2"));
        let plan = first.variant_plan();
        assert_eq!(plan.changes, recipe.treatments[1].variant_plan().changes);
    }

    #[test]
    fn libraries_that_are_loaded_first_are_had_together() {
        let mut recipe = command(&["one: LD_PRELOAD=libm.so.6", "two: LD_PRELOAD=libc.so.6"]);
        recipe.add_cross("one,two").unwrap();
        let settings = recipe.settings_of(&recipe.treatments[2]);
        let (second, first) = settings["environment"].split_once(':').unwrap();
        assert!(second.contains("libc") && first.contains("libm"), "{settings:?}");
        let plan = recipe.treatments[2].variant_plan();
        assert_eq!(plan.changes, recipe.treatments[1].variant_plan().changes);
    }

    #[test]
    fn what_cannot_be_crossed_is_reported_on_one_line() {
        for (typed, reported) in [
            ("", "write two names with a comma between them (found \"\")"),
            ("a", "two names"),
            ("a,b,c", "two names"),
            ("a,z", "no variant is named \"z\"; there are: a, b, c, again, new, newer"),
            ("baseline,a", "no variant is named \"baseline\""),
            ("a, A", "a variant cannot be crossed with itself"),
            ("a,again", "a and again both change A"),
            ("new,newer", "both change run"),
            ("a,c", "they add to two variants"),
        ] {
            let mut recipe = command(&[
                "a: A=1",
                "b: B=1",
                "c: over=b C=1",
                "again: A=2",
                "new: sh 1",
                "newer: sh 2",
            ]);
            let refused = recipe.add_cross(typed).unwrap_err();
            assert!(refused.contains(reported) && !refused.contains('\n'), "{typed}: {refused}");
            assert_eq!(recipe.treatments.len(), 6);
        }
        let mut recipe = command(&["a: A=1", "b: B=1"]);
        recipe.add_cross("a,b").unwrap();
        assert!(recipe.add_cross("a,b").unwrap_err().contains("crossed already"));
        let none = command(&[]).add_cross("a,b").unwrap_err();
        assert!(none.ends_with("there are: none"), "{none}");
    }
}
