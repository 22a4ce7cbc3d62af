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

    /// Slope of ln X over ln n between the points `back` and `back + 1` from the end; 0 where there
    /// are none.
    pub(super) fn slope(&self, back: usize) -> f64 {
        let Some(first) = self.len().checked_sub(back + 2) else { return 0.0 };
        (self.ln_x[first + 1] - self.ln_x[first]) / (self.ln_n[first + 1] - self.ln_n[first])
    }

    /// Logarithm of the throughput that nothing exceeds: n times the best of one client.
    pub(super) fn bound(&self, target: f64) -> f64 {
        let each = self.ln_x.iter().zip(&self.ln_n).map(|(x, n)| x - n);
        target.ln() + each.fold(f64::NEG_INFINITY, f64::max)
    }
}
