//! Tests of the two-way model: exact cases, invariances, coverage by simulation.

use super::*;
use crate::distribution::student_quantile;
use crate::interval::variance;
use proptest::prelude::*;

/// A simulated sweep: `blocks` blocks of `truth.len()` levels, drift between and noise within.
struct Design {
    truth: Vec<f64>,
    blocks: usize,
    starts: usize,
    drift: f64,
    noise: f64,
    start_noise: f64,
    /// Share of cells thrown away.
    missing: f64,
}

impl Design {
    fn draw(&self, generator: &mut Generator) -> Vec<Observation> {
        let mut slices = Vec::new();
        for start in 0..self.starts {
            let luck: Vec<f64> =
                self.truth.iter().map(|_| self.start_noise * generator.normal()).collect();
            for block in 0..self.blocks / self.starts {
                let drift = self.drift * generator.normal();
                for (level, truth) in self.truth.iter().enumerate() {
                    let log = truth + luck[level] + drift + self.noise * generator.normal();
                    if generator.uniform() >= self.missing {
                        slices.push(Observation { level, start, block, value: log.exp() });
                    }
                }
            }
        }
        slices
    }
}

const SWEEP: [f64; 5] = [4.0, 4.6, 5.0, 5.1, 4.8];

fn sweep(blocks: usize) -> Design {
    Design {
        truth: SWEEP.to_vec(),
        blocks,
        starts: 1,
        drift: 0.1,
        noise: 0.05,
        start_noise: 0.0,
        missing: 0.0,
    }
}

/// Runs `runs` designs; counts how often the level and ratio intervals hold the truth.
fn coverage(design: &Design, runs: u32) -> (f64, f64) {
    let mut generator = Generator::new(2024);
    let (mut by_level, mut by_ratio, mut done) = (0, 0, 0);
    while done < runs {
        let Ok(fitted) = fit(&design.draw(&mut generator), 400, u64::from(done)) else { continue };
        if fitted.levels() < design.truth.len() {
            continue;
        }
        done += 1;
        by_level += u32::from(fitted.level(2, 0.95).holds(design.truth[2].exp()));
        let ratio = (design.truth[3] - design.truth[0]).exp();
        by_ratio += u32::from(fitted.ratio(3, 0, 0.95).holds(ratio));
    }
    (f64::from(by_level) / f64::from(runs), f64::from(by_ratio) / f64::from(runs))
}

#[test]
fn intervals_cover_the_truth_with_4_6_and_10_blocks() {
    for blocks in [4, 6, 10] {
        let (level, ratio) = coverage(&sweep(blocks), 500);
        println!("{blocks} blocks: level {level:.3}, ratio {ratio:.3}");
        for (what, covered) in [("level", level), ("ratio", ratio)] {
            assert!((0.92..=0.98).contains(&covered), "{what}, {blocks} blocks: {covered}");
        }
    }
}

#[test]
fn intervals_cover_the_truth_with_cells_missing() {
    for blocks in [6, 10] {
        let (level, ratio) = coverage(&Design { missing: 0.15, ..sweep(blocks) }, 500);
        println!("15 % missing, {blocks} blocks: level {level:.3}, ratio {ratio:.3}");
        for (what, covered) in [("level", level), ("ratio", ratio)] {
            assert!((0.92..=0.98).contains(&covered), "{what}, {blocks} blocks: {covered}");
        }
    }
}

#[test]
fn intervals_cover_the_truth_over_starts() {
    for starts in [3, 4] {
        let design = Design { starts, start_noise: 0.05, drift: 0.02, ..sweep(12) };
        let (level, ratio) = coverage(&design, 500);
        println!("{starts} starts: level {level:.3}, ratio {ratio:.3}");
        for (what, covered) in [("level", level), ("ratio", ratio)] {
            assert!((0.92..=0.98).contains(&covered), "{what}, {starts} starts: {covered}");
        }
    }
}

/// In a complete design the interval of a ratio is the paired t interval of the log differences.
#[test]
fn complete_design_gives_the_paired_t_interval() {
    let mut generator = Generator::new(5);
    let slices = sweep(5).draw(&mut generator);
    let fitted = fit(&slices, 20_000, 9).unwrap();
    let log = |level: usize, block: usize| {
        slices.iter().find(|o| o.level == level && o.block == block).unwrap().value.ln()
    };
    let differences: Vec<f64> = (0..5).map(|block| log(3, block) - log(0, block)).collect();
    let half = student_quantile(0.975, 4.0) * (variance(&differences) / 5.0).sqrt();
    let found = fitted.ratio(3, 0, 0.95).map(f64::ln);
    assert!((found.value - mean(&differences)).abs() < 1e-9);
    assert!((found.half_width() / half - 1.0).abs() < 0.05, "{} {half}", found.half_width());
}

