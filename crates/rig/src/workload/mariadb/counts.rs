//! What the clients have counted so far, in a file that they have mapped: the reader's side of
//! `counts.lua`.

use crate::workload::{SliceOutput, Tally};
use anyhow::{Context as _, ensure};
use kneepoint_vocab::{CountCheck, Latency, Nanos};
use std::ffi::OsString;
use std::fs::{self, File};
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

/// The file, gone when dropped.
#[derive(Debug)]
pub(super) struct Counts {
    file: File,
    directory: PathBuf,
    clients: u32,
}

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
        let mut all = 0.0;
        for client in 0..self.clients {
            all += self.numbers::<{ WORD as usize }>(client)?[0];
        }
        Ok(whole(all))
    }

    /// Everything that was counted so far.
    pub(super) fn read(&self) -> anyhow::Result<Reading> {
        let all = (0..self.clients).map(|client| self.numbers::<{ NUMBERS * 8 }>(client));
        Ok(Reading { numbers: all.collect::<anyhow::Result<_>>()? })
    }

    /// Tells all clients to end in place of the next operation.
    pub(super) fn end(&self) -> anyhow::Result<()> {
        let clients = 0..u64::from(self.clients);
        clients
            .map(|client| client * WORD * NUMBERS as u64 + WORD)
            .try_for_each(|place| self.file.write_all_at(&1.0_f64.to_ne_bytes(), place))
            .context("the clients cannot be told to end")
    }

    /// The first numbers of a client, of so many bytes.
    fn numbers<const BYTES: usize>(&self, client: u32) -> anyhow::Result<Vec<f64>> {
        let mut bytes = [0; BYTES];
        let place = u64::from(client) * WORD * NUMBERS as u64;
        self.file.read_exact_at(&mut bytes, place).context("the clients' counts are gone")?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| f64::from_ne_bytes(*word)).collect())
    }
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
        let fell = pairs().any(|(now, then)| now.iter().zip(then).any(|(now, then)| now < then));
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
        p95: at(0.95),
        p99: at(0.99),
        longest: edge(last, 1.0),
    })
}

/// A counting window over clients that go on working.
#[derive(Debug)]
pub(super) struct Window {
    counts: Counts,
    begun: Instant,
    opened: Option<(Instant, Reading)>,
    closed: Option<(Instant, Reading)>,
}

impl Window {
    /// No window yet.
    pub(super) fn over(counts: Counts) -> Self {
        Self { counts, begun: Instant::now(), opened: None, closed: None }
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(super) fn progress(&self) -> anyhow::Result<Tally> {
        let at = nanos(self.begun.elapsed());
        Ok(Tally { at, operations: self.counts.operations()? })
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
        let Done { per_client, latency } = after.since(before)?;
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
        assert!(near(latency.p50, 4.04) && near(latency.p95, 16.2) && near(latency.p99, 16.2));
        assert_eq!(latency.mean, Nanos(5200));
        assert!(latency.longest > latency.p99);
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
    fn clients_are_told_to_end_and_the_file_goes() {
        let folder = TempDir::new().unwrap();
        let counts = Counts::begin(folder.path(), 3).unwrap();
        counts.end().unwrap();
        let told = counts.read().unwrap().numbers.iter().all(|client| client[1] > 0.5);
        assert!(told && counts.operations().unwrap() == 0);
        drop(counts);
        assert!(!file_in(folder.path()).exists());
    }
}
