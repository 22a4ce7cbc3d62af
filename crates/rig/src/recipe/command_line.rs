//! A recipe from nothing but a command line.

use super::{LevelSpec, Protocol, Recipe};
use crate::workload::command::Command;
use crate::workload::{SettingError, Workload as _};
use kneepoint_vocab::{Names, Nanos};
use std::collections::BTreeMap;

/// Window and lead-in of a slice: with the start of a process and the look for its clients, up to
/// some twenty of them, below a second. That is the least that most load generators can be told to
/// run, and many short slices say more than few long ones: each is another start of the process.
const SLICE: Nanos = Nanos::from_millis(500);
const RAMP: Nanos = Nanos::from_millis(100);

impl Recipe {
    /// The sweep of a command: `words` as they stand in an argument vector, `counting` the
    /// settings of the workload `command` that say where the throughput is.
    ///
    /// # Errors
    /// The words or the settings make no command.
    pub fn of_command(
        words: &[String],
        counting: BTreeMap<String, String>,
    ) -> Result<Self, SettingError> {
        let joined = shlex::try_join(words.iter().map(String::as_str));
        let line = joined.map_err(|error| SettingError {
            setting: "run".to_owned(),
            problem: format!("the command cannot be run: {error}"),
        })?;
        let mut settings = counting;
        settings.insert("run".to_owned(), line.clone());
        let baseline = Command.configure(&settings)?;
        Ok(Self {
            name: "command".to_owned(),
            summary: line.replace(char::is_control, " "),
            operation: "operations".to_owned(),
            workload: &Command,
            settings,
            baseline,
            clients: vec![
                LevelSpec::Clients(1),
                LevelSpec::Clients(2),
                LevelSpec::PerCore(1),
                LevelSpec::PerCore(2),
                LevelSpec::PerCore(4),
            ],
            focus: LevelSpec::PerCore(2),
            treatments: Vec::new(),
            sweep_treatments: Vec::new(),
            protocol: Protocol {
                slice: Some(SLICE),
                ramp: Some(RAMP),
                effect_blocks: Some((4, 8)),
                ..Protocol::default()
            },
            follows: None,
            names: Names::default(),
            published: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_command_as_they_were_typed() {
        let words = ["./b", "a b", "it's", "{clients}"].map(str::to_owned);
        let recipe = Recipe::of_command(&words, BTreeMap::new()).unwrap();
        assert_eq!(shlex::split(&recipe.settings["run"]).unwrap(), words);
        assert!(recipe.clients.contains(&recipe.focus));
        let refused =
            Recipe::of_command(&["b".to_owned(), "{threads}".to_owned()], BTreeMap::new());
        assert!(refused.unwrap_err().problem.contains("write {clients}"));
    }
}
