//! Locks whose release wakes all who wait, and the CPU that goes with their waits.

use super::observed::{Observed, ObservedLevel, ObservedLock};
use super::passing::Passing;
use kneepoint_vocab::Seconds;

/// An operation that waits for a lock so many times takes it once, and finds it taken again by
/// another whenever it was woken.
const AGAIN: f64 = 2.0;
/// Waits tell what CPU an operation takes more of where they account for this part of what it
/// varies by.
const TOLD: f64 = 0.8;

impl Observed {
    /// The run with the lock that costs most passed on in this way; absent where there is none.
    #[must_use]
    pub fn with_passing(&self, passing: Passing) -> Option<Self> {
        let place = self.locks.iter().position(|lock| lock.waits > 0.0 && lock.stage.is_none())?;
        let mut other = Self { others: Vec::new(), ..self.clone() };
        other.locks[place].passing = passing;
        Some(other)
    }

    /// The run with what is waited for several times an operation taken as a lock whose release
    /// wakes all; absent where there is none. What its waits cost is then each waiter's own:
    /// threads that switch for other things, as requests, pay for that in their CPU.
    #[must_use]
    pub fn with_flags(&self) -> Option<Self> {
        let is_it = |lock: &ObservedLock| {
            lock.waits >= AGAIN && lock.counted.is_none() && lock.stage.is_none()
        };
        if !self.locks.iter().any(is_it) {
            return None;
        }
        let mut other = Self { others: Vec::new(), ..self.clone() };
        for lock in other.locks.iter_mut().filter(|lock| is_it(lock)) {
            lock.passing = Passing::WakesAll;
        }
        if other.contended.is_none() {
            by_waits(&mut other);
        }
        for lock in &mut other.locks {
            lock.look = Some(lock.wait_cpu);
        }
        Some(other)
    }
}

/// Counts the CPU that an operation takes more of where it waits more as what its waits cost:
/// caches are cold after each, and who is woken does part of its work again. By least squares over
/// the levels; where waits do not tell the CPU, nothing changes.
fn by_waits(seen: &mut Observed) {
    let paid = |level: &ObservedLevel| level.lock_cpu.iter().map(|it| it.0).sum::<f64>();
    let points: Vec<(f64, f64)> = seen.levels.iter().map(|it| (paid(it), it.demand.0)).collect();
    let Some(times) = slope(&points) else { return };
    let least = points.iter().map(|it| it.0).fold(f64::INFINITY, f64::min);
    for level in &mut seen.levels {
        let more = times * (paid(level) - least);
        level.demand = Seconds((level.demand.0 - more).max(0.0));
        level.lock_cpu.iter_mut().for_each(|cpu| cpu.0 *= 1.0 + times);
    }
    for lock in &mut seen.locks {
        lock.wait_cpu.0 *= 1.0 + times;
    }
}

/// How much y rises with x, where that is most of what y varies by.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    #[allow(clippy::cast_precision_loss, reason = "few levels")]
    let number = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / number;
    let (x, y) = (mean(|it| it.0), mean(|it| it.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|it| of(it.0 - x, it.1 - y)).sum()
    };
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    let is_most = points.len() > 2 && xy > 0.0 && xy * xy >= TOLD * xx * yy;
    is_most.then(|| xy / xx)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rises_with_waits_is_theirs() {
        let rising = [(1.0, 10.0), (2.0, 12.1), (4.0, 15.9)];
        assert!((slope(&rising).unwrap() - 1.96).abs() < 0.01);
        assert_eq!(slope(&[(1.0, 10.0), (2.0, 14.0), (3.0, 9.0), (4.0, 12.0)]), None, "scattered");
        assert_eq!(slope(&[(1.0, 12.0), (2.0, 10.0), (4.0, 6.0)]), None, "it falls");
        assert_eq!(slope(&[(1.0, 10.0), (2.0, 12.0)]), None, "two always fit");
    }
}
