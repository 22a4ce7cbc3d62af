//! A measured curve as forecasts see it: one throughput for each min(clients, cores).

use kneepoint_vocab::PerSecond;
use std::collections::BTreeMap;

/// Throughput against clients on one number of cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Cores; `u32::MAX` where they are not known.
    pub cores: u32,
    /// Clients and throughput.
    pub points: Vec<(u32, PerSecond)>,
}

/// Logarithms of n = min(clients, cores) and of throughput, ascending.
pub(super) struct Known {
    pub(super) n: Vec<f64>,
    pub(super) ln_n: Vec<f64>,
    pub(super) ln_x: Vec<f64>,
    last: u32,
    cores: u32,
}

impl Known {
    /// Of clients beyond the cores those with the most count: they are what comes next.
    pub(super) fn of(curve: &Curve) -> Self {
        let mut points: Vec<_> = curve
            .points
            .iter()
            .filter(|(clients, x)| *clients > 0 && x.0.is_finite() && x.0 > 0.0)
            .collect();
        points.sort_by_key(|(clients, _)| *clients);
        let mut distinct = BTreeMap::new();
        for (clients, x) in points {
            distinct.insert(*clients.min(&curve.cores), x.0);
        }
        let n: Vec<f64> = distinct.keys().map(|n| f64::from(*n)).collect();
        Self {
            ln_n: n.iter().map(|n| n.ln()).collect(),
            ln_x: distinct.values().map(|x| x.ln()).collect(),
            n,
            last: distinct.keys().next_back().copied().unwrap_or(0),
            cores: curve.cores,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.n.len()
    }

    pub(super) fn last(&self) -> u32 {
        self.last
    }

    pub(super) fn cores(&self) -> u32 {
        self.cores
    }

    /// What slopes are taken over, in ln n: a doubling, or half of what is known where that is
    /// less. Slopes between neighbours would say more of noise the closer levels lie.
    pub(super) fn span(&self) -> f64 {
        let (Some(first), Some(last)) = (self.ln_n.first(), self.ln_n.last()) else { return 0.0 };
        (0.5 * (last - first)).min(std::f64::consts::LN_2)
    }

    /// Slope of ln X over ln n in the last span (`back` 0) or the one before it (1); 0 where there
    /// is one level.
    pub(super) fn slope(&self, back: u32) -> f64 {
        let span = self.span();
        if span <= 0.0 {
            return 0.0;
        }
        let end = self.ln_n[self.len() - 1];
        let at = |steps: u32| self.between(end - f64::from(steps) * span);
        (at(back) - at(back + 1)) / span
    }

    /// ln X on straight lines between the levels.
    fn between(&self, ln_n: f64) -> f64 {
        let above = self.ln_n.partition_point(|own| *own < ln_n).clamp(1, self.len() - 1);
        let (from, to) = (self.ln_n[above - 1], self.ln_n[above]);
        let part = (ln_n - from) / (to - from);
        self.ln_x[above - 1] + part * (self.ln_x[above] - self.ln_x[above - 1])
    }

    /// Change of ln X with each client in the last span; 0 where there is one level.
    pub(super) fn rate(&self) -> f64 {
        let span = self.span();
        if span <= 0.0 {
            return 0.0;
        }
        let last = self.n[self.len() - 1];
        self.slope(0) * span / (last - last * (-span).exp())
    }

    /// Logarithm of the throughput that nothing exceeds: n times the best of one client.
    pub(super) fn bound(&self, target: f64) -> f64 {
        let each = self.ln_x.iter().zip(&self.ln_n).map(|(x, n)| x - n);
        target.ln() + each.fold(f64::NEG_INFINITY, f64::max)
    }
}
