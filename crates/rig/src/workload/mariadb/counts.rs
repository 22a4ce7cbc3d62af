//! What the clients have counted so far, in a file that they have mapped: the reader's side of
//! `counts.lua`.

use crate::workload::{SliceOutput, Tally};
use anyhow::{Context as _, ensure};
use kneepoint_vocab::{CountCheck, Latency, Nanos};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Numbers of a client; `counts.lua` says which.
const NUMBERS: usize = 1024;
/// Where the bins begin.
const FIRST_BIN: usize = 8;
/// Bins for each doubling of the response time.
const PER_DOUBLING: f64 = 32.0;
/// Lower edge of the first bin.
const LEAST: f64 = 1000.0;
const WORD: u64 = 8;
const GONE: &str = "the clients' counts are gone";

/// The file, gone when dropped.
#[derive(Debug)]
pub(super) struct Counts {
    file: File,
    directory: PathBuf,
    clients: u32,
}

/// A client's numbers that are looked at one by one.
const ENDED: u64 = 0;
const TO_STOP: u64 = 1;
const BEGUN: u64 = 3;
const AT_GATE: u64 = 4;
/// Those of all numbers that come and go.
const FLAGS: [usize; 2] = [TO_STOP as usize, AT_GATE as usize];

/// All counts at one instant.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    /// Numbers of each client, in client order.
    numbers: Vec<Vec<f64>>,
}

/// What the clients have done between two readings.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Done {
    pub(super) per_client: Vec<u64>,
    pub(super) latency: Option<Latency>,
}

fn file_in(directory: &Path) -> PathBuf {
    directory.join("counts")
}

fn script_in(directory: &Path) -> PathBuf {
    directory.join("counts.lua")
}

impl Counts {
    /// Counts of so many clients, all zero, below `directory`.
    pub(super) fn begin(directory: &Path, clients: u32) -> anyhow::Result<Self> {
        let path = file_in(directory);
        let failed = || format!("{}: no file for counts", path.display());
        // What a former generator may still have mapped is not reused.
        let _ = fs::remove_file(&path);
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = file.with_context(failed)?;
        file.set_len(u64::from(clients) * WORD * NUMBERS as u64).with_context(failed)?;
        let script = script_in(directory);
        fs::write(&script, include_str!("counts.lua"))
            .with_context(|| script.display().to_string())?;
        Ok(Self { file, directory: directory.to_owned(), clients })
    }

    /// What a script has to find in its environment.
    pub(super) fn environment(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("KNEEPOINT_COUNTS".into(), file_in(&self.directory).into()),
            ("KNEEPOINT_COUNTER".into(), script_in(&self.directory).into()),
        ]
    }

    /// Operations so far.
    pub(super) fn operations(&self) -> anyhow::Result<u64> {
        self.sum(ENDED, self.clients)
    }

    /// Operations that the first clients have begun so far.
    pub(super) fn begun(&self, clients: u32) -> anyhow::Result<u64> {
        self.sum(BEGUN, clients)
    }

    /// How many of the first clients wait at their gates.
    pub(super) fn at_gates(&self, clients: u32) -> anyhow::Result<u64> {
        self.sum(AT_GATE, clients)
    }

    fn sum(&self, index: u64, clients: u32) -> anyhow::Result<u64> {
        let mut all = 0.0;
        for client in 0..clients {
            let mut bytes = [0; WORD as usize];
            self.file.read_exact_at(&mut bytes, place(client, index)).context(GONE)?;
            all += f64::from_ne_bytes(bytes);
        }
        Ok(whole(all))
    }

    /// Everything that was counted so far.
    pub(super) fn read(&self) -> anyhow::Result<Reading> {
        let all = (0..self.clients).map(|client| self.numbers(client));
        Ok(Reading { numbers: all.collect::<anyhow::Result<_>>()? })
    }

    /// Tells the first clients to stop in place of the next operation.
    pub(super) fn stop(&self, clients: u32) -> anyhow::Result<()> {
        self.tell(clients, 1.0).context("the clients cannot be told to stop")
    }

    /// Takes back what [`Counts::stop`] said; who waits at a gate has to be let go besides.
    pub(super) fn go_on(&self, clients: u32) -> anyhow::Result<()> {
        self.tell(clients, 0.0).context("the clients cannot be told to go on")
    }

    fn tell(&self, clients: u32, what: f64) -> io::Result<()> {
        let bytes = what.to_ne_bytes();
        (0..clients).try_for_each(|client| self.file.write_all_at(&bytes, place(client, TO_STOP)))
    }

    /// All numbers of a client.
    fn numbers(&self, client: u32) -> anyhow::Result<Vec<f64>> {
        let mut bytes = [0; NUMBERS * WORD as usize];
        self.file.read_exact_at(&mut bytes, place(client, 0)).context(GONE)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| f64::from_ne_bytes(*word)).collect())
    }
}

