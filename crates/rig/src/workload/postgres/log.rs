//! pgbench's log of transactions: whose it was, the how many-th of that client, when it ended and
//! how long it took. From it follow the count at any instant, and the percentiles of any window.
//! Where transactions are many, a part of them is logged: to log each takes as much as a twentieth
//! of a short one's time, and the numbers of those that are logged still tell how many there were.
//!
//! Each of its threads writes a file of its own, block by block: while they grow, what is known is
//! known up to the end of the last whole line of the thread that lags most.

use anyhow::{Context as _, ensure};
use kneepoint_vocab::{Latency, Nanos};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The name that its files begin with.
const PREFIX: &str = "transactions";
/// How far the clock that stamps the transactions may go apart from the one that never jumps.
const APART: Duration = Duration::from_millis(5);
/// Option that makes pgbench write it.
const OPTION: &str = "--log";
/// So many lines a second take next to nothing, and fill blocks often enough for the log to be read
/// while it grows, also at a level that does a tenth of them.
const LINES: f64 = 20_000.0;
/// The share of transactions that is logged before anything is known of their number.
const FIRST: f64 = 1.0;
/// The least share: that pgbench takes is rounded to thousandths.
const LEAST: f64 = 0.01;
/// Of a client that works, so many times as many transactions as one line stands for do not go by
/// without a line.
const SILENT: f64 = 50.0;

/// One transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Microseconds since the epoch.
    end: u64,
    client: u32,
    /// The how many-th of its client, from 1.
    number: u64,
    took: Nanos,
    /// Transactions of all clients of its file, as far as lines up to this one tell.
    so_far: u64,
}

/// The share of transactions that is logged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampling(f64);

impl Default for Sampling {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl Sampling {
    /// For so many transactions a second.
    pub(super) fn of(rate: f64) -> Self {
        let share = (LINES / rate.max(1.0)).clamp(LEAST, 1.0);
        Self((share * 1000.0).round() / 1000.0)
    }
}

/// Transactions a second that a server has done so far, by clients.
#[derive(Debug, Default)]
pub(super) struct Rates(BTreeMap<u32, f64>);

impl Rates {
    /// What a slice of so many clients did.
    pub(super) fn keep(&mut self, clients: u32, rate: f64) {
        self.0.insert(clients, rate);
    }

    /// For the next slice of so many clients: one that was not seen yet may do as many as any.
    pub(super) fn sampling(&self, clients: u32) -> Sampling {
        let highest = || self.0.values().copied().reduce(f64::max);
        let rate = self.0.get(&clients).copied().or_else(highest);
        rate.map_or_else(Sampling::default, Sampling::of)
    }
}

/// The file of one thread.
#[derive(Debug)]
struct Thread {
    path: PathBuf,
    file: Option<File>,
    /// The begin of a line whose rest is still to come.
    torn: Vec<u8>,
    entries: Vec<Entry>,
    /// The number of the last transaction of each of its clients.
    last: BTreeMap<u32, u64>,
}

/// An instant by the clock that stamps the transactions, and by the one that never jumps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    wall: SystemTime,
    steady: Instant,
}

/// The log of one run. Dropping it removes its files.
#[derive(Debug)]
pub(super) struct Log {
    threads: Vec<Thread>,
    started: Edge,
    sampling: Sampling,
}

/// What ended in a window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Done {
    pub(super) per_client: Vec<u64>,
    pub(super) over: Nanos,
    pub(super) latency: Option<Latency>,
}

/// Arguments that make pgbench write the log below `directory`.
pub(super) fn arguments(directory: &Path, sampling: Sampling) -> Vec<String> {
    let prefix = format!("--log-prefix={}", directory.join(PREFIX).display());
    let mut arguments = vec![OPTION.to_owned(), prefix];
    if sampling.0 < 1.0 {
        arguments.push(format!("--sampling-rate={}", sampling.0));
    }
    arguments
}

impl Edge {
    pub(super) fn now() -> Self {
        Self { wall: SystemTime::now(), steady: Instant::now() }
    }

