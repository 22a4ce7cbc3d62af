//! At which level the loss is explained, and whether there is one.
//!
//! A curve may meet its bound at one level and depart from it at the next: a pool of four permits
//! serves four clients as well as they can be served, and eight no better. So every level is held
//! against its bound, and the causes are those of the level that falls short of it most. The plan's
//! focus, where treatments are tried, is kept where it falls short about as far: then causes and
//! cures are of one level.
//!
//! The bound is the curve's ideal, min(N / R(1), C / D), with one exception. Where so many clients
//! gain more than their number over fewer, R(1) is that level's own, and by it any level would be
//! perfect: with clients for every core only C / D is left. So it is with one level alone, where
//! clients fewer than cores can keep as many cores busy as they are.

use crate::number::quotient;
use kneepoint_vocab::Level;
use kneepoint_vocab::findings::{Curve, CurvePoint};

/// Throughput this close to the operational bound is as much as the cores can give: there is no
/// loss to explain.
const ATTAINED: f64 = 0.95;
/// A gain this far above the number of clients is more than noise.
const SUPERLINEAR: f64 = 1.1;
/// The focus is kept where it loses this part of what the worst level does.
const NEARLY: f64 = 0.8;

/// Where the loss is explained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Story {
    /// The level that causes are of.
    pub(crate) level: Level,
    /// No level falls short of its bound.
    pub(crate) scales: bool,
    /// Where the bound is the clients', N / R(1): the level that R(1) is of. What an operation
    /// waits there, with nobody in its way, it has to wait anyway.
    pub(crate) alone: Option<Level>,
}

impl Story {
    /// `by_cores` is C / D at the least D, in operations/s, where it is known. Only levels in
    /// `accounted` have a ledger to explain anything with.
    pub(crate) fn of(
        curve: &Curve,
        focus: Level,
        by_cores: Option<f64>,
        accounted: &[Level],
    ) -> Self {
        let enough = focus.clients.min(focus.cores);
        let short = |at: usize| shortfall(&curve.points, at, focus, by_cores);
        let asked = |at: &usize| {
            let level = curve.points[*at].level;
            level.clients >= enough && accounted.contains(&level)
        };
        let short: Vec<(Level, f64)> = (0..curve.points.len())
            .filter(asked)
            .filter_map(|at| Some((curve.points[at].level, short(at)?)))
            .collect();
        let worst = short.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((level, most)) = worst else {
            // Without a ledger of the focus nothing can be explained, scaling or not.
            let known = curve.points.iter().any(|point| point.level == focus);
            return Self { level: focus, scales: known, alone: None };
        };
        let keeps = short.iter().any(|(at, lost)| *at == focus && *lost >= NEARLY * most);
        let level = if keeps { focus } else { level };
        Self { level, scales: false, alone: alone(&curve.points, level, by_cores) }
    }
}

/// The part of its bound that the point `at` falls short by; none where it gives what its bound
/// allows, as far as can be told.
pub(crate) fn shortfall(
    points: &[CurvePoint],
    at: usize,
    focus: Level,
    by_cores: Option<f64>,
) -> Option<f64> {
    let point = &points[at];
    let bound = bound(points, at, by_cores);
    let reach = quotient(point.throughput.value.0, bound);
    let sure = point.level == focus || point.throughput.high.0 < bound;
    (reach < ATTAINED && sure).then_some(1.0 - reach)
}

/// The level of the least N / X, where that bounds the throughput at `level`.
pub(crate) fn alone(points: &[CurvePoint], level: Level, by_cores: Option<f64>) -> Option<Level> {
    let at = points.iter().position(|point| point.level == level)?;
    let by_clients = by_cores.is_none_or(|most| bound(points, at, by_cores) < most * (1.0 - 1e-9));
    let best = points.iter().max_by(|a, b| each(a).total_cmp(&each(b)))?;
    (by_clients && best.level != level).then_some(best.level)
}

fn each(point: &CurvePoint) -> f64 {
    quotient(point.throughput.value.0, f64::from(point.level.clients))
}

/// Half the interval of a throughput's logarithm.
fn half_width(point: &CurvePoint) -> f64 {
    0.5 * quotient(point.throughput.high.0, point.throughput.low.0).ln()
}

