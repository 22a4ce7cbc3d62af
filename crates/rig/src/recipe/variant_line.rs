//! A variant from the command line: `NAME: [over=NAME] [set.KEY=VALUE] [VARIABLE=VALUE]
//! [cpus=LIST] [nice=N] [policy=POLICY] [COMMAND]`.

use super::Recipe;
use super::variants::{self, Baseline};
use crate::environment::words_of;
use crate::scheduling::Scheduling;
use crate::search_path::SearchPath;
use crate::treatment::{self, Treatment};
use crate::workload::command;
use kneepoint_vocab::VariantId;
use std::collections::BTreeMap;

/// Longest id.
const LONGEST: usize = 64;

/// What a line says, before it is known whether it fits.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    over: Option<String>,
    set: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    scheduling: Scheduling,
    /// Words of a command.
    command: Vec<String>,
}

impl Recipe {
    /// Adds a variant as it is typed: a name, a colon, and what is changed against the baseline; or
    /// the name alone of one that [`Recipe::fitting`] lists. It is tried behind all that are there
    /// already.
    ///
    /// # Errors
    /// One line: it cannot be understood, does not fit the recipe, bears the name of another, or
    /// needs what is not on the machine.
    pub fn add_variant(&mut self, typed: &str) -> Result<(), String> {
        let shape = "write NAME: then a command, VARIABLE=VALUE or set.KEY=VALUE";
        let Some((name, changes)) = typed.split_once(':') else {
            let known = self.listed(typed.trim());
            let listed = "or the name of one that `kneepoint list --variants` shows";
            let unknown = || format!("{shape}, {listed} (found {typed:?})");
            self.treatments.push(known.ok_or_else(unknown)??);
            return Ok(());
        };
        let name = name.trim();
        let id = id_of(name);
        if id.is_empty() || name.contains(['=', '/']) || name.chars().any(char::is_control) {
            return Err(format!("a variant needs a name: {shape} (found {typed:?})"));
        }
        let refuse = |why: String| Err(format!("variant {name:?}: {why}"));
        if variants::is_taken(&id) {
            return refuse(format!("{id} is a variant of Kneepoint's own: choose another name"));
        }
        if self.treatments.iter().any(|other| other.id == id) {
            return refuse("another variant has this name".to_owned());
        }
        let said = match said(changes) {
            Ok(said) if said == Said::default() => {
                return refuse(format!("it changes nothing: {shape}"));
            }
            Ok(said) => said,
            Err(why) => return refuse(why),
        };
        match self.granted(id, name, said) {
            Ok(variant) => {
                self.treatments.push(variant);
                Ok(())
            }
            Err(why) => refuse(why),
        }
    }

    /// The variant with these changes, which the machine has everything for.
    pub(super) fn granted(&self, id: String, name: &str, said: Said) -> Result<Treatment, String> {
        let variant = self.made_of(id, name, said)?;
        let lacking = self.lacking(&variant);
        if lacking.is_empty() {
            return Ok(variant);
        }
        Err(format!("it needs {}", lacking.join(", ")))
    }

    fn made_of(&self, id: String, name: &str, said: Said) -> Result<Treatment, String> {
        let over = match said.over {
            Some(over) if over != VariantId::BASELINE => Some(self.earlier(&over)?),
            _ => None,
        };
        let mut set = said.set;
        if !said.command.is_empty() {
            if self.workload.name() != command::NAME {
                return Err(format!(
                    "{} takes no command: write set.KEY=VALUE or VARIABLE=VALUE, in capitals \
                     (found {:?})",
                    self.name, said.command[0]
                ));
            }
            set.insert("run".to_owned(), words_of(&said.command));
        }
        let variant = Treatment {
            id,
            label: name.to_owned(),
            workload: self.workload.name().to_owned(),
            over,
            set,
            environment: said.environment,
            scheduling: said.scheduling,
            expects: String::new(),
            shown_by: String::new(),
        };
        let baseline =
            Baseline { workload: self.workload, settings: &self.settings, system: &*self.baseline };
        match variants::misfit(baseline, &variant, &self.treatments) {
            None => Ok(variant),
            Some((_, problem)) => Err(problem),
        }
    }

