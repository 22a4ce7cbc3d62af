//! Builds specimens in several forms, with names drawn for all that they define, and runs them.

use super::names::{Names, roles};
use super::specimen::{SUPPORT, Specimen};
use anyhow::{Context, Result, bail, ensure};
use kneepoint_stats::random::Generator;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What every form is compiled with.
const FLAGS: [&str; 5] = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-DNAMES=\"names.h\""];

/// A form of build, as programs are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With debug information and frame pointers.
    Debug,
    /// Without symbols, with frame pointers.
    Stripped,
    /// Optimised as a whole, without frame pointers.
    Lto,
}

impl Form {
    pub(super) const ALL: [Self; 3] = [Self::Debug, Self::Stripped, Self::Lto];

    pub(super) fn parse(text: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|form| form.as_str() == text);
        found.with_context(|| format!("no form {text}: debug, stripped or lto"))
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Stripped => "stripped",
            Self::Lto => "lto",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Debug => &["-O2", "-g", "-fno-omit-frame-pointer"],
            Self::Stripped => &["-O2", "-fno-omit-frame-pointer"],
            Self::Lto => &["-O3", "-flto=auto", "-fomit-frame-pointer"],
        }
    }
}

/// Where specimens make directories, under their programs' names.
const MEMORY: &str = "/dev/shm";

/// A specimen that can be run.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) program: PathBuf,
    pub(super) names: Names,
}

impl Built {
    /// Compiles a specimen in a folder, which is made.
    ///
    /// # Errors
    /// The compiler refuses or warns.
    pub(super) fn make(
        specimen: &Specimen,
        form: Form,
        folder: &Path,
        generator: &mut Generator,
    ) -> Result<Self> {
        let sources = specimen.source.parent().context("a source lies in a folder")?;
        let support = sources.join(SUPPORT).with_extension("c");
        let mut all = roles(&read(&specimen.source)?);
        all.extend(roles(&read(&support)?));
        let mut names = Names::draw(&all, generator);
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        fs::write(folder.join("names.h"), names.header())?;
        // Its own name would stand in debug information.
        let source = folder.join(&names.module).with_extension("c");
        fs::copy(&specimen.source, &source)?;
        let program = folder.join(&names.module);
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut compile = Command::new(&compiler);
        compile.args(form.flags()).args(FLAGS).arg("-I").arg(folder).arg("-I").arg(sources);
        compile.arg("-o").arg(&program).args([&source, &support]).arg("-lpthread");
        said_by(&mut compile)?;
        names.learn(&said_by(Command::new("nm").args(["--defined-only"]).arg(&program))?);
        fs::write(folder.join("names.json"), serde_json::to_string_pretty(&names)?)?;
        if form == Form::Stripped {
            said_by(Command::new("strip").arg(&program))?;
        }
        Ok(Self { program, names })
    }

    /// What a run prints.
    ///
    /// # Errors
    /// It fails.
    pub(super) fn say(&self, clients: u64, seconds: f64, words: &[String]) -> Result<String> {
        let mut command = Command::new(&self.program);
        command.args(["-t", &clients.to_string(), "-s", &seconds.to_string()]).args(words);
        said_by(&mut command)
    }

    /// Operations each second of a run.
    ///
    /// # Errors
    /// It fails, or prints no figure.
    pub(super) fn rate(&self, clients: u64, seconds: f64, words: &[String]) -> Result<f64> {
        let printed = self.say(clients, seconds, words)?;
        let figure = printed.trim().strip_suffix(" operations/s");
        let rate = figure.and_then(|figure| figure.parse().ok());
        rate.with_context(|| format!("no figure in {printed:?}"))
    }
}

/// One that was killed has left its directory.
impl Drop for Built {
    fn drop(&mut self) {
        let own = format!("{}-", self.names.module);
        for entry in fs::read_dir(MEMORY).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&own) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// What a command prints.
fn said_by(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| name.clone())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name}: {}: {}", output.status, said.trim());
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_known_by_their_names() {
        for form in Form::ALL {
            assert_eq!(Form::parse(form.as_str()).unwrap(), form);
        }
        assert!(Form::parse("fast").is_err());
    }

    #[test]
    fn what_a_killed_specimen_has_left_is_removed() {
        let names = Names::draw(&Default::default(), &mut Generator::new(77));
        let [own, other] =
            ["", "x"].map(|mark| Path::new(MEMORY).join(format!("{}{mark}-left", names.module)));
        for folder in [&own, &other] {
            fs::create_dir_all(folder.join("1")).unwrap();
        }
        drop(Built { program: PathBuf::new(), names });
        let left = other.is_dir();
        fs::remove_dir_all(&other).unwrap();
        assert!(left && !own.exists());
    }

    #[test]
    fn no_symbol_has_the_name_of_a_role() {
        let folder = tempfile::tempdir().unwrap();
        let specimens = Specimen::all(&crate::root().join("specimens")).unwrap();
        let one = specimens.iter().find(|one| one.name == "mutex_half").unwrap();
        let mut generator = Generator::new(5);
        let built = Built::make(one, Form::Debug, folder.path(), &mut generator).unwrap();
        let listed: Vec<&str> = built.names.symbols.iter().map(|(_, name)| name.as_str()).collect();
        let role_of = |name: &&str| built.names.drawn.get(*name).cloned();
        let roles: Vec<String> = listed.iter().filter_map(role_of).collect();
        for role in ["post", "ledger", "prepare", "operate"] {
            assert!(roles.iter().any(|one| one == role), "no {role} in {listed:?}");
            assert!(!listed.contains(&role), "{role}");
        }
    }
}
