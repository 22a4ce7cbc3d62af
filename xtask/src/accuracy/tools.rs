//! What tools of today show on top of the same specimens.
//!
//! Each watches the specimen for some seconds at the level where Kneepoint ranks causes. What it
//! shows first, with its whole stack, is kept as text and read generously: it is right where any
//! place that a person would mend stands in it.

use super::build::Built;
use super::names::Names;
use super::specimen::{Drawn, Specimen};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Seconds that each watches.
const SECONDS: &str = "3";
/// Frames of what `perf report` shows first.
const LINES: usize = 24;
/// The kind of causes that are locks of the kernel.
const KERNEL_LOCK: &str = "kernel-lock";
/// Time off a core by stack, as offcputime(8) of bcc counts it, of all threads but the first, which
/// waits for the others. It is printed while they live: after that no stack has names.
const OFF_CPU: &str = "tracepoint:sched:sched_switch {
  if (pid == cpid && tid != cpid) {
    @start[tid] = nsecs;
    @kernel[tid] = kstack(8);
    @user[tid] = ustack(16);
  }
  $next = args->next_pid;
  if (@start[$next]) {
    @off[@kernel[$next], @user[$next]] = sum(nsecs - @start[$next]);
    delete(@start[$next]);
  }
}
interval:s:2 { print(@off); exit(); }
END { clear(@off); clear(@start); clear(@kernel); clear(@user); }";

/// A tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// Waits for locks of the kernel, by caller.
    LockContention,
    /// Time off a core, by stack.
    OffCpu,
    /// Time on a core, by function with its heaviest callers.
    OnCpu,
}

impl Tool {
    pub(super) const ALL: [Self; 3] = [Self::LockContention, Self::OffCpu, Self::OnCpu];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::LockContention => "perf lock contention",
            Self::OffCpu => "off-CPU stacks",
            Self::OnCpu => "perf record",
        }
    }

    /// What it shows on top while the specimen runs; nothing where it shows nothing.
    ///
    /// # Errors
    /// It cannot be started, or fails.
    pub(super) fn top(
        self,
        built: &Built,
        clients: u64,
        drawn: &Drawn,
        folder: &Path,
    ) -> Result<String> {
        let mut program = vec![built.program.display().to_string()];
        program.extend(["-t", &clients.to_string(), "-s", SECONDS].map(str::to_owned));
        program.extend(drawn.arguments.iter().cloned());
        let file = folder.join("perf.data");
        let text = match self {
            Self::LockContention => {
                printed(perf(&["lock", "record", "-o"]).arg(&file).arg("--").args(&program))?;
                first_lock(&printed(perf(&["lock", "contention", "-i"]).arg(&file))?)
            }
            Self::OffCpu => {
                let mut bpftrace = Command::new("bpftrace");
                first_off(&printed(bpftrace.args(["-e", OFF_CPU, "-c", &program.join(" ")]))?)
            }
            Self::OnCpu => {
                let record = ["record", "-q", "-F", "499", "-g", "-o"];
                printed(perf(&record).arg(&file).arg("--").args(&program))?;
                let report =
                    ["report", "--stdio", "--no-children", "-g", "caller,0.5,callee", "-i"];
                first_on(&printed(perf(&report).arg(&file))?)
            }
        };
        let _ = fs::remove_file(&file);
        Ok(text)
    }
}

fn perf(arguments: &[&str]) -> Command {
    let mut perf = Command::new("perf");
    perf.args(arguments);
    perf
}

/// What a command prints, which may end in any way.
fn printed(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| program)?;
    Ok([output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat())
}

/// The line of the lock that was waited for longest: the first that begins with a count.
fn first_lock(text: &str) -> String {
    let counted = |line: &&str| {
        line.split_whitespace().next().is_some_and(|word| word.parse::<u64>().is_ok())
    };
    text.lines().find(counted).unwrap_or_default().trim().to_owned()
}

/// The stack with the most time: the last that bpftrace prints.
fn first_off(text: &str) -> String {
    text.rsplit_once("@off[").map(|(_, stack)| stack.trim().to_owned()).unwrap_or_default()
}

/// The function with the most time and its callers.
fn first_on(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut lines = lines.skip_while(|line| line.trim().is_empty());
    let head = lines.next().unwrap_or_default();
    let is_next = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let callers = lines.take(LINES).take_while(|line| !is_next(line));
    std::iter::once(head).chain(callers).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Whether a planted place stands in what a tool shows. A lock of the kernel counts as shown where
/// `perf lock contention` shows any.
pub(super) fn is_right(tool: Tool, text: &str, specimen: &Specimen, names: &Names) -> bool {
    let roles = names.roles_in(text);
    let plain = names.without(text).to_lowercase();
    specimen.expected.causes.iter().any(|planted| {
        let kernel = planted.kinds.iter().any(|kind| kind == KERNEL_LOCK);
        planted.places.iter().any(|place| roles.contains(place.as_str()))
            || planted.objects.iter().any(|object| plain.contains(&object.to_lowercase()))
            || tool == Tool::LockContention && kernel && !text.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_of_each_is_found() {
        let locks = " contended   total wait   max wait   avg wait      type   caller\n\n\
                     \u{20}   12     30.00 us    4.00 us    2.50 us   rwsem:W   vm_mmap+0x9\n\
                     \u{20}    1      1.00 us    1.00 us    1.00 us  spinlock   other+0x1\n";
        assert!(first_lock(locks).ends_with("vm_mmap+0x9"));
        assert_eq!(first_lock("no contention\n"), "");
        let off = "Attaching 2 probes...\n@off[\n  a\n,\n  small+1\n]: 5\n\
                   @off[\n  b\n,\n  large+2\n]: 50\n";
        assert!(first_off(off).contains("large") && !first_off(off).contains("small"));
        let on = "# To display\n#\n    60.00%  x  x  [.] spin\n            |\n            \
                  ---obtain\n\n    20.00%  x  x  [.] other\n";
        let found = first_on(on);
        assert!(found.contains("obtain") && !found.contains("other"), "{found}");
    }
}
