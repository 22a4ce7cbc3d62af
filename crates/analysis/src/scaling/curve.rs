//! Throughput against level: the curve, its peak, its knee and its shape.

use crate::ledgers::slices::{Block, Slice, sweep_at};
use crate::number::{estimate, finite, median, point, quotient, tally};
use kneepoint_model::{Point, amdahl, bounds, usl};
use kneepoint_stats::Interval;
use kneepoint_stats::interval::percentile_interval;
use kneepoint_stats::two_way::{Observation, TwoWay, fit, observations};
use kneepoint_vocab::findings::{Curve, CurvePoint, Fit, Knee, Shape, Unfit};
use kneepoint_vocab::units::{Nanos, PerSecond, Ratio, Seconds, Unit};
use kneepoint_vocab::{Estimate, Latency, Level, Phase, TrialRecord};
use std::collections::{BTreeMap, BTreeSet};

/// Confidence of every interval.
pub(crate) const CONFIDENCE: f64 = 0.95;
/// A level this close to the peak is as good as the peak.
const KNEE: f64 = 0.95;
/// Below this part of the peak the curve has collapsed.
const COLLAPSE: f64 = 0.7;
/// Resamples of the curve.
const RESAMPLES: usize = 2000;
/// The measured levels with the fitted level + block model.
pub(crate) struct Sweep<'a> {
    levels: Vec<(Level, Vec<&'a TrialRecord>)>,
    model: Option<TwoWay>,
    plain: Vec<f64>,
}