    /// The variant of this id, or of a name that becomes it.
    pub(super) fn treatment(&self, name: &str) -> Option<&Treatment> {
        let named = |other: &&Treatment| other.id == name || other.id == id_of(name);
        self.treatments.iter().find(named)
    }

    /// The id of an earlier variant by that or its name.
    fn earlier(&self, name: &str) -> Result<String, String> {
        let known = || {
            let ids = self.treatments.iter().map(|other| other.id.as_str());
            std::iter::once(VariantId::BASELINE).chain(ids).collect::<Vec<_>>().join(", ")
        };
        let found = self.treatment(name).map(|other| other.id.clone());
        found.ok_or_else(|| {
            format!("over must be one of those before it: {} (found {name:?})", known())
        })
    }

    /// What the machine lacks for a variant, and not for the baseline.
    pub(super) fn lacking(&self, variant: &Treatment) -> Vec<String> {
        let path = SearchPath::own();
        let own = self.baseline.needs(&path);
        let needs = self.workload.needs(&self.settings_of(variant), &path);
        let lacking = needs.into_iter().filter(|need| !need.here && !own.contains(need));
        let reported = lacking.map(|need| match need.package.as_str() {
            "" => format!("{}, not found here", need.what),
            package => format!("{} (package {package}), not found here", need.what),
        });
        let scheduling = treatment::scheduling(variant, &self.treatments);
        reported.chain(scheduling.lacking()).collect()
    }
}

/// The id that a name for people becomes.
fn id_of(name: &str) -> String {
    let lower = name.chars().map(|c| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9') => c,
        _ => '-',
    });
    let words: String = lower.collect();
    let parts: Vec<&str> = words.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(LONGEST).collect()
}

/// What a text says that stands behind the name of a variant.
pub(super) fn said(changes: &str) -> Result<Said, String> {
    let words = shlex::split(changes)
        .ok_or_else(|| format!("an open quote or a last backslash (found {:?})", changes.trim()))?;
    let mut said = Said::default();
    let mut words = words.into_iter().peekable();
    while let Some((key, value)) = words.peek().and_then(|word| word.split_once('=')) {
        let (key, value) = (key.to_owned(), value.to_owned());
        if key == "over" {
            said.over = Some(value);
        } else if let Some(setting) = key.strip_prefix("set.") {
            said.set.insert(setting.to_owned(), value);
        } else if Scheduling::KEYS.contains(&key.as_str()) {
            said.scheduling.set(&key, &value)?;
        } else if is_variable(&key) {
            said.environment.insert(key, value);
        } else {
            break;
        }
        words.next();
    }
    said.command = words.collect();
    Ok(said)
}

