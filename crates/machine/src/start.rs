//! How a process is started, and the hold on one that runs.

use crate::{ExitStatus, here};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// What a process has for one of its three streams.
#[derive(Debug, Default)]
pub enum Stream {
    /// Kneepoint's own.
    #[default]
    Inherited,
    /// Nothing.
    Nothing,
    /// A pipe whose other end is Kneepoint's.
    Pipe,
    /// A file.
    File(File),
}

impl Stream {
    fn stdio(self) -> Option<Stdio> {
        match self {
            Self::Inherited => None,
            Self::Nothing => Some(Stdio::null()),
            Self::Pipe => Some(Stdio::piped()),
            Self::File(file) => Some(file.into()),
        }
    }
}

/// A process that is to be started.
#[derive(Debug, Default)]
pub struct Start {
    program: PathBuf,
    arguments: Vec<OsString>,
    set: Vec<(OsString, OsString)>,
    unset: Vec<OsString>,
    directory: Option<PathBuf>,
    account: Option<(u32, u32)>,
    own_group: bool,
    streams: [Stream; 3],
}

impl Start {
    /// This program, looked for in `PATH` where it is a bare name, with Kneepoint's own
    /// environment, directory, user and streams.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets variables of its environment.
    #[must_use]
    pub fn with<K: AsRef<OsStr>, V: AsRef<OsStr>>(
        mut self,
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let owned = |(name, value): (K, V)| (name.as_ref().to_owned(), value.as_ref().to_owned());
        self.set.extend(variables.into_iter().map(owned));
        self
    }

    /// Keeps variables of Kneepoint's environment from it.
    #[must_use]
    pub fn without(mut self, names: impl IntoIterator<Item = OsString>) -> Self {
        self.unset.extend(names);
        self
    }

    /// Where it runs.
    #[must_use]
    pub fn within(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// Which user and group it runs as.
    #[must_use]
    pub fn owned_by(mut self, user: u32, group: u32) -> Self {
        self.account = Some((user, group));
        self
    }

    /// In a process group of its own, which a terminal's signals do not reach.
    #[must_use]
    pub fn in_own_group(mut self) -> Self {
        self.own_group = true;
        self
    }

    /// Its standard input.
    #[must_use]
    pub fn input(mut self, stream: Stream) -> Self {
        self.streams[0] = stream;
        self
    }

    /// Its standard output.
    #[must_use]
    pub fn output(mut self, stream: Stream) -> Self {
        self.streams[1] = stream;
        self
    }

    /// Its standard error.
    #[must_use]
    pub fn messages(mut self, stream: Stream) -> Self {
        self.streams[2] = stream;
        self
    }

    /// Starts it [`here`].
    ///
    /// # Errors
    /// The kernel's, e.g. that there is no such program.
    pub fn begin(self) -> io::Result<Running> {
        here().start(self)
    }

    /// Runs it [`here`] to its end, and keeps what it wrote.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn finish(self) -> io::Result<Finished> {
        here().run(self)
    }

    pub(crate) fn command(self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.arguments);
        for name in self.unset {
            command.env_remove(name);
        }
        command.envs(self.set);
        if let Some(directory) = self.directory {
            command.current_dir(directory);
        }
        if let Some((user, group)) = self.account {
            command.uid(user).gid(group);
        }
        if self.own_group {
            command.process_group(0);
        }
        let [input, output, messages] = self.streams.map(Stream::stdio);
        input.map(|stream| command.stdin(stream));
        output.map(|stream| command.stdout(stream));
        messages.map(|stream| command.stderr(stream));
        command
    }
}

/// A process that was started, until it is reaped. Dropping this neither ends nor reaps it.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    pub(crate) fn of(child: Child) -> Self {
        Self { child }
    }

    /// Its process id; it stays its own until it is reaped.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended; none while it runs. It is reaped then.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until it has ended, and reaps it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Kills it, unless it was reaped.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Kills all of the process group that it leads.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill_group(&mut self) -> io::Result<()> {
        let group = Pid::from_child(&self.child);
        Ok(kill_process_group(group, Signal::KILL)?)
    }

    /// The end of its standard input that is written to, once, where it is a pipe.
    pub fn take_input(&mut self) -> Option<File> {
        self.child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe)))
    }

    /// The end of its standard output that is read from, once, where it is a pipe.
    pub fn take_output(&mut self) -> Option<File> {
        self.child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe)))
    }
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub printed: Vec<u8>,
    /// What it wrote to standard error.
    pub complained: Vec<u8>,
}

impl Finished {
    pub(crate) fn of(Output { status, stdout, stderr }: Output) -> Self {
        Self { status, printed: stdout, complained: stderr }
    }
}

/// How a process ended, for people.
#[must_use]
pub fn reported(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn streams_variables_and_places_are_as_asked() {
        let start = Start::new("sh")
            .args(["-c", "read word; echo $word $A $HOME; pwd; echo bad >&2; exit 3"])
            .with([("A", "1")])
            .without(["HOME".into()])
            .within(Path::new("/"));
        let start = start.input(Stream::Pipe).output(Stream::Pipe).messages(Stream::Nothing);
        let mut running = start.begin().unwrap();
        running.take_input().unwrap().write_all(b"said\n").unwrap();
        let mut printed = String::new();
        running.take_output().unwrap().read_to_string(&mut printed).unwrap();
        assert_eq!(printed, "said 1\n/\n");
        assert!(running.take_input().is_none());
        assert_eq!(reported(running.wait().unwrap()), "exit code 3");
        let finished = Start::new("sh").args(["-c", "echo out; echo bad >&2"]).finish().unwrap();
        assert!(finished.status.success());
        assert_eq!(
            (&finished.printed[..], &finished.complained[..]),
            (&b"out\n"[..], &b"bad\n"[..])
        );
    }

    #[test]
    fn a_group_of_its_own_ends_as_a_whole() {
        let line = "sleep 60 & echo $!; wait";
        let start = Start::new("sh").args(["-c", line]).output(Stream::Pipe).in_own_group();
        let mut running = start.begin().unwrap();
        let mut output = std::io::BufReader::new(running.take_output().unwrap());
        let mut child = String::new();
        std::io::BufRead::read_line(&mut output, &mut child).unwrap();
        running.kill_group().unwrap();
        assert_eq!(reported(running.wait().unwrap()), "killed by signal 9");
        // The pipe ends once nobody holds it any more.
        assert_eq!(output.read_to_string(&mut String::new()).unwrap(), 0);
        assert!(child.trim().parse::<u32>().is_ok());
    }
}
