//! Live A/A comparisons: how many claim a difference between two starts of one system?

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Effect blocks of a comparison, each on a start of its own.
const BLOCKS: i64 = 6;
/// Most comparisons in a hundred that may claim a difference.
const MOST: f64 = 0.05;

struct Options {
    recipes: Vec<String>,
    comparisons: u32,
    out: PathBuf,
    program: PathBuf,
}

/// Runs each recipe in turn, without its treatments and at its focus level only, until there are
/// `--comparisons` of the baseline with its own control; prints a line each.
///
/// # Errors
/// Where a run fails, or more than 5 % claim a difference.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let options = parse(flags)?;
    if !options.program.is_file() {
        bail!("no {}: run `cargo build --release` first", options.program.display());
    }
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    let mut claims = 0;
    for (number, name) in (1..=options.comparisons).zip(options.recipes.iter().cycle()) {
        let recipe = options.out.join(format!("{name}-aa.toml"));
        std::fs::write(&recipe, alone(name)?)?;
        let findings = one(&options, &recipe, number)?;
        let (verdict, line) = reported(&findings);
        let claimed = verdict == "better" || verdict == "worse";
        claims += u32::from(claimed);
        println!("{number:>3}  {name:<24} {line}");
    }
    let all = options.comparisons;
    println!("{claims} of {all} comparisons claim a difference; {}", options.out.display());
    if f64::from(claims) <= MOST * f64::from(all) { Ok(()) } else { bail!("more than 5 %") }
}

fn parse(flags: &[&str]) -> Result<Options> {
    let pid = std::process::id();
    let mut options = Options {
        recipes: ["sqlite-shared-cache", "mariadb-point-select"].map(str::to_owned).to_vec(),
        comparisons: 40,
        out: std::env::temp_dir().join(format!("kneepoint-aa-{pid}")),
        program: crate::built("release/kneepoint"),
    };
    for pair in flags.chunks(2) {
        match pair {
            ["--recipes", names] => {
                options.recipes = names.split(',').map(str::to_owned).collect();
            }
            ["--comparisons", count] => {
                options.comparisons = count.parse().context("--comparisons wants a number")?;
            }
            ["--out", folder] => options.out = std::path::absolute(folder)?,
            ["--program", file] => options.program = std::path::absolute(file)?,
            _ => bail!(
                "unknown flag {}: aa takes --recipes, --comparisons, --out, --program",
                pair.join(" ")
            ),
        }
    }
    Ok(options)
}

/// The recipe of this name with its focus level alone and nothing to compare but the control.
fn alone(name: &str) -> Result<String> {
    let path = crate::root().join(format!("recipes/{name}.toml"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    shortened(&text)
}

fn shortened(text: &str) -> Result<String> {
    let mut recipe = untreated(text)?;
    let sweep = table(&mut recipe, "sweep")?;
    let focus = sweep.get("focus").cloned().context("the recipe has no focus")?;
    sweep.insert("clients".to_owned(), toml::Value::Array(vec![focus]));
    let protocol = table(&mut recipe, "protocol")?;
    protocol.insert("sweep_blocks".to_owned(), toml::Value::Integer(1));
    protocol.insert("blocks_per_start".to_owned(), toml::Value::Integer(1));
    effect_blocks(protocol, BLOCKS);
    Ok(toml::to_string(&recipe)?)
}

/// A recipe without its treatments.
pub(crate) fn untreated(text: &str) -> Result<toml::Table> {
    let mut recipe: toml::Table = text.parse()?;
    for part in ["treatments", "variant"] {
        recipe.remove(part);
    }
    table(&mut recipe, "sweep")?.remove("treatments");
    table(&mut recipe, "protocol")?.remove("published");
    Ok(recipe)
}

/// A table of a recipe, made where it lacks.
pub(crate) fn table<'a>(recipe: &'a mut toml::Table, name: &str) -> Result<&'a mut toml::Table> {
    let entry = recipe.entry(name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    entry.as_table_mut().with_context(|| format!("{name} is no table"))
}

/// Just so many effect blocks.
pub(crate) fn effect_blocks(protocol: &mut toml::Table, blocks: i64) {
    let looks = vec![toml::Value::Integer(blocks); 2];
    protocol.insert("effect_blocks".to_owned(), toml::Value::Array(looks));
}

fn one(options: &Options, recipe: &Path, number: u32) -> Result<Value> {
    let output = Command::new(&options.program)
        .arg("run")
        .arg(recipe)
        // Nothing is said of the curve, whose precision is worth no further block.
        .args(["--precision", "50%", "--json", "--out"])
        .arg(options.out.join(number.to_string()))
        .current_dir(&options.out)
        .stdin(Stdio::null())
        .output()
        .with_context(|| options.program.display().to_string())?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("comparison {number}: {}: {}", output.status, said.trim())
    })
}

/// The control's verdict, and a line for people.
fn reported(findings: &Value) -> (String, String) {
    let effects = findings["effects"].as_array().map_or(&[][..], Vec::as_slice);
    let control = effects.iter().find(|effect| effect["role"] == "control");
    let Some(control) = control else { return ("absent".to_owned(), "no control".to_owned()) };
    let verdict = control["verdict"]["verdict"].as_str().unwrap_or("none").to_owned();
    let ratio = |end: &str| control["ratio"][end].as_f64().unwrap_or(f64::NAN);
    let line = format!(
        "{:.3} [{:.3}-{:.3}]  {} pairs  {verdict}",
        ratio("value"),
        ratio("low"),
        ratio("high"),
        control["pairs"]
    );
    (verdict, line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_recipe_can_be_shortened_to_its_control() {
        for name in ["sqlite-shared-cache", "mariadb-point-select"] {
            let recipe: toml::Table = alone(name).unwrap().parse().unwrap();
            assert!(recipe.get("treatments").is_none());
            assert_eq!(recipe["sweep"]["clients"].as_array().unwrap().len(), 1, "{name}");
            assert_eq!(recipe["protocol"]["effect_blocks"][0].as_integer(), Some(BLOCKS));
        }
        assert!(shortened("name = 'x'").is_err());
    }

    #[test]
    fn the_control_is_what_counts() {
        let effect = |role: &str, verdict: &str| {
            json!({ "role": role, "pairs": 6, "verdict": { "verdict": verdict },
                    "ratio": { "value": 1.0, "low": 0.9, "high": 1.1 } })
        };
        let findings =
            json!({ "effects": [effect("treatment", "better"), effect("control", "worse")] });
        assert_eq!(reported(&findings).0, "worse");
        assert_eq!(reported(&json!({})).0, "absent");
    }
}
