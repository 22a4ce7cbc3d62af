//! Fits of the laws: known parameters come back, bounds hold, what cannot be known is refused.

use kneepoint_model::{LawFit, Point, amdahl, law, usl};
use kneepoint_stats::{Parameter, bounded};
use kneepoint_vocab::findings::{Fit, Unfit};
use kneepoint_vocab::{Level, PerSecond};
use proptest::prelude::*;

fn points(cores: u32, levels: &[u32], throughput: impl Fn(f64) -> f64) -> Vec<Point> {
    levels
        .iter()
        .map(|&clients| {
            let level = Level { clients, cores };
            Point { level, throughput: PerSecond(throughput(law::effective(level))) }
        })
        .collect()
}

fn usl_curve(one: f64, contention: f64, coherency: f64) -> impl Fn(f64) -> f64 {
    move |n| one * n / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0))
}

const LEVELS: [u32; 8] = [1, 2, 4, 8, 12, 16, 24, 32];

/// Deterministic disturbance of a per cent.
fn disturbed(points: &mut [Point], size: f64) {
    for (i, point) in points.iter_mut().enumerate() {
        point.throughput.0 *= 1.0 + size * if i % 3 == 0 { 1.0 } else { -0.5 };
    }
}

fn at(fit: &LawFit, name: &str) -> f64 {
    fit.value(name).expect("a fitted law has all its parameters")
}

#[test]
fn usl_gives_back_its_parameters() {
    let fit = usl::fit(&points(64, &LEVELS, usl_curve(995.65, 0.0267, 0.000_769)));
    assert!((at(&fit, law::ONE_CLIENT) / 995.65 - 1.0).abs() < 1e-6, "{fit:?}");
    assert!((at(&fit, usl::CONTENTION) / 0.0267 - 1.0).abs() < 1e-6, "{fit:?}");
    assert!((at(&fit, usl::COHERENCY) / 0.000_769 - 1.0).abs() < 1e-6, "{fit:?}");
    assert!(fit.unfit.is_empty(), "{:?}", fit.unfit);
    let peak = usl::maximum(&fit).expect("coherency is above 0");
    assert!((peak - (0.9733_f64 / 0.000_769).sqrt()).abs() < 1e-3);
}

#[test]
fn amdahl_gives_back_its_parameters_with_errors_of_the_noise() {
    let mut data = points(64, &LEVELS, usl_curve(100.0, 0.2, 0.0));
    disturbed(&mut data, 0.01);
    let fit = amdahl::fit(&data);
    assert!((at(&fit, amdahl::CONTENTION) - 0.2).abs() < 0.01, "{fit:?}");
    let error = fit.parameters[1].2.expect("there are degrees of freedom");
    assert!(error > 0.0 && error < 0.02, "{error}");
    assert!(fit.residual.0 > 0.002 && fit.residual.0 < 0.01, "{:?}", fit.residual);
    assert!(fit.unfit.is_empty(), "{:?}", fit.unfit);
}

#[test]
fn a_straight_line_has_no_contention_to_identify() {
    let mut data = points(64, &LEVELS, |n| 50.0 * n);
    disturbed(&mut data, 0.005);
    let fit = usl::fit(&data);
    let nothing = |one: &Unfit| matches!(one, Unfit::AtBound { .. } | Unfit::WithinError { .. });
    assert!(fit.unfit.iter().any(nothing), "contention or coherency is 0: {:?}", fit.unfit);
    assert!(at(&fit, usl::CONTENTION) >= 0.0 && at(&fit, usl::COHERENCY) >= 0.0);
}

/// A superlinear curve would make a free fit's contention negative.
#[test]
fn bounds_hold_on_a_superlinear_curve() {
    let fit = usl::fit(&points(64, &LEVELS, |n| 50.0 * n.powf(1.1)));
    assert!(at(&fit, usl::CONTENTION).abs() < 1e-9);
    let bound = Unfit::AtBound { parameter: usl::CONTENTION.to_owned() };
    assert!(fit.unfit.contains(&bound), "{:?}", fit.unfit);
}

#[test]
fn clients_beyond_the_cores_count_as_cores() {
    let mut data = points(4, &[1, 2, 3, 4, 8, 64], usl_curve(100.0, 0.1, 0.01));
    let fit = usl::fit(&data);
    let last = fit.fitted.last().expect("one for each point");
    assert!((last.0 - fit.fitted[3].0).abs() < 1e-9, "8 and 64 clients are 4 on 4 cores");
    let four = |one: &Unfit| matches!(one, Unfit::FewLevels { found: 4, .. });
    assert!(fit.unfit.iter().any(four), "{fit:?}");
    data[5].throughput = PerSecond(5.0);
    let torn = amdahl::fit(&data);
    assert!(torn.residual.0 > law::WORST_RESIDUAL);
    let shape = |one: &Unfit| matches!(one, Unfit::OtherShape { .. });
    assert!(torn.unfit.iter().any(shape), "{:?}", torn.unfit);
}

