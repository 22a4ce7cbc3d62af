//! One run: a specimen is built, diagnosed, and measures itself; or a kept run is judged again.

use super::build::{Built, Form};
use super::names::Names;
use super::score::{Known, Outcome, Scored, first_kind, judge, treated};
use super::specimen::{Drawn, Specimen};
use super::tools::{Tool, is_right};
use super::truth::{Truth, shares};
use super::{Options, TREATED, truth_flag, twin};
use anyhow::{Context, Result};
use kneepoint_stats::interval::median;
use kneepoint_stats::random::Generator;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Seconds of a run in which a specimen measures itself.
const TRUTH_SECONDS: f64 = 0.5;
/// Pairs of short runs by which it measures itself, and counts what its twin gains; and seconds of
/// each of the latter.
const PAIRS: usize = 3;
const PAIR_SECONDS: f64 = 0.5;
/// What is kept of a run beside its run directory.
const KNOWN: &str = "known.json";
/// The run directory.
const DIRECTORY: &str = "run";
/// That of the run by which the twin's gain is told, where it is another one.
const OF_GAIN: &str = "gain";

/// All that is known of a run but its findings.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    specimen: String,
    form: String,
    drawn: Drawn,
    names: Names,
    /// The level at which the rest was measured.
    clients: u64,
    shares: Option<Vec<f64>>,
    gain: Option<f64>,
    /// What paired trials of a run of its own say of that gain, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paired: Option<f64>,
    /// Seconds of the diagnosis.
    seconds: f64,
    /// What other tools show on top, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    tools: BTreeMap<String, String>,
}

impl Kept {
    fn write(&self, folder: &Path) -> Result<()> {
        fs::write(folder.join(KNOWN), serde_json::to_string_pretty(self)?)?;
        Ok(())
    }

    /// The score of the run's findings, which may rank causes at another level by now.
    fn scored(&self, specimen: &Specimen, findings: Result<Value>) -> Scored {
        let (first, outcome) = match findings {
            Err(error) => (None, Outcome::Failed { why: format!("{error:#}") }),
            Ok(findings) => {
                let same = focus(&findings) == self.clients;
                let shares = self.shares.clone().filter(|_| same);
                let known = Known {
                    specimen,
                    names: &self.names,
                    shares,
                    gain: self.gain,
                    paired: self.paired.or_else(|| treated(&findings)),
                };
                (first_kind(&findings), judge(&findings, &known))
            }
        };
        Scored {
            specimen: specimen.name.clone(),
            family: specimen.expected.family.clone(),
            form: self.form.clone(),
            planted: specimen.expected.causes.first().map(|planted| planted.called.clone()),
            first,
            outcome,
            seconds: self.seconds,
            tools: self.by_tools(specimen),
        }
    }

    /// Whether each of the other tools shows what is planted, where they were tried.
    fn by_tools(&self, specimen: &Specimen) -> BTreeMap<String, bool> {
        let of = |tool: Tool| {
            let shown = self.tools.get(tool.as_str())?;
            let right = is_right(tool, shown, specimen, &self.names);
            Some((tool.as_str().to_owned(), right))
        };
        Tool::ALL.into_iter().filter_map(of).collect()
    }
}

/// Clients at the level where causes are ranked.
fn focus(findings: &Value) -> u64 {
    findings["focus"]["clients"].as_u64().unwrap_or(1)
}

/// One specimen in one form, with names, sizes and levels of its own.
pub(super) fn take(options: &Options, specimen: &Specimen, form: Form, number: u64) -> Scored {
    let run = Run { options, specimen, folder: numbered(&options.out, number) };
    let mut generator = Generator::new(options.seed.wrapping_mul(1_000_003).wrapping_add(number));
    let mut kept =
        Kept { specimen: specimen.name.clone(), form: form.as_str().to_owned(), ..Kept::default() };
    let findings = run.take(form, &mut generator, &mut kept);
    kept.scored(specimen, findings)
}

/// Run directory of the run with this number.
pub(super) fn directory(out: &Path, number: u64) -> PathBuf {
    numbered(out, number).join(DIRECTORY)
}

fn numbered(out: &Path, number: u64) -> PathBuf {
    out.join(format!("{number:04}"))
}

