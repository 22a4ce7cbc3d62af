//! How the weights are made, and how predictors are scored: the half-split protocol.
//!
//! The lower half of a series' points is given, the upper half predicted; the error of a series is
//! the median e of |predicted / measured - 1|. For each shape that set of one to three members is
//! taken, all with equal weight, for which the mean of e / (e + 0.3) + g e is least: the first part
//! is about the usual error, the second about the great ones; g is 0.5 or 5, by shape. Intervals
//! are quantiles of the errors of series whose group had no part in the choice.

use super::known::Known;
use super::member::{All, Member, mean};
use super::shape::{Shape, scale};
use super::{COVERAGE, Choice, Curve, FEWEST_LEVELS, Weights};
use kneepoint_vocab::PerSecond;
use std::collections::{BTreeMap, BTreeSet};

/// A measured series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The set it belongs to.
    pub set: String,
    /// Series that are alike: those of one application.
    pub group: String,
    /// The whole curve.
    pub curve: Curve,
}

/// A series cut in half.
pub struct Half {
    /// Its set.
    pub set: String,
    /// Its group.
    pub group: String,
    /// Shape, as seen from the farthest level.
    pub shape: Shape,
    targets: Vec<Target>,
    /// Error of each set of members.
    errors: Vec<f64>,
}

struct Target {
    all: All,
    scale: f64,
    /// ln of what was measured.
    truth: f64,
}

/// The error at which the usual part of the loss is half of what it can be.
const USUAL: f64 = 0.3;

/// Weight of great errors: much where a curve may collapse, little where it has levelled off or
/// falls slowly, and where what usually holds should decide.
fn great(shape: Option<Shape>) -> f64 {
    match shape {
        Some(Shape::Level | Shape::Falling) => 0.5,
        _ => 5.0,
    }
}

/// Series of a shape that a choice of its own needs.
const FEWEST: usize = 10;
/// Levels that an interval of its own needs.
const FEWEST_ERRORS: usize = 40;

/// Every set of one to three members.
fn candidates() -> Vec<Vec<Member>> {
    let all = Member::ALL;
    let mut sets: Vec<Vec<Member>> = Vec::new();
    for (i, &one) in all.iter().enumerate() {
        sets.push(vec![one]);
        for (j, &two) in all.iter().enumerate().skip(i + 1) {
            sets.push(vec![one, two]);
            sets.extend(all.iter().skip(j + 1).map(|&three| vec![one, two, three]));
        }
    }
    sets
}

impl Half {
    /// Cuts a series; `None` where the lower half does not identify a curve by the number of its
    /// points.
    #[must_use]
    pub fn of(series: &Series) -> Option<Self> {
        let mut points = series.curve.points.clone();
        points.sort_by_key(|(clients, _)| *clients);
        let given = points.len().div_ceil(2);
        if given < FEWEST_LEVELS || points.iter().any(|(_, x)| !(x.0.is_finite() && x.0 > 0.0)) {
            return None;
        }
        let cores = series.curve.cores;
        let known = Known::of(&Curve { cores, points: points[..given].to_vec() });
        let target = |&(clients, PerSecond(x)): &(u32, PerSecond)| {
            let n = f64::from(clients.min(cores));
            Target { all: known.members(n), scale: scale(&known, n), truth: x.ln() }
        };
        let farthest = points.last().map_or(1, |(clients, _)| *clients).min(cores);
        let mut half = Self {
            set: series.set.clone(),
            group: series.group.clone(),
            shape: Shape::of(&known, f64::from(farthest)),
            targets: points[given..].iter().map(target).collect(),
            errors: Vec::new(),
        };
        half.errors = candidates().iter().map(|members| half.error(members)).collect();
        Some(half)
    }

    /// Median over the levels of |predicted / measured - 1|.
    #[must_use]
    pub fn error(&self, members: &[Member]) -> f64 {
        let one = |target: &Target| (mean(members, &target.all) - target.truth).exp_m1().abs();
        quantile(self.targets.iter().map(one).collect(), 0.5)
    }

