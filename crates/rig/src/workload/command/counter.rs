//! A count of operations that another program tells, such as a server's own statistics: read at
//! both edges of the window, so that throughput is of the window whatever the generator does.

use super::NAME;
use super::counting::Counter;
use super::instance::Instance;
use crate::workload::SliceOutput;
use anyhow::{Context as _, bail, ensure};
use kneepoint_vocab::Nanos;
use std::time::{Duration, Instant};

/// How long the program may take for one reading.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The part of a window that a reading may take: its time is known to half of that.
const SHARE: u32 = 10;
/// How often a reading that took too long is taken again.
const ATTEMPTS: usize = 4;
/// A count is exact as it is read up to here.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// How far the count has to be beyond what a window adds before one opens, and how often that is
/// waited for.
const BEYOND: f64 = 1.5;
const WAITS: usize = 3;

/// What it reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    /// The middle of the time that the reading took.
    at: Instant,
    took: Duration,
    count: u64,
}

/// Asks once.
///
/// # Errors
/// The program fails or hangs, or tells no count.
fn asked(counter: &Counter, instance: &Instance, cpus: &[u32]) -> anyhow::Result<Reading> {
    let words = counter.line.filled(instance.placeholders());
    let mut program = instance.hook_program("the counter", words);
    program.cpus = cpus.to_vec();
    let mut process = program.spawn(&instance.undo)?;
    let begun = process.begun();
    let printed = process.await_success(TIMEOUT);
    let took = begun.elapsed();
    let count = printed.and_then(|printed| {
        let texts = [printed.as_str(), &process.complained()?];
        let found = counter.pattern.first(&texts);
        let found = found.map_err(|why| anyhow::anyhow!("{why}{}", process.tail()))?;
        whole(found)
    });
    let count = count.with_context(|| format!("{NAME}: no count from `{}`", counter.line))?;
    Ok(Reading { at: begun + took / 2, took, count })
}
/// A count as a whole number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to fit")]
fn whole(number: f64) -> anyhow::Result<u64> {
    ensure!((0.0..EXACT).contains(&number), "{number} is no count that can be reported exactly");
    Ok(number as u64)
}

/// The count of one start of a variant.
#[derive(Debug)]
pub(super) struct Count {
    counter: Counter,
    /// What a reading adds to the count itself.
    own: u64,
    /// The latest reading of all.
    latest: Option<Reading>,
    opened: Option<Reading>,
    closed: Option<Reading>,
    /// How long a window lasts at most, with what leads to it.
    lasts: Duration,
    cpus: Vec<u32>,
}

impl Count {
    /// Nothing is read where the command itself is the system: then nobody counts yet.
    ///
    /// # Errors
    /// The server's count cannot be read, or fell.
    pub(super) fn begin(counter: Counter, instance: &Instance) -> anyhow::Result<Self> {
        let mut count = Self {
            counter,
            own: 0,
            latest: None,
            opened: None,
            closed: None,
            lasts: Duration::ZERO,
            cpus: Vec::new(),
        };
        if instance.server.is_some() {
            let first = count.read(instance)?;
            count.own = count.read(instance)?.count - first.count;
        }
        Ok(count)
    }

    /// What each reading adds.
    pub(super) fn own(&self) -> u64 {
        self.own
    }

    /// Before the clients begin.
    pub(super) fn prepare(
        &mut self,
        instance: &Instance,
        lasts: Duration,
        cpus: &[u32],
    ) -> anyhow::Result<()> {
        (self.opened, self.closed, self.lasts, self.cpus) = (None, None, lasts, cpus.to_vec());
        match instance.server {
            Some(_) => self.read(instance).map(drop),
            None => {
                self.latest = None;
                Ok(())
            }
        }
    }

    /// Opens the window.
    ///
    /// # Errors
    /// The count cannot be read, or fell.
    pub(super) fn open(&mut self, instance: &Instance) -> anyhow::Result<()> {
        let mut before = self.latest;
        let mut now = self.read_quickly(instance)?;
        // A count that is set back shows by falling below what it was. So it has to be larger
        // than what a window adds: only the first windows of a server wait for that.
        for _ in 0..WAITS {
            let Some(lacking) = before.and_then(|before| lacking(before, now, self.lasts)) else {
                break;
            };
            std::thread::sleep(lacking);
            before = Some(now);
            now = self.read_quickly(instance)?;
        }
        (self.opened, self.closed) = (Some(now), None);
        Ok(())
    }

    /// Closes the window, unless it is closed.
    ///
    /// # Errors
    /// The count cannot be read, or fell.
    pub(super) fn close(&mut self, instance: &Instance) -> anyhow::Result<()> {
        for _ in 0..ATTEMPTS {
            let (None, Some(opened)) = (self.closed, self.opened) else { break };
            let reading = self.read(instance)?;
            let over = reading.at.saturating_duration_since(opened.at);
            // Where readings are slow, a longer window makes good for it.
            match (SHARE * opened.took.max(reading.took)).checked_sub(over) {
                Some(lacking) if !lacking.is_zero() => std::thread::sleep(lacking),
                _ => self.closed = Some(reading),
            }
        }
        Ok(())
    }

