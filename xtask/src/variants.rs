//! A program against copies of itself that are given as variants, and against one that does more
//! work by a known part: how often is a difference claimed, and how often found?

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Clients of the one level.
const CLIENTS: &str = "2";
/// Microseconds of work of an operation, which clients do not share.
const WORK: f64 = 40.0;
/// Most comparisons in a hundred that may claim a difference where there is none.
const MOST_CLAIMS: f64 = 0.05;
/// Most runs in a hundred that may call an effect of just the smallest size none.
const MOST_MISSED: f64 = 0.1;
/// The variant that does more.
const SLOWER: &str = "slower";

struct Options {
    runs: u32,
    copies: u32,
    slower: f64,
    budget: String,
    out: PathBuf,
    program: PathBuf,
}

/// Runs the program with its copies and the slower one `--runs` times; prints a line each.
///
/// # Errors
/// Where a run fails, more than 5 % of the copies are called different, or the slower one is called
/// alike more often than promised.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let options = parse(flags)?;
    ensure!(
        options.program.is_file(),
        "no {}: run `cargo build --release` first",
        options.program.display()
    );
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    let measured = compiled(&options)?;
    let mut seen = Seen::default();
    for number in 1..=options.runs {
        let findings = one(&options, &measured, number)?;
        println!("{number:>3}  {}", seen.note(&findings));
    }
    println!("{}", seen.summary(options.slower));
    seen.judged()
}

fn parse(flags: &[&str]) -> Result<Options> {
    let pid = std::process::id();
    let mut options = Options {
        runs: 20,
        copies: 9,
        slower: 0.05,
        budget: "180s".to_owned(),
        out: std::env::temp_dir().join(format!("kneepoint-variants-{pid}")),
        program: crate::built("release/kneepoint"),
    };
    for pair in flags.chunks(2) {
        match pair {
            ["--runs", count] => options.runs = count.parse().context("--runs wants a number")?,
            ["--copies", count] => {
                options.copies = count.parse().context("--copies wants a number")?;
            }
            ["--slower", part] => {
                let percent: f64 =
                    part.trim_end_matches('%').parse().context("--slower wants a percentage")?;
                options.slower = percent / 100.0;
            }
            ["--budget", time] => options.budget = (*time).to_owned(),
            ["--out", folder] => options.out = std::path::absolute(folder)?,
            ["--program", file] => options.program = std::path::absolute(file)?,
            _ => bail!(
                "unknown flag {}: variants takes --runs, --copies, --slower, --budget, --out, \
                 --program",
                pair.join(" ")
            ),
        }
    }
    Ok(options)
}

/// The specimen without a bottleneck.
fn compiled(options: &Options) -> Result<PathBuf> {
    let program = options.out.join("independent");
    let folder = crate::root().join("specimens");
    let sources = ["null_cpu.c", "support.c"].map(|file| folder.join(file));
    let status = Command::new("cc")
        .args(["-std=gnu11", "-O2", "-o"])
        .arg(&program)
        .args(&sources)
        .arg("-lpthread")
        .status()
        .context("cc")?;
    ensure!(status.success(), "the specimen does not compile");
    Ok(program)
}

fn one(options: &Options, measured: &std::path::Path, number: u32) -> Result<Value> {
    let words = |work: f64| {
        let program = measured.display();
        format!("{program} -t {{clients}} -s {{seconds}} --think 0 --hold {work}")
    };
    let mut command = Command::new(&options.program);
    command.args(["run", "--json", "--levels", CLIENTS, "--budget", &options.budget]);
    command.args(["--seed", &number.to_string(), "--precision", "50%"]);
    for copy in 1..=options.copies {
        command.args(["--variant", &format!("copy {copy}: {}", words(WORK))]);
    }
    let slower = words(WORK * (1.0 + options.slower));
    command.args(["--variant", &format!("{SLOWER}: {slower}")]);
    command.arg("--out").arg(options.out.join(number.to_string()));
    command.arg("--").args(words(WORK).split(' '));
    let output = command.stdin(Stdio::null()).output()?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("run {number}: {}: {}", output.status, said.trim())
    })
}

/// Verdicts of all runs so far.
#[derive(Default)]
struct Seen {
    /// Of copies and controls.
    alike: BTreeMap<String, u32>,
    /// Of the slower one.
    slower: BTreeMap<String, u32>,
    ratios: Vec<f64>,
    /// Intervals of the slower one's ratio.
    intervals: Vec<[f64; 2]>,
}

