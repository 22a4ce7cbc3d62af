//! Does Kneepoint name the bottleneck of programs that were not written for it?
//!
//! `programs/programs.toml` lists small programs in many languages and ready-made tools, each with
//! one known bottleneck and the words that the first cause has to hold. Each is built in a
//! temporary folder and run as a newcomer would.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Least part of a cause's stacks that has to show callers, where a program asks for them.
const CALLERS: f64 = 0.95;

const FLAGS: &str = "--budget TIME, --levels LIST, --out DIR, --program FILE, NAMES";

/// The list of programs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    program: Vec<Program>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    /// Its text, below `programs/`.
    source: Option<String>,
    /// Programs that build or run it.
    needs: Vec<String>,
    #[serde(default)]
    build: Vec<String>,
    /// The command that is measured,
    #[serde(default)]
    run: Vec<String>,
    /// or a recipe: its name, or a file below `programs/`.
    recipe: Option<String>,
    /// More words for `kneepoint run`.
    #[serde(default)]
    options: Vec<String>,
    /// Variants that have to be better.
    #[serde(default)]
    cures: Vec<String>,
    /// Variants that must not be.
    #[serde(default)]
    no_cures: Vec<String>,
    /// Words of which nearly every stack of the first cause has one: callers in the program.
    #[serde(default)]
    callers: Vec<String>,
    /// Kind of the first cause; any where absent.
    kind: Option<String>,
    /// Words that the name or the path of the first cause has to hold.
    expect: Vec<String>,
}

struct Options {
    names: Vec<String>,
    budget: String,
    levels: String,
    out: PathBuf,
    program: PathBuf,
}

/// What came of a program.
enum Outcome {
    Right(String),
    Wrong(String),
    /// What it needs is not there.
    Skipped(String),
}

/// Runs every program, or those named, and prints a line for each.
///
/// # Errors
/// A program cannot be built, or its first cause is not the one that was planted.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let mut options = parse(flags)?;
    ensure!(
        options.program.is_file(),
        "no {}: run `cargo build --release` first",
        options.program.display()
    );
    let sources = crate::root().join("programs");
    let list = read(&sources.join("programs.toml"))?;
    let known = |name: &String| list.program.iter().any(|program| program.name == *name);
    if let Some(other) = options.names.iter().find(|name| !known(name)) {
        bail!("no program {other} in programs/programs.toml");
    }
    if options.names.is_empty() {
        options.names = list.program.iter().map(|program| program.name.clone()).collect();
    }
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    let (mut wrong, mut skipped) = (0, 0);
    for program in list.program.iter().filter(|program| options.names.contains(&program.name)) {
        let outcome = one(&options, &sources, program)
            .unwrap_or_else(|error| Outcome::Wrong(format!("{error:#}")));
        let (word, said) = match outcome {
            Outcome::Right(said) => ("right", said),
            Outcome::Wrong(said) => {
                wrong += 1;
                ("WRONG", format!("{said}; expected {}", program.expect.join(", ")))
            }
            Outcome::Skipped(missing) => {
                skipped += 1;
                ("skip", missing)
            }
        };
        println!("{:<18} {word:<6} {said}", program.name);
    }
    let all = options.names.len();
    println!("{all} programs, {wrong} wrong, {skipped} skipped; {}", options.out.display());
    ensure!(wrong == 0, "{wrong} of {all} programs have another first cause");
    Ok(())
}

fn parse(flags: &[&str]) -> Result<Options> {
    let pid = std::process::id();
    let mut options = Options {
        names: Vec::new(),
        budget: "25s".to_owned(),
        levels: "1,2,4,8".to_owned(),
        out: std::env::temp_dir().join(format!("kneepoint-programs-{pid}")),
        program: crate::built("release/kneepoint"),
    };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let mut value = || flags.next().with_context(|| format!("{flag} wants a value"));
        match *flag {
            "--budget" => (*value()?).clone_into(&mut options.budget),
            "--levels" => (*value()?).clone_into(&mut options.levels),
            "--out" => options.out = std::path::absolute(value()?)?,
            "--program" => options.program = std::path::absolute(value()?)?,
            name if !name.starts_with('-') => options.names.push(name.to_owned()),
            other => bail!("unknown flag {other}: programs takes {FLAGS}"),
        }
    }
    Ok(options)
}

fn read(file: &Path) -> Result<List> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    toml::from_str(&text).with_context(|| file.display().to_string())
}

