//! Proofs that hold for any program, read back from the process that runs it: its variables, the
//! libraries that it was loaded with, the file that it is.

use crate::elf;
use crate::ending::MARK;
use crate::environment::{self, Variables};
use crate::process::Process;
use kneepoint_machine::proc::process;
use kneepoint_vocab::Proof;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a process is looked at that does not show what it should.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How often.
const GLANCE: Duration = Duration::from_micros(300);
/// What a proof says of a library that is there, and of one that is not.
const MAPPED: &str = "mapped";
const NOT_MAPPED: &str = "not mapped";

/// That a process was started with these variables, and has the libraries that they load. `who`
/// is what people call it.
pub(crate) fn variables(who: &str, pid: u32, set: &Variables) -> Vec<Proof> {
    let found = environment::found(pid).unwrap_or_default();
    // Some servers write their title over what they were started with: then nothing can be read.
    let readable = found.contains_key(MARK);
    let mut proofs: Vec<Proof> = set
        .pairs()
        .filter(|_| readable)
        .map(|(name, value)| {
            let active = found.get(name).is_some_and(|found| found == value);
            let (_, expected) = environment::reported(name, value);
            let found = match found.get(name) {
                None => "not set".to_owned(),
                Some(_) if expected == environment::LEFT_OUT && !active => "another".to_owned(),
                Some(found) => environment::reported(name, found).1,
            };
            Proof { what: format!("{who}: {name} in /proc/PID/environ"), expected, found, active }
        })
        .collect();
    let maps = process::mappings(pid).unwrap_or_default();
    proofs.extend(set.libraries(None).into_iter().map(|(name, file)| {
        let active = is_mapped(&maps, name, file.ok());
        Proof {
            what: format!("{who}: {name} in /proc/PID/maps"),
            expected: MAPPED.to_owned(),
            found: if active { MAPPED } else { NOT_MAPPED }.to_owned(),
            active,
        }
    }));
    proofs
}

/// The same of a process that has just been launched, once it is more than what launches it:
/// nothing where it ends before that. `launcher` is the program that it begins as.
pub(crate) fn once_begun(
    who: &str,
    process: &mut Process,
    launcher: &Path,
    set: &Variables,
) -> Vec<Proof> {
    let mut proofs = Vec::new();
    watched(process, launcher, |pid| {
        add(&mut proofs, variables(who, pid, set));
        proofs.iter().all(|proof| proof.active)
    });
    proofs
}

/// Adds what a later look has shown; what was shown once stays shown.
pub(crate) fn add(proofs: &mut Vec<Proof>, later: Vec<Proof>) {
    for proof in later {
        match proofs.iter_mut().find(|known| known.what == proof.what) {
            Some(known) if known.active => {}
            Some(known) => *known = proof,
            None => proofs.push(proof),
        }
    }
}

/// Has `look` look at a process that has begun until it returns true, for a while at most. What
/// has ended meanwhile shows nothing.
pub(crate) fn watched(process: &mut Process, launcher: &Path, mut look: impl FnMut(u32) -> bool) {
    let launcher = fs::canonicalize(launcher).ok();
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline && process.ended().is_none() {
        if has_begun(process.pid(), launcher.as_deref()) && look(process.pid()) {
            return;
        }
        std::thread::sleep(GLANCE);
    }
}

/// Whether a process has become what it is to be: neither Kneepoint any more, nor the program that
/// changes its directory.
fn has_begun(pid: u32, launcher: Option<&Path>) -> bool {
    let image = process::image(pid);
    let arguments = process::arguments(pid);
    let first = arguments.split(|byte| *byte == 0).nth(1).unwrap_or_default();
    let is_other = image.is_some() && image.as_deref() != launcher;
    is_other && !arguments.is_empty() && !first.starts_with(b"--chdir=")
}

/// Whether a library is among these mappings: by the name that it was given, or by that of the
/// file which links lead to.
fn is_mapped(maps: &str, name: &str, file: Option<PathBuf>) -> bool {
    let target = file.and_then(|file| fs::canonicalize(file).ok());
    let names: Vec<&str> = [Some(Path::new(name)), target.as_deref()]
        .into_iter()
        .flatten()
        .filter_map(|path| path.file_name()?.to_str())
        .collect();
    let files = maps.lines().filter_map(|line| line.split_once('/'));
    files.filter_map(|(_, path)| path.rsplit('/').next()).any(|file| names.contains(&file))
}

/// A file that is to be run: its path, with the build where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgramFile {
    path: PathBuf,
    reported: String,
}