/// Where a number of a client lies in the file.
fn place(client: u32, index: u64) -> u64 {
    (u64::from(client) * NUMBERS as u64 + index) * WORD
}

impl Drop for Counts {
    fn drop(&mut self) {
        let _ = fs::remove_file(file_in(&self.directory));
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are whole, positive and far below 2^53; what is not becomes a bound"
)]
fn whole(count: f64) -> u64 {
    count as u64
}

impl Reading {
    /// What was done since an earlier reading of the same clients.
    ///
    /// # Errors
    /// A count fell.
    pub(super) fn since(&self, earlier: &Self) -> anyhow::Result<Done> {
        let pairs = || self.numbers.iter().zip(&earlier.numbers);
        let growing = |index: &usize| !FLAGS.contains(index);
        let fell = pairs()
            .any(|(now, then)| (0..NUMBERS).filter(growing).any(|index| now[index] < then[index]));
        ensure!(
            !fell && self.numbers.len() == earlier.numbers.len(),
            "a client's count of operations ran backwards"
        );
        let per_client = pairs().map(|(now, then)| whole(now[0] - then[0])).collect();
        let sum = |index: usize| pairs().map(|(now, then)| now[index] - then[index]).sum::<f64>();
        let bins: Vec<f64> = (FIRST_BIN..NUMBERS).map(sum).collect();
        Ok(Done { per_client, latency: latency(&bins, sum(2)) })
    }
}

/// Percentiles from bins of 2.2 % each: the geometric middle of the bin that holds them. The
/// longest is its bin's upper edge.
fn latency(bins: &[f64], sum: f64) -> Option<Latency> {
    let all: f64 = bins.iter().sum();
    if all < 1.0 {
        return None;
    }
    #[allow(clippy::cast_precision_loss, reason = "there are a thousand bins")]
    let edge =
        |bin: usize, part: f64| Nanos(whole(LEAST * ((bin as f64 + part) / PER_DOUBLING).exp2()));
    let at = |share: f64| {
        let mut below = 0.0;
        let bin = bins.iter().position(|count| {
            below += count;
            below >= share * all
        });
        edge(bin.unwrap_or(bins.len()), 0.5)
    };
    let last = bins.iter().rposition(|count| *count > 0.0)?;
    Some(Latency {
        mean: Nanos(whole(sum / all)),
        p50: at(0.5),
        p95: Some(at(0.95)),
        p99: at(0.99),
        longest: Some(edge(last, 1.0)),
    })
}

/// A counting window over clients that go on working.
#[derive(Debug)]
pub(super) struct Window {
    counts: Counts,
    /// How many of the clients work, the first ones.
    active: u32,
    begun: Instant,
    opened: Option<(Instant, Reading)>,
    closed: Option<(Instant, Reading)>,
}

impl Window {
    /// No window yet.
    pub(super) fn over(counts: Counts) -> Self {
        Self { active: counts.clients, counts, begun: Instant::now(), opened: None, closed: None }
    }