fn one(options: &Options, sources: &Path, program: &Program) -> Result<Outcome> {
    if let Some(missing) = program.needs.iter().find(|need| !is_installed(need)) {
        return Ok(Outcome::Skipped(format!("needs {missing}")));
    }
    let folder = options.out.join(&program.name);
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let places = Places { folder: &folder, program, sources };
    if let [builder, words @ ..] = places.fill(&program.build).as_slice() {
        let built = Command::new(builder).args(words).stdin(Stdio::null()).output();
        let built = built.with_context(|| builder.clone())?;
        let said = String::from_utf8_lossy(&built.stderr);
        ensure!(built.status.success(), "it cannot be built: {}", said.trim());
    }
    let mut command = Command::new(&options.program);
    command.args(["run", "--json", "--out"]).arg(folder.join("run"));
    match &program.recipe {
        Some(recipe) => {
            let file = sources.join(recipe);
            let recipe = if file.is_file() { file } else { PathBuf::from(recipe) };
            command.arg(recipe).args(places.fill(&program.options));
        }
        None => {
            let given = |flag: &str| program.options.iter().any(|word| word == flag);
            for (flag, value) in [("--levels", &options.levels), ("--budget", &options.budget)] {
                command.args([flag, value].into_iter().filter(|_| !given(flag)));
            }
            command.args(places.fill(&program.options)).arg("--").args(places.fill(&program.run));
        }
    }
    let output = command
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| options.program.display().to_string())?;
    std::fs::write(folder.join("findings.json"), &output.stdout)?;
    let findings: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        said.trim().lines().last().unwrap_or("it said nothing").to_owned()
    })?;
    Ok(judge(&findings, program))
}

/// What the placeholders of a command line stand for.
struct Places<'a> {
    folder: &'a Path,
    program: &'a Program,
    sources: &'a Path,
}

impl Places<'_> {
    fn fill(&self, words: &[String]) -> Vec<String> {
        let source = self.sources.join(self.program.source.as_deref().unwrap_or_default());
        let places = [
            ("{source}", source),
            ("{out}", self.folder.join("program")),
            ("{folder}", self.folder.to_owned()),
        ];
        let filled = |word: &String| {
            places.iter().fold(word.clone(), |word, (place, path)| {
                word.replace(place, &path.display().to_string())
            })
        };
        words.iter().map(filled).collect()
    }
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Whether the first cause is the one that was planted.
fn judge(findings: &Value, program: &Program) -> Outcome {
    let first = &findings["causes"][0];
    let Some(name) = first["name"].as_str() else {
        let headline = findings["headline"].as_str().unwrap_or("no headline");
        return Outcome::Wrong(format!("no cause ({headline})"));
    };
    let path = first["path"]
        .as_array()
        .map_or_else(Vec::new, |path| path.iter().filter_map(Value::as_str).collect::<Vec<_>>());
    let saturated = findings["headline"].as_str().unwrap_or_default();
    let all = format!("{name} < {} | {saturated}", path.join(" < "));
    let kind = first["kind"].as_str().unwrap_or_default();
    let share = |edge: &str| 100.0 * first["share"][edge].as_f64().unwrap_or(0.0);
    let said = format!(
        "{:.0} % [{:.0}-{:.0}]  {kind}: {name}",
        share("value"),
        share("low"),
        share("high")
    );
    let better = |variant: &String| {
        let mut effects = findings["effects"].as_array().into_iter().flatten();
        effects.any(|one| one["variant"] == **variant && one["verdict"]["verdict"] == "better")
    };
    if let Some(variant) = program.cures.iter().find(|variant| !better(variant)) {
        return Outcome::Wrong(format!("{said}; {variant} is no cure"));
    }
    if let Some(variant) = program.no_cures.iter().find(|variant| better(variant)) {
        return Outcome::Wrong(format!("{said}; {variant} is said to be a cure"));
    }
    let told = told(&first["stacks"], &program.callers);
    if !program.callers.is_empty() && told < CALLERS {
        return Outcome::Wrong(format!("{said}; callers in {:.0} % of its stacks", 100.0 * told));
    }
    let fits = program.kind.as_deref().is_none_or(|expected| expected == kind);
    if fits && program.expect.iter().all(|word| all.contains(word.as_str())) {
        Outcome::Right(said)
    } else {
        Outcome::Wrong(said)
    }
}