    fn micros(&self) -> u64 {
        let since = self.wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    /// Time since `earlier`, if both clocks agree about it.
    fn since(&self, earlier: &Self) -> anyhow::Result<Duration> {
        let steady = self.steady.saturating_duration_since(earlier.steady);
        let wall = self.wall.duration_since(earlier.wall).unwrap_or_default();
        ensure!(
            steady.abs_diff(wall) <= APART + steady / 1000,
            "the machine's clock was set while pgbench ran ({wall:?} passed by it, {steady:?} \
             really): its log cannot be placed; no number"
        );
        Ok(steady)
    }
}

impl Log {
    /// The log of a pgbench with this process id, started at `started`.
    pub(super) fn of(
        directory: &Path,
        process: u32,
        threads: u32,
        started: Edge,
        sampling: Sampling,
    ) -> Self {
        let path = |thread| match thread {
            0 => directory.join(format!("{PREFIX}.{process}")),
            _ => directory.join(format!("{PREFIX}.{process}.{thread}")),
        };
        let thread = |index| Thread {
            path: path(index),
            file: None,
            torn: Vec::new(),
            entries: Vec::new(),
            last: BTreeMap::new(),
        };
        Self { threads: (0..threads).map(thread).collect(), started, sampling }
    }

    /// Reads what has come since it was last read.
    ///
    /// # Errors
    /// What stands there is no log of pgbench's.
    pub(super) fn read(&mut self) -> anyhow::Result<()> {
        self.threads.iter_mut().try_for_each(Thread::read)
    }

    /// Transactions that it tells of.
    fn transactions(&self) -> u64 {
        self.threads.iter().flat_map(|thread| thread.last.values()).sum()
    }

    /// Once pgbench has ended.
    ///
    /// # Errors
    /// It does not tell of the transactions that so many clients report; those that are not logged
    /// left out.
    pub(super) fn check(&self, reported: u64, clients: u32) -> anyhow::Result<()> {
        let logged = self.transactions();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most SILENT / LEAST"
        )]
        let unseen = if self.sampling.0 < 1.0 { (SILENT / self.sampling.0) as u64 } else { 0 };
        let least = reported.saturating_sub(unseen.saturating_mul(u64::from(clients)));
        ensure!(
            (least..=reported).contains(&logged),
            "pgbench reports {reported} transactions and logs {logged}; no number"
        );
        Ok(())
    }

    /// Up to when all threads have reported, after `since`, and how many transactions had ended
    /// then.
    pub(super) fn reported(&self, since: &Edge) -> (Nanos, u64) {
        let last = |thread: &Thread| thread.entries.last().map_or(0, |entry| entry.end);
        let until = self.threads.iter().map(last).min().unwrap_or(0);
        let ended = |thread: &Thread| {
            let lines = thread.entries.partition_point(|it| it.end <= until);
            lines.checked_sub(1).map_or(0, |last| thread.entries[last].so_far)
        };
        let count = self.threads.iter().map(ended).sum();
        (Nanos(until.saturating_sub(since.micros()) * 1000), count)
    }

    /// What of so many clients ended between two instants, once pgbench has ended.
    ///
    /// # Errors
    /// Nothing did, or the clocks do not agree.
    pub(super) fn between(
        &self,
        opened: &Edge,
        closed: &Edge,
        clients: u32,
    ) -> anyhow::Result<Done> {
        closed.since(&self.started)?;
        let over = Nanos(u64::try_from(closed.since(opened)?.as_nanos()).unwrap_or(u64::MAX));
        let all = || self.threads.iter().flat_map(|thread| &thread.entries);
        let earliest = all().map(|entry| entry.end).min().unwrap_or(u64::MAX);
        let slack = u64::try_from(APART.as_micros()).unwrap_or(0);
        ensure!(
            earliest.saturating_add(slack) >= self.started.micros(),
            "pgbench's log is of a time before it was started: its clock is another; no number"
        );
        // The last transaction of each before the window, and in it.
        let mut numbers = vec![(0, 0); clients as usize];
        let mut took = Vec::new();
        for entry in all().filter(|it| it.end < closed.micros()) {
            let own = numbers.get_mut(entry.client as usize);
            let (before, last) =
                own.with_context(|| format!("pgbench's log has a client {}", entry.client))?;
            *last = entry.number;
            if entry.end < opened.micros() {
                *before = entry.number;
            } else {
                took.push(entry.took);
            }
        }
        let done = |(before, last): (u64, u64)| last.saturating_sub(before);
        let per_client = numbers.into_iter().map(done).collect();
        ensure!(
            !took.is_empty(),
            "pgbench ended no transaction in a window of {:.1} s; no number",
            over.seconds().0
        );
        Ok(Done { per_client, over, latency: latency(took) })
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        for thread in &self.threads {
            let _ = fs::remove_file(&thread.path);
        }
    }
}

