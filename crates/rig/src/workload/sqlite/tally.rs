//! Response times of one client, and of all of them together.

use anyhow::Context as _;
use hdrhistogram::Histogram;
use kneepoint_vocab::{Latency, Nanos};
use std::time::Duration;

/// Response times distinguished, in nanoseconds; what is outside counts at the edge.
const SHORTEST: u64 = 1_000;
const LONGEST: u64 = 600_000_000_000;
/// Significant digits of percentiles: they are exact to 1 %. Mean and maximum are exact.
const DIGITS: u8 = 2;

/// Response times recorded so far.
#[derive(Debug)]
pub(super) struct Tally {
    histogram: Histogram<u64>,
    count: u64,
    total: u64,
    longest: u64,
}

impl Tally {
    /// Nothing recorded yet.
    pub(super) fn new() -> anyhow::Result<Self> {
        let histogram = Histogram::new_with_bounds(SHORTEST, LONGEST, DIGITS)
            .context("no histogram of response times")?;
        Ok(Self { histogram, count: 0, total: 0, longest: 0 })
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self) {
        self.histogram.reset();
        (self.count, self.total, self.longest) = (0, 0, 0);
    }

    /// Records one operation.
    pub(super) fn record(&mut self, response: Duration) {
        let nanos = u64::try_from(response.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(nanos);
        self.count += 1;
        self.total = self.total.saturating_add(nanos);
        self.longest = self.longest.max(nanos);
    }

    /// Takes in what another client recorded.
    pub(super) fn add(&mut self, other: &Self) -> anyhow::Result<()> {
        self.histogram.add(&other.histogram).context("response times do not add up")?;
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.longest = self.longest.max(other.longest);
        Ok(())
    }

    /// Mean, percentiles and maximum; `None` where nothing was recorded.
    pub(super) fn latency(&self) -> Option<Latency> {
        let at = |quantile| Nanos(self.histogram.value_at_quantile(quantile).min(self.longest));
        Some(Latency {
            mean: Nanos(self.total.checked_div(self.count)?),
            p50: at(0.50),
            p95: Some(at(0.95)),
            p99: at(0.99),
            longest: Some(Nanos(self.longest)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tally(responses: &[u64]) -> Tally {
        let mut tally = Tally::new().unwrap();
        responses.iter().for_each(|&nanos| tally.record(Duration::from_nanos(nanos)));
        tally
    }

    #[test]
    fn nothing_recorded_has_no_latency() {
        assert_eq!(tally(&[]).latency(), None);
        let mut forgetful = tally(&[5000]);
        forgetful.reset();
        assert_eq!(forgetful.latency(), None);
    }

    #[test]
    fn times_outside_the_scale_count_at_its_edge() {
        let latency = tally(&[1, u64::MAX]).latency().unwrap();
        assert!(latency.p50 <= Nanos(1_100), "{latency:?}");
        assert_eq!(latency.longest, Some(Nanos(u64::MAX)));
    }

    proptest! {
        #[test]
        fn percentiles_are_right_to_one_percent(
            mut responses in prop::collection::vec(2_000_u64..10_000_000_000, 1..200)
        ) {
            let (left, right) = responses.split_at(responses.len() / 3);
            let mut all = tally(left);
            all.add(&tally(right)).unwrap();
            let latency = all.latency().unwrap();

            responses.sort_unstable();
            let total: u64 = responses.iter().sum();
            prop_assert_eq!(latency.mean, Nanos(total / responses.len() as u64));
            prop_assert_eq!(latency.longest, Some(Nanos(*responses.last().unwrap())));
            let p95 = latency.p95.unwrap();
            for (percent, found) in [(50, latency.p50), (95, p95), (99, latency.p99)] {
                let rank = (percent * responses.len()).div_ceil(100).max(1);
                let exact = responses[rank - 1];
                // The scale begins at 512 ns, so its first steps are 1 % or a few ns.
                prop_assert!(found.0.abs_diff(exact) <= exact / 100 + 8, "{found:?} {exact}");
            }
        }
    }
}
