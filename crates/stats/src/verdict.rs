//! The one rule that decides: is a variant better, worse, without effect, or not known yet?
//!
//! The rule that stops a run and the verdicts of its report are this rule. It is replayed over the
//! looks from the first on, so that whoever has the pairs comes to the same answers: an answer that
//! a look has made final stays, and later pairs do not change it.
//!
//! # At each look, for each variant that is not decided
//! 1. *Better*, *worse*: the p-value is at most the level of this look. The error of 5 % is divided
//!    over the variants that are not yet better or worse (Holm 1979), and each part is spent over
//!    the looks ([`Spending`]; Maurer and Bretz 2013 for the two together). Where further looks
//!    may follow, it is final only where the interval is as narrow as the precision asked for, or
//!    excludes every small effect.
//! 2. *No effect*: the 95 % interval holds 1 and lies within ± the smallest effect (two one-sided
//!    tests, Schuirmann 1987).
//! 3. Else it is undecided, and gets further blocks.
//!
//! A last look, which the end of the run makes the last, spends all error that is left.
//!
//! # The interval
//! From four launches on: Student's t on the means of launches ([`crate::paired`]). With fewer, a
//! launch's own luck cannot be distinguished from the effect, and t at one or two degrees of
//! freedom says nothing of any effect. The interval then is that of the pairs within launches, or
//! between their means where that is wider, plus an allowance for the luck of a launch: one and a
//! half smallest effects over the root of the launches, since the smallest effect is chosen above
//! what launches differ by. Both are added as independent errors are.
//!
//! The interval shown of a decided variant is the plain 95 % one. That of an undecided one is the
//! interval that its verdict was made with, at the level of the last look, which always holds 1.

use crate::distribution::{normal_cdf, normal_quantile, student_quantile, student_two_sided};
use crate::error::StatsError;
use crate::holm;
use crate::interval::Interval;
use crate::paired::{Pair, PairedEffect, Scope, effect};
use crate::sequential::Spending;
use std::sync::OnceLock;

/// Total two-sided error, and 1 - the confidence of plain intervals.
pub const ERROR: f64 = 0.05;
/// From so many launches on their means alone carry the interval.
pub const LAUNCHES: usize = 4;
/// Half-width that the luck of one launch is allowed, in smallest effects.
const LUCK: f64 = 1.5;
/// Blocks proposed where there are too few pairs to see any noise.
const FIRST_BLOCKS: f64 = 6.0;

/// What is asked, and how often.
#[derive(Clone, Debug)]
pub struct Rule {
    smallest: f64,
    precision: f64,
    /// Blocks at each planned look, ascending.
    looks: Vec<usize>,
    /// Blocks at the last one.
    most: usize,
    /// By the number of variants that the error is divided over, from 1; worked out when needed.
    levels: Vec<OnceLock<Levels>>,
}

/// Two-sided levels of the looks from the first on.
#[derive(Clone, Debug)]
struct Levels {
    goes_on: Vec<f64>,
    is_last: Vec<f64>,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A look after so many whole blocks; more may follow.
    Look(usize),
    /// So many blocks, the last of them perhaps not whole, and no more.
    End(usize),
}

/// What the pairs of one variant say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The paired effect.
    pub effect: PairedEffect,
    /// Half-width, on the log scale, that the luck of few launches is allowed.
    pub allowance: f64,
}

/// Verdict on a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Faster.
    Better,
    /// Slower.
    Worse,
    /// The interval holds 1 and lies within ± the smallest effect.
    NoEffect,
    /// None of these.
    Undecided,
}

/// What the rule says of one variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// Blocks at the look that made it final; absent where none did.
    pub decided_at: Option<usize>,
    /// The pairs of the blocks that it rests on; absent where there are fewer than two.
    pub evidence: Option<Evidence>,
    /// 1 - the confidence of the interval to show.
    pub level: f64,
    /// p-value after Holm's correction over the variants not decided before.
    pub p_adjusted: Option<f64>,
}

impl Answer {
    /// Whether no later look can change it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.decided_at.is_some()
    }

    /// The ratio with the interval to show.
    #[must_use]
    pub fn ratio(&self) -> Option<Interval> {
        self.evidence.map(|one| one.ratio(1.0 - self.level))
    }

    fn differs(&self) -> bool {
        matches!(self.verdict, Verdict::Better | Verdict::Worse)
    }
}

impl Evidence {
    /// Of these pairs; `smallest` is the smallest effect that matters, as a share of 1.
    ///
    /// # Errors
    /// A value that is not positive and finite; fewer than two pairs.
    pub fn of(pairs: &[Pair], smallest: f64) -> Result<Self, StatsError> {
        let across = effect(pairs, Scope::AcrossStarts)?;
        if across.starts >= LAUNCHES {
            return Ok(Self { effect: across, allowance: 0.0 });
        }
        let mut these = effect(pairs, Scope::TheseStarts)?;
        if these.scope == Scope::TheseStarts && across.starts > 1 {
            these.standard_error = these.standard_error.max(across.standard_error);
        }
        Ok(Self { effect: these, allowance: LUCK * smallest.ln_1p() / size(across.starts).sqrt() })
    }

