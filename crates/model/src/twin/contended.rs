//! CPU work that only one core can do at a time, and waits for on its core: at a word of memory
//! whose cache line goes from core to core, or under a spin lock.
//!
//! Cores at such a word are the machine repairman: n of them work outside of it, then want the one
//! server (Lazowska and others 1984, chapter 6). How long an operation takes with n cores over how
//! long with as many as were measured is what its CPU is to be multiplied with.

use crate::queueing::Closed;
use kneepoint_vocab::Seconds;
use serde::{Deserialize, Serialize};

/// Cores beyond this make no difference that is not in proportion.
const MOST: u32 = 1 << 10;
/// Steps of a bisection: to the precision of a double.
const HALVINGS: u32 = 60;

/// A part of an operation's CPU that one core has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contended {
    /// How long that is, relative to the least CPU of an operation.
    pub part: f64,
    /// Whether it takes that only where another core had it last, as a cache line does. A spin
    /// lock is held by a core alone as well: then it is a part of the least CPU.
    #[serde(default)]
    pub moved: bool,
    /// Cores on which `crowding` was measured.
    pub cores: u32,
}

impl Contended {
    /// The part with which `cores` cores take `extra` of the least CPU more for an operation than
    /// one does. More extra CPU than a lock can explain that is all of an operation makes it that.
    #[must_use]
    pub fn fitted(extra: f64, moved: bool, cores: u32) -> Self {
        let with = |part| Self { part, moved, cores };
        let enough = |part: f64| with(part).cycle(f64::from(cores)) >= 1.0 + extra;
        let mut high = 1.0;
        while moved && !enough(high) && high < 1e6 {
            high *= 2.0;
        }
        let mut low = 0.0;
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if enough(middle) { high = middle } else { low = middle }
        }
        with(high)
    }

    /// What CPU that was measured at as many clients for each core is to be multiplied with.
    #[must_use]
    pub fn factor(&self, clients: u32, cores: u32) -> f64 {
        let (clients, cores) = (f64::from(clients.max(1)), f64::from(cores.max(1)));
        let measured = f64::from(self.cores);
        let then = (clients / cores * measured).clamp(1.0, measured);
        self.cycle(clients.min(cores)) / self.cycle(then)
    }

    /// Time of an operation on each of so many cores, relative to its least CPU; on a line between
    /// whole numbers.
    fn cycle(&self, cores: f64) -> f64 {
        let below = cores.floor();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1")]
        let whole = below as u32;
        let low = self.cycle_of(whole);
        low + (cores - below) * (self.cycle_of(whole + 1) - low)
    }

    fn cycle_of(&self, cores: u32) -> f64 {
        if self.moved && cores <= 1 {
            return 1.0;
        }
        let outside = if self.moved { 1.0 } else { (1.0 - self.part).max(0.0) };
        let solved = cores.clamp(1, MOST);
        let network = Closed::repairman(Seconds(outside), Seconds(self.part), 1);
        let rate = network.and_then(|it| it.solve(solved));
        let rate = rate.ok().and_then(|it| it.throughput(solved)).map_or(f64::NAN, |it| it.0);
        let cycle = f64::from(solved) / rate;
        // Beyond these the one server is busy all the time.
        cycle * f64::from(cores.max(1)) / f64::from(solved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two cores of which each is half of its time under a lock: an operation of 1 waits for
    /// half · half.
    #[test]
    fn two_cores_at_a_lock_by_hand() {
        let lock = Contended { part: 0.5, moved: false, cores: 2 };
        assert!((lock.cycle(2.0) - 1.25).abs() < 1e-12);
        let fitted = Contended::fitted(0.25, false, 2);
        assert!((fitted.part - 0.5).abs() < 1e-9, "{fitted:?}");
    }

    /// A cache line that takes 1 to move, beside work of 1: each waits for another half of the
    /// time, and many cores do one operation for each move.
    #[test]
    fn a_cache_line_by_hand() {
        let line = Contended { part: 1.0, moved: true, cores: 2 };
        assert!((line.cycle(1.0) - 1.0).abs() < 1e-12);
        assert!((line.cycle(2.0) - 2.5).abs() < 1e-12);
        assert!((line.cycle(64.0) - 64.0).abs() < 1e-6);
        assert!((line.factor(64, 64) - 64.0 / 2.5).abs() < 1e-6);
        let fitted = Contended::fitted(1.5, true, 2);
        assert!((fitted.part - 1.0).abs() < 1e-9, "{fitted:?}");
    }

    proptest! {
        #[test]
        fn on_the_cores_that_were_measured_it_changes_nothing(
            part in 0.01..1.0_f64, moved: bool, cores in 1_u32..16, clients in 1_u32..64,
        ) {
            let it = Contended { part, moved, cores };
            prop_assert!((it.factor(clients, cores) - 1.0).abs() < 1e-9);
        }

        /// More cores never do less for a lock, nor more than in proportion.
        #[test]
        fn throughput_grows_no_more_than_the_cores(
            part in 0.01..1.0_f64, cores in 2_u32..16, more in 1_u32..64,
        ) {
            let it = Contended { part, moved: false, cores };
            let rate = |n: u32| f64::from(n) / it.cycle(f64::from(n));
            prop_assert!(rate(cores + more) >= rate(cores) * (1.0 - 1e-9));
            prop_assert!(rate(cores + more) <= (1.0 / part) * (1.0 + 1e-9));
        }

        #[test]
        fn what_is_fitted_takes_as_much_more(
            extra in 0.01..4.0_f64, moved: bool, cores in 2_u32..16,
        ) {
            let most = f64::from(cores) - 1.0;
            let extra = if moved { extra } else { extra.min(most) };
            let it = Contended::fitted(extra, moved, cores);
            prop_assert!((it.cycle(f64::from(cores)) - 1.0 - extra).abs() < 1e-6, "{:?}", it);
        }
    }
}
