//! Forecasts from throughput alone: what a measured curve says of levels that were not measured.
//!
//! Simple extrapolations ([`Member`]) are right on different curves. Three of different kinds are
//! averaged; a curve that breaks ([`Shape`]) has one of its own. Which, was chosen on public
//! series; the interval is as wide as the errors were on series that had no part in the choice
//! (conformal prediction; Vovk, Gammerman and Shafer 2005). Both stand in `weights.toml`, which
//! `cargo xtask predictors --fit` makes and [`train`] describes.
//!
//! Clients beyond the cores wait, so all of this is about n = min(clients, cores). What a profile
//! would tell, a curve does not: that a lock is about to collapse cannot be seen before it does.

mod known;
mod member;
mod shape;
pub mod train;
mod weights;

pub use known::Curve;
pub use member::Member;
pub use shape::Shape;
pub use weights::{Choice, Weights};

use kneepoint_vocab::{Level, PerSecond};
use known::Known;
use serde::Serialize;

/// Levels with different min(clients, cores) that a forecast needs.
pub const FEWEST_LEVELS: usize = 3;
/// Beyond this many times the last measured min(clients, cores) nothing is forecast: few series
/// that the intervals were checked on reach that far.
pub const FARTHEST: f64 = 8.0;
/// Part of the levels that intervals are to hold.
pub const COVERAGE: f64 = 0.9;

/// A level that was not measured, forecast.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The level.
    pub level: Level,
    /// Throughput.
    pub throughput: PerSecond,
    /// Lower end of the 90 % interval.
    pub low: PerSecond,
    /// Upper end.
    pub high: PerSecond,
    /// Shape of the curve, as seen from this level.
    pub shape: Shape,
    /// What was averaged.
    pub members: Vec<Member>,
}

/// Why a level is not forecast.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// Fewer levels than it takes to see a curve bend.
    #[error(
        "{found} levels with different min(clients, cores) and a throughput do not identify a \
         curve, {FEWEST_LEVELS} do: measure more levels of up to {cores} clients, or on more cores"
    )]
    TooFew {
        /// Levels there are.
        found: usize,
        /// Cores they were measured on.
        cores: u32,
    },
    /// Farther away than can be defended.
    #[error(
        "{wanted} clients on as many cores are more than {FARTHEST} times the {last} that were \
         measured: measure up to {needed}"
    )]
    TooFar {
        /// min(clients, cores) of the level.
        wanted: u32,
        /// The greatest one measured.
        last: u32,
        /// The one that would do.
        needed: u32,
    },
    /// No clients or no cores.
    #[error("a level has at least one client and one core")]
    NoLevel,
}

/// Forecasts a level from a curve.
///
/// Cores beyond those that the curve was measured on count as the clients that they can serve: the
/// curve up to its own cores is taken to go on.
///
/// # Errors
/// Where the curve does not identify the level.
pub fn forecast(curve: &Curve, level: Level, weights: &Weights) -> Result<Forecast, Refused> {
    let wanted = level.clients.min(level.cores);
    if wanted == 0 {
        return Err(Refused::NoLevel);
    }
    let known = Known::of(curve);
    let last = known.last();
    if known.len() < FEWEST_LEVELS && wanted == curve.cores && last == wanted {
        return Ok(at_its_cores(curve, &known, level, weights));
    }
    if known.len() < FEWEST_LEVELS {
        return Err(Refused::TooFew { found: known.len(), cores: curve.cores });
    }
    let target = f64::from(wanted);
    if target > FARTHEST * f64::from(last) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let needed = (target / FARTHEST).ceil() as u32;
        return Err(Refused::TooFar { wanted, last, needed });
    }
    let shape = Shape::of(&known, target);
    let choice = weights.choice(shape);
    let all = known.members(target);
    let middle = member::mean(&choice.members, &all);
    let scale = shape::scale(&known, target);
    let at = |part: f64| PerSecond((middle + part * scale).exp());
    Ok(Forecast {
        level,
        throughput: at(0.0),
        low: at(choice.low),
        high: at(choice.high),
        shape,
        members: choice.members.clone(),
    })
}

/// A level with more clients than cores from a curve that says no more than that: throughput stays
/// what it was with the most clients. Where it fell on the way there it may go on falling, as a
/// power of the clients.
fn at_its_cores(curve: &Curve, known: &Known, level: Level, weights: &Weights) -> Forecast {
    let choice = weights.choice(Shape::AtCores);
    let middle = known.ln_x[known.len() - 1];
    let scale = shape::scale(known, f64::from(curve.cores));
    let fall = fall_beyond(curve, level.clients);
    let at = |logarithm: f64| PerSecond(logarithm.exp());
    Forecast {
        level,
        throughput: at(middle),
        low: at(middle + choice.low * scale + fall),
        high: at(middle + choice.high * scale),
        shape: Shape::AtCores,
        members: vec![Member::Hold],
    }
}