/// Judges the runs that an earlier call has kept in a folder by what the program says of their run
/// directories now.
pub(super) fn again(options: &Options, specimens: &[Specimen], kept: &Path) -> Result<Vec<Scored>> {
    let scored = folders(kept)?.into_iter().map(|folder| {
        rescored(specimens, &folder, |directory| {
            let mut command = Command::new(&options.program);
            json_of(command.args(["report", "--json"]).arg(directory))
        })
    });
    let scored = scored.collect::<Result<Vec<_>>>()?.into_iter().flatten();
    let chosen = |one: &Scored| options.forms.iter().any(|form| form.as_str() == one.form);
    Ok(scored.filter(chosen).collect())
}

/// The runs that are kept in a folder, in their order.
pub(super) fn folders(kept: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(kept).with_context(|| kept.display().to_string())?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join(KNOWN).is_file());
    folders.sort();
    Ok(folders)
}

/// The score of a kept run by these `findings` of its run directory; none where its specimen is
/// not among `specimens`.
pub(super) fn rescored(
    specimens: &[Specimen],
    folder: &Path,
    findings: impl Fn(&Path) -> Result<Value>,
) -> Result<Option<Scored>> {
    let kept: Kept = serde_json::from_slice(&fs::read(folder.join(KNOWN))?)?;
    let specimen = specimens.iter().find(|one| one.name == kept.specimen);
    Ok(specimen.map(|specimen| kept.scored(specimen, findings(&folder.join(DIRECTORY)))))
}

/// What a run is of, and where it is kept.
struct Run<'a> {
    options: &'a Options,
    specimen: &'a Specimen,
    folder: PathBuf,
}

impl Run<'_> {
    /// The findings; what else is known goes into `kept`.
    fn take(&self, form: Form, generator: &mut Generator, kept: &mut Kept) -> Result<Value> {
        let built = Built::make(self.specimen, form, &self.folder.join("built"), generator)?;
        kept.drawn = self.specimen.expected.draw(generator);
        kept.names = built.names.clone();
        kept.write(&self.folder)?;
        let begin = Instant::now();
        let usual = (kept.drawn.levels.as_str(), self.options.budget.as_str(), DIRECTORY);
        let findings = self.diagnose(&built, &kept.drawn, usual);
        kept.seconds = begin.elapsed().as_secs_f64();
        let findings = findings?;
        kept.clients = focus(&findings);
        if !self.specimen.is_null() {
            kept.shares = self.shares(&built, &kept.drawn, kept.clients)?;
            kept.gain = Some(gain(&built, &kept.drawn, kept.clients)?);
            if let Some(budget) = &self.options.gain {
                let level = kept.clients.to_string();
                let alone = (level.as_str(), budget.as_str(), OF_GAIN);
                kept.paired = treated(&self.diagnose(&built, &kept.drawn, alone)?);
            }
        }
        if self.options.tools && !self.specimen.is_null() {
            for tool in Tool::ALL {
                let top = tool.top(&built, kept.clients, &kept.drawn, &self.folder)?;
                kept.tools.insert(tool.as_str().to_owned(), top);
            }
        }
        kept.write(&self.folder)?;
        Ok(findings)
    }

    /// Runs Kneepoint on it as a newcomer would, with these levels, this budget and run directory.
    fn diagnose(
        &self,
        built: &Built,
        drawn: &Drawn,
        (levels, budget, directory): (&str, &str, &str),
    ) -> Result<Value> {
        let program = built.program.display();
        let arguments = drawn.arguments.join(" ");
        let treated =
            format!("{TREATED}: {program} -t {{clients}} -s {{seconds}} {arguments} {}", twin());
        let _beside = Beside::start(&built.program, &self.specimen.expected.beside)?;
        let options = self.options;
        let mut command = Command::new(&options.program);
        command.args(["run", "--json", "--levels", levels, "--budget", budget]);
        command.args(["--seed", &options.seed.to_string()]);
        command.arg("--out").arg(self.folder.join(directory));
        if !self.specimen.is_null() {
            command.args(["--variant", &treated]);
        }
        command.arg("--").arg(&built.program).args(["-t", "{clients}", "-s", "{seconds}"]);
        command.args(&drawn.arguments).current_dir(&self.folder);
        json_of(&mut command)
    }

    /// The share of each planted cause, by what the specimen measures of itself in alternating
    /// runs.
    fn shares(&self, built: &Built, drawn: &Drawn, clients: u64) -> Result<Option<Vec<f64>>> {
        let words = [&drawn.arguments[..], &[truth_flag()]].concat();
        let of = |clients| -> Result<Truth> {
            let printed = built.say(clients, TRUTH_SECONDS, &words)?;
            serde_json::from_str(&printed).with_context(|| format!("no truth in {printed:?}"))
        };
        let (mut alone, mut together) = (of(1)?, of(clients)?);
        for _ in 1..PAIRS {
            alone.add(&of(1)?);
            together.add(&of(clients)?);
        }
        let causes = self.specimen.expected.causes.len();
        #[allow(clippy::cast_precision_loss, reason = "a few hundred clients")]
        let shares = shares(&alone, &together, clients as f64, causes);
        Ok(shares)
    }
}

