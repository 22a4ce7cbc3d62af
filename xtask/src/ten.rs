//! Runs the built-in experiment several times and asks whether every run tells the same story.
//!
//! The built-in experiment has a known answer: SQLite's shared page cache is guarded by one
//! mutex, private caches cure it, and two of its treatments are decoys without effect.

use anyhow::{Context, Result, bail};
use kneepoint_stats::interval::mean_interval;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The function whose mutex the first cause has to name.
const LOCK: &str = "sqlite3BtreeEnter";
/// Treatments that change nothing that matters here.
const DECOYS: [&str; 2] = ["sqlite-memstatus-off", "sqlite-mimalloc"];
/// The first cause has more than this share of the loss.
const LEAST_SHARE: f64 = 0.5;
/// The best cure multiplies throughput by more than this.
const LEAST_CURE: f64 = 2.0;
/// Ledgers leave at most this share of their total unaccounted.
const WIDEST_CLOSURE: f64 = 0.02;
/// A run takes at most this long, seconds.
const LONGEST_RUN: f64 = 90.0;

struct Options {
    runs: u32,
    out: PathBuf,
    program: PathBuf,
}

/// Runs `--program`, by default the release build, `--runs` times in `--out`; prints one line a
/// run, then how many agree.
///
/// # Errors
/// Where the release build is missing, or any run departs from the known answer.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let options = parse(flags)?;
    let program = &options.program;
    if !program.is_file() {
        bail!("no {}: run `cargo build --release` first", program.display());
    }
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    let mut departed = 0;
    let mut on_off = Vec::new();
    for number in 1..=options.runs {
        let (findings, elapsed) = one(program, &options.out, number)?;
        let story = Story::read(&findings, elapsed);
        let objections = story.objections();
        println!("{number:>3}  {}", story.line());
        for objection in &objections {
            println!("     departs: {objection}");
        }
        departed += u32::from(!objections.is_empty());
        on_off.push(story.on_off);
    }
    println!("{}", pooled(&on_off));
    println!(
        "{} of {} runs agree; {}",
        options.runs - departed,
        options.runs,
        options.out.display()
    );
    if departed == 0 { Ok(()) } else { bail!("{departed} of {} runs depart", options.runs) }
}

/// The collector's price over all runs: the geometric mean of their on/off ratios, with Student's
/// interval of the runs' logarithms.
fn pooled(on_off: &[f64]) -> String {
    let logs: Vec<f64> = on_off.iter().map(|ratio| ratio.ln()).filter(|x| x.is_finite()).collect();
    match mean_interval(&logs, 0.95) {
        Ok(mean) => {
            let ratio = mean.map(f64::exp);
            let (value, low, high) = (ratio.value, ratio.low, ratio.high);
            format!("collector on/off over {} runs {value:.3} [{low:.3}-{high:.3}]", logs.len())
        }
        Err(_) => format!("collector on/off: no interval from {} runs", logs.len()),
    }
}

fn parse(flags: &[&str]) -> Result<Options> {
    let pid = std::process::id();
    let out = std::env::temp_dir().join(format!("kneepoint-ten-{pid}"));
    let program = crate::built("release/kneepoint");
    let mut options = Options { runs: 10, out, program };
    for pair in flags.chunks(2) {
        match pair {
            ["--runs", count] => options.runs = count.parse().context("--runs wants a number")?,
            ["--out", folder] => options.out = PathBuf::from(folder),
            ["--program", file] => options.program = std::path::absolute(file)?,
            _ => bail!("unknown flag {}: ten takes --runs, --out, --program", pair.join(" ")),
        }
    }
    Ok(options)
}

/// One run: its findings, kept as `NUMBER.json`, and its wall time in seconds.
fn one(program: &Path, out: &Path, number: u32) -> Result<(Value, f64)> {
    let begin = Instant::now();
    let output = Command::new(program)
        .args(["run", "--json"])
        .current_dir(out)
        .stdin(Stdio::null())
        .output()
        .with_context(|| program.display().to_string())?;
    let elapsed = begin.elapsed().as_secs_f64();
    std::fs::write(out.join(format!("{number}.json")), &output.stdout)?;
    let findings = serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("run {number}: {}: {}", output.status, said.trim())
    })?;
    Ok((findings, elapsed))
}