    fn residuals(&self, choice: &Choice) -> impl Iterator<Item = f64> + '_ {
        let members = choice.members.clone();
        self.targets.iter().map(move |it| (it.truth - mean(&members, &it.all)) / it.scale)
    }

    /// Levels within the interval, and levels.
    #[must_use]
    pub fn covered(&self, choice: &Choice) -> (usize, usize) {
        let inside = self.residuals(choice).filter(|u| (choice.low..=choice.high).contains(u));
        (inside.count(), self.targets.len())
    }
}

/// Quantile by the nearest rank above; 0 of nothing.
#[must_use]
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small counts"
)]
pub fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let place = part * last as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    values[low] + (values[high] - values[low]) * (place - place.floor())
}

/// The set of members with the least error on these series.
fn choose(halves: &[&Half], shape: Option<Shape>) -> Vec<Member> {
    let sets = candidates();
    let loss = |index: usize| -> f64 {
        let of = |error: f64| error / (error + USUAL) + great(shape) * error;
        halves.iter().map(|half| of(half.errors[index])).sum()
    };
    let losses: Vec<f64> = (0..sets.len()).map(loss).collect();
    let best = (0..sets.len()).min_by(|a, b| losses[*a].total_cmp(&losses[*b]));
    best.and_then(|index| sets.into_iter().nth(index)).unwrap_or_else(|| vec![Member::Hold])
}

/// The choices without intervals.
fn members(halves: &[&Half]) -> Weights {
    let bare = |halves: &[&Half], shape| Choice {
        members: choose(halves, shape),
        low: 0.0,
        high: 0.0,
        series: halves.len(),
    };
    let mut weights = Weights { any: Some(bare(halves, None)), shape: BTreeMap::new() };
    for shape in Shape::ALL {
        let own: Vec<&Half> = halves.iter().copied().filter(|it| it.shape == shape).collect();
        if own.len() >= FEWEST {
            weights.shape.insert(shape, bare(&own, Some(shape)));
        }
    }
    weights
}

/// Errors of series by choices that their group had no part in: by shape, and of all.
fn held_out(halves: &[&Half]) -> BTreeMap<Shape, Vec<f64>> {
    let groups: BTreeSet<&str> = halves.iter().map(|half| half.group.as_str()).collect();
    let mut errors: BTreeMap<Shape, Vec<f64>> = BTreeMap::new();
    for group in groups {
        let others: Vec<&Half> = halves.iter().copied().filter(|it| it.group != group).collect();
        let weights = members(&others);
        for half in halves.iter().filter(|half| half.group == group) {
            let choice = weights.choice(half.shape);
            errors.entry(half.shape).or_default().extend(half.residuals(&choice));
        }
    }
    errors
}

/// Learns choices and intervals from series.
#[must_use]
pub fn train(halves: &[&Half]) -> Weights {
    let mut weights = members(halves);
    let errors = held_out(halves);
    let all: Vec<f64> = errors.values().flatten().copied().collect();
    if let Some(any) = &mut weights.any {
        (any.low, any.high) = interval(all.clone());
    }
    for shape in Shape::ALL {
        let own = errors.get(&shape).cloned().unwrap_or_default();
        let enough = own.len() >= FEWEST_ERRORS;
        if let Some(choice) = weights.shape.get_mut(&shape) {
            (choice.low, choice.high) = interval(if enough { own } else { all.clone() });
        }
    }
    weights
}

/// The ends that hold 90 % of the errors, with one more error beyond each end, as conformal
/// prediction asks for.
fn interval(mut errors: Vec<f64>) -> (f64, f64) {
    errors.extend([f64::MIN_POSITIVE - 1e3, 1e3]);
    let tail = 0.5 * (1.0 - COVERAGE);
    let (low, high) = (quantile(errors.clone(), tail), quantile(errors, 1.0 - tail));
    (low.clamp(-50.0, -1e-3), high.clamp(1e-3, 50.0))
}

