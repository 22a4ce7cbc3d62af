//! How the weights are made, and how predictors are scored: the half-split protocol.
//!
//! The lower half of a series' points is given, the upper half predicted; the error of a series is
//! the median e of |predicted / measured - 1|. Three members are averaged with equal weight, one of
//! each kind: a curve that levels off, one that stays or falls by equal factors, and one that
//! rises and falls. They err to different sides. Which of the first kind is learnt: the one for
//! which the sum of e / (e + 0.3) + 5 e over all series is least; the first part is about the usual
//! error, the second about the great ones. Choices for each shape did worse on applications that
//! they had not seen. Two shapes are exceptions: at its cores a curve stays, and one that breaks
//! may be continued as 1/n, if that is the least error of the series that break. Intervals are
//! quantiles of the errors of series whose group had no part in the choice, so far out that
//! intervals from other groups hold 90 % of a group's levels: series of one application err alike.

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
    /// Error of each candidate.
    errors: [f64; CANDIDATES.len()],
}

struct Target {
    all: All,
    scale: f64,
    /// ln of what was measured.
    truth: f64,
}

/// The error at which the usual part of the loss is half of what it can be.
const USUAL: f64 = 0.3;
/// Weight of the part of the loss that is about great errors.
const GREAT: f64 = 5.0;

/// What may continue a curve: three of different kinds, and what a curve that breaks may do.
const CANDIDATES: [&[Member]; 5] = [
    &[Member::Usl, Member::Exponential, Member::Ricker],
    &[Member::Amdahl, Member::Exponential, Member::Ricker],
    &[Member::DampedTrend, Member::Exponential, Member::Ricker],
    &[Member::Bend, Member::Exponential, Member::Ricker],
    &[Member::Inverse],
];
/// Those for every shape.
const USUALLY: usize = 4;

/// Series of a shape that a choice of its own needs.
const FEWEST: usize = 10;
/// Levels that an interval of its own needs.
const FEWEST_ERRORS: usize = 24;
/// Parts of the errors beyond each end of an interval that are tried.
const TAILS: [f64; 6] = [0.05, 0.04, 0.03, 0.02, 0.015, 0.01];

/// An error, in units of the scale, and the number of its group.
type Error = (usize, f64);

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
            errors: [0.0; CANDIDATES.len()],
        };
        half.errors = CANDIDATES.map(|members| half.error(members));
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

/// Of the first candidates, the one with the least loss on these series.
fn choose(halves: &[&Half], among: usize) -> Vec<Member> {
    let loss = |index: usize| -> f64 {
        let of = |error: f64| error / (error + USUAL) + GREAT * error;
        halves.iter().map(|half| of(half.errors[index])).sum()
    };
    let losses: Vec<f64> = (0..among).map(loss).collect();
    let best = (0..among).min_by(|a, b| losses[*a].total_cmp(&losses[*b]));
    CANDIDATES[best.unwrap_or(0)].to_vec()
}

/// The choices without intervals.
fn members(halves: &[&Half]) -> Weights {
    let of = |shape: Shape| -> Vec<&Half> {
        halves.iter().copied().filter(|it| it.shape == shape).collect()
    };
    let special = |shape: Shape| matches!(shape, Shape::AtCores | Shape::Breaking);
    let plain: Vec<&Half> = halves.iter().copied().filter(|it| !special(it.shape)).collect();
    let usual = choose(&plain, USUALLY);
    let bare =
        |members: Vec<Member>, series: usize| Choice { members, low: 0.0, high: 0.0, series };
    let mut shape = BTreeMap::new();
    for one in Shape::ALL {
        let own = of(one);
        let members = match one {
            Shape::AtCores => vec![Member::Hold],
            _ if own.len() < FEWEST => continue,
            Shape::Breaking => choose(&own, CANDIDATES.len()),
            _ => usual.clone(),
        };
        shape.insert(one, bare(members, own.len()));
    }
    Weights { any: Some(bare(usual, halves.len())), shape }
}

/// Errors of series by choices that their group had no part in: by shape.
fn held_out(halves: &[&Half]) -> BTreeMap<Shape, Vec<Error>> {
    let groups: BTreeSet<&str> = halves.iter().map(|half| half.group.as_str()).collect();
    let mut errors: BTreeMap<Shape, Vec<Error>> = BTreeMap::new();
    for (number, group) in groups.into_iter().enumerate() {
        let others: Vec<&Half> = halves.iter().copied().filter(|it| it.group != group).collect();
        let weights = members(&others);
        for half in halves.iter().filter(|half| half.group == group) {
            let choice = weights.choice(half.shape);
            let own = half.residuals(&choice).map(|error| (number, error));
            errors.entry(half.shape).or_default().extend(own);
        }
    }
    errors
}

