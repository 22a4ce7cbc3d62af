//! What disturbed a slice, by its size.

use kneepoint_vocab::{Interference, Nanos, Plan, Ratio};

/// A window that lasted so many times as long as planned was frozen meanwhile.
const FROZEN: f64 = 1.5;
/// Seconds by which a window may close late on a busy machine.
const LATE: f64 = 0.5;

/// A slice of which others took less than this is worth more than half of an undisturbed one
/// ([`kneepoint_vocab::TrialRecord::weight`]): the time to repeat it is better spent on others.
const SLIGHT: Ratio = Ratio(0.05);

/// What disturbed a slice.
#[derive(Debug, PartialEq)]
pub(crate) enum Disturbance {
    /// Little: it counts at once, for what it is worth.
    Slight,
    /// Enough to take it once more; it is worth something all the same.
    Some,
    /// So much that it says nothing, and why.
    Gross(String),
}

/// What disturbed a slice with this window. Where work is not fixed, a window that is much longer
/// than planned was frozen, and one below half of it opened too late: its generator ended before.
pub(crate) fn disturbance(
    plan: &Plan,
    interference: Interference,
    window: Nanos,
    fixed_work: bool,
) -> Option<Disturbance> {
    let (lasted, planned) = (window.seconds().0, plan.slice.seconds().0);
    if !fixed_work && lasted > FROZEN * planned + LATE {
        let reason = format!("its window lasted {lasted:.1} s instead of {planned:.1} s");
        return Some(Disturbance::Gross(reason));
    }
    let late = !fixed_work && lasted < planned / 2.0;
    let disturbed =
        interference.others > plan.others_limit || interference.steal > plan.steal_limit;
    match disturbed {
        _ if late => Some(Disturbance::Some),
        true if interference.share() < SLIGHT => Some(Disturbance::Slight),
        true => Some(Disturbance::Some),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::small_plan;

    #[test]
    fn a_disturbance_is_judged_by_its_size() {
        let plan = small_plan();
        let by = |others, steal, times: f64, fixed_work| {
            let interference = Interference { others: Ratio(others), steal: Ratio(steal) };
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a window of some hundred milliseconds"
            )]
            let window = Nanos((plan.slice.0 as f64 * times) as u64);
            disturbance(&plan, interference, window, fixed_work)
        };
        let gross = |found| matches!(found, Some(Disturbance::Gross(_)));
        assert_eq!(by(0.01, 0.005, 1.0, false), None);
        assert_eq!(by(0.04, 0.0, 1.0, false), Some(Disturbance::Slight));
        assert_eq!(by(0.0, 0.02, 1.0, false), Some(Disturbance::Slight));
        assert_eq!(by(0.04, 0.02, 1.0, false), Some(Disturbance::Some), "both together");
        assert_eq!(by(0.0, 0.06, 1.0, false), Some(Disturbance::Some));
        assert_eq!(by(0.5, 0.06, 1.0, false), Some(Disturbance::Some), "the analysis weighs it");
        assert_eq!(by(0.0, 0.0, 0.4, false), Some(Disturbance::Some), "it opened too late");
        assert_eq!(by(0.0, 0.02, 0.4, false), Some(Disturbance::Some), "too late, whatever else");
        assert!(gross(by(0.0, 0.0, 10.0, false)), "it was frozen");
        assert_eq!(by(0.0, 0.0, 5.0, true), None, "fixed work takes what it takes");
    }
}