/// Scores of predictors on series that they did not learn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Scored {
    /// Series.
    pub series: usize,
    /// Median error.
    pub median: f64,
    /// Error that nine of ten series stay below.
    pub tenth: f64,
    /// Part of the levels within their intervals.
    pub coverage: Option<f64>,
}

/// The score of one set of members.
#[must_use]
pub fn score_members(halves: &[&Half], members: &[Member]) -> Scored {
    scored(halves.iter().map(|half| half.error(members)).collect(), None)
}

/// The score of the ensemble, with the weights that `weights` gives for each series.
#[must_use]
pub fn score<'w>(halves: &[&Half], weights: impl Fn(&Half) -> &'w Weights) -> Scored {
    let mut errors = Vec::new();
    let (mut inside, mut levels) = (0_u32, 0_u32);
    for half in halves {
        let choice = weights(half).choice(half.shape);
        errors.push(half.error(&choice.members));
        let (own, of) = half.covered(&choice);
        inside += u32::try_from(own).unwrap_or(0);
        levels += u32::try_from(of).unwrap_or(0);
    }
    scored(errors, Some(f64::from(inside) / f64::from(levels.max(1))))
}

fn scored(errors: Vec<f64>, coverage: Option<f64>) -> Scored {
    Scored {
        series: errors.len(),
        median: quantile(errors.clone(), 0.5),
        tenth: quantile(errors, 0.9),
        coverage,
    }
}

/// Weights for every key, learnt from the series of all others.
#[must_use]
pub fn leave_out<K: Ord>(halves: &[Half], key: impl Fn(&Half) -> K) -> BTreeMap<K, Weights> {
    let keys: BTreeSet<K> = halves.iter().map(&key).collect();
    let learn = |out: &K| {
        let others: Vec<&Half> = halves.iter().filter(|half| key(half) != *out).collect();
        train(&others)
    };
    keys.into_iter().map(|out| (learn(&out), out)).map(|(weights, out)| (out, weights)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usl(number: u32) -> Series {
        let (contention, coherency) =
            (0.01 * f64::from(number % 7), 0.002 * f64::from(number % 11));
        let point = |n: u32| {
            let x = f64::from(n);
            (n, PerSecond(10.0 * x / (1.0 + contention * (x - 1.0) + coherency * x * (x - 1.0))))
        };
        let points = [1, 2, 4, 8, 16, 32].map(point).to_vec();
        let group = format!("group {}", number % 5);
        Series { set: "made".to_owned(), group, curve: Curve { cores: u32::MAX, points } }
    }

    #[test]
    fn curves_that_follow_a_law_are_predicted_by_it() {
        let halves: Vec<Half> = (0..60).filter_map(|number| Half::of(&usl(number))).collect();
        let all: Vec<&Half> = halves.iter().collect();
        let own = score_members(&all, &[Member::Usl]);
        assert!(own.median < 1e-3, "{own:?}");
        let weights = train(&all);
        assert_eq!(weights.any.as_ref().map(|any| any.members.clone()), Some(vec![Member::Usl]));
        let by_group = leave_out(&halves, |half| half.group.clone());
        let ensemble = score(&all, |half| &by_group[&half.group]);
        assert!(ensemble.median < 0.01, "{ensemble:?}");
        assert!(ensemble.coverage.is_some_and(|part| part > 0.85), "{ensemble:?}");
    }

    #[test]
    fn too_few_points_have_no_half() {
        let mut short = usl(1);
        short.curve.points.truncate(4);
        assert!(Half::of(&short).is_none());
    }

    #[test]
    fn quantiles_lie_between_their_neighbours() {
        assert!((quantile(vec![3.0, 1.0, 2.0], 0.5) - 2.0).abs() < 1e-12);
        assert!((quantile(vec![0.0, 10.0], 0.9) - 9.0).abs() < 1e-12);
        assert!(quantile(Vec::new(), 0.5).abs() < 1e-12);
    }
}
