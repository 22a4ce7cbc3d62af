//! What watches a load: Kneepoint's collector, bpftrace, perf, gdb.

use super::undo::Undo;
use anyhow::{Context as _, Result, bail};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

/// Time off the cores with user and kernel stacks, as bcc's `offcputime` sums it.
const OFF_CPU: &str = r#"
BEGIN { printf("READY\n"); }
tracepoint:sched:sched_switch {
  if (args->prev_pid != 0) {
    @begin[args->prev_pid] = nsecs;
    @kernel[args->prev_pid] = kstack;
    @user[args->prev_pid] = ustack;
  }
  if (@begin[args->next_pid] != 0) {
    @off[args->next_comm, @kernel[args->next_pid], @user[args->next_pid]] =
      sum(nsecs - @begin[args->next_pid]);
    delete(@begin[args->next_pid]);
  }
}"#;
/// It finds tracepoints in debugfs, which not every machine has mounted: mounted for it alone.
const WITH_EVENTS: &str = "\
    [ -e /sys/kernel/debug/tracing/events ] || mount -t debugfs none /sys/kernel/debug; \
    exec bpftrace -e \"$1\"";
/// Stacks of all threads again and again, as they are taken by hand where nothing else is there:
/// the process stands still for each. It ends between two of them, when it is told so, since what
/// dies while it holds a process may leave it stopped.
const STACKS_BY_GDB: &str = "\
    while read -r -t 0.5; [ $? -gt 128 ]; do \
        gdb -p \"$1\" -nx -batch -ex 'thread apply all bt' > /dev/null 2>&1; \
    done";
/// How long `perf record` takes to get going.
const SETTLE: Duration = Duration::from_millis(700);

/// Watches one cell at a time.
pub(crate) trait Observer {
    /// Returns when it watches these processes of the system and of its generator.
    fn begin(&mut self, pids: &[u32], generators: &[u32]) -> Result<()>;
    /// Stops; what it has to say of its own cost.
    fn end(&mut self) -> Result<String>;
}

/// The collector alone, from `probe/examples/collect.rs`.
pub(crate) struct Kneepoint {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// How long it will have to watch.
    cell: Duration,
}

impl Kneepoint {
    /// With the word `attached` it never opens a window: the price of being called at all. With
    /// `whole` its windows are as long as the cells.
    pub(crate) fn start(
        program: &Path,
        words: &[&str],
        cell: Duration,
        undo: &Undo,
    ) -> Result<Self> {
        let mut child = Command::new(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| program.display().to_string())?;
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        undo.add_process(&child, name.get(..15).unwrap_or(&name))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let mut collector = Self { child, input, output, cell };
        collector.answer("ready")?;
        Ok(collector)
    }

    fn tell(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("it has ended")?;
        writeln!(input, "{line}").context("the collector has ended")
    }

    fn answer(&mut self, expected: &str) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if !line.starts_with(expected) {
            bail!("the collector said `{}`, not `{expected}`", line.trim());
        }
        Ok(line.trim().to_owned())
    }
}

impl Observer for Kneepoint {
    fn begin(&mut self, pids: &[u32], generators: &[u32]) -> Result<()> {
        let list = |pids: &[u32]| match pids {
            [] => "-".to_owned(),
            _ => pids.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
        };
        let cell = self.cell.as_millis();
        self.tell(&format!("open {} {} {cell}", list(pids), list(generators)))?;
        self.answer("open")?;
        Ok(())
    }

    fn end(&mut self) -> Result<String> {
        self.tell("close")?;
        self.answer("window=")
    }
}

impl Drop for Kneepoint {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// A program that watches from its start until it is ended.
struct Watcher {
    command: Box<dyn Fn() -> Command>,
    name: &'static str,
    /// What its output begins with when it watches; without, it is given [`SETTLE`].
    ready: Option<&'static str>,
    undo: Rc<Undo>,
    running: Option<Child>,
}

impl Observer for Watcher {
    fn begin(&mut self, _: &[u32], _: &[u32]) -> Result<()> {
        let mut child = (self.command)()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context(self.name)?;
        self.undo.add_process(&child, self.name)?;
        let output = child.stdout.take().context("no output")?;
        self.running = Some(child);
        let Some(ready) = self.ready else {
            std::thread::sleep(SETTLE);
            return Ok(());
        };
        for line in BufReader::new(output).lines() {
            if line?.starts_with(ready) {
                return Ok(());
            }
        }
        bail!("{} ended before it watched", self.name)
    }

    /// What it saw is of no interest here, and printing it can take minutes.
    fn end(&mut self) -> Result<String> {
        if let Some(mut child) = self.running.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(String::new())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// gdb, which takes stacks of the system's first process.
struct Gdb {
    undo: Rc<Undo>,
    running: Option<Child>,
}

impl Observer for Gdb {
    fn begin(&mut self, pids: &[u32], _: &[u32]) -> Result<()> {
        let pid = pids.first().context("no process to take stacks of")?.to_string();
        let child = Command::new("bash")
            .args(["-c", STACKS_BY_GDB, "bash", &pid])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("bash")?;
        self.undo.add_process(&child, "bash")?;
        self.running = Some(child);
        Ok(())
    }

    fn end(&mut self) -> Result<String> {
        if let Some(mut child) = self.running.take() {
            if let Some(mut input) = child.stdin.take() {
                writeln!(input, "end").context("gdb")?;
            }
            child.wait()?;
        }
        Ok(String::new())
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// bpftrace, perf or gdb.
pub(crate) fn other(name: &str, undo: &Rc<Undo>) -> Result<Box<dyn Observer>> {
    if name == "gdb" {
        is_installed(name)?;
        return Ok(Box::new(Gdb { undo: Rc::clone(undo), running: None }));
    }
    let out = undo.folder().join("perf.data");
    let (name, ready, command): (_, _, Box<dyn Fn() -> Command>) = match name {
        "bpftrace" => {
            let command = || {
                let mut command = Command::new("unshare");
                command.env("BPFTRACE_MAP_KEYS_MAX", "65536").args(["-m", "sh", "-c", WITH_EVENTS]);
                command.args(["sh", OFF_CPU]);
                command
            };
            ("bpftrace", Some("READY"), Box::new(command))
        }
        "perf" => {
            let command = move || {
                let mut command = Command::new("perf");
                command.args(["record", "-q", "-F", "99", "-g", "-a", "-o"]).arg(&out);
                command
            };
            ("perf", None, Box::new(command))
        }
        _ => bail!("known are kneepoint, whole, attached, bpftrace, perf and gdb"),
    };
    is_installed(name)?;
    Ok(Box::new(Watcher { command, name, ready, undo: Rc::clone(undo), running: None }))
}

fn is_installed(program: &str) -> Result<()> {
    let mut version = Command::new(program);
    version.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    version.status().context("it is not installed")?;
    Ok(())
}
