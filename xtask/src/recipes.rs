//! Runs every recipe as a user would, and asks whether each gives a knee with an interval, counts
//! that agree, and a machine as it was before.

use crate::leftovers::Machine;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Generator and server may disagree by at most this.
const WIDEST_DISAGREEMENT: f64 = 0.01;

const FLAGS: &str = "--budget, --protocol, --out, --program";

struct Options {
    names: Vec<String>,
    budget: Option<String>,
    protocol: Option<String>,
    out: PathBuf,
    program: PathBuf,
}

/// Runs `--program`, by default the release build, on each recipe named, by default on all of
/// them; prints a line for each.
///
/// # Errors
/// Where the program is missing, or a recipe departs from what every recipe has to give.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let mut options = parse(flags)?;
    let program = &options.program;
    if !program.is_file() {
        bail!("no {}: run `cargo build --release` first", program.display());
    }
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    if options.names.is_empty() {
        options.names = all_recipes(program)?;
    }
    let (mut departed, mut untrustworthy) = (0, 0);
    for name in &options.names {
        let (objections, trustworthy) = one(&options, name)?;
        for objection in &objections {
            println!("     departs: {objection}");
        }
        departed += u32::from(!objections.is_empty());
        untrustworthy += u32::from(!trustworthy);
    }
    println!(
        "{} recipes, {departed} depart, {untrustworthy} call themselves not trustworthy; {}",
        options.names.len(),
        options.out.display()
    );
    if departed == 0 { Ok(()) } else { bail!("{departed} recipes depart") }
}

fn parse(flags: &[&str]) -> Result<Options> {
    let pid = std::process::id();
    let mut options = Options {
        names: Vec::new(),
        budget: None,
        protocol: None,
        out: std::env::temp_dir().join(format!("kneepoint-recipes-{pid}")),
        program: crate::built("release/kneepoint"),
    };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let mut value = || flags.next().with_context(|| format!("{flag} wants a value"));
        match *flag {
            "--budget" => options.budget = Some((*value()?).to_owned()),
            "--protocol" => options.protocol = Some((*value()?).to_owned()),
            "--out" => options.out = PathBuf::from(value()?),
            "--program" => options.program = std::path::absolute(value()?)?,
            name if !name.starts_with('-') => options.names.push(name.to_owned()),
            other => bail!("unknown flag {other}: recipes takes {FLAGS}, NAMES"),
        }
    }
    Ok(options)
}

fn all_recipes(program: &Path) -> Result<Vec<String>> {
    let output = Command::new(program).args(["list", "--json"]).output()?;
    let list: Value = serde_json::from_slice(&output.stdout).context("kneepoint list --json")?;
    let recipes = list["recipes"].as_array().context("the list holds no recipes")?;
    Ok(recipes.iter().filter_map(|recipe| Some(recipe["name"].as_str()?.to_owned())).collect())
}

/// One recipe: prints what it found, and returns what is wrong with that and whether the run trusts
/// itself. That it does not is no departure: on a noisy machine it ought not to.
fn one(options: &Options, name: &str) -> Result<(Vec<String>, bool)> {
    let before = Machine::now();
    let begin = Instant::now();
    let mut command = Command::new(&options.program);
    command.args(["run", name, "--json", "--out"]).arg(options.out.join(name));
    if let Some(budget) = &options.budget {
        command.args(["--budget", budget]);
    }
    if let Some(protocol) = &options.protocol {
        command.args(["--protocol", protocol]);
    }
    let child = command
        .current_dir(&options.out)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| options.program.display().to_string())?;
    let mark = scratch_of(child.id())?;
    let output = child.wait_with_output()?;
    let elapsed = begin.elapsed().as_secs_f64();
    let left = before.left(&mark);
    std::fs::write(options.out.join(format!("{name}.json")), &output.stdout)?;
    let mut objections: Vec<String> = left.into_iter().map(|it| format!("left {it}")).collect();
    let Ok(findings) = serde_json::from_slice::<Value>(&output.stdout) else {
        println!("{name:<24} {elapsed:5.0} s  {}", output.status);
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        objections.push(said.lines().last().unwrap_or("it said nothing").to_owned());
        return Ok((objections, false));
    };
    println!("{name:<24} {elapsed:5.0} s  {}", line(&findings));
    objections.extend(wrong_with(&findings));
    Ok((objections, findings["trustworthy"] == true))
}

