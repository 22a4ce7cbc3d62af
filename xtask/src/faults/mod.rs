//! Kills Kneepoint, its guardian and its systems at random moments and at chosen system calls, lets
//! system calls fail, starves it, measures programs that misbehave and servers that are struck, and
//! opens directories that were damaged; and asks each time what is left on the machine, and what
//! was said.

mod damage;
mod found;
mod machine;
mod points;
mod programs;
mod sandbox;
mod servers;
mod strike;

use anyhow::{Context, Result, bail, ensure};
use found::Found;
use points::Point;
use sandbox::Place;
use serde::{Deserialize, Serialize};
use servers::Product;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Points at once for each core: most of a point is waiting.
const AT_ONCE: usize = 4;
/// Points where nothing else is said: nine rounds of all kinds.
const POINTS: u32 = 324;
/// How long `cargo xtask ci` begins points.
const IN_CI: Duration = Duration::from_secs(120);

#[derive(Clone)]
struct Options {
    points: u32,
    seed: u64,
    program: PathBuf,
    /// No point begins after so long.
    within: Option<Duration>,
    /// Where results are kept, and read from: those points are not taken again.
    results: Option<PathBuf>,
    /// The one point that is taken.
    only: Option<u32>,
    /// How many points at once.
    at_once: usize,
    /// Whether each point that is not well is judged again alone, not only those that took long.
    lenient: bool,
}

/// A line of the results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Taken {
    seed: u64,
    number: u32,
    /// What the point was: one that is drawn as something else by now is to be taken again.
    point: String,
    /// How long it took, in ms.
    #[serde(default)]
    took: u64,
    found: Found,
}

/// How many points were taken as `cargo xtask ci` does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) well: usize,
    pub(crate) not_well: usize,
    /// Points for which there was no time.
    pub(crate) left_out: usize,
}

/// Takes `--points` points (324) drawn from `--seed` (1) on `--program`, by default the debug
/// build.
///
/// # Errors
/// Something stays behind after `recover`, or anything goes wrong.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    if let [sandbox::INSIDE, words @ ..] = flags {
        return sandbox::inside(words);
    }
    let options = parse(flags)?;
    if let Some(lacking) = lacking() {
        bail!("faults strike in namespaces of their own: {lacking}");
    }
    for lacking in lacking_servers() {
        println!("no {lacking}: points with it see no more than that Kneepoint says so");
    }
    let outcome = take(&options)?;
    ensure!(outcome.not_well == 0, "{} points are not well", outcome.not_well);
    Ok(())
}

/// What every change has to pass, as far as `left` reaches.
///
/// # Errors
/// Points cannot be taken.
pub(crate) fn check(left: Duration) -> Result<Outcome> {
    // A busy machine fails a point now and then, a fault of Kneepoint's again.
    take(&Options { within: Some(IN_CI.min(left)), lenient: true, ..Options::default() })
}

/// Why no point can be taken here, if so.
pub(crate) fn lacking() -> Option<String> {
    sandbox::lacking()
}

/// Programs of servers that are not here.
pub(crate) fn lacking_servers() -> impl Iterator<Item = &'static str> {
    Product::ALL.into_iter().filter_map(Product::lacking)
}

impl Default for Options {
    fn default() -> Self {
        // Beside this program: where Cargo puts what it builds.
        let beside = std::env::current_exe().map(|own| own.with_file_name("kneepoint"));
        let built = crate::built("debug/kneepoint");
        let program = beside.ok().filter(|program| program.is_file()).unwrap_or(built);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            points: POINTS,
            seed: 1,
            program,
            within: None,
            results: None,
            only: None,
            at_once: AT_ONCE * cores,
            lenient: false,
        }
    }
}