/// Change of ln X to so many clients if the last fall among levels with more clients than cores
/// goes on; 0 where there was none.
fn fall_beyond(curve: &Curve, clients: u32) -> f64 {
    let mut crowded: Vec<(f64, f64)> = (curve.points.iter())
        .filter(|(clients, x)| *clients >= curve.cores && x.0.is_finite() && x.0 > 0.0)
        .map(|(clients, x)| (f64::from(*clients).ln(), x.0.ln()))
        .collect();
    crowded.sort_by(|a, b| a.0.total_cmp(&b.0));
    let [.., before, last] = &crowded[..] else { return 0.0 };
    let further = (f64::from(clients).ln() - last.0).max(0.0);
    ((last.1 - before.1) / (last.0 - before.0)).min(0.0) * further
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights() -> Weights {
        Weights::shipped().expect("the file of weights is valid")
    }

    fn curve(cores: u32, points: &[(u32, f64)]) -> Curve {
        let points = points.iter().map(|&(clients, x)| (clients, PerSecond(x))).collect();
        Curve { cores, points }
    }

    fn at(curve: &Curve, clients: u32, cores: u32) -> Result<Forecast, Refused> {
        forecast(curve, Level { clients, cores }, &weights())
    }

    #[test]
    fn a_straight_line_goes_on_and_its_interval_widens() {
        let line = curve(64, &[(1, 100.0), (2, 200.0), (4, 400.0), (8, 800.0)]);
        let near = at(&line, 10, 64).expect("near");
        let far = at(&line, 64, 64).expect("eight times");
        assert!(near.low.0 < 1000.0 && near.high.0 > 900.0, "{near:?}");
        assert!(far.high.0 / far.low.0 > near.high.0 / near.low.0);
        assert!(near.throughput.0 <= 1000.0 * (1.0 + 1e-9), "not above the bound");
        assert_eq!(near.shape, Shape::Rising);
    }

    #[test]
    fn clients_beyond_the_cores_add_nothing() {
        let full = curve(4, &[(1, 100.0), (2, 190.0), (4, 340.0), (8, 330.0)]);
        let one = at(&full, 16, 4).expect("at the cores");
        let other = at(&full, 1 << 20, 4).expect("at the cores");
        assert!((one.throughput.0 - other.throughput.0).abs() < 1e-9);
        assert_eq!(one.shape, Shape::AtCores);
        assert!((one.throughput.0 / 330.0 - 1.0).abs() < 0.2, "{one:?}");
    }

    /// As on most small machines: 1, 2, 4 and 8 clients on 2 cores are two levels.
    #[test]
    fn more_clients_on_as_many_cores_need_no_third_level() {
        let flat = curve(2, &[(1, 100.0), (2, 190.0), (4, 180.0), (8, 181.0)]);
        let said = at(&flat, 64, 2).expect("at the cores");
        assert!((said.throughput.0 - 181.0).abs() < 1e-9, "{said:?}");
        assert!(said.low.0 > 150.0 && said.high.0 < 260.0, "{said:?}");
        let falling = curve(2, &[(1, 100.0), (2, 190.0), (4, 150.0), (8, 100.0)]);
        let said = at(&falling, 16, 2).expect("at the cores");
        assert!(said.low.0 < 67.0 && said.high.0 > 100.0, "it may go on falling: {said:?}");
        assert!(matches!(at(&falling, 4, 4), Err(Refused::TooFew { found: 2, .. })));
    }

    #[test]
    fn what_the_levels_do_not_identify_is_refused() {
        let two = curve(2, &[(1, 100.0), (2, 190.0), (4, 180.0), (8, 170.0)]);
        let refused = at(&two, 64, 64).expect_err("two levels");
        assert!(refused.to_string().starts_with("2 levels with different"), "{refused}");
        let three = curve(64, &[(1, 100.0), (2, 190.0), (4, 300.0)]);
        let refused = at(&three, 64, 64).expect_err("sixteen times");
        assert!(refused.to_string().contains("measure up to 8"), "{refused}");
        assert_eq!(at(&three, 0, 64), Err(Refused::NoLevel));
        let dead = curve(64, &[(1, 0.0), (2, f64::NAN), (4, 300.0)]);
        assert!(matches!(at(&dead, 8, 64), Err(Refused::TooFew { found: 1, .. })));
    }

    #[test]
    fn every_shape_has_a_choice_and_an_interval() {
        for shape in Shape::ALL {
            let choice = weights();
            let choice = choice.choice(shape);
            assert!(!choice.members.is_empty() && choice.low < 0.0 && choice.high > 0.0);
        }
    }
}
