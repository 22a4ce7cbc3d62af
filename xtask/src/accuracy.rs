//! How often is the diagnosis right? Scored on specimens with known bottlenecks.
//!
//! `specimens/` holds small programs with planted causes, each with a treated twin and a file that
//! says what has to be found. Each is built in several forms under names that mean nothing, and run
//! with sizes drawn from a seed as a newcomer would run it; then it measures itself what it lost.

mod build;
mod check;
mod kept;
mod live;
mod names;
mod others;
#[cfg(test)]
mod recorded;
mod rules;
mod run;
mod score;
mod specimen;
mod tables;
mod tools;
mod truth;

use anyhow::{Context, Result, bail, ensure};
use build::Form;
pub(crate) use live::{Missed, live};
use score::{Outcome, Scored};
use specimen::Specimen;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

const FLAGS: &str = "--runs N, --seed S, --budget TIME, --forms LIST, --out DIR, --program FILE, \
                     --again DIR, --scores FILE, --since COMMIT, \
                     --gain TIME, --tools, --write, --check, NAMES; or --live alone";
/// The variant that is the treated twin.
const TREATED: &str = "treated";
/// Where the tables go with `--write`, and what stands above them.
const PAGE: &str = "docs/accuracy.md";
const BEGIN: &str = "<!-- figures by cargo xtask accuracy -->";
/// Clients and seconds of `--check`.
const CHECKED_CLIENTS: [u64; 2] = [1, 4];
const CHECKED_SECONDS: f64 = 0.3;

struct Options {
    names: Vec<String>,
    runs: u64,
    seed: u64,
    budget: String,
    forms: Vec<Form>,
    out: PathBuf,
    program: PathBuf,
    /// Runs that were kept, to be judged again.
    again: Option<PathBuf>,
    /// Where scores of many calls add up.
    scores: Option<PathBuf>,
    /// The commit from which on tables are of all that add up; else of the last one.
    since: Option<String>,
    write: bool,
    check: bool,
    /// Of a run of its own at the level of the story, by which the twin's gain is told.
    gain: Option<String>,
    /// Whether other tools watch each specimen too.
    tools: bool,
}

/// Scores the release build on every specimen, or on those named, and prints the tables; with
/// `--check` only builds and runs the specimens.
///
/// # Errors
/// A specimen cannot be built, or does nothing.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    if flags == ["--live"] {
        let missed = live()?;
        ensure!(missed.is_empty(), "not diagnosed: {}", texts(&missed));
        return Ok(());
    }
    let options = parse(flags)?;
    if let Some(since) = &options.since {
        // Before hours of runs, and before their scores are added.
        let scores = options.scores.as_ref().context("--since wants --scores")?;
        kept::newest(&kept::read(scores)?, Some(since))?;
    }
    let mut specimens = Specimen::all(&crate::root().join("specimens"))?;
    let known = |name: &String| specimens.iter().any(|specimen| specimen.name == *name);
    if let Some(other) = options.names.iter().find(|name| !known(name)) {
        bail!("no specimen {other} in specimens/");
    }
    if !options.names.is_empty() {
        specimens.retain(|specimen| options.names.contains(&specimen.name));
    }
    fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    if options.check {
        return check_all(&options, &specimens);
    }
    ensure!(
        options.program.is_file(),
        "no {}: run `cargo build --release` first",
        options.program.display()
    );
    let scored = match &options.again {
        Some(kept) => run::again(&options, &specimens, kept)?,
        None => take_all(&options, &specimens)?,
    };
    report(&options, &specimens, &scored)
}

/// All of them, in a line.
pub(crate) fn texts(missed: &[Missed]) -> String {
    missed.iter().map(Missed::to_string).collect::<Vec<_>>().join(" | ")
}

fn check_all(options: &Options, specimens: &[Specimen]) -> Result<()> {
    let trial = check::Trial {
        forms: &options.forms,
        clients: &CHECKED_CLIENTS,
        seconds: CHECKED_SECONDS,
        folder: &options.out,
    };
    let complaints = check::complaints(specimens, &trial);
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!("{} specimens, {} complaints", specimens.len(), complaints.len());
    ensure!(complaints.is_empty(), "not every specimen compiles and runs");
    Ok(())
}

/// Every run of every specimen, with a line for each as it ends.
fn take_all(options: &Options, specimens: &[Specimen]) -> Result<Vec<Scored>> {
    let mut scored = Vec::new();
    let mut number = 0;
    for _ in 0..options.runs {
        for specimen in specimens {
            for form in &options.forms {
                number += 1;
                let one = run::take(options, specimen, *form, number);
                println!("{}", line(&one));
                scored.push(one);
            }
        }
    }
    Ok(scored)
}

/// Prints the tables, and keeps scores and, with `--write`, tables.
fn report(options: &Options, specimens: &[Specimen], scored: &[Scored]) -> Result<()> {
    let mut results = fs::File::create(options.out.join("results.jsonl"))?;
    for one in scored {
        writeln!(results, "{}", serde_json::to_string(one)?)?;
    }
    let (count, tables) = match &options.scores {
        Some(path) => {
            let all = kept::add(path, options.seed, scored)?;
            let newest = kept::newest(&all, options.since.as_deref())?;
            (newest.len(), tables::of_versions(&all, &newest))
        }
        None => (scored.len(), tables::all(scored)),
    };
    let runs = options.again.as_ref().unwrap_or(&options.out);
    let text = format!("{tables}\n{}", rules::table(runs, specimens)?);
    println!("\n{text}\n{}", options.out.display());
    if options.write { write(count, &text) } else { Ok(()) }
}