fn parse(flags: &[&str]) -> Result<Options> {
    let mut options = Options::default();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let value: &str = flags.next().with_context(|| format!("{flag} wants a value"))?;
        match *flag {
            "--points" => options.points = value.parse().context("--points is a number")?,
            "--seed" => options.seed = value.parse().context("--seed is a number")?,
            "--program" => options.program = std::path::absolute(value)?,
            "--within" => options.within = Some(length(value)?),
            "--only" => {
                // As points are reported, with the seed before the number.
                let (seed, number) = value.split_once(':').unwrap_or(("", value));
                options.only = Some(number.parse().context("--only is [SEED:]NUMBER")?);
                if !seed.is_empty() {
                    options.seed = seed.parse().context("--only is [SEED:]NUMBER")?;
                }
            }
            "--at-once" => options.at_once = value.parse().context("--at-once is a number")?,
            "--results" => options.results = Some(value.into()),
            other => bail!(
                "unknown flag {other}: faults takes --points, --seed, --only [SEED:]NUMBER, \
                 --program, --within TIME, --at-once N and --results FILE"
            ),
        }
    }
    Ok(options)
}

/// `170` and `170s` are seconds, `3m` and `2h` what they look like.
fn length(text: &str) -> Result<Duration> {
    let (digits, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(digits) => (digits, &text[digits.len()..]),
        None => (text, "s"),
    };
    let number: u64 = digits.parse().with_context(|| format!("{text} is no time, as 170s is"))?;
    let each = match unit {
        "h" => 3600,
        "m" => 60,
        _ => 1,
    };
    Ok(Duration::from_secs(number.saturating_mul(each)))
}

fn take(options: &Options) -> Result<Outcome> {
    if !options.program.is_file() {
        bail!("no {}: run `cargo build` first", options.program.display());
    }
    let earlier = options.results.as_deref().map_or(Ok(Vec::new()), read)?;
    let mut all = BTreeMap::new();
    keep(&mut all, earlier);
    let numbers = options.only.map_or(0..options.points, |number| number..number + 1);
    let wanted: Vec<u32> =
        numbers.filter(|number| !all.contains_key(&(options.seed, *number))).collect();
    let home = home()?;
    let begun = Instant::now();
    let outcome = taken(options, &home, &wanted, begun);
    fs::remove_dir(&home)?;
    let taken = outcome?;
    let left_out = wanted.len() - taken.len();
    let pace = begun.elapsed().as_secs_f64() / f64::from(u32::try_from(taken.len().max(1))?);
    keep(&mut all, taken);
    println!("{:.0} s, {pace:.2} s a point", begun.elapsed().as_secs_f64());
    if left_out > 0 {
        println!("{left_out} points of seed {} are still to be taken", options.seed);
    }
    println!("\n{}", found::table(&all));
    let well = all.values().filter(|found| found.is_well()).count();
    Ok(Outcome { well, not_well: all.len() - well, left_out })
}

/// A folder for the sandboxes of this process. Those of processes that are gone are removed: what
/// was in them was seen in the sandboxes alone.
fn home() -> Result<PathBuf> {
    let parent = std::env::temp_dir();
    for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix("faults-")?.parse::<u32>().ok());
        if of.is_some_and(|of| !Path::new(&format!("/proc/{of}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    let home = parent.join(format!("faults-{}", std::process::id()));
    fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    Ok(home)
}

/// Adds points that are still drawn as what was taken; a later one takes the place of an earlier.
fn keep(all: &mut BTreeMap<(u64, u32), Found>, taken: Vec<Taken>) {
    let same = |one: &Taken| Point::drawn(one.seed, one.number).to_string() == one.point;
    let kept = taken.into_iter().filter(same);
    all.extend(kept.map(|one| ((one.seed, one.number), one.found)));
}

/// The points, several at once; those that took too long once more, with nothing beside.
fn taken(options: &Options, home: &Path, wanted: &[u32], begun: Instant) -> Result<Vec<Taken>> {
    let mut taken = at_once(options, home, wanted, begun)?;
    let again = |found: &Found| found.is_slow() || options.lenient && !found.is_well();
    let slow: Vec<u32> =
        taken.iter().filter(|one| again(&one.found)).map(|one| one.number).collect();
    if !slow.is_empty() {
        println!("taken once more, one by one: {slow:?}");
        let again = Options { within: None, at_once: 1, ..options.clone() };
        taken.retain(|one| !slow.contains(&one.number));
        taken.extend(at_once(&again, home, &slow, begun)?);
    }
    Ok(taken)
}

/// The points, so many at once, each reported and kept as it ends.
fn at_once(options: &Options, home: &Path, wanted: &[u32], begun: Instant) -> Result<Vec<Taken>> {
    let (next, taken) = (AtomicU32::new(0), Mutex::new(Vec::new()));
    let place = Place {
        program: options.program.clone(),
        home: home.to_owned(),
        seed: options.seed,
        tells: options.only.is_some(),
    };
    let work = || -> Result<()> {
        while options.within.is_none_or(|within| begun.elapsed() < within) {
            let at = next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(&number) = wanted.get(at) else { break };
            let from = Instant::now();
            let found = sandbox::point(&place, number)?;
            let took = u64::try_from(from.elapsed().as_millis())?;
            let point = Point::drawn(options.seed, number).to_string();
            let one = Taken { seed: options.seed, number, point, took, found };
            let mut taken = taken.lock().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
            tell(&one);
            if let Some(results) = &options.results {
                append(results, &one)?;
            }
            taken.push(one);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..options.at_once.max(1)).map(|_| scope.spawn(work)).collect();
        handles.into_iter().try_for_each(|handle| match handle.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("a worker panicked"),
        })
    })?;
    taken.into_inner().map_err(|_| anyhow::anyhow!("a worker panicked"))
}

