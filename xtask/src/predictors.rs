//! `cargo xtask predictors`: how far forecasts from throughput alone are off, on public series.

mod own;

use crate::root;
use anyhow::{Context, Result, bail};
use kneepoint_model::predict::train::{
    Half, Scored, Series, leave_out, score, score_members, train,
};
use kneepoint_model::predict::{Curve, Member, Shape, Weights};
use kneepoint_vocab::PerSecond;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Where the series are, beside the repository.
const SERIES: &str = "../shared/data/series";
const WEIGHTS: &str = "crates/model/src/predict/weights.toml";
const TABLE: &str = "docs/prediction.md";
/// What stands above the figures in the table's file.
const BEGIN: &str = "<!-- figures by cargo xtask predictors -->";

pub(crate) fn run(flags: &[&str]) -> Result<()> {
    match flags {
        ["--runs", directories @ ..] => return own::run(directories),
        ["--cores", directories @ ..] => return own::on_more_cores(directories),
        _ => {}
    }
    let (fit, rest) = match flags {
        ["--fit", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let folder = match rest {
        [] => root().join(SERIES),
        ["--series", folder] => folder.into(),
        _ => bail!("predictors [--fit] [--series DIR], --runs DIR..., or --cores FEWER MORE..."),
    };
    if !folder.is_dir() {
        println!("SKIP predictors: {} is absent", folder.display());
        return Ok(());
    }
    let series = read(&folder)?;
    let halves: Vec<Half> = series.iter().filter_map(Half::of).collect();
    if halves.is_empty() {
        bail!("{}: no series has three points in its lower half", folder.display());
    }
    if fit {
        write_weights(&halves)?;
    }
    let text = figures(&halves);
    print!("{text}");
    if fit {
        write_table(&text)?;
    }
    Ok(())
}

/// Series of all tables: columns `series,x,y`, more are ignored.
fn read(folder: &Path) -> Result<Vec<Series>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "csv"));
    files.sort();
    let mut all = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let set = path.file_stem().map_or_else(String::new, |it| it.to_string_lossy().into());
        let mut curves: BTreeMap<String, Vec<(u32, PerSecond)>> = BTreeMap::new();
        for (number, line) in text.lines().enumerate().skip(1) {
            let wrong = || format!("{}:{}: expected series,x,y", path.display(), number + 1);
            let mut fields = line.split(',');
            let mut next = || fields.next().with_context(wrong);
            let (name, x, y) = (next()?, next()?, next()?);
            let x: f64 = x.parse().with_context(wrong)?;
            let clients: u32 = format!("{x:.0}").parse().with_context(wrong)?;
            let point = (clients, PerSecond(y.parse().with_context(wrong)?));
            curves.entry(name.to_owned()).or_default().push(point);
        }
        all.extend(curves.into_iter().map(|(name, points)| Series {
            group: group(&set, &name),
            curve: Curve { cores: cores(&name), points },
            set: set.clone(),
        }));
    }
    Ok(all)
}

/// Cores that a series' name tells: `c5|16vcpu|...`.
fn cores(name: &str) -> u32 {
    let reported = name.split('|').find_map(|part| part.strip_suffix("vcpu")?.parse().ok());
    reported.unwrap_or(u32::MAX)
}

/// Series of one application, or one machine, are alike.
fn group(set: &str, name: &str) -> String {
    format!("{set} {}", name.split('|').next().unwrap_or(name))
}

fn figures(halves: &[Half]) -> String {
    let by_group = leave_out(halves, |half| half.group.clone());
    let by_set = leave_out(halves, |half| half.set.clone());
    let group = |half: &Half| &by_group[&half.group];
    let set = |half: &Half| &by_set[&half.set];
    let mut text = String::new();
    let mut sets: Vec<String> = by_set.keys().cloned().collect();
    sets.push("all".to_owned());
    head(&mut text, "set");
    for name in &sets {
        let own: Vec<&Half> =
            halves.iter().filter(|half| name == "all" || half.set == *name).collect();
        row(&mut text, name, &own, &group, &set);
    }
    text.push('\n');
    head(&mut text, "shape");
    for shape in Shape::ALL {
        let own: Vec<&Half> = halves.iter().filter(|half| half.shape == shape).collect();
        if !own.is_empty() {
            row(&mut text, shape.words(), &own, &group, &set);
        }
    }
    text
}