/// What a point could reach.
fn bound(points: &[CurvePoint], at: usize, by_cores: Option<f64>) -> f64 {
    let point = &points[at];
    let fewer = points[..at].iter().max_by(|a, b| each(a).total_cmp(&each(b)));
    let gains_more = fewer.is_some_and(|fewer| {
        let times = quotient(each(point), each(fewer));
        times > SUPERLINEAR && times.ln() > half_width(point).hypot(half_width(fewer))
    });
    let enough = point.level.clients >= point.level.cores;
    match by_cores {
        // A level alone is its own R(1), and tells nothing of what its clients could do.
        Some(most) if points.len() == 1 => {
            let asked = point.level.clients.min(point.level.cores);
            most * quotient(f64::from(asked), f64::from(point.level.cores))
        }
        Some(most) if gains_more && enough => most,
        _ => point.ideal.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::Estimate;
    use kneepoint_vocab::findings::{Knee, Shape};
    use kneepoint_vocab::units::{PerSecond, Ratio};

    const CORES: u32 = 2;

    fn level(clients: u32) -> Level {
        Level { clients, cores: CORES }
    }

    /// Of (clients, throughput, ideal).
    fn story(points: &[(u32, f64, f64)], focus: u32, by_cores: f64) -> Story {
        told_within(0.02, points, focus, by_cores)
    }

    /// The same with intervals that reach so much of a throughput to either side.
    fn told_within(half: f64, points: &[(u32, f64, f64)], focus: u32, by_cores: f64) -> Story {
        let points: Vec<CurvePoint> = points
            .iter()
            .map(|(clients, x, ideal)| CurvePoint {
                level: level(*clients),
                throughput: Estimate::of(*x, (1.0 - half) * x, (1.0 + half) * x),
                ideal: PerSecond(*ideal),
                latency: None,
                switches: None,
                slices: 5,
            })
            .collect();
        let accounted: Vec<Level> = points.iter().map(|point| point.level).collect();
        let at = level(focus);
        let knee = Knee { level: at, low: at, high: at, beyond_last: false };
        let curve = Curve {
            points,
            peak: at,
            knee,
            last_over_peak: Estimate::of(1.0, 1.0, 1.0),
            shape: Shape::Flat,
            fits: Vec::new(),
            drift: Ratio(0.0),
        };
        Story::of(&curve, at, Some(by_cores), &accounted)
    }

    #[test]
    fn one_level_is_held_against_the_cores_alone() {
        assert!(!story(&[(2, 10.0, 10.0)], 2, 20.0).scales);
        assert!(story(&[(2, 19.5, 19.5)], 2, 20.0).scales);
        assert!(story(&[(1, 9.8, 9.8)], 1, 20.0).scales, "a client can fill one core");
    }

    #[test]
    fn a_pool_that_meets_its_ideal_at_its_size_does_not_scale_beyond() {
        let reported =
            story(&[(1, 0.9, 0.91), (2, 1.8, 1.82), (4, 3.64, 3.64), (8, 3.6, 7.28)], 4, 90.0);
        assert_eq!(reported, Story { level: level(8), scales: false, alone: Some(level(4)) });
    }

    #[test]
    fn more_than_as_many_times_as_clients_is_no_ideal_of_its_own() {
        let reported = story(&[(1, 10.0, 14.0), (2, 28.0, 28.0)], 2, 40.0);
        assert_eq!(reported, Story { level: level(2), scales: false, alone: None });
        let full = story(&[(1, 10.0, 14.0), (2, 28.0, 28.0)], 2, 28.5);
        assert!(full.scales);
        let chance = told_within(0.4, &[(1, 10.0, 14.0), (2, 28.0, 28.0)], 2, 40.0);
        assert!(chance.scales, "a level that may have done as well");
    }

    #[test]
    fn a_focus_that_loses_about_as_much_is_kept() {
        let points = [(1, 10.0, 10.0), (2, 8.0, 20.0), (8, 6.5, 20.0)];
        assert_eq!(story(&points, 2, 20.0).level, level(2));
        let points = [(1, 10.0, 10.0), (2, 16.0, 20.0), (8, 6.5, 20.0)];
        assert_eq!(story(&points, 2, 20.0).level, level(8));
    }

    #[test]
    fn what_meets_its_bound_everywhere_scales() {
        let points = [(1, 10.0, 10.0), (2, 19.7, 20.0), (8, 19.4, 20.0)];
        let full = Story { level: level(2), scales: true, alone: None };
        assert_eq!(story(&points, 2, 20.0), full);
        // One client that is slow alone is no level of its own to explain.
        assert!(story(&[(1, 4.0, 10.0), (2, 20.0, 20.0)], 2, 20.0).scales);
    }

    #[test]
    fn an_interval_that_holds_the_bound_departs_from_nothing() {
        let points = [(1, 10.0, 10.0), (2, 20.0, 20.0), (8, 18.9, 19.1)];
        assert!(story(&points, 2, 20.0).scales);
    }
}