impl Thread {
    fn read(&mut self) -> anyhow::Result<()> {
        let failed = || format!("{} cannot be read", self.path.display());
        if self.file.is_none() {
            // pgbench makes it once its clients are connected.
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error).with_context(failed),
            }
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.read_to_end(&mut self.torn).with_context(failed)?;
        let Some(whole) = self.torn.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let text = String::from_utf8_lossy(&self.torn[..whole]);
        for line in text.lines() {
            let mut entry = entry(line)?;
            let before = self.last.insert(entry.client, entry.number).unwrap_or(0);
            ensure!(
                entry.number > before,
                "pgbench's log goes back from transaction {before} in the line {line:?}"
            );
            let so_far = self.entries.last().map_or(0, |last| last.so_far);
            entry.so_far = so_far.saturating_add(entry.number - before);
            self.entries.push(entry);
        }
        self.torn.drain(..=whole);
        Ok(())
    }
}

/// A line: client, its transaction's number, microseconds that it took, script, and when it ended,
/// in seconds since the epoch and microseconds.
fn entry(line: &str) -> anyhow::Result<Entry> {
    // A window has hundreds of thousands of them, read beside it: nothing is allocated.
    let mut words = line.split(' ');
    let [client, count, took, _, seconds, micros] =
        std::array::from_fn(|_| words.next().unwrap_or(""));
    ensure!(!micros.is_empty(), "pgbench's log has no transaction in the line {line:?}");
    let number = |text: &str| {
        let parsed = text.parse::<u64>().ok();
        parsed.with_context(|| format!("pgbench's log says {text:?} in the line {line:?}"))
    };
    let end = number(seconds)?.checked_mul(1_000_000).and_then(|it| it.checked_add(1_000_000));
    let end = end.with_context(|| format!("pgbench's log has no time in the line {line:?}"))?;
    let micros = number(micros)?;
    ensure!(micros < 1_000_000, "pgbench's log has no time in the line {line:?}");
    Ok(Entry {
        end: end - 1_000_000 + micros,
        client: u32::try_from(number(client)?).unwrap_or(u32::MAX),
        number: number(count)?,
        so_far: 0,
        took: Nanos(number(took)?.saturating_mul(1000)),
    })
}

