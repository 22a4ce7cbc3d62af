//! Kills Kneepoint, its guardian and its systems at random moments and at chosen system calls, lets
//! system calls fail, measures programs that misbehave and opens directories that were damaged; and
//! asks each time what is left on the machine, and what was said.

mod machine;
mod points;

use anyhow::{Context, Result, bail};
use machine::Machine;
use points::{Kind, Point};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long what is on its way out may take before it counts as left behind.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a run may take to end once it was asked to: three seconds, and what a machine under
/// faults adds to that.
const STOPPING: Duration = Duration::from_secs(5);

struct Options {
    points: u32,
    seed: u64,
    program: PathBuf,
}

/// What was found wrong at a point.
#[derive(Default)]
struct Found {
    /// Left on the machine before `recover`.
    before: Vec<String>,
    /// Left on the machine after it.
    after: Vec<String>,
    /// Panics, torn slices, slow stops and codes that there are not.
    wrong: Vec<String>,
}

/// Runs `--points` points (300) drawn from `--seed` (1) on `--program`, by default the debug build.
///
/// # Errors
/// Something stays behind after `recover`, or anything goes wrong.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let options = parse(flags)?;
    if !options.program.is_file() {
        bail!("no {}: run `cargo build` first", options.program.display());
    }
    let home = std::env::temp_dir().join(format!("kneepoint-faults-{}", std::process::id()));
    fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let mut table: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for number in 0..options.points {
        let place = home.join(number.to_string());
        fs::create_dir(&place)?;
        let point = Point::drawn(options.seed, number);
        let found = one(&options.program, &place, &point)?;
        let row = table.entry(point.kind.name()).or_default();
        for (count, list) in row[1..].iter_mut().zip([&found.before, &found.after, &found.wrong]) {
            *count += usize::from(!list.is_empty());
        }
        row[0] += 1;
        for (when, list) in
            [("left", &found.before), ("left after recover", &found.after), ("wrong", &found.wrong)]
        {
            for what in list {
                println!("{number:5} {point}: {when}: {what}");
            }
        }
        fs::remove_dir_all(&place)?;
    }
    fs::remove_dir_all(&home)?;
    conclude(&options, &table)
}

fn conclude(options: &Options, table: &BTreeMap<&str, [usize; 4]>) -> Result<()> {
    println!("\nseed {}\n{:<28} points  left  after recover  wrong", options.seed, "fault");
    let mut sum = [0; 4];
    for (name, row) in table {
        println!("{name:<28} {:6} {:5} {:14} {:6}", row[0], row[1], row[2], row[3]);
        for (total, count) in sum.iter_mut().zip(row) {
            *total += count;
        }
    }
    println!("{:<28} {:6} {:5} {:14} {:6}", "all", sum[0], sum[1], sum[2], sum[3]);
    if sum[2] + sum[3] > 0 {
        bail!("{} points left something for good, {} went wrong", sum[2], sum[3]);
    }
    Ok(())
}

fn parse(flags: &[&str]) -> Result<Options> {
    let program = crate::root().join("target/debug/kneepoint");
    let mut options = Options { points: 300, seed: 1, program };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let value = flags.next().with_context(|| format!("{flag} wants a value"))?;
        match *flag {
            "--points" => options.points = value.parse().context("--points is a number")?,
            "--seed" => options.seed = value.parse().context("--seed is a number")?,
            "--program" => options.program = std::path::absolute(value)?,
            other => bail!("unknown flag {other}: faults takes --points, --seed, --program"),
        }
    }
    Ok(options)
}