    /// The ratio with its interval: exp(mean ± √((t · standard error)² + allowance²)).
    #[must_use]
    pub fn ratio(&self, confidence: f64) -> Interval {
        let error = self.effect.standard_error;
        let t = if error > 0.0 {
            student_quantile(f64::midpoint(1.0, confidence), self.effect.degrees)
        } else {
            0.0
        };
        let half = (t * error).hypot(self.allowance);
        Interval::around(self.effect.log_ratio, half).map(f64::exp)
    }

    /// Two-sided p-value of 'no effect': at most 1 - c just where the interval of confidence c
    /// excludes 1.
    #[must_use]
    pub fn p_value(&self) -> f64 {
        self.beyond(self.effect.log_ratio.abs(), 1.0)
    }

    /// The least 1 - c at which the half-width of the log interval of confidence c is no more than
    /// `distance`, after `grown` times the pairs, if the noise stays and launches grow with the
    /// pairs.
    fn beyond(&self, distance: f64, grown: f64) -> f64 {
        let few = size(self.effect.starts) * grown < size(LAUNCHES);
        let allowance = if few { self.allowance / grown.sqrt() } else { 0.0 };
        let error = self.effect.standard_error / grown.sqrt();
        if distance <= allowance {
            1.0
        } else if error > 0.0 {
            let degrees = ((self.effect.degrees + 1.0) * grown - 1.0).max(self.effect.degrees);
            student_two_sided((distance.powi(2) - allowance.powi(2)).sqrt() / error, degrees)
        } else {
            0.0
        }
    }
}

impl Rule {
    /// For `variants` variants with looks after each block from `looks.0` to `looks.1` (after each
    /// second, third ... block where that would be more than 60 looks); none are planned where that
    /// is 0. Smallest effect and precision are shares of 1.
    #[must_use]
    pub fn new(looks: (usize, usize), smallest: f64, precision: f64, variants: usize) -> Self {
        let (least, most) = (looks.0.max(1), looks.1);
        let apart = (most.saturating_sub(least) + 1).div_ceil(MOST_LOOKS);
        let looks = (least..=most).step_by(apart).collect();
        Self { smallest, precision, most, looks, levels: vec![OnceLock::new(); variants] }
    }

    /// The levels of all looks where so many variants share the error.
    fn levels(&self, sharing: usize) -> Option<&Levels> {
        let work_out = || {
            let fractions: Vec<f64> =
                self.looks.iter().map(|done| size(*done) / size(self.most)).collect();
            let looks = Spending::new(ERROR / size(sharing)).looks(&fractions);
            let level = |z: f64| 2.0 * normal_cdf(-z);
            // Looks are counted upwards, so their fractions grow as they have to.
            let looks = looks.unwrap_or_default();
            Levels {
                goes_on: looks.iter().map(|look| level(look.goes_on)).collect(),
                is_last: looks.iter().map(|look| level(look.is_last)).collect(),
            }
        };
        Some(self.levels.get(sharing.checked_sub(1)?)?.get_or_init(work_out))
    }

    /// The answers for all variants, given the pairs of each, in the order of the variants. The
    /// block of a pair is its number among the blocks that looks count.
    #[must_use]
    pub fn answers(&self, variants: &[Vec<Pair>], moment: Moment) -> Vec<Answer> {
        let mut answers = vec![NOTHING; variants.len()];
        let (done, is_last) = match moment {
            Moment::Look(done) => (done, false),
            Moment::End(done) => (done, true),
        };
        // What is looked at last is not looked at twice.
        for earlier in self.looks.iter().take_while(|look| **look < done) {
            self.look(variants, &mut answers, *earlier, false);
        }
        if is_last || self.looks.contains(&done) {
            self.look(variants, &mut answers, done, is_last);
        }
        answers
    }

    /// What to say of a comparison that is one of its kind, at the end.
    #[must_use]
    pub fn alone(&self, effect: PairedEffect) -> Answer {
        let one = Evidence { effect, allowance: 0.0 };
        Answer { verdict: self.verdict(&one, ERROR, true), evidence: Some(one), ..NOTHING }
    }

    /// What to say at the end of pairs that compare two ratios, one over the other: twice as many
    /// launches have their luck in them. None of fewer than two pairs.
    #[must_use]
    pub fn contrast(&self, pairs: &[Pair]) -> Option<Answer> {
        let mut one = Evidence::of(pairs, self.smallest).ok()?;
        one.allowance *= std::f64::consts::SQRT_2;
        Some(Answer { verdict: self.verdict(&one, ERROR, true), evidence: Some(one), ..NOTHING })
    }

