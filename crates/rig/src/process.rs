//! A program under a guard: in a session and scheduling group of its own, on the cores it
//! is given, its output in files, and gone with all its children when the guard goes.

use crate::cargo_run::{self, TakenBack};
use crate::ending::{HUNG_AFTER, MARK, remove_shared_memory};
use crate::environment;
use crate::group::Group;
use crate::launch;
pub use crate::launch::Account;
use crate::placement;
use crate::priority;
use crate::scheduling::Scheduling;
use crate::search_path::SearchPath;
use crate::undo::{Action, Change, Undo};
use anyhow::Context as _;
use kneepoint_machine::proc::process::{path_of_descriptor, session};
use kneepoint_machine::proc::{self, tasks};
use kneepoint_machine::{ExitStatus, Running, Start, Stream, here, own_pid};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::Signal;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most bytes of a program's messages that an error quotes.
const TAIL: u64 = 2048;
/// Lines of a program's messages that an error quotes.
const TAIL_LINES: usize = 4;
/// Most bytes of a stream that are kept: half of them from its beginning, half from its end.
const KEPT: u64 = 64 << 20;
/// How often something that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(1);

/// How to start a program.
#[derive(Debug)]
pub struct Program<'a> {
    /// What messages call it.
    pub name: &'static str,
    /// The executable, found by [`SearchPath::own`] where it is a bare name.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables set in its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub directory: &'a Path,
    /// Who it runs as; Kneepoint's own user where absent.
    pub account: Option<Account>,
    /// CPUs that it may use; all of Kneepoint's where empty.
    pub cpus: Vec<u32>,
    /// How its threads run beside that.
    pub scheduling: Scheduling,
    /// What it has for standard input; nothing where absent.
    pub input: Option<File>,
    /// Whether its scheduling group is raised over everybody's. Not where threads of the kernel
    /// work for it: they would starve behind it.
    pub raised: bool,
    /// Whether what the calling shell has set to change how programs run is kept from it.
    pub shielded: bool,
}

impl<'a> Program<'a> {
    /// A program with these arguments, run in `directory`, where its output goes too.
    pub fn new(
        name: &'static str,
        path: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        directory: &'a Path,
    ) -> Self {
        Self {
            name,
            path: path.into(),
            arguments: arguments.into_iter().map(|part| part.as_ref().to_owned()).collect(),
            environment: Vec::new(),
            directory,
            account: None,
            cpus: Vec::new(),
            scheduling: Scheduling::default(),
            input: None,
            raised: true,
            shielded: false,
        }
    }

    /// Starts it. What it becomes, and what that starts, can be found and ended from the moment
    /// on at which there is a process: it begins once it is noted.
    ///
    /// # Errors
    /// It cannot be started, or not be guarded; nothing runs then.
    pub fn spawn(self, undo: &Undo) -> anyhow::Result<Process> {
        let (output, messages) = (self.log("out")?, self.log("err")?);
        let mut group = Group::begin(undo)?;
        let (server, path) = (undo.server(), SearchPath::own().resolved(&self.path));
        let input = self.input.as_ref().map(path_of);
        let TakenBack { without, with } = match self.shielded {
            true => TakenBack { without: environment::leaking(), with: None },
            false => cargo_run::taken_back(),
        };
        let start = Start::new(&server)
            .args(["serve-workload", launch::LAUNCH])
            .args(launch::arguments(self.account, input.as_deref(), &path))
            .args(&self.arguments)
            .without(without)
            .with(with)
            .with(self.environment.iter().map(|(key, value)| (key, value)))
            .with([(MARK, group.mark())])
            .within(self.directory)
            .input(Stream::Pipe)
            .output(Stream::File(output.try_clone()?))
            .messages(Stream::File(messages.try_clone()?));
        let mut running = start
            .begin()
            .with_context(|| format!("{}: {} cannot be started", server.display(), self.name))?;
        let word = running.take_input();
        group.admit(running.id());
        let mut process = Process {
            name: self.name,
            change: None,
            running,
            group,
            output,
            messages,
            _input: self.input,
            begun: Instant::now(),
            oom_kills: oom_kills(),
        };
        process.change = Some(undo.register(Action::kill(process.pid())?)?);
        process.await_session();
        placement::pin(process.pid(), &self.cpus)?;
        if self.raised {
            priority::raise_other(process.pid());
        }
        self.scheduling.give(&[process.pid()])?;
        process.begun = Instant::now();
        let begun = word.map_or(Ok(()), |mut word| word.write_all(b"!"));
        begun.map_err(|_| process.lost("ended before it could begin"))?;
        Ok(process)
    }