impl Seen {
    /// Takes a run in; a line for people.
    fn note(&mut self, findings: &Value) -> String {
        let effects = findings["effects"].as_array().map_or(&[][..], Vec::as_slice);
        let mut claims = Vec::new();
        let mut line = String::new();
        for effect in effects {
            let verdict = effect["verdict"]["verdict"].as_str().unwrap_or("none").to_owned();
            let ratio = |end: &str| effect["ratio"][end].as_f64().unwrap_or(f64::NAN);
            let [low, value, high] = ["low", "value", "high"].map(ratio);
            let shown = format!("{value:.3} [{low:.3}-{high:.3}] {verdict}");
            if effect["variant"] == SLOWER {
                line = format!("{SLOWER} {shown}, {} pairs", effect["pairs"]);
                self.ratios.push(value);
                self.intervals.push([low, high]);
                *self.slower.entry(verdict).or_default() += 1;
                continue;
            }
            if is_claim(&verdict) {
                claims.push(format!("{} {shown}", effect["variant"].as_str().unwrap_or("?")));
            }
            *self.alike.entry(verdict).or_default() += 1;
        }
        match claims.is_empty() {
            true => line,
            false => format!("{line}; CLAIMED: {}", claims.join(", ")),
        }
    }

    fn summary(&self, slower: f64) -> String {
        let listed = |verdicts: &BTreeMap<String, u32>| {
            let all = verdicts.iter().map(|(verdict, times)| format!("{times} {verdict}"));
            all.collect::<Vec<_>>().join(", ")
        };
        let truth = 1.0 / (1.0 + slower);
        let hold = self.intervals.iter().filter(|[low, high]| *low <= truth && truth <= *high);
        format!(
            "copies and controls: {} of {} claim a difference ({})\n\
             slower by {:.0} %: {}; ratio {:.3} in the median, {:.3} expected, which {} of {} \
             intervals hold",
            claims(&self.alike),
            self.alike.values().sum::<u32>(),
            listed(&self.alike),
            100.0 * slower,
            listed(&self.slower),
            kneepoint_stats::interval::median(&self.ratios),
            truth,
            hold.count(),
            self.intervals.len()
        )
    }

    fn judged(&self) -> Result<()> {
        let [alike, runs] =
            [&self.alike, &self.slower].map(|one| f64::from(one.values().sum::<u32>()));
        ensure!(f64::from(claims(&self.alike)) <= MOST_CLAIMS * alike, "more than 5 % are claimed");
        let wrong = ["better", "no-effect"].iter().filter_map(|word| self.slower.get(*word));
        let wrong = f64::from(wrong.sum::<u32>());
        ensure!(wrong <= MOST_MISSED * runs, "the slower one is missed in more than 10 %");
        Ok(())
    }
}

fn is_claim(verdict: &str) -> bool {
    verdict == "better" || verdict == "worse"
}

fn claims(verdicts: &BTreeMap<String, u32>) -> u32 {
    verdicts.iter().filter(|(verdict, _)| is_claim(verdict)).map(|(_, times)| times).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn effect(variant: &str, verdict: &str, value: f64) -> Value {
        json!({ "variant": variant, "pairs": 6, "verdict": { "verdict": verdict },
                "ratio": { "value": value, "low": value - 0.01, "high": value + 0.01 } })
    }

    #[test]
    fn claims_of_copies_and_what_the_slower_one_is_called_are_counted_apart() {
        let mut seen = Seen::default();
        let effects = ["control", "copy-1"].map(|name| effect(name, "no-effect", 1.0));
        let slower = effect(SLOWER, "worse", 0.953);
        let line = seen.note(&json!({ "effects": [effects[0], effects[1], slower] }));
        assert_eq!(line, "slower 0.953 [0.943-0.963] worse, 6 pairs");
        assert!(seen.judged().is_ok());
        let line = seen.note(&json!({ "effects": [effect("copy-1", "better", 1.1)] }));
        assert!(line.ends_with("CLAIMED: copy-1 1.100 [1.090-1.110] better"), "{line}");
        assert!(seen.judged().is_err(), "one of three");
        assert!(seen.summary(0.05).contains("1 of 3 claim a difference"), "{}", seen.summary(0.05));
        assert!(seen.summary(0.05).contains("0.952 expected, which 1 of 1"));
    }

    #[test]
    fn a_slower_one_that_is_called_alike_is_missed() {
        let mut seen = Seen::default();
        seen.note(&json!({ "effects": [effect(SLOWER, "no-effect", 0.99)] }));
        assert!(seen.judged().is_err());
    }
}