fn head(text: &mut String, first: &str) {
    let _ = write!(text, "| {first} | series |");
    for member in Member::ALL {
        let _ = write!(text, " {} |", member.words());
    }
    text.push_str(" ensemble | covered | set left out | covered |\n|---|---|");
    text.push_str(&"---|".repeat(Member::ALL.len() + 4));
    text.push('\n');
}

fn row<'w>(
    text: &mut String,
    name: &str,
    own: &[&Half],
    group: &impl Fn(&Half) -> &'w Weights,
    set: &impl Fn(&Half) -> &'w Weights,
) {
    let shown = |it: &Scored| format!("{:.1} / {:.0} %", 100.0 * it.median, 100.0 * it.tenth);
    let covered =
        |it: &Scored| it.coverage.map_or_else(String::new, |part| format!("{:.0} %", 100.0 * part));
    let _ = write!(text, "| {name} | {} |", own.len());
    for member in Member::ALL {
        let _ = write!(text, " {} |", shown(&score_members(own, &[member])));
    }
    for scored in [score(own, group), score(own, set)] {
        let _ = write!(text, " {} | {} |", shown(&scored), covered(&scored));
    }
    text.push('\n');
}

fn write_weights(halves: &[Half]) -> Result<()> {
    let weights = train(&halves.iter().collect::<Vec<_>>());
    let text = format!(
        "# Made by `cargo xtask predictors --fit` from public series, by the rules of train.rs:\n\
         # which extrapolations are averaged for which shape of curve, and the 90 % interval of\n\
         # ln X in units of 0.1 + ln(n / last n). docs/prediction.md has the errors.\n\n{}",
        toml::to_string(&weights)?
    );
    fs::write(root().join(WEIGHTS), text)?;
    Ok(())
}

fn write_table(figures: &str) -> Result<()> {
    let path = root().join(TABLE);
    let text = fs::read_to_string(&path)?;
    let Some((before, _)) = text.split_once(BEGIN) else {
        bail!("{TABLE}: the line {BEGIN} is missing; figures go below it");
    };
    fs::write(&path, format!("{before}{BEGIN}\n\n{figures}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_series_tell_cores_and_groups() {
        assert_eq!(cores("c5|16vcpu|mysql-oltp-read-only"), 16);
        assert_eq!(cores("barnes|ahmcs"), u32::MAX);
        assert_eq!(group("litl", "barnes|ahmcs"), group("litl", "barnes|mcs"));
    }

    #[test]
    fn every_predictor_is_scored_per_set_and_shape() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut table = "series,x,y\n".to_owned();
        for series in 1..=12 {
            for clients in [1, 2, 4, 6, 8] {
                let x = f64::from(clients);
                let y = 10.0 * x / (1.0 + 0.02 * f64::from(series) * (x - 1.0));
                let _ = writeln!(table, "app{series}|lock,{clients},{y}");
            }
        }
        fs::write(folder.path().join("made.csv"), &table).expect("written");
        let series = read(folder.path()).expect("read");
        assert_eq!(series.len(), 12);
        let halves: Vec<Half> = series.iter().filter_map(Half::of).collect();
        let text = figures(&halves);
        assert!(text.contains("| made | 12 |") && text.contains("| rising |"), "{text}");
        fs::write(folder.path().join("bad.csv"), "series,x,y\na,one,2\n").expect("written");
        let wrong = read(folder.path()).expect_err("a number is expected").to_string();
        assert!(wrong.ends_with("bad.csv:2: expected series,x,y"), "{wrong}");
    }
}
