//! Operational bounds: throughput that no schedule can exceed (Denning and Buzen 1978; Lazowska,
//! Zahorjan, Graham and Sevcik 1984, chapter 5).

use kneepoint_vocab::{Level, PerSecond, Seconds};

/// X <= min( N / R(1), C / D ).
///
/// `alone` is R(1), the response time of one client alone, think time included: a client cannot go
/// round faster than that. `demand` is D, the CPU seconds of the system for one operation: C cores
/// give C CPU seconds each second. A time of zero bounds nothing.
///
/// Taking N · X(1) for the first bound is the same where one client was measured; R(1) may also
/// come from the cheapest level, as one client alone often pays for waking idle cores.
#[must_use]
pub fn upper(level: Level, alone: Seconds, demand: Seconds) -> PerSecond {
    let by_clients = f64::from(level.clients) / alone.0.max(0.0);
    let by_cores = f64::from(level.cores) / demand.0.max(0.0);
    PerSecond(by_clients.min(by_cores))
}

/// Clients at which the two bounds meet: N\* = C · R(1) / D. Beyond it more clients must queue.
/// Infinite without demand.
#[must_use]
pub fn saturation(cores: u32, alone: Seconds, demand: Seconds) -> f64 {
    f64::from(cores) * alone.0 / demand.0.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn level(clients: u32, cores: u32) -> Level {
        Level { clients, cores }
    }

    #[test]
    fn by_hand() {
        let (alone, demand) = (Seconds(0.010), Seconds(0.004));
        assert!((upper(level(1, 2), alone, demand).0 - 100.0).abs() < 1e-9);
        assert!((upper(level(4, 2), alone, demand).0 - 400.0).abs() < 1e-9);
        assert!((upper(level(64, 2), alone, demand).0 - 500.0).abs() < 1e-9);
        assert!((saturation(2, alone, demand) - 5.0).abs() < 1e-12);
    }

    #[test]
    fn unknown_demand_bounds_nothing() {
        assert!((upper(level(8, 2), Seconds(0.5), Seconds(0.0)).0 - 16.0).abs() < 1e-9);
        assert!(upper(level(8, 2), Seconds(0.0), Seconds(0.0)).0.is_infinite());
    }

    proptest! {
        /// N customers at one station of C servers without think time: never above the bound.
        #[test]
        fn holds_for_a_queue_with_known_throughput(
            clients in 1_u32..200, cores in 1_u32..64, demand in 1e-5..1.0_f64,
        ) {
            let exact = f64::from(clients.min(cores)) / demand;
            let bound = upper(level(clients, cores), Seconds(demand), Seconds(demand));
            prop_assert!(exact <= bound.0 * (1.0 + 1e-12));
        }

        #[test]
        fn grows_with_clients_and_cores(
            n in 1_u32..200, c in 1_u32..64, r in 1e-4..1.0_f64, d in 1e-5..1.0_f64,
        ) {
            let at = |n, c| upper(level(n, c), Seconds(r), Seconds(d)).0;
            prop_assert!(at(n, c) <= at(n + 1, c) && at(n, c) <= at(n, c + 1));
        }
    }
}