    /// What the window held.
    ///
    /// # Errors
    /// It was not open, or nothing was counted.
    pub(super) fn output(&self) -> anyhow::Result<SliceOutput> {
        let Some(opened) = self.opened else { bail!("{NAME}: no window is open") };
        let Some(closed) = self.closed else {
            bail!(
                "{NAME}: `{}` takes longer from reading to reading, {:.0?} at first, and its \
                 window has no clear edge: give slices more time (slice_ms)",
                self.counter.line,
                opened.took
            )
        };
        let over = closed.at.saturating_duration_since(opened.at);
        let operations = (closed.count - opened.count).saturating_sub(self.own);
        ensure!(
            operations > 0,
            "{NAME}: the count of `{}` does not grow: {} when the window opened, {} when it \
             closed; no number",
            self.counter.line,
            opened.count,
            closed.count
        );
        let counted_over = Nanos(u64::try_from(over.as_nanos()).unwrap_or(u64::MAX));
        let (per_client, latency) = (Vec::new(), None);
        Ok(SliceOutput { operations, counted_over, per_client, latency, counts: None })
    }

    /// A reading whose time is known well, if that can be had.
    fn read_quickly(&mut self, instance: &Instance) -> anyhow::Result<Reading> {
        let mut reading = self.read(instance)?;
        for _ in 1..ATTEMPTS {
            if reading.took * SHARE <= self.lasts {
                break;
            }
            reading = self.read(instance)?;
        }
        Ok(reading)
    }

    fn read(&mut self, instance: &Instance) -> anyhow::Result<Reading> {
        let reading = asked(&self.counter, instance, &self.cpus)?;
        match self.latest.replace(reading) {
            Some(latest) if reading.count < latest.count => {
                // No window goes on over that.
                (self.opened, self.closed) = (None, None);
                bail!(
                    "{NAME}: the count of `{}` went back from {} to {}: something has set it back; \
                     no number",
                    self.counter.line,
                    latest.count,
                    reading.count
                )
            }
            _ => Ok(reading),
        }
    }
}

/// How long to wait until the count is larger than what a window adds; none where it is.
#[allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]
fn lacking(before: Reading, now: Reading, lasts: Duration) -> Option<Duration> {
    let passed = now.at.saturating_duration_since(before.at).as_secs_f64();
    let rate = (now.count - before.count) as f64 / passed;
    let lacking = BEYOND * rate * lasts.as_secs_f64() - now.count as f64;
    (rate.is_finite() && lacking > 0.0)
        .then(|| Duration::from_secs_f64(lacking / rate).min(lasts.mul_f64(BEYOND)))
}

#[cfg(test)]
mod tests {
    use super::super::figure::Pattern;
    use super::super::line::Line;
    use super::*;

    fn reading(at: Instant, millis: u64, count: u64) -> Reading {
        let took = Duration::from_millis(2);
        Reading { at: at + Duration::from_millis(millis), took, count }
    }

    fn count(opened: Reading, closed: Reading, own: u64) -> Count {
        let line = Line::parse("reported me", false).unwrap();
        let pattern = Pattern::parse("([0-9]+)").unwrap();
        Count {
            counter: Counter { line, pattern },
            own,
            latest: None,
            opened: Some(opened),
            closed: Some(closed),
            lasts: Duration::ZERO,
            cpus: Vec::new(),
        }
    }

    #[test]
    fn what_a_window_held_is_without_the_readings_own() {
        let at = Instant::now();
        let output = count(reading(at, 0, 10), reading(at, 500, 1013), 3).output().unwrap();
        assert_eq!((output.operations, output.counted_over), (1000, Nanos::from_millis(500)));
        let still = count(reading(at, 0, 10), reading(at, 500, 13), 3).output().unwrap_err();
        assert!(still.to_string().contains("does not grow: 10 when"), "{still}");
        let mut open = count(reading(at, 0, 10), reading(at, 500, 1013), 3);
        open.closed = None;
        let reported = open.output().unwrap_err().to_string();
        assert!(reported.contains("2ms at first, and its window has no clear edge"), "{reported}");
    }

    #[test]
    fn a_young_count_is_waited_for_and_an_old_one_is_not() {
        let at = Instant::now();
        let second = Duration::from_secs(1);
        // 1000 a second: a window of a second adds as many.
        let wait = lacking(reading(at, 0, 0), reading(at, 500, 500), second).unwrap();
        assert_eq!(wait, Duration::from_secs(1));
        assert_eq!(lacking(reading(at, 0, 2000), reading(at, 500, 2500), second), None);
        assert_eq!(lacking(reading(at, 0, 5), reading(at, 500, 5), second), None);
        assert_eq!(lacking(reading(at, 0, 5), reading(at, 0, 9), second), None);
    }

    #[test]
    fn a_count_is_whole_and_exact() {
        assert_eq!(whole(12.0).unwrap(), 12);
        assert!(whole(1e16).is_err() && whole(f64::NAN).is_err());
    }
}
