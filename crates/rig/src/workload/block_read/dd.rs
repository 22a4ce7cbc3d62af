//! dd as the readers, as people have always done it: one process a client, each reading its
//! device once from the begin, one record at a time.

use super::settings::Settings;
use crate::process::{Process, Program};
use crate::undo::Undo;
use crate::workload::kernel_counts::IoCounts;
use crate::workload::{Drive, SliceOutput};
use anyhow::{Context as _, ensure};
use kneepoint_vocab::Nanos;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Running dd processes.
pub(super) struct ClientProcesses {
    members: Vec<Process>,
    /// What each had read when the window opened.
    marks: Option<Vec<Progress>>,
    timeout: Duration,
}

/// What dd says of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Progress {
    records: u64,
    /// Since it started to read, in seconds by its own clock.
    seconds: f64,
}

impl ClientProcesses {
    /// Starts one dd a client and waits until every one of them reads.
    pub(super) fn start(
        settings: &Settings,
        devices: &[PathBuf],
        drive: &Drive,
        folder: &Path,
        undo: &Undo,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let mut members = Vec::new();
        for device in devices.iter().cycle().take(drive.clients as usize) {
            let arguments = [
                // Who starts Kneepoint in the background has it ignore this signal, and dd with it.
                "--default-signal=INT".to_owned(),
                "dd".to_owned(),
                format!("if={}", device.display()),
                "of=/dev/null".to_owned(),
                format!("bs={}", settings.block_size),
                "iflag=direct".to_owned(),
            ];
            let mut program = Program::new("dd", "env", arguments, folder);
            program.environment.push(("LC_ALL".into(), "C".into()));
            program.environment.extend(settings.environment.for_program());
            program.cpus.clone_from(&drive.cpus.system);
            program.raised = false;
            members.push(program.spawn(undo)?);
        }
        for member in &mut members {
            member.await_ready(timeout, |dd| reads(dd.pid()))?;
        }
        Ok(Self { members, marks: None, timeout })
    }

    /// Process ids in client order.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.members.iter().map(Process::pid).collect()
    }

    /// Read system calls of all of them so far.
    pub(super) fn read_calls(&self) -> anyhow::Result<u64> {
        let calls = self.members.iter().map(|dd| Ok(IoCounts::of(dd.pid())?.read_calls));
        calls.sum()
    }

    /// That each still reads.
    pub(super) fn check(&mut self) -> anyhow::Result<()> {
        for member in &mut self.members {
            if member.ended().is_some() {
                return Err(member.lost("reached the end of its device, which is too short"));
            }
        }
        Ok(())
    }

    /// Opens the window: dd reports on this signal and goes on.
    pub(super) fn mark(&mut self) -> anyhow::Result<()> {
        self.check()?;
        let before: Vec<usize> = self.members.iter().map(reports).collect();
        for member in &self.members {
            member.signal(Signal::USR1)?;
        }
        let mut marks = Vec::new();
        for (member, before) in self.members.iter_mut().zip(before) {
            member.await_ready(self.timeout, |dd| reports(dd) > before)?;
            marks.push(last_report(member)?);
        }
        self.marks = Some(marks);
        Ok(())
    }

    /// Closes the window and ends them. Also the records that each read in its whole life.
    pub(super) fn finish(mut self) -> anyhow::Result<(SliceOutput, u64)> {
        self.check()?;
        let marks = self.marks.take().context("block-read: finish before mark")?;
        for member in &self.members {
            member.signal(Signal::INT)?;
        }
        let (mut per_client, mut seconds, mut lifelong) = (Vec::new(), 0.0, 0);
        for (member, mark) in self.members.iter_mut().zip(marks) {
            member.await_end(self.timeout)?;
            let end = last_report(member)?;
            ensure!(end.records >= mark.records, "dd counted backwards");
            per_client.push(end.records - mark.records);
            seconds += end.seconds - mark.seconds;
            lifelong += end.records;
        }
        let operations: u64 = per_client.iter().sum();
        ensure!(operations > 0 && seconds > 0.0, "dd read nothing");
        // Each has a window of its own, opened and closed a moment after its neighbour's.
        let counted_over = Duration::from_secs_f64(seconds / f64::from(clients(&per_client)));
        let counted_over = Nanos(u64::try_from(counted_over.as_nanos()).unwrap_or(u64::MAX));
        let output =
            SliceOutput { operations, counted_over, per_client, latency: None, counts: None };
        Ok((output, lifelong))
    }
}

fn clients(per_client: &[u64]) -> u32 {
    u32::try_from(per_client.len()).unwrap_or(u32::MAX)
}

/// Whether dd has read something: its place in the device, which is its standard input, moved.
/// It takes its start of time after it opened the device and catches signals long before; asked
/// for a report in between, it counts the time from the machine's start.
fn reads(pid: u32) -> bool {
    let about = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/0")).unwrap_or_default();
    let place = about.lines().find_map(|line| line.strip_prefix("pos:"));
    place.and_then(|place| place.trim().parse::<u64>().ok()).is_some_and(|place| place > 0)
}

/// How many whole reports a dd has written.
fn reports(dd: &Process) -> usize {
    dd.complained().map_or(0, |text| text.matches(" s, ").count())
}

fn last_report(dd: &Process) -> anyhow::Result<Progress> {
    parse(&dd.complained()?).ok_or_else(|| dd.lost("reports in no form that is known"))
}

/// The last report in what dd wrote.
pub(super) fn parse(text: &str) -> Option<Progress> {
    let lines: Vec<&str> = text.lines().collect();
    let copied = lines.iter().rposition(|line| line.contains(" copied, "))?;
    let seconds = lines[copied].split(" copied, ").nth(1)?.split(" s").next()?.parse().ok()?;
    let records = lines[..copied].iter().rev().find_map(|line| line.strip_suffix(" records in"))?;
    let (whole, partial) = records.split_once('+')?;
    let records = whole.parse::<u64>().ok()? + partial.parse::<u64>().ok()?;
    (f64::is_finite(seconds) && seconds >= 0.0).then_some(Progress { records, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Seek as _, Write as _};
    use std::process::Command;

    const TWICE: &str = "10+0 records in\n10+0 records out\n\
        5120 bytes (5.1 kB, 5.0 KiB) copied, 0.001 s, 5.1 MB/s\n\
        131072+1 records in\n131072+1 records out\n\
        67108864 bytes (67 MB, 64 MiB) copied, 1.28374 s, 52.3 MB/s\n";

    #[test]
    fn the_last_report_counts() {
        assert_eq!(parse(TWICE), Some(Progress { records: 131_073, seconds: 1.28374 }));
    }

    #[test]
    fn who_only_holds_its_input_open_does_not_read_yet() {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(&[0; 2]).unwrap();
        input.rewind().unwrap();
        let mut holder = Command::new("sleep");
        let mut holder = holder.arg("60").stdin(input.try_clone().unwrap()).spawn().unwrap();
        assert!(!reads(holder.id()));
        // Both have the same open file, so the place in it moves for both.
        input.read_exact(&mut [0]).unwrap();
        assert!(reads(holder.id()));
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(!reads(holder.id()));
    }

    #[test]
    fn nonsense_is_no_report() {
        let bad = [
            "",
            "dd: failed to open",
            " copied, x s, ",
            "x+0 records in\n1 bytes copied, 1 s, 1 B/s\n",
            "1+0 records in\n1 bytes copied, inf s, 1 B/s\n",
            "1 bytes copied, 1 s, 1 B/s\n",
        ];
        for text in bad {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