/// Nearest-rank percentiles.
fn latency(mut took: Vec<Nanos>) -> Option<Latency> {
    took.sort_unstable();
    let last = took.len().checked_sub(1)?;
    let at = |percent: usize| took[(took.len() * percent).div_ceil(100).saturating_sub(1)];
    let sum: u128 = took.iter().map(|one| u128::from(one.0)).sum();
    Some(Latency {
        mean: Nanos(u64::try_from(sum / took.len() as u128).unwrap_or(u64::MAX)),
        p50: at(50),
        p95: Some(at(95)),
        p99: at(99),
        longest: Some(took[last]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use tempfile::TempDir;

    const EPOCH: u64 = 1_700_000_000;

    fn edge(base: Instant, millis: u64) -> Edge {
        let length = Duration::from_millis(millis);
        let wall = SystemTime::UNIX_EPOCH + Duration::from_secs(EPOCH) + length;
        Edge { wall, steady: base + length }
    }

    fn line(client: u32, number: u64, took: u64, millis: u64) -> String {
        let (seconds, micros) = (EPOCH + millis / 1000, millis % 1000 * 1000);
        format!("{client} {number} {took} 0 {seconds} {micros}\n")
    }

    /// A log of two threads, and where its second file is.
    fn two(folder: &Path, base: Instant) -> (Log, File, File) {
        let file = |name: &str| File::create(folder.join(name)).unwrap();
        let files = (file("transactions.12"), file("transactions.12.1"));
        (Log::of(folder, 12, 2, edge(base, 0), Sampling(1.0)), files.0, files.1)
    }

    #[test]
    fn a_window_holds_what_ended_in_it() {
        let (folder, base) = (TempDir::new().unwrap(), Instant::now());
        let (mut log, mut first, mut second) = two(folder.path(), base);
        for step in 0..100 {
            first.write_all(line(0, step + 1, 1000 + step, 10 * step).as_bytes()).unwrap();
        }
        second.write_all(line(1, 1, 5000, 505).as_bytes()).unwrap();
        second.write_all(b"1 2 50").unwrap();
        log.read().unwrap();
        assert_eq!(log.reported(&edge(base, 5)), (Nanos::from_millis(500), 52));
        second.write_all(&line(1, 2, 5000, 1005).as_bytes()[6..]).unwrap();
        log.read().unwrap();
        log.check(102, 2).unwrap();
        let lost = log.check(103, 2).unwrap_err().to_string();
        assert!(lost.contains("reports 103 transactions and logs 102; no number"), "{lost}");
        let done = log.between(&edge(base, 500), &edge(base, 700), 2).unwrap();
        assert_eq!((done.per_client, done.over), (vec![20, 1], Nanos::from_millis(200)));
        let latency = done.latency.unwrap();
        assert_eq!((latency.p50, latency.longest), (Nanos(1_060_000), Some(Nanos(5_000_000))));
        assert_eq!((latency.p95, latency.p99), (Some(Nanos(1_069_000)), Nanos(5_000_000)));
        let none = log.between(&edge(base, 2000), &edge(base, 4000), 2).unwrap_err().to_string();
        assert!(none.contains("ended no transaction in a window of 2.0 s"), "{none}");
        let paths: Vec<PathBuf> = log.threads.iter().map(|thread| thread.path.clone()).collect();
        drop(log);
        assert!(paths.iter().all(|path| !path.exists()));
    }

    #[test]
    fn numbers_tell_of_transactions_without_a_line() {
        let (folder, base) = (TempDir::new().unwrap(), Instant::now());
        let (mut log, mut first, mut second) = two(folder.path(), base);
        log.sampling = Sampling(0.1);
        // A transaction each millisecond of client 0, of which each tenth has a line; client 2 is
        // of the same thread.
        for step in 1..=100 {
            first.write_all(line(0, 10 * step, 900, 10 * step).as_bytes()).unwrap();
        }
        first.write_all(line(2, 30, 900, 1001).as_bytes()).unwrap();
        second.write_all(line(1, 400, 2000, 1010).as_bytes()).unwrap();
        log.read().unwrap();
        assert_eq!(log.reported(&edge(base, 0)), (Nanos::from_millis(1001), 1030));
        let done = log.between(&edge(base, 501), &edge(base, 901), 3).unwrap();
        assert_eq!(done.per_client, [400, 0, 0]);
        log.check(1430, 3).unwrap();
        log.check(1440, 3).unwrap();
        assert!(log.check(1429, 3).is_err() && log.check(10_000, 3).is_err());
        first.write_all(line(0, 5, 900, 1020).as_bytes()).unwrap();
        let back = log.read().unwrap_err().to_string();
        assert!(back.contains("goes back from transaction 1000 in the line"), "{back}");
    }

    #[test]
    fn as_much_is_logged_as_percentiles_need() {
        let given = |rate| arguments(Path::new("/x"), Sampling::of(rate)).join(" ");
        assert_eq!(given(100.0), "--log --log-prefix=/x/transactions");
        assert!(given(80_000.0).ends_with(" --sampling-rate=0.25"), "{}", given(80_000.0));
        assert!(given(1e9).ends_with(" --sampling-rate=0.01"), "{}", given(1e9));
        assert_eq!(Sampling::default(), Sampling::of(LINES));
        let mut rates = Rates::default();
        assert_eq!(rates.sampling(2), Sampling::default());
        rates.keep(1, 10_000.0);
        rates.keep(2, 100_000.0);
        rates.keep(2, 80_000.0);
        assert_eq!(rates.sampling(1), Sampling(1.0));
        assert_eq!(rates.sampling(2), Sampling(0.25));
        assert_eq!(rates.sampling(8), Sampling(0.25));
    }

    #[test]
    fn clocks_that_differ_give_no_number() {
        let (folder, base) = (TempDir::new().unwrap(), Instant::now());
        let (mut log, mut first, _) = two(folder.path(), base);
        first.write_all(line(0, 1, 1000, 600).as_bytes()).unwrap();
        log.read().unwrap();
        assert!(log.between(&edge(base, 500), &edge(base, 700), 1).is_ok());
        for (opened, closed) in [(0, 3_600_000), (3_600_000, 0)] {
            let opened = Edge { wall: edge(base, 500 + opened).wall, ..edge(base, 500) };
            let closed = Edge { wall: edge(base, 700 + closed).wall, ..edge(base, 700) };
            let error = log.between(&opened, &closed, 1).unwrap_err().to_string();
            assert!(error.contains("clock was set while pgbench ran"), "{error}");
        }
        log.threads[0].entries[0].end = (EPOCH - 60) * 1_000_000;
        let error = log.between(&edge(base, 500), &edge(base, 700), 1).unwrap_err().to_string();
        assert!(error.contains("of a time before it was started"), "{error}");
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_it_panic(text in "([0-9]{0,22} ){0,8}\\PC{0,6}") {
            let _ = entry(&text);
        }
    }

    #[test]
    fn what_is_no_log_is_refused_by_its_line() {
        for text in [
            "",
            "0 1 100 0 5",
            "0 1 failed 0 1700000000 5",
            "0 1 100 0 1700000000 1000000",
            "0 1 100 0 18446744073709551615 0",
            "x 1 100 0 1700000000 5",
        ] {
            let error = entry(text).unwrap_err().to_string();
            assert!(error.contains("in the line"), "{error}");
        }
        assert!(entry("3 1 100 0 1700000000 5 12").is_ok());
    }
}
