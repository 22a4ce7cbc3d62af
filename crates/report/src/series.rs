//! The curves of a run: one, or one for each number of cores.

use crate::words::Axis;
use kneepoint_vocab::findings::Curve;
use kneepoint_vocab::{Findings, Latency, Level, Nanos};

/// One figure of the response times.
pub(crate) type ResponseTime = fn(&Latency) -> Option<Nanos>;

/// The curves that a picture shows, fewest cores first, and what varies along each.
#[derive(Clone, Debug)]
pub(crate) struct Series<'a> {
    pub(crate) curves: Vec<&'a Curve>,
    pub(crate) axis: Axis,
}

impl<'a> Series<'a> {
    /// One curve for each number of cores, where there are several.
    pub(crate) fn of(findings: &'a Findings) -> Self {
        let curves: Vec<&Curve> = findings.by_cores.iter().map(|one| &one.curve).collect();
        let drawn = curves.iter().all(|curve| !curve.points.is_empty());
        if curves.len() > 1 && drawn {
            return Self { curves, axis: Axis::Clients };
        }
        let levels = findings.curve.points.iter().map(|point| point.level);
        Self { curves: vec![&findings.curve], axis: Axis::along(levels) }
    }

    /// Whether there is more than one.
    pub(crate) fn several(&self) -> bool {
        self.curves.len() > 1
    }

    /// The levels along the axis: those of the curve, or each number of clients once.
    pub(crate) fn levels(&self) -> Vec<Level> {
        let all = self.curves.iter().flat_map(|curve| &curve.points).map(|point| point.level);
        let mut levels: Vec<Level> = all.collect();
        if self.several() {
            levels.sort_unstable_by_key(|level| (level.clients, level.cores));
            levels.dedup_by_key(|level| level.clients);
        }
        levels
    }

    /// Whether two levels have the same place along the axis.
    pub(crate) fn same_place(&self, one: Level, other: Level) -> bool {
        if self.several() { one.clients == other.clients } else { one == other }
    }
}

/// The cores of a curve on one number of them.
pub(crate) fn cores(curve: &Curve) -> u32 {
    curve.points.first().map_or(0, |point| point.level.cores)
}