impl<'a> Sweep<'a> {
    /// From the counting sweep slices of one variant.
    pub(crate) fn build(trials: &[&'a TrialRecord], seed: u64) -> Self {
        let mut by_level: BTreeMap<Level, Vec<&'a TrialRecord>> = BTreeMap::new();
        for trial in trials {
            if trial.id.phase == Phase::Sweep && trial.throughput().get() > 0.0 {
                by_level.entry(trial.id.level).or_default().push(trial);
            }
        }
        Self::of(by_level.into_iter().collect(), seed)
    }

    fn of(levels: Vec<(Level, Vec<&'a TrialRecord>)>, seed: u64) -> Self {
        let plain = levels.iter().map(|(_, trials)| geometric_mean(trials)).collect();
        let model = fit(&observed(&levels), RESAMPLES, seed).ok();
        Self { levels, model, plain }
    }

    /// One model of two variants that were measured in the same blocks: this one's levels in their
    /// places, then those of `other`, the first of them at the place returned. Only for ratios:
    /// it knows no cores.
    pub(crate) fn beside(&self, other: &Self, seed: u64) -> (Self, usize) {
        let levels = [&self.levels[..], &other.levels[..]].concat();
        (Self::of(levels, seed), self.levels.len())
    }

    /// Whether intervals could be had.
    pub(crate) fn has_intervals(&self) -> bool {
        self.model.is_some()
    }

    /// Blocks that hold a slice that counts.
    pub(crate) fn blocks(&self) -> u32 {
        let trials = self.levels.iter().flat_map(|(_, trials)| trials);
        let blocks: BTreeSet<Block> = trials.map(|t| (t.id.start, t.id.block)).collect();
        tally(blocks.len())
    }

    /// Numbers of cores that were measured, ascending.
    pub(crate) fn core_counts(&self) -> Vec<u32> {
        let cores: BTreeSet<u32> = self.levels.iter().map(|(level, _)| level.cores).collect();
        cores.into_iter().collect()
    }

    /// Positions of the levels on `cores` cores, clients ascending.
    pub(crate) fn on(&self, cores: u32) -> Vec<usize> {
        (0..self.levels.len()).filter(|at| self.levels[*at].0.cores == cores).collect()
    }

    /// The level at a position.
    pub(crate) fn level(&self, position: usize) -> Level {
        self.levels[position].0
    }

    /// Position of the greatest throughput on `cores` cores.
    pub(crate) fn peak_on(&self, cores: u32) -> Option<usize> {
        let on = self.on(cores);
        peak(on.len(), |at| self.value(on[at])).map(|at| on[at])
    }

    /// Position of the fewest clients on `cores` cores.
    pub(crate) fn first_on(&self, cores: u32) -> Option<usize> {
        self.on(cores).first().copied()
    }

    pub(crate) fn value(&self, level: usize) -> f64 {
        self.model.as_ref().map_or(self.plain[level], |model| model.value(level))
    }

    fn throughput(&self, level: usize) -> Estimate<PerSecond> {
        match &self.model {
            Some(model) => from_interval(model.level(level, CONFIDENCE)),
            None => point(self.plain[level]),
        }
    }

    pub(crate) fn ratio(&self, over: usize, under: usize) -> Estimate<Ratio> {
        self.ratio_at(over, under, CONFIDENCE)
    }

    /// The ratio of two levels, by position, with an interval of this confidence.
    pub(crate) fn ratio_at(&self, over: usize, under: usize, confidence: f64) -> Estimate<Ratio> {
        match &self.model {
            Some(model) if over != under => from_interval(model.ratio(over, under, confidence)),
            _ => point(quotient(self.value(over), self.value(under))),
        }
    }

    /// The ratio of two levels over that of two others, each by position: over, under.
    pub(crate) fn ratio_of_ratios(&self, above: [usize; 2], below: [usize; 2]) -> Estimate<Ratio> {
        let logs = |value: &dyn Fn(usize) -> f64| {
            let ratio = |[over, under]: [usize; 2]| value(over).ln() - value(under).ln();
            ratio(above) - ratio(below)
        };
        let middle = logs(&|level| self.value(level));
        let Some(model) = &self.model else { return point(middle.exp()) };
        let drawn: Vec<f64> = (0..model.resamples())
            .map(|resample| logs(&|level| model.replicate(level, resample)))
            .collect();
        from_interval(percentile_interval(middle, &drawn, CONFIDENCE).map(f64::exp))
    }
}

pub(crate) fn from_interval<U: Unit>(interval: Interval) -> Estimate<U> {
    estimate(interval.value, interval.low, interval.high)
}

fn observed(levels: &[(Level, Vec<&TrialRecord>)]) -> Vec<Observation> {
    let of_level = |(level, (_, trials)): (usize, &(Level, Vec<&TrialRecord>))| {
        let one = |t: &&TrialRecord| (level, (t.id.start, t.id.block), t.throughput().get());
        trials.iter().map(one).collect::<Vec<_>>()
    };
    observations(&levels.iter().enumerate().flat_map(of_level).collect::<Vec<_>>())
}

fn geometric_mean(trials: &[&TrialRecord]) -> f64 {
    let logs: Vec<f64> = trials.iter().map(|trial| trial.throughput().get().ln()).collect();
    finite(crate::number::mean(&logs).exp())
}

/// The curve on `cores` cores. `demand` is D_ref in CPU seconds of one operation, where it is
/// known. With no level at all `focus` stands in for the peak.
pub(crate) fn curve(
    sweep: &Sweep<'_>,
    slices: &[Slice<'_>],
    demand: Option<f64>,
    focus: Level,
    cores: u32,
) -> Curve {
    let on = sweep.on(cores);
    let alone = alone(sweep, &on);
    let points: Vec<CurvePoint> = on
        .iter()
        .map(|level| {
            let (at, trials) = &sweep.levels[*level];
            let ideal = bounds::upper(*at, Seconds(alone), Seconds(demand.unwrap_or(0.0)));
            CurvePoint {
                level: *at,
                throughput: sweep.throughput(*level),
                ideal: PerSecond(finite(ideal.0)),
                latency: latency(trials),
                switches: switches(slices, *at),
                slices: tally(trials.len()),
            }
        })
        .collect();
    let drift = sweep.model.as_ref().map_or(0.0, |model| model.drift(CONFIDENCE).half_width());
    let (peak, last) = (peak(on.len(), |at| sweep.value(on[at])), on.len().saturating_sub(1));
    let Some(peak) = peak else {
        let knee = Knee { level: focus, low: focus, high: focus, beyond_last: false };
        return Curve {
            points,
            peak: focus,
            knee,
            last_over_peak: point(1.0),
            shape: Shape::Flat,
            fits: Vec::new(),
            drift: Ratio(finite(drift)),
        };
    };
    let last_over_peak = sweep.ratio(on[last], on[peak]);
    let rising = peak == last && last > 0 && sweep.ratio(on[last], on[last - 1]).low.0 > 1.0;
    Curve {
        peak: points[peak].level,
        knee: knee(sweep, &on, rising),
        last_over_peak,
        shape: shape(&last_over_peak, rising),
        fits: fits(&points),
        points,
        drift: Ratio(finite(drift)),
    }
}

/// The level of the greatest value; the least level where several are equal.
fn peak(levels: usize, value: impl Fn(usize) -> f64) -> Option<usize> {
    (0..levels).reduce(|best, at| if value(at) > value(best) { at } else { best })
}

/// The smallest level whose value is at least 95 % of the peak's.
fn knee_of(levels: usize, value: impl Fn(usize) -> f64) -> usize {
    let most = peak(levels, &value).map_or(0.0, &value);
    (0..levels).find(|at| value(*at) >= KNEE * most).unwrap_or(0)
}

fn knee(sweep: &Sweep<'_>, on: &[usize], rising: bool) -> Knee {
    let at = knee_of(on.len(), |level| sweep.value(on[level]));
    let (low, high) = sweep.model.as_ref().map_or((at, at), |model| {
        let knees = (0..model.resamples())
            .map(|resample| knee_of(on.len(), |level| model.replicate(on[level], resample)));
        holding(at, &knees.collect::<Vec<_>>())
    });
    let name = |position: usize| sweep.levels[on[position]].0;
    let beyond_last = rising && at + 1 == on.len();
    Knee { level: name(at), low: name(low), high: name(high), beyond_last }
}

/// Least and greatest of the fewest levels, most frequent first, that hold 95 % of the
/// resamples; the estimate itself is always among them.
fn holding(estimate: usize, resampled: &[usize]) -> (usize, usize) {
    let mut frequency: BTreeMap<usize, usize> = BTreeMap::new();
    for level in resampled {
        *frequency.entry(*level).or_default() += 1;
    }
    let mut ranked: Vec<(usize, usize)> = frequency.into_iter().collect();
    ranked.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let (mut held, mut low, mut high) = (0, estimate, estimate);
    for (level, times) in ranked {
        if held * 100 >= resampled.len() * 95 {
            break;
        }
        held += times;
        low = low.min(level);
        high = high.max(level);
    }
    (low, high)
}

fn shape(last_over_peak: &Estimate<Ratio>, rising: bool) -> Shape {
    if rising {
        Shape::Rising
    } else if last_over_peak.high.0 >= 1.0 {
        Shape::Flat
    } else if last_over_peak.value.0 < COLLAPSE {
        Shape::Collapse
    } else {
        Shape::Retrograde
    }
}

/// R(1) of the bound min(N / R(1), C / D_ref): the least N / X over the levels `on` one number of
/// cores. Mostly that is one client's, but one client alone can be slow because it pays for
/// waking idle cores, and no bound may lie below what was measured.
fn alone(sweep: &Sweep<'_>, on: &[usize]) -> f64 {
    on.iter()
        .map(|at| f64::from(sweep.levels[*at].0.clients) / sweep.value(*at))
        .filter(|response| response.is_finite() && *response > 0.0)
        .fold(f64::INFINITY, f64::min)
}

/// Fitted laws. A law that could not be fitted stays, with the reason why.
fn fits(points: &[CurvePoint]) -> Vec<Fit> {
    let measured: Vec<Point> = points
        .iter()
        .map(|point| Point { level: point.level, throughput: point.throughput.value })
        .collect();
    [usl::fit(&measured), amdahl::fit(&measured)]
        .into_iter()
        .map(Fit::from)
        .map(all_finite)
        .collect()
}

fn all_finite(mut fit: Fit) -> Fit {
    for parameter in &mut fit.parameters {
        if !parameter.value.is_finite() {
            parameter.value = 0.0;
            if fit.unfit.is_empty() {
                fit.unfit.push(Unfit::NotFinite);
            }
        }
        parameter.error = parameter.error.filter(|error| error.is_finite());
    }
    fit.fitted.iter_mut().for_each(|x| x.0 = finite(x.0));
    fit.residual.0 = finite(fit.residual.0);
    fit
}

fn switches(slices: &[Slice<'_>], level: Level) -> Option<PerSecond> {
    let rates: Vec<f64> = sweep_at(slices, level).iter().map(|s| s.row.switches).collect();
    let mean = crate::number::mean(&rates);
    (mean > 0.0).then_some(PerSecond(mean))
}

/// Median over slices of each figure.
fn latency(trials: &[&TrialRecord]) -> Option<Latency> {
    let all: Vec<Latency> = trials.iter().filter_map(|trial| trial.latency).collect();
    if all.is_empty() {
        return None;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds >= 0")]
    let middle = |figure: fn(&Latency) -> Option<Nanos>| {
        let values: Vec<f64> =
            all.iter().filter_map(figure).map(|it| crate::number::count(it.0)).collect();
        (!values.is_empty()).then(|| Nanos(median(&values) as u64))
    };
    Some(Latency {
        mean: middle(|l| Some(l.mean))?,
        p50: middle(|l| Some(l.p50))?,
        p95: middle(|l| l.p95),
        p99: middle(|l| Some(l.p99))?,
        longest: middle(|l| l.longest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knee_is_the_smallest_level_near_the_peak() {
        let values = [50.0, 96.0, 100.0, 80.0];
        assert_eq!(knee_of(4, |at| values[at]), 1);
        assert_eq!(knee_of(1, |_| 3.0), 0);
    }

    #[test]
    fn knee_interval_holds_the_frequent_levels() {
        let resampled: Vec<usize> =
            [vec![1; 60], vec![2; 36], vec![0; 4]].into_iter().flatten().collect();
        assert_eq!(holding(1, &resampled), (1, 2));
        assert_eq!(holding(3, &resampled), (1, 3));
        assert_eq!(holding(2, &[]), (2, 2));
    }

    #[test]
    fn shape_follows_the_interval() {
        let of = |value: f64, low: f64, high: f64| estimate::<Ratio>(value, low, high);
        assert_eq!(shape(&of(0.95, 0.9, 1.01), false), Shape::Flat);
        assert_eq!(shape(&of(0.9, 0.85, 0.96), false), Shape::Retrograde);
        assert_eq!(shape(&of(0.5, 0.45, 0.6), false), Shape::Collapse);
        assert_eq!(shape(&of(1.0, 1.0, 1.0), true), Shape::Rising);
    }
}