/// Without noise the truth comes back exactly, cells missing or replicated.
#[test]
fn noise_free_incomplete_design_is_solved_exactly() {
    let level = [10.0, 30.0, 20.0];
    let drift = [1.2, 1.0, 1.0 / 1.2];
    let cells = [(0, 0), (1, 0), (1, 1), (2, 1), (2, 1), (0, 2), (2, 2), (1, 2)];
    let slices: Vec<Observation> = cells
        .iter()
        .map(|&(l, b)| Observation { level: l, start: 0, block: b, value: level[l] * drift[b] })
        .collect();
    let fitted = fit(&slices, 50, 1).unwrap();
    for (l, expected) in level.iter().enumerate() {
        assert!((fitted.value(l) / expected - 1.0).abs() < 1e-9);
        assert!(fitted.ratio(l, 0, 0.95).half_width() < 1e-9);
    }
    for (effect, expected) in fitted.blocks.iter().zip(drift) {
        assert!((effect.ratio / expected - 1.0).abs() < 1e-9);
    }
    assert!(fitted.residual_sd.unwrap() < 1e-9);
}

#[test]
fn a_level_seen_in_one_block_still_has_width() {
    let mut generator = Generator::new(8);
    let mut slices = sweep(6).draw(&mut generator);
    slices.retain(|o| o.level != 4 || o.block == 0);
    let fitted = fit(&slices, 2000, 3).unwrap();
    let once = fitted.ratio(4, 3, 0.95).map(f64::ln).half_width();
    let often = fitted.ratio(2, 3, 0.95).map(f64::ln).half_width();
    assert!(once > often, "{once} {often}");
}

#[test]
fn drift_widens_levels_but_not_ratios() {
    let mut generator = Generator::new(21);
    let quiet = Design { drift: 0.0, noise: 0.01, ..sweep(8) }.draw(&mut generator);
    let shaken: Vec<Observation> = quiet
        .iter()
        .map(|o| Observation { value: o.value * (1.0 + 0.3 * (o.block % 3) as f64), ..*o })
        .collect();
    let (a, b) = (fit(&quiet, 2000, 4).unwrap(), fit(&shaken, 2000, 4).unwrap());
    let log_half = |i: Interval| i.map(f64::ln).half_width();
    assert!((log_half(a.ratio(3, 0, 0.95)) - log_half(b.ratio(3, 0, 0.95))).abs() < 1e-9);
    assert!(log_half(b.level(3, 0.95)) > 5.0 * log_half(a.level(3, 0.95)));
    assert!(log_half(b.drift(0.95)) > 5.0 * log_half(a.drift(0.95)));
}

#[test]
fn what_cannot_be_fitted_is_an_error() {
    let at = |level, block, value| Observation { level, start: 0, block, value };
    assert_eq!(
        fit(&[at(0, 0, 1.0), at(1, 1, 2.0)], 10, 1),
        Err(StatsError::NotConnected { level: 1 })
    );
    assert_eq!(
        fit(&[at(0, 0, 1.0), at(2, 0, 2.0)], 10, 1),
        Err(StatsError::EmptyLevel { level: 1 })
    );
    assert!(matches!(fit(&[at(0, 0, -1.0)], 10, 1), Err(StatsError::NotPositive { .. })));
    assert!(matches!(fit(&[at(0, 0, 1.0)], 10, 1), Err(StatsError::TooFew { .. })));
    assert!(fit(&[], 10, 1).is_err());
}

fn any_design() -> impl Strategy<Value = Vec<Observation>> {
    prop::collection::vec(0.5..2.0_f64, 12..=12).prop_map(|values| {
        let cell =
            |(i, value): (usize, f64)| Observation { level: i % 3, start: 0, block: i / 3, value };
        values.into_iter().enumerate().map(cell).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn same_seed_same_bits(slices in any_design(), seed in 0_u64..1000) {
        prop_assert_eq!(fit(&slices, 60, seed).unwrap(), fit(&slices, 60, seed).unwrap());
    }

    #[test]
    fn unit_and_order_do_not_matter(slices in any_design(), unit in 1e-3..1e3_f64) {
        let before = fit(&slices, 60, 1).unwrap();
        let mut other: Vec<Observation> =
            slices.iter().map(|o| Observation { value: unit * o.value, ..*o }).collect();
        other.reverse();
        let after = fit(&other, 60, 1).unwrap();
        for level in 0..3 {
            let (a, b) = (before.level(level, 0.9), after.level(level, 0.9));
            prop_assert!((a.low * unit / b.low - 1.0).abs() < 1e-6);
            prop_assert!((a.high * unit / b.high - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn block_effects_average_to_one(slices in any_design()) {
        let fitted = fit(&slices[..11], 10, 1).unwrap();
        let total: f64 = fitted.blocks.iter().map(|b| b.ratio.ln()).sum();
        prop_assert!(total.abs() < 1e-9);
    }
}
