//! sysbench at work: one process with a thread for each client, or a process for each.

use crate::output;
use crate::process::{Process, Program};
use crate::search_path::SearchPath;
use crate::undo::Undo;
use crate::workload::SliceOutput;
use crate::workload::kernel_counts::{self, agreed, calls_beside_first_thread, has_ended};
use anyhow::{Context as _, bail, ensure};
use kneepoint_vocab::{CountCheck, Nanos};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often processes are looked at until all of them write.
const GLANCE: Duration = Duration::from_millis(1);
/// Waits for the end of its input, then becomes the program that its arguments name.
const GATE: &str = r#"read -r _; exec "$@""#;

/// The processes of one slice.
pub(super) struct ClientProcesses {
    members: Vec<Member>,
    clients: u32,
}

struct Member {
    process: Process,
    /// When all its writers were first seen to have written.
    begun: Option<Instant>,
    /// Kernel ids of the threads that write.
    writers: Vec<u32>,
}

impl Member {
    /// Looks whether so many of its threads write by now.
    fn look(&mut self, writers: usize) -> bool {
        let pid = self.process.pid();
        let mut threads = kernel_counts::threads(pid, "sysbench");
        // The first thread only waits for the others.
        threads.retain(|(tid, done)| *tid != pid && done.write_calls > 0);
        if threads.len() == writers {
            self.begun = Some(Instant::now());
            self.writers = threads.into_iter().map(|(tid, _)| tid).collect();
        }
        self.begun.is_some()
    }
}

impl ClientProcesses {
    /// Starts these programs, which have the same number of clients each, and waits until all
    /// clients write. Several programs begin together.
    pub(super) fn start(
        programs: Vec<Program<'_>>,
        clients: u32,
        undo: &Undo,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let (gate, release) = std::io::pipe().context("no pipe for the clients")?;
        let several = programs.len() > 1;
        let mut members = Vec::new();
        for mut program in programs {
            if several {
                let gate = gate.try_clone().context("no pipe for a client")?;
                program = gated(program, File::from(OwnedFd::from(gate)));
            }
            let process = program.spawn(undo)?;
            members.push(Member { process, begun: None, writers: Vec::new() });
        }
        drop(gate);
        drop(release);
        let mut client_processes = Self { members, clients };
        client_processes.await_writers(timeout)?;
        Ok(client_processes)
    }

    /// Clients of each process.
    fn each(&self) -> usize {
        self.clients as usize / self.members.len().max(1)
    }

    fn await_writers(&mut self, timeout: Duration) -> anyhow::Result<()> {
        let (deadline, each) = (Instant::now() + timeout, self.each());
        loop {
            let waiting = self.members.iter_mut().filter(|member| member.begun.is_none());
            let mut waiting = waiting.filter_map(|member| (!member.look(each)).then_some(member));
            let Some(late) = waiting.next() else { return Ok(()) };
            let rest = waiting.count();
            if let Some(status) = late.process.ended() {
                return Err(late.process.lost(&format!("ended before it wrote, {status}")));
            }
            if Instant::now() > deadline {
                let (rest, all) = (rest + 1, self.members.len());
                bail!("{rest} of {all} processes of sysbench do not write after {timeout:?}");
            }
            std::thread::sleep(GLANCE);
        }
    }