fn one(program: &Path, place: &Path, point: &Point) -> Result<Found> {
    let mut found = Found::default();
    if let Kind::Damaged = point.kind {
        damaged(program, place, point, &mut found)?;
        return Ok(found);
    }
    let before = Machine::now();
    under_fault(program, place, point, &mut found)?;
    let mark = place.display().to_string();
    found.before = before.left_within(&mark, TIMEOUT);
    let recovered = reported(Command::new(program).arg("recover").current_dir(place))?;
    found.wrong.extend(recovered.wrong(&[0]));
    found.after = before.left_within(&mark, Duration::ZERO);
    if place.join("run/plan.toml").exists() {
        let report = reported(Command::new(program).args(["report", "run"]).current_dir(place))?;
        found.wrong.extend(report.wrong(&[0, 4]));
        found.wrong.extend(torn(&place.join("run/trials.jsonl")));
    }
    Ok(found)
}

/// Runs Kneepoint, and does to it what the point says.
fn under_fault(program: &Path, place: &Path, point: &Point, found: &mut Found) -> Result<()> {
    fs::write(place.join("recipe.toml"), point.recipe())?;
    let mut words = point.starter(program);
    words.extend(point.arguments().into_iter().map(Into::into));
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(place).env(machine::MARK, place);
    let errors = fs::File::create(place.join("stderr"))?;
    let out = fs::File::create(place.join("stdout"))?;
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(errors).spawn()?;
    let mut asked = None;
    let begun = Instant::now();
    let mut acts = point.acts().into_iter().peekable();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Some(act) = acts.next_if(|act| begun.elapsed() >= act.after) {
            machine::send(act.signal, &machine::targets(&act.whom, child.id(), place));
            if act.is_request() {
                asked = Some(Instant::now());
            }
        }
        if asked.is_some_and(|since| since.elapsed() > STOPPING) {
            found.wrong.push("it did not end within 5 s of being asked to".to_owned());
            asked = None;
            machine::send("KILL", &[child.id()]);
        }
        if begun.elapsed() > Duration::from_secs(60) {
            found.wrong.push("it hangs".to_owned());
            machine::send("KILL", &[child.id()]);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let ran = Reported { code: status.code(), said: lossy(&place.join("stderr")) };
    found.wrong.extend(ran.wrong(&[0, 1, 2, 4]));
    Ok(())
}

/// Opens a run directory in which something was cut, flipped or put in place of a file.
fn damaged(program: &Path, place: &Path, point: &Point, found: &mut Found) -> Result<()> {
    let fixtures = crate::root().join("fixtures/runs");
    let run = place.join("run");
    fs::create_dir(&run)?;
    for entry in fs::read_dir(fixtures.join("sqlite-shared-cache"))? {
        let path = entry?.path();
        fs::copy(&path, run.join(path.file_name().unwrap_or_default()))?;
    }
    point.damage(&run)?;
    let begun = Instant::now();
    let report =
        reported(Command::new(program).args(["report", "run", "--json"]).current_dir(place))?;
    found.wrong.extend(report.wrong(&[0, 1, 4]));
    if begun.elapsed() > Duration::from_secs(20) {
        found.wrong.push(format!("it took {:?}", begun.elapsed()));
    }
    Ok(())
}

/// How a Kneepoint ended and what it said.
struct Reported {
    code: Option<i32>,
    said: String,
}

impl Reported {
    /// What is wrong with that. Killed from outside is not.
    fn wrong(&self, codes: &[i32]) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.code.is_some_and(|code| !codes.contains(&code)) {
            wrong.push(format!("exit code {:?}: {}", self.code, self.said.trim()));
        }
        if self.said.contains("panicked") {
            wrong.push(format!("a panic: {}", self.said.trim()));
        }
        if self.said.lines().any(|line| line.contains(char::is_control)) {
            wrong.push("control characters on the terminal".to_owned());
        }
        wrong
    }
}

fn reported(command: &mut Command) -> Result<Reported> {
    let output = command.stdin(Stdio::null()).output()?;
    Ok(Reported {
        code: output.status.code(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Whole lines that are no records.
fn torn(trials: &Path) -> Option<String> {
    let text = lossy(trials);
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let torn = whole.lines().find(|line| serde_json::from_str::<serde_json::Value>(line).is_err());
    torn.map(|line| format!("a torn slice: {}", line.chars().take(80).collect::<String>()))
}

fn lossy(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}
