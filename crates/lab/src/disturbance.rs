//! What disturbed a slice, by its size.

use kneepoint_vocab::{Interference, Nanos, Plan};

/// A window that lasted so many times as long as planned was frozen meanwhile.
const FROZEN: f64 = 1.5;
/// Seconds by which a window may close late on a busy machine.
const LATE: f64 = 0.5;

/// What disturbed a slice.
#[derive(Debug, PartialEq)]
pub(crate) enum Disturbance {
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
    let disturbed =
        interference.others > plan.others_limit || interference.steal > plan.steal_limit;
    (disturbed || !fixed_work && lasted < planned / 2.0).then_some(Disturbance::Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::small_plan;
    use kneepoint_vocab::Ratio;

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
        assert_eq!(by(0.05, 0.0, 1.0, false), Some(Disturbance::Some));
        assert_eq!(by(0.0, 0.02, 1.0, false), Some(Disturbance::Some));
        assert_eq!(by(0.5, 0.06, 1.0, false), Some(Disturbance::Some), "the analysis weighs it");
        assert_eq!(by(0.0, 0.0, 0.4, false), Some(Disturbance::Some), "it opened too late");
        assert!(gross(by(0.0, 0.0, 10.0, false)), "it was frozen");
        assert_eq!(by(0.0, 0.0, 5.0, true), None, "fixed work takes what it takes");
    }
}