fn parse(flags: &[&str]) -> Result<Options> {
    let pid = std::process::id();
    let mut options = Options {
        names: Vec::new(),
        runs: 1,
        seed: 1,
        budget: "25s".to_owned(),
        forms: Form::ALL.to_vec(),
        out: std::env::temp_dir().join(format!("accuracy-of-kneepoint-{pid}")),
        program: crate::built("release/kneepoint"),
        again: None,
        scores: None,
        since: None,
        write: false,
        check: false,
        gain: None,
        tools: false,
    };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let mut value = || flags.next().with_context(|| format!("{flag} wants a value"));
        match *flag {
            "--runs" => options.runs = value()?.parse().context("--runs wants a number")?,
            "--seed" => options.seed = value()?.parse().context("--seed wants a number")?,
            "--budget" => (*value()?).clone_into(&mut options.budget),
            "--forms" => {
                options.forms = value()?.split(',').map(Form::parse).collect::<Result<_>>()?;
            }
            "--out" => options.out = std::path::absolute(value()?)?,
            "--program" => options.program = std::path::absolute(value()?)?,
            "--again" => options.again = Some(std::path::absolute(value()?)?),
            "--scores" => options.scores = Some(std::path::absolute(value()?)?),
            "--since" => options.since = Some((*value()?).to_owned()),
            "--write" => options.write = true,
            "--check" => options.check = true,
            "--gain" => options.gain = Some((*value()?).to_owned()),
            "--tools" => options.tools = true,
            name if !name.starts_with('-') => options.names.push(name.to_owned()),
            other => bail!("unknown flag {other}: accuracy takes {FLAGS}"),
        }
    }
    Ok(options)
}

/// The option that makes a specimen its twin, and the one that lets it measure itself.
fn twin() -> String {
    format!("--{TREATED}")
}

fn truth_flag() -> String {
    "--truth".to_owned()
}

fn line(one: &Scored) -> String {
    let first = one.first.as_deref().unwrap_or("no cause");
    let (word, said) = match &one.outcome {
        Outcome::Planted(marks) if marks.top_1 => ("right", first.to_owned()),
        Outcome::Planted(marks) => {
            let of = |right: bool, what: &str| (!right).then(|| format!("{what} "));
            let wrong = [of(marks.kind, "kind"), of(marks.place, "place")];
            let wrong: String = wrong.into_iter().flatten().collect();
            ("WRONG", format!("{wrong}({first})"))
        }
        Outcome::Null { alarm: false } => ("right", "no cause above 20 %".to_owned()),
        Outcome::Null { alarm: true } => ("ALARM", first.to_owned()),
        Outcome::Void => ("void", "its cause costs nothing here".to_owned()),
        Outcome::Failed { why } => ("FAILED", why.clone()),
    };
    let Scored { specimen, form, seconds, .. } = one;
    format!("{specimen:<16} {form:<9} {word:<7} {seconds:3.0} s  {said}")
}

/// Puts the tables below their mark on the page.
fn write(runs: usize, tables: &str) -> Result<()> {
    let path = crate::root().join(PAGE);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let Some((before, _)) = text.split_once(BEGIN) else {
        bail!("{PAGE}: the line {BEGIN} is missing; figures go below it");
    };
    fs::write(&path, format!("{before}{BEGIN}\n\n{runs} runs.\n\n{tables}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use score::Marks;
    use std::collections::BTreeMap;

    #[test]
    fn flags_are_read() {
        let flags = ["--runs", "3", "--forms", "lto,debug", "mutex_half", "--seed", "9"];
        let options = parse(&flags).unwrap();
        assert_eq!((options.runs, options.seed), (3, 9));
        assert_eq!(options.forms, [Form::Lto, Form::Debug]);
        assert_eq!(options.names, ["mutex_half"]);
        assert!(!options.check && !options.write);
        for wrong in [&["--forms", "fast"][..], &["--fast"], &["--runs"], &["--runs", "x"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_line_says_what_is_wrong() {
        let mut one = Scored {
            specimen: "herd".to_owned(),
            family: "user locks".to_owned(),
            form: "lto".to_owned(),
            planted: Some("herd".to_owned()),
            first: Some("kernel".to_owned()),
            outcome: Outcome::Planted(Marks { place: true, ..Marks::default() }),
            seconds: 24.6,
            tools: BTreeMap::new(),
        };
        assert!(line(&one).ends_with("WRONG    25 s  kind (kernel)"), "{}", line(&one));
        one.outcome = Outcome::Failed { why: "it died".to_owned() };
        assert!(line(&one).ends_with("it died"));
    }

    #[test]
    fn the_page_has_a_place_for_figures() {
        let page = fs::read_to_string(crate::root().join(PAGE)).unwrap();
        assert_eq!(page.matches(BEGIN).count(), 1);
    }
}