/// Whether this is a name that variables of an environment have: capitals.
fn is_variable(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    starts && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command() -> Recipe {
        Recipe::of_command(&["sh".to_owned(), "-c".to_owned(), "true".to_owned()], BTreeMap::new())
            .unwrap()
    }

    fn with(recipe: &mut Recipe, typed: &str) -> BTreeMap<String, String> {
        recipe.add_variant(typed).unwrap();
        recipe.settings_of(recipe.treatments.last().unwrap())
    }

    #[test]
    fn a_command_variables_and_settings_are_distinguished() {
        let mut recipe = command();
        let settings = with(&mut recipe, "Patched build: sh -c 'echo {clients}'");
        let words = ["sh", "-c", "echo {clients}"];
        assert_eq!(shlex::split(&settings["run"]).unwrap(), words);
        assert_eq!(recipe.treatments[0].id, "patched-build");
        assert_eq!(recipe.treatments[0].label, "Patched build");
        let settings =
            with(&mut recipe, "one arena:GLIBC_TUNABLES=glibc.malloc.arena_max=1 A='b c'");
        assert_eq!(settings["environment"], "'A=b c' GLIBC_TUNABLES=glibc.malloc.arena_max=1");
        assert_eq!(settings["run"], recipe.settings["run"]);
        let settings = with(&mut recipe, "patient: set.patience_s=5");
        assert_eq!(settings["patience_s"], "5");
        let settings = with(&mut recipe, "both: over=patched-build B=1 sh x");
        assert_eq!((settings["run"].as_str(), settings["environment"].as_str()), ("sh x", "B=1"));
        let settings = with(&mut recipe, "all: over='one arena' set.patience_s=6 C=2");
        assert!(settings["environment"].contains("arena_max") && settings["patience_s"] == "6");
    }

    #[test]
    fn what_is_no_variant_is_reported_on_one_line() {
        for (typed, reported) in [
            ("", "write NAME: then"),
            ("sh -c true", "write NAME: then"),
            (": sh", "needs a name"),
            ("LD_PRELOAD=a: b", "needs a name"),
            ("w:", "changes nothing"),
            ("w: sh 'a", "an open quote"),
            ("baseline: sh", "Kneepoint's own"),
            ("X!: sh", "another variant has this name"),
            ("y: over=z A=1", "one of those before it: baseline, x (found \"z\")"),
            ("y: set.ruin=1", "no setting is named \"ruin\""),
            ("y: set.setup=1", "takes effect once a run"),
            ("y: set.start=sh", "make it another recipe"),
            ("y: no-such-program-here", "needs no-such-program-here, not found here"),
            ("y: ./no-such-program", "needs ./no-such-program, not found here"),
            ("y: LD_PRELOAD=libno-such.so.1", "needs libno-such.so.1, not found here"),
            ("y: LD_PRELOAD=/etc/passwd", "/etc/passwd (no shared library)"),
            ("y: nice=20", "nice must be -20 to 19 (found \"20\")"),
            ("y: policy=best sh", "policy must be other, batch, idle, fifo:N or rr:N"),
            ("y: cpus=x", "cpus must be numbers of CPUs"),
            ("y: cpus=1023", "it needs CPU 1023: Kneepoint may use "),
        ] {
            let mut recipe = command();
            with(&mut recipe, "x: A=1");
            let refused = recipe.add_variant(typed).unwrap_err();
            assert!(refused.contains(reported) && !refused.contains('\n'), "{typed}: {refused}");
            assert_eq!(recipe.treatments.len(), 1);
        }
    }

    #[test]
    fn a_recipe_s_own_settings_can_be_changed_and_it_takes_no_command() {
        let mut recipe = Recipe::named("sqlite-shared-cache").unwrap();
        let before = recipe.treatments.len();
        let settings =
            with(&mut recipe, "small: set.rows=2000 GLIBC_TUNABLES=glibc.malloc.tcache_count=0");
        assert_eq!(settings["rows"], "2000");
        assert_eq!(recipe.treatments.len(), before + 1);
        let refused = recipe.add_variant("other: ./patched").unwrap_err();
        assert!(refused.contains("sqlite-shared-cache takes no command"), "{refused}");
        let refused = recipe.add_variant("other: set.rows=1").unwrap_err();
        assert!(refused.contains("rows must be 1000 to"), "{refused}");
    }

    #[test]
    fn where_and_how_threads_run_is_changed_with_any_recipe() {
        let mut recipe = Recipe::named("sqlite-shared-cache").unwrap();
        with(&mut recipe, "polite: nice=5 policy=batch");
        with(&mut recipe, "less polite: over=polite nice=3 set.rows=2000");
        let last = recipe.treatments.last().unwrap();
        assert_eq!(last.variant_plan().changes, ["rows = 2000", "nice = 3"]);
        let pairs = recipe.scheduling_of(last).pairs();
        assert_eq!(pairs, [("nice", "3".to_owned()), ("policy", "batch".to_owned())]);
        assert_eq!(recipe.variants().last().unwrap().scheduling, recipe.scheduling_of(last));
    }

    #[test]
    fn names_become_ids() {
        for (name, id) in [("a", "a"), ("  My Patch (2)", "my-patch-2"), ("-", ""), ("ä", "")] {
            assert_eq!(id_of(name), id);
        }
        assert_eq!(id_of(&"x".repeat(99)).len(), LONGEST);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = command().add_variant(&text);
            let _ = command().add_variant(&format!("n: A=1 set.work=3 {text}"));
        }
    }
}
