//! Which treatment cures which cause.
//!
//! A treatment that is better than the baseline cures a cause when, with it, an operation pays less
//! than half of what it pays to that cause without it: core-seconds lost to the cause, as the core
//! ledger counts them. The fall has to be more than the slices' own scatter, and a part of what the
//! treatment saves in all: a cause that may have lost nothing is not cured by what cured another.
//! Where the collector did not watch the treated variant, only the greatest cause is named, and
//! only for the greatest effect.

use crate::diagnosis::losses::{Rules, doubtful};
use crate::ledgers::accounts::Accounts;
use crate::ledgers::balance::Balance;
use crate::ledgers::core_ledger::Slot;
use crate::ledgers::row::Row;
use crate::ledgers::slices::Slice;
use crate::number::{quotient, size};
use kneepoint_stats::distribution::student_quantile;
use kneepoint_stats::interval::{mean, variance};
use kneepoint_vocab::findings::{Cause, Effect, Verdict};
use kneepoint_vocab::{Level, Phase, VariantId, VariantRole};

/// Part of the price per operation that must be gone.
const CURED: f64 = 0.5;
/// Part of all that the treatment saves that must be this cause's.
const PART: f64 = 0.05;

/// What cures are judged by.
pub(crate) struct Treated<'a> {
    pub(crate) effects: &'a [Effect],
    pub(crate) slices: &'a [Slice<'a>],
    pub(crate) accounts: &'a Accounts,
    pub(crate) rules: Rules<'a>,
    /// Where treatments were tried.
    pub(crate) level: Level,
}

impl Treated<'_> {
    /// Fills `cured_by` of `causes`, whose slots are `slots`.
    pub(crate) fn cures(&self, causes: &mut [Cause], slots: &[Slot]) {
        let base = self.rows(&VariantId::new(VariantId::BASELINE));
        for effect in better(self.effects) {
            let treated = self.rows(&effect.variant);
            for (rank, (cause, slot)) in causes.iter_mut().zip(slots).enumerate() {
                let cured = if base.is_empty() || treated.is_empty() {
                    rank == 0
                } else {
                    !doubtful(&cause.lost, base[0].cores) && self.removes(*slot, &base, &treated)
                };
                if cured && cause.cured_by.is_none() {
                    cause.cured_by = Some(effect.variant.clone());
                }
            }
        }
    }

    fn rows(&self, variant: &VariantId) -> Vec<&Row> {
        self.slices
            .iter()
            .filter(|slice| {
                let id = &slice.trial.id;
                id.phase == Phase::Effects && id.level == self.level && &id.variant == variant
            })
            .map(|slice| &slice.row)
            .collect()
    }

    fn removes(&self, slot: Slot, base: &[&Row], treated: &[&Row]) -> bool {
        let (before, after) = (self.prices(slot, base), self.prices(slot, treated));
        let saved = mean(&before) - mean(&after);
        let whole = |row: &&Row| quotient(row.cores, row.throughput);
        let all = |rows: &[&Row]| mean(&rows.iter().map(whole).collect::<Vec<_>>());
        !before.is_empty()
            && !after.is_empty()
            && mean(&after) < CURED * mean(&before)
            && saved >= PART * (all(base) - all(treated))
            && saved > scatter(&before, &after)
    }

    /// Core-seconds that one operation loses to `slot`, slice by slice.
    fn prices(&self, slot: Slot, rows: &[&Row]) -> Vec<f64> {
        let price = |row: &&Row| {
            let balance = Balance::of(row, &self.accounts.reference, self.level);
            self.rules.lost(row, &balance, slot) / row.throughput
        };
        rows.iter().map(price).filter(|price| price.is_finite()).collect()
    }
}

/// Half-width of the 95 % interval of the difference of two means (Welch, with the fewer degrees
/// of freedom of the two); of single slices nothing can be reported, and any difference stands.
fn scatter(one: &[f64], other: &[f64]) -> f64 {
    let fewest = size(one.len().min(other.len()));
    if fewest < 2.0 {
        return 0.0;
    }
    let error = variance(one) / size(one.len()) + variance(other) / size(other.len());
    student_quantile(0.975, fewest - 1.0) * error.sqrt()
}

/// Treatments that are better than the baseline, the greatest effect first.
fn better(effects: &[Effect]) -> Vec<&Effect> {
    let value = |effect: &Effect| effect.ratio.map_or(0.0, |ratio| ratio.value.0);
    let mut better: Vec<&Effect> = effects
        .iter()
        .filter(|effect| {
            effect.role == VariantRole::Treatment
                && effect.over.0 == VariantId::BASELINE
                && effect.verdict == Verdict::Better
        })
        .collect();
    better.sort_by(|a, b| value(b).total_cmp(&value(a)));
    better
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::Estimate;

    #[test]
    fn what_scatters_as_much_as_it_falls_has_not_fallen() {
        let (before, after) = ([1.0, 3.0, 2.0], [0.5, 1.5, 1.0]);
        assert!(mean(&before) - mean(&after) < scatter(&before, &after));
        let (before, after) = ([2.0, 2.1, 1.9], [1.0, 1.1, 0.9]);
        assert!(mean(&before) - mean(&after) > scatter(&before, &after));
        assert!(scatter(&[2.0], &[1.0]) <= 0.0, "one slice says nothing of its scatter");
    }

    #[test]
    fn a_small_loss_that_may_be_none_is_doubtful() {
        assert!(doubtful(&Estimate::of(0.03, 0.0, 0.09), 2.0));
        assert!(!doubtful(&Estimate::of(0.03, 0.01, 0.09), 2.0));
        assert!(!doubtful(&Estimate::of(1.2, 0.0, 2.0), 2.0));
    }
}