fn tell(one: &Taken) {
    for (column, what) in one.found.told() {
        println!("{}:{} {}: {column}: {what}", one.seed, one.number, one.point);
    }
}

fn read(results: &Path) -> Result<Vec<Taken>> {
    let text = match fs::read_to_string(results) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| results.display().to_string()),
    };
    // A line that was cut off is a point that is taken again.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Adds a line; where the last one was cut off, its rest is ended first.
fn append(results: &Path, one: &Taken) -> Result<()> {
    let reported = || results.display().to_string();
    let torn = fs::read(results).is_ok_and(|bytes| bytes.last().is_some_and(|it| *it != b'\n'));
    let file = OpenOptions::new().append(true).create(true).open(results);
    let line = if torn { "\n" } else { "" }.to_owned() + &serde_json::to_string(one)? + "\n";
    file.with_context(reported)?.write_all(line.as_bytes()).with_context(reported)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(number: u32, point: String, slow: &[&str]) -> Taken {
        let slow = slow.iter().map(|text| (*text).to_owned()).collect();
        Taken { seed: 1, number, point, took: 5, found: Found { slow, ..Found::default() } }
    }

    #[test]
    fn results_that_were_cut_off_are_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results");
        assert!(read(&file).unwrap().is_empty());
        let drawn = |number| Point::drawn(1, number).to_string();
        let points = [one(0, drawn(0), &["x"]), one(1, drawn(1), &[])];
        append(&file, &points[0]).unwrap();
        append(&file, &points[1]).unwrap();
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() - 3]).unwrap();
        assert_eq!(read(&file).unwrap(), points[..1]);
        append(&file, &points[1]).unwrap();
        assert_eq!(read(&file).unwrap(), points);
        // Taken again, alone; and one that was something else when it was taken.
        append(&file, &one(0, drawn(0), &[])).unwrap();
        append(&file, &one(2, "another".into(), &["y"])).unwrap();
        let mut all = BTreeMap::new();
        keep(&mut all, read(&file).unwrap());
        assert_eq!(all.keys().collect::<Vec<_>>(), [&(1, 0), &(1, 1)]);
        assert!(all.values().all(Found::is_well));
    }

    #[test]
    fn flags_are_read() {
        let options = parse(&["--only", "7:22", "--within", "3m", "--points", "9"]).unwrap();
        assert_eq!((options.seed, options.only, options.points), (7, Some(22), 9));
        assert_eq!(options.within, Some(Duration::from_secs(180)));
        assert_eq!(parse(&["--seed", "5", "--only", "3"]).unwrap().seed, 5);
        assert_eq!(length("170").unwrap(), length("170s").unwrap());
        for flags in [&["--only", "x"][..], &["--within", "m"], &["--points"], &["--x", "1"]] {
            assert!(parse(flags).is_err(), "{flags:?}");
        }
    }
}