/// Learns choices and intervals from series.
#[must_use]
pub fn train(halves: &[&Half]) -> Weights {
    let mut weights = members(halves);
    let errors = held_out(halves);
    let all: Vec<Error> = errors.values().flatten().copied().collect();
    let (low, high) = interval(&all);
    if let Some(any) = &mut weights.any {
        (any.low, any.high) = (low, high);
    }
    for (shape, choice) in &mut weights.shape {
        let own = errors.get(shape).filter(|own| own.len() >= FEWEST_ERRORS);
        (choice.low, choice.high) = own.map_or((low, high), |own| interval(own));
    }
    weights
}

/// The narrowest interval whose kind holds 90 % of the levels of groups that it was not made of.
fn interval(errors: &[Error]) -> (f64, f64) {
    let holds = |tail: &f64| crossed(errors, *tail) >= COVERAGE;
    let last = TAILS[TAILS.len() - 1];
    let tail = TAILS.into_iter().find(holds).unwrap_or(last);
    ends(errors.iter().map(|it| it.1).collect(), tail)
}

/// Part of the levels that lie in the interval made of the errors of other groups.
#[allow(clippy::cast_precision_loss, reason = "counts of levels")]
fn crossed(errors: &[Error], tail: f64) -> f64 {
    let groups: BTreeSet<usize> = errors.iter().map(|it| it.0).collect();
    let mut inside = 0;
    for group in groups {
        let others = errors.iter().filter(|it| it.0 != group).map(|it| it.1).collect();
        let (low, high) = ends(others, tail);
        let own = errors.iter().filter(|it| it.0 == group);
        inside += own.filter(|it| (low..=high).contains(&it.1)).count();
    }
    inside as f64 / errors.len().max(1) as f64
}

/// The ends with this part of the errors beyond each, and one more error beyond each end, as
/// conformal prediction asks for; never farther out than the greatest errors.
#[allow(clippy::cast_precision_loss, reason = "counts of levels")]
fn ends(mut errors: Vec<f64>, tail: f64) -> (f64, f64) {
    let tail = tail.max(1.0 / (errors.len() as f64 + 1.0));
    errors.extend([-1e3, 1e3]);
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
        let by_group = leave_out(&halves, |half| half.group.clone());
        let ensemble = score(&all, |half| &by_group[&half.group]);
        assert!(ensemble.median < 0.45, "up to eight times as far: {ensemble:?}");
        assert!(ensemble.coverage.is_some_and(|part| part > 0.85), "{ensemble:?}");
    }

    /// Straight, then a sharp bend, then 1/n.
    fn broken(number: u32) -> Series {
        let rise = 1.8 + 0.02 * f64::from(number % 6);
        let top = rise * 1.3;
        let points = [(1, 1.0), (2, rise), (4, top), (8, top / 2.0), (16, top / 4.0)];
        let points = points.map(|(n, x)| (n, PerSecond(100.0 * x))).to_vec();
        let group = format!("group {}", number % 5);
        Series { set: "made".to_owned(), group, curve: Curve { cores: u32::MAX, points } }
    }

    #[test]
    fn what_broken_curves_do_is_learnt_from_broken_curves() {
        let halves: Vec<Half> = (0..20).filter_map(|number| Half::of(&broken(number))).collect();
        assert!(halves.iter().all(|half| half.shape == Shape::Breaking));
        let all: Vec<&Half> = halves.iter().collect();
        assert_eq!(train(&all).choice(Shape::Breaking).members, vec![Member::Inverse]);
        assert_eq!(train(&all).choice(Shape::AtCores).members, vec![Member::Hold]);
        let few = train(&all[..FEWEST - 1]).choice(Shape::Breaking);
        assert_eq!(few.members.len(), 3, "too few to depart from what is usual");
    }

    #[test]
    fn groups_that_err_alike_widen_intervals() {
        let values = (0..200).map(|it| f64::from(it) / 100.0 - 0.995);
        let alone: Vec<Error> = (0..).zip(values).collect();
        let grouped: Vec<Error> = alone.iter().map(|it| (it.0 / 40, it.1)).collect();
        let (single, alike) = (interval(&alone), interval(&grouped));
        assert!(alike.0 < single.0 && alike.1 > single.1, "{single:?} {alike:?}");
        assert!(crossed(&alone, 0.05) >= COVERAGE - 0.02);
        assert!(crossed(&grouped, 0.05) < crossed(&alone, 0.05));
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