    /// Process ids, in client order where each client is one.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.process.pid()).collect()
    }

    /// Kernel ids of the threads that write, in client order.
    pub(super) fn writers(&self) -> Vec<u32> {
        self.members.iter().flat_map(|member| member.writers.iter().copied()).collect()
    }

    /// Whether all of them still work.
    pub(super) fn works(&self) -> bool {
        !self.members.iter().any(|member| has_ended(&member.process))
    }

    /// Who has which files below `place` open.
    pub(super) fn seen(&self, place: &Path) -> Seen {
        let mut openers: BTreeMap<PathBuf, u32> = BTreeMap::new();
        for pid in self.pids() {
            let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            let targets = links.filter_map(|link| fs::read_link(link.path()).ok());
            let mut open: Vec<PathBuf> =
                targets.filter(|path| path.starts_with(place) && is_written(path)).collect();
            open.sort_unstable();
            open.dedup();
            for file in open {
                *openers.entry(file).or_default() += 1;
            }
        }
        Seen {
            processes: self.members.len(),
            writers: self.writers().len(),
            files: openers.len(),
            shared: openers.values().filter(|processes| **processes > 1).count(),
        }
    }

    /// Waits until their time is over, and puts together what they did.
    pub(super) fn finish(mut self, timeout: Duration) -> anyhow::Result<SliceOutput> {
        let each = self.each();
        let (mut calls, mut reports, mut spans) = (0, Vec::new(), Vec::new());
        for member in &mut self.members {
            let process = &mut member.process;
            // The first thread writes the report, and nothing else does.
            calls += calls_beside_first_thread(process, timeout)?.write_calls;
            let printed = process.await_success(timeout)?;
            let run = output::sysbench::parse(&printed)
                .with_context(|| format!("sysbench's report{}", process.tail()))?;
            let found = run.clients as usize;
            ensure!(found == each, "sysbench had {found} threads, not {each}");
            ensure!(run.operations > 0 && run.counted_over.0 > 0, "sysbench wrote nothing");
            spans.push((member.begun.context("a client never began")?, run.counted_over));
            reports.push((run, printed));
        }
        let per_client: Vec<u64> = reports.iter().map(|(run, _)| run.operations).collect();
        let operations = per_client.iter().sum();
        let check = CountCheck {
            counter: "write calls, by /proc/PID/io".to_owned(),
            generator: operations,
            server: calls,
        };
        Ok(SliceOutput {
            operations,
            counted_over: span(&spans),
            per_client: if each == 1 { per_client } else { Vec::new() },
            latency: output::sysbench::together(&reports),
            counts: Some(agreed(check, super::NAME)?),
        })
    }
}

/// The program behind a gate: it begins once the input ends.
fn gated(program: Program<'_>, gate: File) -> Program<'_> {
    let path = SearchPath::own().resolved(&program.path);
    let head = ["-c".into(), GATE.into(), "sysbench".into(), path.into_os_string()];
    let arguments = head.into_iter().chain(program.arguments.iter().cloned()).collect();
    Program { path: "sh".into(), arguments, input: Some(gate), ..program }
}

/// From the first begin to the last end. Clients that begin a moment apart share the same cores
/// or lock, so what one lacks at the end another has had at the begin.
fn span(runs: &[(Instant, Nanos)]) -> Nanos {
    let first = runs.iter().map(|(begun, _)| *begun).min();
    let ends = runs.iter().map(|(begun, lasted)| *begun + Duration::from_nanos(lasted.0));
    let lasted = first.zip(ends.max()).map(|(first, last)| last.duration_since(first));
    Nanos(u64::try_from(lasted.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX))
}

/// Whether this is one of sysbench's files, by its name.
pub(super) fn is_written(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("test_file."))
}

/// What the kernel shows of clients and their files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) processes: usize,
    pub(super) writers: usize,
    /// Files that any of them has open.
    pub(super) files: usize,
    /// Of these, files that several processes have open.
    pub(super) shared: usize,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processes, writers, files, shared } = self;
        write!(
            f,
            "processes: {processes}, writing threads: {writers}, open files: {files}, of these in \
             several processes: {shared}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_span_of_runs_is_from_the_first_begin_to_the_last_end() {
        let begun = Instant::now();
        let later = begun + Duration::from_millis(20);
        let second = Nanos::from_millis(1000);
        assert_eq!(span(&[(begun, second)]), second);
        assert_eq!(span(&[(later, second), (begun, second)]), Nanos::from_millis(1020));
        let early = Nanos::from_millis(900);
        assert_eq!(span(&[(begun, second), (later, early)]), second);
    }

    #[test]
    fn only_what_sysbench_writes_to_counts() {
        assert!(is_written(Path::new("/x/client-1/test_file.0")));
        assert!(!is_written(Path::new("/x/sysbench-abc.out")));
    }
}