impl ProgramFile {
    /// What this path leads to; none where that cannot be read.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let path = fs::canonicalize(path).ok()?;
        let elf = elf::read(&path).ok()?;
        let build = elf.and_then(|elf| elf.build_id);
        let reported = match build {
            Some(id) => format!("{}, build {id}", path.display()),
            None => path.display().to_string(),
        };
        Some(Self { path, reported })
    }

    /// That this will be run, where nothing runs yet.
    pub(crate) fn planned(&self, what: &str) -> Proof {
        let (expected, found) = (self.reported.clone(), self.reported.clone());
        Proof { what: what.to_owned(), expected, found, active: true }
    }

    /// That a process runs it, by its image or, for a script, by its arguments; none where it
    /// does not, or no more: a wrapper becomes what it wraps.
    pub(crate) fn run_by(&self, what: &str, pid: u32) -> Option<Proof> {
        let image = process::image(pid);
        let is_image = image.as_deref() == Some(&self.path);
        let arguments = process::arguments(pid);
        let arguments = arguments.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut named = arguments.skip(1).map(|word| fs::canonicalize(&*word).ok());
        let mut is_script = || named.any(|path| path.as_deref() == Some(&self.path));
        (is_image || is_script()).then(|| self.planned(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A process that waits.
    fn running(program: &str, arguments: &[&str], set: &[(&str, &str)]) -> Running {
        let mut command = Command::new(program);
        command.args(arguments).envs(set.iter().copied()).env(MARK, "x").stdin(Stdio::piped());
        let started = Running(command.stdout(Stdio::piped()).spawn().unwrap());
        // The kernel lays the environment out a moment after it has started the program.
        let environment = format!("/proc/{}/environ", started.0.id());
        while fs::read(&environment).unwrap().is_empty() {
            std::thread::yield_now();
        }
        started
    }

    #[test]
    fn variables_are_read_back_and_secrets_stay_so() {
        let child = running("cat", &[], &[("A", "1"), ("MY_TOKEN", "word")]);
        let set = Variables::parse("A=1 B=2 MY_TOKEN=word").unwrap();
        let proofs = variables("it", child.0.id(), &set);
        let reported: Vec<(&str, bool)> =
            proofs.iter().map(|p| (p.found.as_str(), p.active)).collect();
        assert_eq!(reported, [("1", true), ("not set", false), ("(left out)", true)]);
        assert_eq!(proofs[0].what, "it: A in /proc/PID/environ");
        // A process without the mark has overwritten what it was started with.
        assert!(variables("it", std::process::id(), &set).is_empty());
        let other = Variables::parse("MY_TOKEN=other").unwrap();
        let proof = &variables("it", child.0.id(), &other)[0];
        assert_eq!((proof.found.as_str(), proof.active), ("another", false));
        assert!(!format!("{proof:?}").contains("word"));
    }

    #[test]
    fn a_library_is_known_by_its_file() {
        let maps =
            "7f00 r-xp 00000000 08:01 12 /usr/lib/libjemalloc.so.2\n7f10 r-xp 0 0 0 [vdso]\n";
        assert!(is_mapped(maps, "libjemalloc.so.2", None));
        assert!(is_mapped(maps, "/opt/libjemalloc.so.2", None));
        assert!(!is_mapped(maps, "libjemalloc.so", None) && !is_mapped("", "x.so", None));
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("libreal.so.2.0");
        fs::write(&file, "").unwrap();
        let link = folder.path().join("libreal.so");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(is_mapped(
            &format!("7f00 r-xp 0 0 1 {}\n", file.display()),
            "libreal.so",
            Some(link)
        ));
    }

    #[test]
    fn a_program_and_a_script_are_known_and_others_are_not() {
        let folder = tempfile::TempDir::new().unwrap();
        let script = folder.path().join("script");
        crate::script::script(&script, "read word");
        let child = running(script.to_str().unwrap(), &[], &[]);
        let known = ProgramFile::at(&script).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut proof = None;
        while proof.is_none() && std::time::Instant::now() < deadline {
            proof = known.run_by("the program", child.0.id());
        }
        assert_eq!(proof.unwrap().found, script.canonicalize().unwrap().display().to_string());
        let own = ProgramFile::at(Path::new("/proc/self/exe")).unwrap();
        assert!(own.run_by("the program", std::process::id()).is_some());
        assert!(own.run_by("the program", child.0.id()).is_none());
        assert_eq!(ProgramFile::at(Path::new("/nonexistent/x")), None);
    }
}