/// What one run says, as far as the known answer reaches.
struct Story {
    elapsed: f64,
    trustworthy: bool,
    first_name: String,
    first_is_lock: bool,
    first_path: Vec<String>,
    first_share: f64,
    /// The greatest ratio against the baseline: variant, value, low, high.
    cure: Option<(String, f64, f64, f64)>,
    /// Each decoy's verdict, in the order of [`DECOYS`].
    decoys: Vec<String>,
    core_closure: f64,
    thread_closure: f64,
    noise_floor: f64,
    programs: f64,
    on_off: f64,
}

impl Story {
    fn read(findings: &Value, elapsed: f64) -> Self {
        let first = &findings["causes"][0];
        Self {
            elapsed,
            trustworthy: findings["trustworthy"] == true,
            first_name: text(&first["name"]),
            first_is_lock: first["kind"] == "lock",
            first_path: items(&first["path"]).iter().map(text).collect(),
            first_share: number(&first["share"]["value"]),
            cure: best_cure(findings),
            decoys: DECOYS.iter().map(|decoy| verdict(findings, decoy)).collect(),
            core_closure: worst_closure(findings, "core"),
            thread_closure: worst_closure(findings, "thread"),
            noise_floor: number(&findings["noise"]["floor"]),
            programs: number(&findings["collector"]["programs"]["value"]),
            on_off: number(&findings["collector"]["on_off"]["value"]),
        }
    }

    fn line(&self) -> String {
        let cure = self.cure.as_ref().map_or_else(
            || "none".to_owned(),
            |(variant, value, low, high)| format!("{variant} {value:.2} [{low:.2}, {high:.2}]"),
        );
        format!(
            "{:.1} s  first: {} {:.0} %  cure: {cure}  decoys: {}  unaccounted: core {:.2} %, \
             thread {:.2} %  floor {:.1} %  collector {:.2} %, on/off {:.3}",
            self.elapsed,
            self.first_name,
            100.0 * self.first_share,
            self.decoys.join(", "),
            100.0 * self.core_closure,
            100.0 * self.thread_closure,
            100.0 * self.noise_floor,
            100.0 * self.programs,
            self.on_off,
        )
    }

    /// Where the run departs from the known answer. Absent numbers depart too.
    fn objections(&self) -> Vec<String> {
        let named = self.first_path.iter().any(|function| function.contains(LOCK));
        let within = |value: f64, most: f64| value <= most;
        let cured =
            self.cure.as_ref().is_some_and(|(_, value, low, _)| *value > LEAST_CURE && *low > 1.0);
        let checks = [
            (self.trustworthy, "it calls itself not trustworthy".to_owned()),
            (self.first_is_lock && named, format!("the first cause is no lock in {LOCK}")),
            (self.first_share > LEAST_SHARE, "the first cause's share is too small".to_owned()),
            (cured, format!("no cure above {LEAST_CURE} with an interval above 1")),
            (
                self.decoys.iter().all(|verdict| verdict == "no-effect"),
                "a decoy is not without effect".to_owned(),
            ),
            (within(self.core_closure, WIDEST_CLOSURE), "the core ledger stays open".to_owned()),
            (
                within(self.thread_closure, WIDEST_CLOSURE),
                "the thread ledger stays open".to_owned(),
            ),
            (within(self.elapsed, LONGEST_RUN), format!("it took over {LONGEST_RUN} s")),
        ];
        checks.into_iter().filter(|(holds, _)| !holds).map(|(_, objection)| objection).collect()
    }
}

