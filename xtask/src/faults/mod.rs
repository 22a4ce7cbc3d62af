//! Kills Kneepoint, its guardian and its systems at random moments and at chosen system calls, lets
//! system calls fail, starves it, measures programs that misbehave and opens directories that were
//! damaged; and asks each time what is left on the machine, and what was said.

mod damage;
mod machine;
mod points;
mod programs;
mod sandbox;
mod strike;

use anyhow::{Context, Result, bail};
use points::{KINDS, Point};
use sandbox::Place;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Points at once for each core: most of a point is waiting.
const AT_ONCE: usize = 4;
/// Points where nothing else is said.
const POINTS: u32 = 320;

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
}

/// What was found wrong at a point.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Left on the machine before `recover`.
    before: Vec<String>,
    /// Left on the machine after it.
    after: Vec<String>,
    /// Panics, torn slices, invented numbers, slow stops and codes that there are not.
    wrong: Vec<String>,
}

/// A line of the results.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Taken {
    seed: u64,
    number: u32,
    found: Found,
}

/// Takes `--points` points (320) drawn from `--seed` (1) on `--program`, by default the debug
/// build.
///
/// # Errors
/// Something stays behind after `recover`, or anything goes wrong.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    if let [sandbox::INSIDE, words @ ..] = flags {
        return sandbox::inside(words);
    }
    let options = parse(flags)?;
    if let Some(lacking) = sandbox::lacking() {
        bail!("faults strike in namespaces of their own: {lacking}");
    }
    take(&options)
}

impl Default for Options {
    fn default() -> Self {
        let program = crate::root().join("target/debug/kneepoint");
        Self { points: POINTS, seed: 1, program, within: None, results: None, only: None }
    }
}

fn parse(flags: &[&str]) -> Result<Options> {
    let mut options = Options::default();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let value = flags.next().with_context(|| format!("{flag} wants a value"))?;
        let number = || value.parse().with_context(|| format!("{flag} is a number"));
        match *flag {
            "--points" => options.points = value.parse().context("--points is a number")?,
            "--seed" => options.seed = number()?,
            "--program" => options.program = std::path::absolute(value)?,
            "--within" => options.within = Some(Duration::from_secs(number()?)),
            "--only" => options.only = Some(value.parse().context("--only is a number")?),
            "--results" => options.results = Some(value.into()),
            other => bail!(
                "unknown flag {other}: faults takes --points, --seed, --only NUMBER, --program, \
                 --within SECONDS and --results FILE"
            ),
        }
    }
    Ok(options)
}

fn take(options: &Options) -> Result<()> {
    if !options.program.is_file() {
        bail!("no {}: run `cargo build` first", options.program.display());
    }
    let earlier = options.results.as_deref().map_or(Ok(Vec::new()), read)?;
    let mut all: BTreeMap<(u64, u32), Found> =
        earlier.into_iter().map(|taken| ((taken.seed, taken.number), taken.found)).collect();
    let numbers = options.only.map_or(0..options.points, |number| number..number + 1);
    let wanted: Vec<u32> =
        numbers.filter(|number| !all.contains_key(&(options.seed, *number))).collect();
    let home = std::env::temp_dir().join(format!("faults-{}", std::process::id()));
    fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let begun = Instant::now();
    let taken = at_once(options, &home, &wanted, begun);
    fs::remove_dir(&home)?;
    let taken = taken?;
    let left_out = wanted.len() - taken.len();
    let pace = begun.elapsed().as_secs_f64() / f64::from(u32::try_from(taken.len().max(1))?);
    all.extend(taken.into_iter().map(|taken| ((taken.seed, taken.number), taken.found)));
    println!("{:.0} s, {pace:.2} s a point", begun.elapsed().as_secs_f64());
    if left_out > 0 {
        println!("{left_out} points of seed {} are still to be taken", options.seed);
    }
    conclude(&all)
}

/// The points, several at once, each reported and kept as it ends.
fn at_once(options: &Options, home: &Path, wanted: &[u32], begun: Instant) -> Result<Vec<Taken>> {
    let workers = AT_ONCE * std::thread::available_parallelism().map_or(1, usize::from);
    let (next, taken) = (AtomicU32::new(0), Mutex::new(Vec::new()));
    let place =
        Place { program: options.program.clone(), home: home.to_owned(), seed: options.seed };
    let work = || -> Result<()> {
        while options.within.is_none_or(|within| begun.elapsed() < within) {
            let at = next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(&number) = wanted.get(at) else { break };
            let found = sandbox::point(&place, number)?;
            let one = Taken { seed: options.seed, number, found };
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
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles.into_iter().try_for_each(|handle| match handle.join() {
            Ok(outcome) => outcome,
            Err(_) => bail!("a worker panicked"),
        })
    })?;
    taken.into_inner().map_err(|_| anyhow::anyhow!("a worker panicked"))
}

fn tell(one: &Taken) {
    let point = Point::drawn(one.seed, one.number);
    let lists = [
        ("left", &one.found.before),
        ("left after recover", &one.found.after),
        ("wrong", &one.found.wrong),
    ];
    for (when, list) in lists {
        for what in list {
            println!("{}:{} {point}: {when}: {what}", one.seed, one.number);
        }
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

fn append(results: &Path, one: &Taken) -> Result<()> {
    let reported = || results.display().to_string();
    let file = OpenOptions::new().append(true).create(true).open(results);
    let line = serde_json::to_string(one)? + "\n";
    file.with_context(reported)?.write_all(line.as_bytes()).with_context(reported)
}

fn conclude(all: &BTreeMap<(u64, u32), Found>) -> Result<()> {
    println!("\n{:<32} points  left  after recover  wrong", "fault");
    let mut sum = [0; 4];
    for (_, name) in KINDS {
        let of_it = all.iter().filter(|((seed, n), _)| Point::drawn(*seed, *n).name() == name);
        let mut row = [0; 4];
        for (_, found) in of_it {
            let lists = [true, !found.before.is_empty(), !found.after.is_empty()];
            let counts = lists.into_iter().chain([!found.wrong.is_empty()]);
            row.iter_mut().zip(counts).for_each(|(count, is)| *count += usize::from(is));
        }
        line(name, row);
        sum.iter_mut().zip(row).for_each(|(total, count)| *total += count);
    }
    line("all", sum);
    if sum[2] + sum[3] > 0 {
        bail!("{} points left something for good, {} went wrong", sum[2], sum[3]);
    }
    Ok(())
}

fn line(name: &str, row: [usize; 4]) {
    println!("{name:<32} {:6} {:5} {:14} {:6}", row[0], row[1], row[2], row[3]);
}
