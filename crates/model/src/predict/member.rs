//! The extrapolations that forecasts are made of, all in logarithms.

use super::known::Known;
use crate::law::{self, Point};
use crate::{amdahl, usl};
use kneepoint_stats::{Parameter, bounded};
use kneepoint_vocab::{Level, PerSecond};
use serde::{Deserialize, Serialize};

/// An extrapolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Member {
    /// The universal scalability law.
    Usl,
    /// Amdahl's law.
    Amdahl,
    /// As the last level.
    Hold,
    /// The last slope of ln X over ln n, which halves with each doubling of n.
    DampedTrend,
    /// That slope, which goes on falling as it fell in the last two doublings, ever less.
    Bend,
    /// A fall of equal factors for equal numbers of clients; as the last level where it rises.
    Exponential,
    /// X = a nᵅ exp(-βn): a rise that turns into a fall (Ricker 1954).
    Ricker,
    /// X falls as 1/n from the last level on, which is where the universal law ends: one is served
    /// at a time, and each who waits makes that dearer.
    Inverse,
}

impl Member {
    /// All, in the order of predictions.
    pub const ALL: [Self; 8] = [
        Self::Usl,
        Self::Amdahl,
        Self::Hold,
        Self::DampedTrend,
        Self::Bend,
        Self::Exponential,
        Self::Ricker,
        Self::Inverse,
    ];

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Usl => "USL",
            Self::Amdahl => "Amdahl",
            Self::Hold => "last level",
            Self::DampedTrend => "damped trend",
            Self::Bend => "bend",
            Self::Exponential => "level or exponential fall",
            Self::Ricker => "rise and fall",
            Self::Inverse => "fall as 1/n",
        }
    }
}

/// ln X by each member.
pub(super) type All = [f64; 8];

/// Mean over some members.
pub(super) fn mean(members: &[Member], all: &All) -> f64 {
    let of = |member: &Member| all[*member as usize];
    #[allow(clippy::cast_precision_loss, reason = "at most eight")]
    let count = members.len().max(1) as f64;
    members.iter().map(of).sum::<f64>() / count
}

impl Known {
    /// What each member says of n = `target`; none exceeds the bound.
    pub(super) fn members(&self, target: f64) -> All {
        let end = self.len() - 1;
        let (ln_last, last) = (self.ln_x[end], self.n[end]);
        let ahead = target.ln() - self.ln_n[end];
        let (slope, span) = (self.slope(0).min(1.0), self.span());
        let usl = self.law(&usl::fit(&self.points()), target).unwrap_or(ln_last);
        let amdahl = self.law(&amdahl::fit(&self.points()), target).unwrap_or(ln_last);
        let damped = slope * (1.0 - (-ahead / LN_2).exp()) * LN_2;
        let bent = if span > 0.0 { (self.slope(0) - self.slope(1)) / span } else { 0.0 };
        let curved = bent.clamp(-1.0, 0.0) * ahead * ahead / (2.0 * (1.0 + ahead.max(0.0)));
        let bound = self.bound(target);
        [
            usl,
            amdahl,
            ln_last,
            ln_last + damped,
            ln_last + slope * ahead + curved,
            ln_last + self.rate().min(0.0) * (target - last),
            self.ricker(target).unwrap_or(ln_last + slope * ahead),
            ln_last - ahead.max(0.0),
        ]
        .map(|ln_x| ln_x.min(bound))
    }

    fn points(&self) -> Vec<Point> {
        let level = |n: f64| {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "was u32")]
            let clients = n as u32;
            Level { clients, cores: self.cores() }
        };
        let pairs = self.n.iter().zip(&self.ln_x);
        pairs.map(|(n, x)| Point { level: level(*n), throughput: PerSecond(x.exp()) }).collect()
    }

    fn law(&self, fit: &law::LawFit, target: f64) -> Option<f64> {
        let one = fit.value(law::ONE_CLIENT)?;
        let contention = fit.value(amdahl::CONTENTION)?;
        let coherency = fit.value(usl::COHERENCY).unwrap_or(0.0);
        let n = target;
        let slowed = 1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0);
        Some((one * n / slowed).ln())
    }

    /// Least squares of ln X = a + α ln n - β n, with α ≤ 1 and β ≥ 0.
    fn ricker(&self, target: f64) -> Option<f64> {
        let top = self.ln_x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let parameters = [
            Parameter { start: -1.0, low: -100.0, high: 100.0 },
            Parameter { start: 0.5, low: -5.0, high: 1.0 },
            Parameter { start: 0.01, low: 0.0, high: 100.0 },
        ];
        let value = |p: &[f64], n: f64| p[0] + p[1] * n.ln() - p[2] * n;
        let fit = bounded::fit(&parameters, self.len(), |p, out| {
            for (slot, (n, x)) in out.iter_mut().zip(self.n.iter().zip(&self.ln_x)) {
                *slot = value(p, *n) - (x - top);
            }
        });
        fit.ok().map(|fit| top + value(&fit.values, target))
    }
}

const LN_2: f64 = std::f64::consts::LN_2;