#[test]
fn too_few_levels_are_refused_without_a_panic() {
    for few in [&[][..], &[1], &[1, 2]] {
        let fit = usl::fit(&points(8, few, |n| 10.0 * n));
        assert!(!fit.unfit.is_empty(), "{few:?}");
    }
    let dead = points(8, &LEVELS, |_| 0.0);
    assert!(!usl::fit(&dead).unfit.is_empty());
}

#[test]
fn becomes_a_finding() {
    let fit = usl::fit(&points(64, &LEVELS, usl_curve(100.0, 0.05, 0.002)));
    let finding = Fit::from(fit.clone());
    assert_eq!(finding.law, "USL");
    assert_eq!(finding.fitted, fit.fitted);
    let names: Vec<&str> = finding.parameters.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["throughput of one client", "contention", "coherency"]);
}

/// Series of a file of public measurements (columns series, x, y), if the file is there.
fn public_series(file: &str, name: &str) -> Option<Vec<Point>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/data/series")
        .join(file);
    let text = std::fs::read_to_string(path).ok()?;
    let point = |line: &str| {
        let mut fields = line.split(',');
        (fields.next()? == name).then_some(())?;
        let clients = fields.next()?.parse::<f64>().ok()?;
        let throughput = PerSecond(fields.next()?.parse().ok()?);
        let clients = format!("{clients:.0}").parse().ok()?;
        Some(Point { level: Level { clients, cores: clients }, throughput })
    };
    Some(text.lines().filter_map(point).collect())
}

/// The 32-point series of Schwartz's book. Least squares on absolute residuals, as other programs
/// weigh them, must give their figures; the law's own fit weighs every level alike, gives other
/// parameters, and describes the series as well.
#[test]
fn published_series_gives_the_published_parameters() {
    let Some(data) = public_series("usl_examples.csv", "cisco-schwartz") else {
        println!("SKIP published_series: ../shared/data/series/usl_examples.csv is absent");
        return;
    };
    assert_eq!(data.len(), 32);
    let bounds = |start: f64| Parameter { start, low: 0.0, high: f64::INFINITY };
    let absolute = bounded::fit(&[bounds(900.0), bounds(0.1), bounds(0.001)], 32, |p, out| {
        for (slot, point) in out.iter_mut().zip(&data) {
            let n = law::effective(point.level);
            *slot = usl_curve(p[0], p[1], p[2])(n) - point.throughput.0;
        }
    })
    .expect("a well-formed problem");
    for (found, expected) in absolute.values.iter().zip([995.648_6, 0.026_715_91, 7.690_945e-4]) {
        assert!((found / expected - 1.0).abs() < 1e-4, "{:?}", absolute.values);
    }
    let fit = usl::fit(&data);
    assert!(fit.unfit.is_empty(), "{:?}", fit.unfit);
    assert!(fit.residual.0 < 0.03, "{:?}", fit.residual);
    let reference = usl_curve(995.648_6, 0.026_715_91, 7.690_945e-4);
    for (point, found) in data.iter().zip(&fit.fitted) {
        let n = law::effective(point.level);
        assert!((found.0 / reference(n) - 1.0).abs() < 0.05, "{n}: {found:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn unit_does_not_matter(
        contention in 0.01..0.5_f64, coherency in 1e-4..0.05_f64, unit in 1e-3..1e6_f64,
    ) {
        let mut data = points(64, &LEVELS, usl_curve(1.0, contention, coherency));
        disturbed(&mut data, 0.01);
        let before = usl::fit(&data);
        data.iter_mut().for_each(|p| p.throughput.0 *= unit);
        let after = usl::fit(&data);
        prop_assert!((at(&before, usl::CONTENTION) - at(&after, usl::CONTENTION)).abs() < 1e-5);
        prop_assert!((before.residual.0 - after.residual.0).abs() < 1e-7);
        prop_assert_eq!(Unfit::sentence(&before.unfit), Unfit::sentence(&after.unfit));
    }

    #[test]
    fn parameters_stay_in_their_bounds(throughput in prop::collection::vec(0.1..1e5_f64, 8)) {
        let mut data = points(64, &LEVELS, |n| n);
        data.iter_mut().zip(&throughput).for_each(|(p, x)| p.throughput.0 = *x);
        let fit = usl::fit(&data);
        if !fit.parameters.is_empty() {
            prop_assert!((0.0..=1.0).contains(&at(&fit, usl::CONTENTION)));
            prop_assert!(at(&fit, usl::COHERENCY) >= 0.0);
            prop_assert!(fit.fitted.iter().all(|x| x.0.is_finite() && x.0 > 0.0));
        }
    }
}