/// How the scratch directory of a process begins: all that a run starts has files in it.
fn scratch_of(process: u32) -> Result<String> {
    let namespace = std::fs::metadata("/proc/self/ns/pid")?.ino();
    Ok(format!("kneepoint-{namespace}-{process}-"))
}

fn line(findings: &Value) -> String {
    let knee = &findings["curve"]["knee"];
    let clients = |level: &Value| level["clients"].as_u64().unwrap_or(0);
    let precision = findings["protocol"]["precision"].as_f64();
    let precision = precision.map_or("?".to_owned(), |half| format!("{:.1} %", 100.0 * half));
    let counts = match findings["counts"]["worst"].as_f64() {
        Some(worst) => format!("  counts within {:.3} %", 100.0 * worst),
        None => String::new(),
    };
    let cause = &findings["causes"][0];
    let cause = match (cause["name"].as_str(), cause["share"]["value"].as_f64()) {
        (Some(name), Some(share)) => format!("  first: {name} {:.0} %", 100.0 * share),
        _ => String::new(),
    };
    let trust = if findings["trustworthy"] == true { "" } else { "  not trustworthy" };
    format!(
        "knee {} [{}-{}]{}  peak +-{precision}{counts}{cause}{trust}",
        clients(&knee["level"]),
        clients(&knee["low"]),
        clients(&knee["high"]),
        if knee["beyond_last"] == true { " or beyond" } else { "" },
    )
}

/// What every recipe has to give and this one does not.
fn wrong_with(findings: &Value) -> Vec<String> {
    let has_knee = findings["curve"]["knee"]["low"]["clients"].as_u64().is_some_and(|low| low > 0);
    let has_interval = findings["protocol"]["precision"].is_number();
    let failed = findings["protocol"]["failed"].as_u64().unwrap_or(0);
    let worst = findings["counts"]["worst"].as_f64().unwrap_or(0.0);
    let checks = [
        (has_knee && has_interval, "no knee with an interval".to_owned()),
        (failed == 0, format!("{failed} slices failed")),
        (worst <= WIDEST_DISAGREEMENT, format!("counts differ by {:.2} %", 100.0 * worst)),
    ];
    checks.into_iter().filter(|(holds, _)| !holds).map(|(_, objection)| objection).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_departure_is_named() {
        let level = json!({ "clients": 2, "cores": 2 });
        let good = json!({
            "curve": { "knee": { "level": level, "low": level, "high": level } },
            "protocol": { "precision": 0.03, "failed": 0 },
            "counts": { "worst": 0.001 },
        });
        assert_eq!(wrong_with(&good), Vec::<String>::new());
        assert!(line(&good).starts_with("knee 2 [2-2]  peak +-3.0 %  counts within 0.100 %"));
        for (pointer, wrong) in [
            ("/curve/knee/low/clients", json!(0)),
            ("/protocol/precision", json!(null)),
            ("/protocol/failed", json!(1)),
            ("/counts/worst", json!(0.02)),
        ] {
            let mut findings = good.clone();
            *findings.pointer_mut(pointer).expect("the pointer leads somewhere") = wrong;
            assert_eq!(wrong_with(&findings).len(), 1, "{pointer}");
        }
    }

    #[test]
    fn names_and_flags_are_distinguished() {
        let flags = ["mariadb-oltp-ro", "--budget", "40s", "--protocol", "published"];
        let options = parse(&flags).unwrap();
        assert_eq!(options.protocol.as_deref(), Some("published"));
        assert_eq!(options.names, ["mariadb-oltp-ro"]);
        assert_eq!(options.budget.as_deref(), Some("40s"));
        assert!(parse(&["--fast"]).is_err());
        assert!(parse(&["--budget"]).is_err());
    }
}