/// What a program prints as JSON; it may have called that not trustworthy.
fn json_of(command: &mut Command) -> Result<Value> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| program)?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        said.trim().lines().last().unwrap_or("it said nothing").to_owned()
    })
}

/// Throughput of the twin over that of the specimen, in alternating runs.
fn gain(built: &Built, drawn: &Drawn, clients: u64) -> Result<f64> {
    let treated = [&drawn.arguments[..], &[twin()]].concat();
    let mut ratios = Vec::new();
    for _ in 0..PAIRS {
        let plain = built.rate(clients, PAIR_SECONDS, &drawn.arguments)?;
        let twin = built.rate(clients, PAIR_SECONDS, &treated)?;
        // One that makes no progress at all has everything to gain.
        ratios.push(if plain > 0.0 { twin / plain } else { f64::MAX });
    }
    Ok(median(&ratios))
}

/// A second process of a specimen, which ends with the run.
struct Beside(Child);

impl Beside {
    /// Starts it, where one is asked for.
    fn start(program: &Path, words: &[String]) -> Result<Option<Self>> {
        if words.is_empty() {
            return Ok(None);
        }
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| program.display().to_string())?;
        Ok(Some(Self(child)))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use serde_json::json;

    fn specimen() -> Specimen {
        let specimens = Specimen::all(&crate::root().join("specimens")).unwrap();
        specimens.into_iter().find(|one| one.name == "mutex_half").unwrap()
    }

    fn kept() -> Kept {
        let shares = Some(vec![0.9]);
        Kept { form: "lto".to_owned(), clients: 8, shares, gain: Some(2.0), ..Kept::default() }
    }

    fn findings(clients: u64) -> Value {
        json!({
            "focus": { "clients": clients },
            "causes": [{ "kind": "lock", "name": "mutex in lobedika", "path": [], "evidence": "",
                         "share": { "value": 0.8, "low": 0.7, "high": 0.95 } }],
        })
    }

    #[test]
    fn a_run_without_findings_has_failed() {
        let scored = kept().scored(&specimen(), Err(anyhow!("it died")));
        assert_eq!(scored.outcome, Outcome::Failed { why: "it died".to_owned() });
        assert_eq!((scored.form.as_str(), scored.planted.as_deref()), ("lto", Some("mutex")));
    }

    #[test]
    fn shares_count_at_the_level_where_they_were_measured() {
        let mut kept = kept();
        kept.names.drawn.insert("lobedika".to_owned(), "post".to_owned());
        let errors = |clients| match kept.scored(&specimen(), Ok(findings(clients))).outcome {
            Outcome::Planted(marks) => (marks.top_1, marks.share_errors.len()),
            other => panic!("{other:?}"),
        };
        assert_eq!(errors(8), (true, 1));
        assert_eq!(errors(4), (true, 0));
    }

    #[test]
    fn what_is_kept_is_read_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        kept().write(folder.path()).unwrap();
        let text = fs::read_to_string(folder.path().join(KNOWN)).unwrap();
        let read: Kept = serde_json::from_str(&text).unwrap();
        assert_eq!((read.clients, read.shares, read.gain), (8, Some(vec![0.9]), Some(2.0)));
    }
}