fn best_cure(findings: &Value) -> Option<(String, f64, f64, f64)> {
    items(&findings["effects"])
        .iter()
        .filter(|effect| effect["role"] == "treatment" && effect["over"] == "baseline")
        .filter(|effect| effect["ratio"].is_object())
        .map(|effect| {
            let ratio = &effect["ratio"];
            let (value, low) = (number(&ratio["value"]), number(&ratio["low"]));
            (text(&effect["variant"]), value, low, number(&ratio["high"]))
        })
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

fn verdict(findings: &Value, variant: &str) -> String {
    let found = items(&findings["effects"]).iter().find(|effect| effect["variant"] == variant);
    found.map_or_else(|| "absent".to_owned(), |effect| text(&effect["verdict"]["verdict"]))
}

/// The greatest unaccounted share over the levels; infinite where one is missing.
fn worst_closure(findings: &Value, ledger: &str) -> f64 {
    let levels = items(&findings["ledgers"]);
    let shares = levels.iter().map(|level| level[ledger]["unaccounted"].as_f64());
    let worst = shares.map(|share| share.unwrap_or(f64::INFINITY)).reduce(f64::max);
    worst.unwrap_or(f64::INFINITY)
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("none").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn findings() -> Value {
        json!({
            "trustworthy": true,
            "causes": [{ "kind": "lock", "name": "mutex", "share": { "value": 0.78 },
                         "path": ["sqlite3BtreeEnter", "sqlite3VdbeEnter"] }],
            "effects": [
                { "variant": "control", "role": "control", "over": "baseline",
                  "ratio": { "value": 9.0, "low": 8.0, "high": 10.0 } },
                { "variant": "cure", "role": "treatment", "over": "baseline",
                  "ratio": { "value": 4.0, "low": 3.8, "high": 4.3 },
                  "verdict": { "verdict": "better" } },
                { "variant": DECOYS[0], "role": "treatment", "over": "baseline", "ratio": null,
                  "verdict": { "verdict": "no-effect", "smallest": 0.05 } },
                { "variant": DECOYS[1], "role": "treatment", "over": "baseline", "ratio": null,
                  "verdict": { "verdict": "no-effect", "smallest": 0.05 } },
            ],
            "ledgers": [
                { "core": { "unaccounted": 0.003 }, "thread": { "unaccounted": 0.001 } },
                { "core": { "unaccounted": 0.011 }, "thread": { "unaccounted": 0.002 } },
            ],
            "noise": { "floor": 0.04 },
            "collector": { "programs": { "value": 0.018 }, "on_off": { "value": 0.99 } },
        })
    }

    #[test]
    fn the_known_answer_agrees() {
        let story = Story::read(&findings(), 52.0);
        assert_eq!(story.objections(), Vec::<String>::new());
        assert!(story.line().contains("cure 4.00 [3.80, 4.30]"), "{}", story.line());
        assert!(story.line().contains("core 1.10 %"), "{}", story.line());
    }

    #[test]
    fn each_departure_is_named() {
        for (pointer, wrong) in [
            ("/trustworthy", json!(false)),
            ("/causes/0/kind", json!("kernel")),
            ("/causes/0/path", json!(["main"])),
            ("/causes/0/share/value", json!(0.4)),
            ("/effects/1/ratio/low", json!(0.9)),
            ("/effects/1/ratio/value", json!(1.9)),
            ("/effects/2/verdict/verdict", json!("better")),
            ("/ledgers/1/core/unaccounted", json!(0.03)),
            ("/ledgers", json!([])),
        ] {
            let mut findings = findings();
            *findings.pointer_mut(pointer).expect("the pointer leads somewhere") = wrong;
            assert!(!Story::read(&findings, 52.0).objections().is_empty(), "{pointer}");
        }
        assert_eq!(Story::read(&findings(), 91.0).objections().len(), 1);
    }

    #[test]
    fn the_price_of_all_runs_is_reported_with_its_interval() {
        // Logarithms -0.04, -0.02 and 0: mean -0.02, half-width 4.303 x 0.02 / sqrt(3).
        let reported = pooled(&[(-0.04_f64).exp(), (-0.02_f64).exp(), 1.0, f64::NAN]);
        assert_eq!(reported, "collector on/off over 3 runs 0.980 [0.933-1.030]");
        assert_eq!(pooled(&[0.98]), "collector on/off: no interval from 1 runs");
    }

    #[test]
    fn unknown_flags_are_refused() {
        assert_eq!(parse(&["--runs", "3"]).unwrap().runs, 3);
        assert!(parse(&["--fast"]).is_err());
        assert!(parse(&["--runs", "many"]).is_err());
    }
}
