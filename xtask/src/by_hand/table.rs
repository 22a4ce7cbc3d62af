//! The table of a comparison.

use super::Level;
use kneepoint_stats::interval::{mean, mean_interval};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Two figures this near agree whatever their intervals.
const NEAR: f64 = 0.05;
/// A geometric mean with its 95 % interval over rounds; the mean alone where there is one round.
pub(super) fn pooled(figures: &[f64]) -> (f64, f64, f64) {
    let logs: Vec<f64> = figures.iter().map(|figure| figure.ln()).collect();
    match mean_interval(&logs, 0.95) {
        Ok(found) => (found.value.exp(), found.low.exp(), found.high.exp()),
        Err(_) => (mean(&logs).exp(), f64::NAN, f64::NAN),
    }
}

/// With so many decimals.
pub(super) fn shown((value, low, high): (f64, f64, f64), decimals: usize) -> String {
    let figure = |figure: f64| format!("{figure:.decimals$}");
    match low.is_nan() {
        true => figure(value),
        false => format!("{} [{}-{}]", figure(value), figure(low), figure(high)),
    }
}

/// Whether two figures with their intervals do.
pub(super) fn agree(one: (f64, f64, f64), other: (f64, f64, f64)) -> bool {
    let overlap = one.1 <= other.2 && other.1 <= one.2;
    (one.0 / other.0 - 1.0).abs() <= NEAR || overlap
}

/// Throughput at the last level over that at the best one, with its interval over rounds.
fn fall(levels: &BTreeMap<u32, Level>, of: impl Fn(&Level) -> &[f64]) -> (f64, f64, f64) {
    let mean = |level: &&Level| pooled(of(level)).0;
    let best = levels.values().max_by(|one, other| mean(one).total_cmp(&mean(other)));
    let (Some(best), Some(last)) = (best, levels.values().last()) else {
        return pooled(&[]);
    };
    // Levels of a round share a process, so they are a pair.
    let rounds: Vec<f64> = of(last).iter().zip(of(best)).map(|(last, best)| last / best).collect();
    pooled(&rounds)
}

/// The table as text, and whether all levels and the fall agree.
pub(super) fn of(name: &str, levels: &BTreeMap<u32, Level>) -> (String, bool) {
    let mut text = format!(
        "{name}, a second\n{:>7}  {:<24} {:>10}  {:<24} {:>6}  agree\n",
        "clients", "by hand [95 %]", "whole run", "Kneepoint [95 %]", "ratio"
    );
    let mut all = true;
    for (clients, level) in levels {
        let (hand, own) = (pooled(&level.hand), pooled(&level.kneepoint));
        let ratio = own.0 / hand.0;
        let agrees = agree(own, hand);
        all &= agrees;
        let whole = pooled(&level.whole).0;
        let _ = writeln!(
            text,
            "{clients:>7}  {:<24} {whole:>10.0}  {:<24} {ratio:>6.3}  {}",
            shown(hand, 0),
            shown(own, 0),
            if agrees { "yes" } else { "no" }
        );
    }
    let falls = (fall(levels, |it| &it.hand), fall(levels, |it| &it.kneepoint));
    let agrees = agree(falls.0, falls.1);
    let _ = writeln!(
        text,
        "last level over the best: by hand {}, Kneepoint {}: {}",
        shown(falls.0, 3),
        shown(falls.1, 3),
        if agrees { "agree" } else { "differ" }
    );
    (text, all && agrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(hand: &[f64], kneepoint: &[f64]) -> Level {
        let (hand, kneepoint) = (hand.to_vec(), kneepoint.to_vec());
        Level { whole: hand.clone(), hand, kneepoint, ..Level::default() }
    }

    #[test]
    fn near_figures_agree_and_others_by_their_intervals() {
        let near = level(&[1000.0, 1001.0, 999.0], &[1030.0, 1031.0, 1029.0]);
        let wide = level(&[900.0, 1100.0, 1300.0], &[1000.0, 1400.0, 1300.0]);
        let apart = level(&[1000.0, 1001.0, 999.0], &[800.0, 801.0, 799.0]);
        let (text, agrees) = of("x", &BTreeMap::from([(1, near.clone()), (2, wide)]));
        assert!(agrees, "{text}");
        assert!(text.contains("1.030  yes"), "{text}");
        let (text, agrees) = of("x", &BTreeMap::from([(1, near), (2, apart)]));
        assert!(!agrees && text.contains("0.800  no"), "{text}");
        assert!(text.contains("by hand 1.000 [") && text.contains("Kneepoint 0.777 ["), "{text}");
        assert!(text.contains("]: differ"), "{text}");
    }

    #[test]
    fn falls_that_vary_from_round_to_round_agree_by_their_intervals() {
        let one = level(&[1000.0, 1000.0, 1000.0], &[1000.0, 1000.0, 1000.0]);
        let steady = level(&[840.0, 842.0, 838.0], &[920.0, 921.0, 919.0]);
        let shaky = level(&[840.0, 900.0, 780.0], &[920.0, 860.0, 980.0]);
        let falls = |last| of("x", &BTreeMap::from([(1, one.clone()), (8, last)])).0;
        assert!(falls(steady).contains("]: differ"));
        assert!(falls(shaky).contains("]: agree"));
    }
}