    /// A new slice, in which only so many clients work: no window yet.
    pub(super) fn renew(&mut self, active: u32) {
        (self.active, self.begun) = (active, Instant::now());
        (self.opened, self.closed) = (None, None);
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(super) fn progress(&self) -> anyhow::Result<Tally> {
        let at = nanos(self.begun.elapsed());
        Ok(Tally { at, operations: self.counts.sum(ENDED, self.active)? })
    }

    pub(super) fn mark(&mut self) -> anyhow::Result<()> {
        self.opened = Some((Instant::now(), self.counts.read()?));
        self.closed = None;
        Ok(())
    }

    /// Closes the window, if it is not closed yet.
    pub(super) fn close(&mut self) -> anyhow::Result<()> {
        if self.closed.is_none() {
            self.closed = Some((Instant::now(), self.counts.read()?));
        }
        Ok(())
    }

    /// What was done between the edges.
    pub(super) fn output(&self, counts: Option<CountCheck>) -> anyhow::Result<SliceOutput> {
        let (opened, before) = self.opened.as_ref().context("no window was opened")?;
        let (closed, after) = self.closed.as_ref().context("the window was not closed")?;
        let counted_over = nanos(closed.duration_since(*opened));
        let Done { mut per_client, latency } = after.since(before)?;
        per_client.truncate(self.active as usize);
        let operations = per_client.iter().sum();
        ensure!(
            operations > 0 && counted_over > Nanos(0),
            "the generator ended no operation in a window of {:.1} s; no number",
            counted_over.seconds().0
        );
        Ok(SliceOutput { operations, counted_over, per_client, latency, counts })
    }
}

fn nanos(length: Duration) -> Nanos {
    Nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn put(counts: &Counts, client: u64, index: u64, value: f64) {
        let place = (client * NUMBERS as u64 + index) * WORD;
        counts.file.write_all_at(&value.to_ne_bytes(), place).unwrap();
    }

    #[test]
    fn a_window_is_what_was_counted_between_its_edges() {
        let folder = TempDir::new().unwrap();
        let counts = Counts::begin(folder.path(), 2).unwrap();
        put(&counts, 0, 0, 50.0);
        put(&counts, 0, 8 + 64, 50.0);
        let begin = counts.read().unwrap();
        put(&counts, 0, 0, 140.0);
        put(&counts, 0, 2, 360_000.0);
        put(&counts, 0, 8 + 64, 140.0);
        put(&counts, 1, 0, 10.0);
        put(&counts, 1, 2, 160_000.0);
        put(&counts, 1, 8 + 128, 10.0);
        assert_eq!(counts.operations().unwrap(), 150);
        let end = counts.read().unwrap();
        let done = end.since(&begin).unwrap();
        assert_eq!(done.per_client, [90, 10]);
        let latency = done.latency.unwrap();
        // 4 µs begin the 64th bin, 16 µs the 128th.
        let near =
            |found: Nanos, micros: f64| (found.seconds().0 * 1e6 / micros - 1.0).abs() < 0.023;
        assert!(
            near(latency.p50, 4.04) && near(latency.p95.unwrap(), 16.2) && near(latency.p99, 16.2)
        );
        assert_eq!(latency.mean, Nanos(5200));
        assert!(latency.longest > Some(latency.p99));
        assert_eq!(end.since(&end).unwrap().latency, None);
        let error = begin.since(&end).unwrap_err().to_string();
        assert!(error.contains("ran backwards"), "{error}");
    }

    #[test]
    fn a_window_without_operations_has_no_number() {
        let folder = TempDir::new().unwrap();
        let counts = Counts::begin(folder.path(), 1).unwrap();
        put(&counts, 0, 0, 7.0);
        let mut window = Window::over(counts);
        assert!(window.output(None).is_err(), "it was never opened");
        window.mark().unwrap();
        window.close().unwrap();
        let error = window.output(None).unwrap_err().to_string();
        assert!(error.contains("ended no operation in a window of"), "{error}");
        window.mark().unwrap();
        put(window.counts(), 0, 0, 9.0);
        assert_eq!(window.progress().unwrap().operations, 9);
        window.close().unwrap();
        put(window.counts(), 0, 0, 11.0);
        // Closed again it stays as it was.
        window.close().unwrap();
        assert_eq!(window.output(None).unwrap().per_client, [2]);
    }

    #[test]
    fn a_slice_of_some_of_the_clients_counts_these() {
        let folder = TempDir::new().unwrap();
        let mut window = Window::over(Counts::begin(folder.path(), 3).unwrap());
        window.mark().unwrap();
        window.renew(2);
        assert!(window.output(None).is_err(), "the window was of another slice");
        window.mark().unwrap();
        put(window.counts(), 0, 0, 3.0);
        put(window.counts(), 1, 0, 4.0);
        window.close().unwrap();
        assert_eq!(window.progress().unwrap().operations, 7);
        assert_eq!(window.output(None).unwrap().per_client, [3, 4]);
    }

    #[test]
    fn clients_are_told_to_stop_and_to_go_on_and_the_file_goes() {
        let folder = TempDir::new().unwrap();
        let counts = Counts::begin(folder.path(), 3).unwrap();
        let reported = || {
            let all = counts.read().unwrap().numbers;
            all.into_iter().map(|client| client[1] > 0.5).collect::<Vec<_>>()
        };
        counts.stop(3).unwrap();
        assert_eq!(reported(), [true; 3]);
        counts.go_on(2).unwrap();
        assert_eq!(reported(), [false, false, true]);
        assert_eq!(counts.operations().unwrap(), 0);
        put(&counts, 1, 3, 4.0);
        put(&counts, 2, 4, 1.0);
        let found = [1, 2, 3].map(|first| counts.begun(first).unwrap());
        assert_eq!(found, [0, 4, 4]);
        assert_eq!([2, 3].map(|first| counts.at_gates(first).unwrap()), [0, 1]);
        drop(counts);
        assert!(!file_in(folder.path()).exists());
    }
}
