//! What a specimen is built from and what it is expected to be diagnosed as.

use anyhow::{Context, Result, ensure};
use kneepoint_stats::random::Generator;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// What all specimens share; no specimen itself.
pub(super) const SUPPORT: &str = "support";
/// Client levels of which a run draws one line, where a specimen asks for none.
const LEVELS: [&str; 3] = ["1,2,4,8", "1,2,4,12", "1,2,6,16"];

/// A specimen.
#[derive(Clone, Debug)]
pub(super) struct Specimen {
    pub(super) name: String,
    pub(super) source: PathBuf,
    pub(super) expected: Expectation,
}

/// The file beside its source.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expectation {
    pub(super) family: String,
    levels: Option<String>,
    think: Option<[f64; 2]>,
    hold: Option<[f64; 2]>,
    size: Option<[f64; 2]>,
    /// Whether the treated twin has something else in the cause's place, rather than nothing.
    #[serde(default)]
    pub(super) replaced: bool,
    /// Arguments of a second process, which runs all the time.
    #[serde(default)]
    pub(super) beside: Vec<String>,
    /// Causes that are planted; none in a null.
    #[serde(default, rename = "cause")]
    pub(super) causes: Vec<Planted>,
}

/// A planted cause.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Planted {
    /// The row of the confusion table.
    pub(super) called: String,
    /// Kinds of cause, by their words in JSON, that are right.
    pub(super) kinds: Vec<String>,
    /// Each has to stand in the cause's text; `a|b` is one of the two. None where the kind says it.
    #[serde(default)]
    pub(super) words: Vec<String>,
    /// Roles of functions and objects that a person would mend.
    #[serde(default)]
    pub(super) places: Vec<String>,
    /// Names that the kernel or a library has for the place.
    #[serde(default)]
    pub(super) objects: Vec<String>,
}

/// What a run draws for a specimen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Drawn {
    pub(super) levels: String,
    /// Arguments of the program, without the number of clients and the time.
    pub(super) arguments: Vec<String>,
}

impl Specimen {
    /// Every specimen of a folder, by name.
    ///
    /// # Errors
    /// A source without its expectation, or one that cannot be read.
    pub(super) fn all(folder: &Path) -> Result<Vec<Self>> {
        let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        sources.retain(|path| path.extension().is_some_and(|ending| ending == "c"));
        sources.retain(|path| path.file_stem().is_some_and(|name| name != SUPPORT));
        sources.sort();
        sources.into_iter().map(Self::read).collect()
    }

    fn read(source: PathBuf) -> Result<Self> {
        let file = source.with_extension("toml");
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let expected: Expectation =
            toml::from_str(&text).with_context(|| file.display().to_string())?;
        for range in [expected.think, expected.hold, expected.size].into_iter().flatten() {
            let sound = range[0] > 0.0 && range[0] <= range[1];
            ensure!(sound, "{}: {range:?} is no range", file.display());
        }
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, source, expected })
    }

    /// Whether nothing is wrong with it.
    pub(super) fn is_null(&self) -> bool {
        self.expected.causes.is_empty()
    }
}

impl Expectation {
    /// Levels, sizes and a seed of a run.
    pub(super) fn draw(&self, generator: &mut Generator) -> Drawn {
        let levels = LEVELS[generator.below(LEVELS.len())];
        let levels = self.levels.clone().unwrap_or_else(|| levels.to_owned());
        let mut arguments = Vec::new();
        let mut add = |option: &str, value: String| {
            arguments.extend([option.to_owned(), value]);
        };
        for (option, range) in [("--think", self.think), ("--hold", self.hold)] {
            if let Some(range) = range {
                add(option, format!("{:.3}", between(range, generator)));
            }
        }
        if let Some(range) = self.size {
            add("--size", format!("{:.0}", between(range, generator)));
        }
        add("--seed", (1 + generator.below(1_000_000)).to_string());
        Drawn { levels, arguments }
    }

    /// The same in the middle of each range.
    pub(super) fn middle(&self) -> Vec<String> {
        let ranges = [("--think", self.think), ("--hold", self.hold), ("--size", self.size)];
        let given = ranges.into_iter().filter_map(|(option, range)| Some((option, range?)));
        given
            .flat_map(|(option, [low, high])| {
                let middle = (low * high).sqrt();
                let digits = usize::from(option != "--size") * 3;
                [option.to_owned(), format!("{middle:.digits$}")]
            })
            .collect()
    }
}

/// Even in the logarithm: half of a size is as far from it as twice of it.
fn between([low, high]: [f64; 2], generator: &mut Generator) -> f64 {
    low * (high / low).powf(generator.uniform())
}

#[cfg(test)]
mod tests {
    use super::super::names::roles;
    use super::*;
    use std::collections::BTreeSet;

    fn all() -> Vec<Specimen> {
        Specimen::all(&crate::root().join("specimens")).unwrap()
    }

    #[test]
    fn every_expectation_speaks_of_its_source() {
        let kinds =
            ["lock", "kernel-lock", "kernel", "function", "device", "thread", "scheduler", "other"];
        for specimen in all() {
            let own = roles(&fs::read_to_string(&specimen.source).unwrap());
            for planted in &specimen.expected.causes {
                let known = |kind: &String| kinds.contains(&kind.as_str());
                assert!(planted.kinds.iter().all(known), "{}", specimen.name);
                assert!(!planted.kinds.is_empty() && !planted.called.is_empty());
                let lacking: Vec<_> =
                    planted.places.iter().filter(|place| !own.contains(*place)).collect();
                assert!(lacking.is_empty(), "{}: no {lacking:?}", specimen.name);
            }
        }
    }

    #[test]
    fn there_are_enough_of_each_family() {
        let specimens = all();
        let families: BTreeSet<&str> =
            specimens.iter().map(|it| it.expected.family.as_str()).collect();
        assert_eq!(families.len(), 7, "{families:?}");
        assert!(specimens.len() >= 30);
        assert!(specimens.iter().filter(|it| it.is_null()).count() >= 3);
        let mut nulls = specimens.iter().filter(|it| it.expected.family == "nulls");
        assert!(nulls.all(Specimen::is_null));
    }

    #[test]
    fn draws_stay_in_their_ranges_and_differ() {
        let text = "family = \"x\"\nthink = [1.0, 4.0]\nsize = [10, 1000]\n";
        let expected: Expectation = toml::from_str(text).unwrap();
        let mut seen = BTreeSet::new();
        for seed in 0..50 {
            let drawn = expected.draw(&mut Generator::new(seed));
            assert_eq!(drawn, expected.draw(&mut Generator::new(seed)));
            let [think, its, size, number, seed, _] = &drawn.arguments[..] else {
                panic!("{drawn:?}");
            };
            assert_eq!([think, size, seed], ["--think", "--size", "--seed"]);
            assert!((1.0..=4.0).contains(&its.parse::<f64>().unwrap()));
            assert!((10..=1000).contains(&number.parse::<u32>().unwrap()));
            seen.insert(drawn.arguments.clone());
        }
        assert_eq!(seen.len(), 50);
        assert_eq!(expected.middle(), ["--think", "2.000", "--size", "100"]);
    }
}