    /// A file for one of its streams, open for reading too.
    fn log(&self, stream: &str) -> anyhow::Result<File> {
        let file = tempfile::Builder::new()
            .prefix(&format!("{}-", self.name))
            .suffix(&format!(".{stream}"))
            .tempfile_in(self.directory)
            .or_else(|_| tempfile::NamedTempFile::new())
            .with_context(|| format!("no file for what {} prints", self.name))?;
        Ok(file.into_file())
    }
}

/// A program that was started. Dropping it kills it with all its descendants.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    change: Option<Change>,
    running: Running,
    group: Group,
    output: File,
    messages: File,
    /// Kept open, since the program opens it anew when it begins.
    _input: Option<File>,
    begun: Instant,
    oom_kills: u64,
}

impl Process {
    /// Its process id; it stays its own until the guard goes.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.id()
    }

    /// When it was started.
    #[must_use]
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// How it ended; `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        for stream in [&self.output, &self.messages] {
            trim(stream);
        }
        self.running.ended().ok().flatten()
    }

    /// What it has printed so far. Of very much only the beginning and the end, with a line between
    /// them that says how much is left out.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn printed(&self) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&read_kept(&self.output)?).into_owned())
    }

    /// What it has written to standard error so far.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn complained(&self) -> anyhow::Result<String> {
        Ok(String::from_utf8_lossy(&read_kept(&self.messages)?).into_owned())
    }

    /// Waits until `ready` holds, which is asked again and again.
    ///
    /// # Errors
    /// It ended, or is not ready within `timeout`: with the last of what it said.
    pub fn await_ready(
        &mut self,
        timeout: Duration,
        mut ready: impl FnMut(&mut Self) -> bool,
    ) -> anyhow::Result<()> {
        let deadline = Instant::now() + timeout;
        while !ready(self) {
            if let Some(status) = self.ended() {
                return Err(self.lost(&format!("ended before it was ready, {}", reported(status))));
            }
            if Instant::now() > deadline {
                return Err(self.lost(&format!("was not ready within {timeout:?}")));
            }
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }

    /// Waits until it has ended by itself, and returns what it printed.
    ///
    /// # Errors
    /// It fails, or does not end within `timeout`: with the last of what it said.
    pub fn await_success(&mut self, timeout: Duration) -> anyhow::Result<String> {
        let status = self.await_end(timeout)?;
        if !status.success() {
            return Err(self.lost(&reported(status)));
        }
        self.printed()
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It does not end within `timeout`.
    pub fn await_end(&mut self, timeout: Duration) -> anyhow::Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(self.lost(&format!("did not end within {timeout:?}")));
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Asks it to end by `signal`, and waits.
    ///
    /// # Errors
    /// It does not end within `timeout`; it is killed then.
    pub fn terminate(mut self, signal: Signal, timeout: Duration) -> anyhow::Result<()> {
        if self.ended().is_none() {
            self.signal(signal)?;
            self.await_end(timeout)?;
        }
        Ok(())
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let sent = here().signal(self.pid(), signal);
        sent.with_context(|| format!("{} takes no signal", self.name))
    }

    /// An error about it: its name, what happened, and the last of what it said.
    pub fn lost(&self, what: &str) -> anyhow::Error {
        let killed = if oom_kills() > self.oom_kills {
            "; the kernel ran out of memory and killed a process meanwhile"
        } else {
            ""
        };
        let (name, pid) = (self.name, self.pid());
        anyhow::anyhow!("{name} (process {pid}) {what}{killed}{}", self.tail())
    }

    /// The last of what it said, to be put after a message.
    #[must_use]
    pub fn tail(&self) -> String {
        [&self.messages, &self.output]
            .into_iter()
            .map(last_lines)
            .find(|said| !said.is_empty())
            .map_or_else(String::new, |said| format!("; it said: {said}"))
    }

    /// Until it leads a session of its own, the process shares Kneepoint's scheduling group.
    fn await_session(&mut self) {
        let begun = Instant::now();
        while session(self.pid()).is_some_and(|session| session != self.pid())
            && self.ended().is_none()
            && begun.elapsed() < HUNG_AFTER
        {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The kernel kills all of a control group at once. Without one, what it started would
        // become an orphan that nobody could tell from another process, but for the session: a
        // child of a program that has ended by itself is still in that.
        let mut others = Vec::new();
        let there = self.group.members();
        let together = self.group.kill();
        if !together {
            others = tasks::family_with_births(self.pid());
            others.extend(tasks::session(self.pid()));
            drop(self.change.take());
        }
        let _ = self.running.kill();
        let _ = self.running.wait();
        if together {
            // Before what it has made is removed: a child that lives on would hold on to it.
            self.group.end();
            if let Err(error) = remove_shared_memory(&there) {
                tracing::warn!("{error:#}; `kneepoint recover` tries again");
            }
        }
        drop(self.change.take());
        for (pid, started) in others {
            let _ = Action::Kill { process: pid, started }.undo();
        }
        // And what has gone off further.
        self.group.end();
    }
}

/// Runs a program to its successful end and returns what it printed.
///
/// # Errors
/// It cannot be started, fails, or takes longer than `timeout`.
pub fn run(program: Program<'_>, timeout: Duration, undo: &Undo) -> anyhow::Result<String> {
    program.spawn(undo)?.await_success(timeout)
}

pub(crate) use kneepoint_machine::reported;

/// A path under which a file that is open here can be opened by a process of the same user.
fn path_of(file: &File) -> PathBuf {
    path_of_descriptor(own_pid(), file.as_raw_fd())
}

/// Gives back the room of what a stream holds beyond what is kept of it. Where the file system
/// cannot, it stays.
fn trim(file: &File) {
    let length = file.metadata().map_or(0, |about| about.len());
    // Not at every glance: by some MiB.
    if length > KEPT + KEPT / 4 {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(file, how, KEPT / 2, length - KEPT);
    }
}

fn read_kept(file: &File) -> anyhow::Result<Vec<u8>> {
    let length = file.metadata().context("a program's output cannot be read")?.len();
    if length <= KEPT {
        return read_from(file, 0, length);
    }
    let mut kept = read_from(file, 0, KEPT / 2)?;
    let rest = read_from(file, length - KEPT / 2, KEPT / 2)?;
    // Half a line could hold half a number.
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
    kept.truncate(kept.iter().rposition(ends).map_or(0, |last| last + 1));
    let left_out = (length - KEPT) >> 20;
    kept.extend(format!("\n[about {left_out} MiB are left out here]\n").into_bytes());
    kept.extend(&rest[rest.iter().position(ends).unwrap_or(rest.len())..]);
    Ok(kept)
}

fn read_from(file: &File, offset: u64, length: u64) -> anyhow::Result<Vec<u8>> {
    let length = usize::try_from(length).context("a program printed too much")?;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset).context("a program's output cannot be read")?;
    Ok(bytes)
}

fn last_lines(file: &File) -> String {
    let length = file.metadata().map_or(0, |about| about.len());
    let from = length.saturating_sub(TAIL);
    let bytes = read_from(file, from, length - from).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().map(last_written).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join(" / ")
}

/// What stood last in a line that was written over, as bars of progress are.
fn last_written(line: &str) -> &str {
    let line = line.trim();
    line.rsplit('\r').next().unwrap_or(line).trim()
}

/// Processes that the kernel has killed for memory since boot.
fn oom_kills() -> u64 {
    let text = proc::text("vmstat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::undo;
    use kneepoint_machine::proc::process::{birth, is_zombie};
    use kneepoint_machine::proc::tasks::family_with_births as family;
    use std::fs;
    use tempfile::TempDir;

    fn shell<'a>(script: &str, folder: &'a Path) -> Program<'a> {
        Program::new("the script", "sh", ["-c", script], folder)
    }

    #[test]
    fn its_output_is_kept_apart_from_its_messages() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let script = shell("echo out; echo err >&2", folder.path());
        let mut process = script.spawn(&undo).unwrap();
        assert_eq!(process.await_success(HUNG_AFTER).unwrap(), "out\n");
        assert_eq!(process.complained().unwrap(), "err\n");
    }

    #[test]
    fn failure_is_reported_with_code_and_last_words() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let script = shell("echo one >&2; echo 'out of eggs' >&2; exit 3", folder.path());
        let error = run(script, HUNG_AFTER, &undo).unwrap_err().to_string();
        assert!(error.contains("exit code 3; it said: one / out of eggs"), "{error}");
        let script = "printf '10 done\\r20 done\\r\\nend\\n' >&2; exit 3";
        let overwritten = Program::new("the script", "sh", ["-c", script], folder.path());
        let error = run(overwritten, HUNG_AFTER, &undo).unwrap_err().to_string();
        assert!(error.ends_with("it said: 20 done / end"), "{error}");
    }

    #[test]
    fn silence_is_an_error_and_the_whole_family_goes() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let script = shell("sleep 600 & sleep 600", folder.path());
        let mut process = script.spawn(&undo).unwrap();
        let error = process.await_success(Duration::from_millis(50)).unwrap_err().to_string();
        assert!(error.contains("did not end within 50ms"), "{error}");
        while family(process.pid()).len() < 3 {
            std::thread::sleep(GLANCE);
        }
        let everyone = family(process.pid());
        drop(process);
        for (pid, born) in everyone {
            // An orphan that nobody reaps has ended as well.
            let ended = birth(pid) != Some(born) || is_zombie(pid);
            assert!(ended, "{pid} lives");
        }
    }

    #[test]
    fn what_it_leaves_running_when_it_ends_goes_too() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let mut process = shell("sleep 600 & echo $!", folder.path()).spawn(&undo).unwrap();
        let said = process.await_success(HUNG_AFTER).unwrap();
        let orphan: u32 = said.trim().parse().unwrap();
        assert!(birth(orphan).is_some(), "the orphan is not there");
        drop(process);
        assert!(birth(orphan).is_none() || is_zombie(orphan), "{orphan} lives");
    }

    /// Daemons: out of the session, the parent gone, and one without its environment.
    #[test]
    fn what_daemonises_goes_too() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let script = "setsid sleep 601 >/dev/null 2>&1 & (setsid sh -c 'sleep 602 & sleep 602' &)";
        let mut process = shell(script, folder.path()).spawn(&undo).unwrap();
        process.await_success(HUNG_AFTER).unwrap();
        let mark = process.group.mark().to_owned();
        let daemons = || crate::ending::marked(|found| found == mark);
        while daemons().len() < 4 {
            std::thread::sleep(GLANCE);
        }
        let everyone = daemons();
        drop(process);
        for (pid, born) in everyone {
            assert!(birth(pid) != Some(born) || is_zombie(pid), "{pid} lives");
        }
    }

    #[test]
    fn one_without_its_environment_goes_too_where_there_are_control_groups() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let script = "echo $$; exec setsid env -i sleep 603";
        let mut process = shell(&format!("sh -c '{script}' & wait"), folder.path());
        process.raised = false;
        let process = process.spawn(&undo).unwrap();
        let Some(group) = process.group.directory().map(Path::to_owned) else {
            println!("SKIP one_without_its_environment_goes_too: no control groups to write");
            return;
        };
        let mut said = String::new();
        while !said.ends_with('\n') {
            said = process.printed().unwrap();
        }
        let pid: u32 = said.trim().parse().unwrap();
        let born = birth(pid);
        let command = format!("/proc/{pid}/cmdline");
        while !fs::read_to_string(&command).unwrap().starts_with("sleep") {
            std::thread::sleep(GLANCE);
        }
        drop(process);
        assert!(birth(pid) != born || is_zombie(pid), "{pid} lives");
        assert!(!group.exists(), "{}", group.display());
    }

    #[test]
    fn very_much_output_is_kept_at_both_ends() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let script = "echo first; yes 1234567 | head -n 12500000; echo last";
        let mut process = shell(script, folder.path()).spawn(&undo).unwrap();
        let said = process.await_success(HUNG_AFTER).unwrap();
        assert!(said.starts_with("first\n1234567\n") && said.ends_with("\n1234567\nlast\n"));
        // Half a number would be another one.
        let whole = |line: &str| {
            ["1234567", "first", "last", ""].contains(&line) || line.starts_with("[about ")
        };
        assert_eq!(said.lines().find(|line| !whole(line)), None);
        assert!(said.contains("[about 31 MiB are left out here]"));
        assert!(said.len() as u64 <= KEPT + 100, "{}", said.len());
        process.ended();
        use std::os::unix::fs::MetadataExt as _;
        let held = process.output.metadata().unwrap().blocks() * 512;
        assert!(held <= KEPT + KEPT / 4, "{held} bytes are held");
    }

    #[test]
    fn once_halted_nothing_runs_and_nothing_begins() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let mut process = shell("sleep 600", folder.path()).spawn(&undo).unwrap();
        undo.halt();
        assert!(process.await_end(HUNG_AFTER).is_ok());
        assert!(shell("true", folder.path()).spawn(&undo).is_err());
    }

    #[test]
    fn it_leads_a_session_of_its_own_on_its_own_cores() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let mut program = shell("sleep 600", folder.path());
        let first = placement::allowed()[0];
        program.cpus = vec![first];
        let process = program.spawn(&undo).unwrap();
        assert_eq!(session(process.pid()), Some(process.pid()));
        assert_eq!(placement::of(process.pid()).unwrap(), [first]);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let program = Program::new("it", "/nonexistent/it", [""; 0], folder.path());
        let error = run(program, HUNG_AFTER, &undo).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/it"), "{error}");
    }
}
