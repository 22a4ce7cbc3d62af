//! Several questions asked of one run: Holm's step-down adjustment (Holm 1979).

/// Adjusted p-values, in the order of the input.
///
/// With p(1) <= ... <= p(m) the k-th is max over j <= k of min(1, (m - j + 1) p(j)). Rejecting
/// where the adjusted value is at most the level keeps the chance of any false rejection below the
/// level, however the p-values depend on each other. Values that are not numbers stay so and are
/// not counted in m.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "numbers of questions are small")]
pub fn adjust(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).filter(|&i| !p_values[i].is_nan()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![f64::NAN; p_values.len()];
    let mut running = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        running = running.max(((order.len() - rank) as f64 * p_values[index]).min(1.0));
        adjusted[index] = running;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_example() {
        let found = adjust(&[0.01, 0.04, 0.03, 0.005]);
        for (a, b) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((a - b).abs() < 1e-12, "{found:?}");
        }
    }

    #[test]
    fn not_a_number_is_not_a_question() {
        let found = adjust(&[0.02, f64::NAN]);
        assert!((found[0] - 0.02).abs() < 1e-12);
        assert!(found[1].is_nan());
        assert!(adjust(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn never_smaller_and_order_kept(p in prop::collection::vec(0.0..1.0_f64, 1..12)) {
            let found = adjust(&p);
            for i in 0..p.len() {
                prop_assert!(found[i] >= p[i] && found[i] <= 1.0);
                for j in 0..p.len() {
                    prop_assert!(p[i] > p[j] || found[i] <= found[j]);
                }
            }
        }
    }
}