/// The part of the weight of a tree of stacks that has a frame with one of these words.
fn told(stacks: &Value, words: &[String]) -> f64 {
    fn with(node: &Value, words: &[String]) -> f64 {
        let name = node["name"].as_str().unwrap_or_default();
        match words.iter().any(|word| name.contains(word.as_str())) {
            true => node["weight"].as_f64().unwrap_or(0.0),
            false => {
                let children = node["children"].as_array().into_iter().flatten();
                children.map(|child| with(child, words)).sum()
            }
        }
    }
    let all = stacks["weight"].as_f64().unwrap_or(0.0);
    if all > 0.0 { with(stacks, words) / all } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list() -> List {
        read(&crate::root().join("programs/programs.toml")).unwrap()
    }

    #[test]
    fn every_program_has_its_text_and_words_to_expect() {
        for program in list().program {
            assert!(!program.expect.is_empty() && !program.needs.is_empty(), "{}", program.name);
            let text = program.source.map(|name| crate::root().join("programs").join(name));
            assert!(text.is_none_or(|text| text.is_file()), "{}", program.name);
            let line = program.run.join(" ");
            assert_ne!(program.run.is_empty(), program.recipe.is_none(), "{}", program.name);
            assert!(program.recipe.is_some() || line.contains("{clients}"), "{line}");
        }
    }

    #[test]
    fn only_the_first_cause_counts() {
        let program = list().program.into_iter().find(|one| one.name == "go-mutex").unwrap();
        let cause = |name: &str, kind: &str| {
            let share = json!({ "value": 0.8, "low": 0.7, "high": 0.9 });
            json!({ "name": name, "kind": kind, "path": ["main.(*ledger).post"], "share": share })
        };
        let planted = cause("mutex in main.(*ledger).post", "lock");
        let other = cause("Go scheduler", "lock");
        let said = |causes: Value| judge(&json!({ "causes": causes }), &program);
        assert!(matches!(said(json!([planted, other])), Outcome::Right(_)));
        assert!(matches!(said(json!([other, planted])), Outcome::Wrong(_)));
        let vague = cause("mutex in main.(*ledger).post", "thread");
        assert!(matches!(said(json!([vague])), Outcome::Wrong(_)));
        assert!(matches!(said(json!([])), Outcome::Wrong(_)));
    }

    #[test]
    fn a_cure_has_to_be_one() {
        let list = list().program;
        let program = list.into_iter().find(|one| one.name == "postgres-one-branch").unwrap();
        let share = json!({ "value": 0.8, "low": 0.7, "high": 0.9 });
        let cause = json!({
            "name": "lock in XactLockTableWait", "kind": "lock", "path": [], "share": share
        });
        let said = |verdict: &str| {
            let cure =
                json!({ "variant": "postgres-more-branches", "verdict": { "verdict": verdict } });
            judge(&json!({ "causes": [cause], "effects": [cure] }), &program)
        };
        assert!(matches!(said("better"), Outcome::Right(_)));
        assert!(matches!(said("undecided"), Outcome::Wrong(_)));
    }

    #[test]
    fn callers_are_asked_of_nearly_every_stack() {
        let leaf = |name: &str, weight: f64| json!({ "name": name, "weight": weight });
        let tree = json!({ "name": "all", "weight": 10.0, "children": [
            { "name": "dispatch", "weight": 9.0, "children": [leaf("my_malloc", 9.0)] },
            leaf("malloc", 1.0),
        ] });
        let part = |tree: &Value, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            format!("{:.2}", told(tree, &words))
        };
        assert_eq!(part(&tree, &["my_"]), "0.90");
        assert_eq!(part(&tree, &["dispatch", "my_malloc"]), "0.90", "each once");
        assert_eq!(part(&tree, &["malloc"]), "1.00");
        assert_eq!(part(&Value::Null, &["malloc"]), "0.00");
    }

    #[test]
    fn places_are_filled_and_kneepoint_s_own_are_left() {
        let program = list().program.into_iter().find(|one| one.name == "go-mutex").unwrap();
        let places =
            Places { folder: Path::new("/t"), program: &program, sources: Path::new("/s") };
        assert_eq!(places.fill(&program.build), ["go", "build", "-o", "/t/program", "/s/mutex.go"]);
        assert_eq!(places.fill(&program.run), ["/t/program", "{clients}", "{seconds}"]);
    }
}