    /// One look at the pairs of the first `done` blocks, for the variants not decided yet.
    fn look(&self, variants: &[Vec<Pair>], answers: &mut [Answer], done: usize, is_last: bool) {
        let evidence = |(pairs, answer): (&Vec<Pair>, &Answer)| {
            let seen: Vec<Pair> = pairs.iter().copied().filter(|pair| pair.block < done).collect();
            Evidence::of(&seen, self.smallest).ok().filter(|_| !answer.is_final())
        };
        let evidence: Vec<Option<Evidence>> =
            variants.iter().zip(answers.iter()).map(evidence).collect();
        let p_values: Vec<f64> =
            evidence.iter().map(|one| one.map_or(f64::NAN, |one| one.p_value())).collect();
        let adjusted = holm::adjust(&p_values);
        let mut order: Vec<usize> = (0..variants.len()).collect();
        order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
        let mut sharing = variants.len() - answers.iter().filter(|one| one.differs()).count();
        for at in order {
            let Some(one) = evidence[at] else { continue };
            let level = self.level(sharing, done, is_last);
            let verdict = self.verdict(&one, level, is_last);
            let decided = verdict != Verdict::Undecided;
            answers[at] = Answer {
                verdict,
                decided_at: decided.then_some(done),
                evidence: Some(one),
                level: if decided { ERROR } else { level },
                p_adjusted: Some(adjusted[at]),
            };
            sharing -= usize::from(answers[at].differs());
        }
    }

    /// Two-sided level of a look for each of the variants that share the error.
    fn level(&self, sharing: usize, done: usize, is_last: bool) -> f64 {
        let plain = ERROR / size(sharing.max(1));
        let Some(levels) = self.levels(sharing) else { return plain };
        let levels = if is_last { &levels.is_last } else { &levels.goes_on };
        // Before the first look nothing is spent yet.
        let at = self.looks.partition_point(|look| *look < done);
        let first = self.looks.first().is_none_or(|look| done < *look);
        let level = levels.get(at).or(levels.last()).copied();
        level.filter(|_| !first).unwrap_or(plain)
    }

    fn verdict(&self, one: &Evidence, level: f64, is_last: bool) -> Verdict {
        let log = one.effect.log_ratio;
        let large = || one.beyond(log.abs() - self.smallest.ln_1p(), 1.0) <= ERROR;
        let narrow = || {
            let plain = one.ratio(1.0 - ERROR);
            plain.half_width() <= self.precision * plain.value
        };
        let is_rounding = log.abs() <= ROUNDING;
        if !is_rounding && one.p_value() <= level && (is_last || large() || narrow()) {
            return if log > 0.0 { Verdict::Better } else { Verdict::Worse };
        }
        let holds_1 = is_rounding || one.p_value() > ERROR;
        if holds_1 && one.beyond(self.room(log), 1.0) <= ERROR {
            return Verdict::NoEffect;
        }
        Verdict::Undecided
    }

    /// How far a log ratio lies inside ± the smallest effect.
    fn room(&self, log: f64) -> f64 {
        (self.smallest.ln_1p() - log).min(log - (1.0 - self.smallest).ln())
    }

    /// Further blocks after which an undecided variant would be decided, one pair a block, if its
    /// noise stays and launches grow with the blocks. The true effect is not known: it is the
    /// median over what it may be, by the estimate and its error.
    #[must_use]
    pub fn further(&self, answer: &Answer) -> f64 {
        let Some(one) = &answer.evidence else { return FIRST_BLOCKS };
        let needed = |effect: f64| {
            // Where the interval comes to exclude 1, or to lie within ± the smallest effect.
            let decided = |grown: f64| {
                one.beyond(effect.abs(), grown) <= answer.level
                    || one.beyond(self.room(effect), grown) <= ERROR
            };
            let (mut low, mut high) = (0.0, FARTHEST.ln());
            for _ in 0..40 {
                let middle = f64::midpoint(low, high);
                if decided(middle.exp()) { high = middle } else { low = middle }
            }
            size(one.effect.pairs) * (high.exp() - 1.0)
        };
        let mut all: Vec<f64> = (0..EFFECTS)
            .map(|at| (f64::from(at) + 0.5) / f64::from(EFFECTS))
            .map(|p| needed(one.effect.log_ratio + normal_quantile(p) * one.effect.standard_error))
            .collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2].max(1.0)
    }
}

/// More looks than this cost more than they bring.
const MOST_LOOKS: usize = 60;
/// True effects that the time still needed is worked out for; odd.
const EFFECTS: u32 = 9;
/// A log ratio this small is what logarithms of the same rates differ by, however sure it is.
const ROUNDING: f64 = 1e-9;
/// More than so many times the pairs at hand are not distinguished.
const FARTHEST: f64 = 1e4;

impl Default for Answer {
    /// Of no pairs.
    fn default() -> Self {
        NOTHING
    }
}

const NOTHING: Answer = Answer {
    verdict: Verdict::Undecided,
    decided_at: None,
    evidence: None,
    level: ERROR,
    p_adjusted: None,
};

#[allow(clippy::cast_precision_loss, reason = "numbers of pairs are far below 2^53")]
fn size(count: usize) -> f64 {
    count as f64
}
