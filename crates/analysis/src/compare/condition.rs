//! Conditions such as `throughput < -5%`, for machines that have to decide by an exit code.

use crate::number::{count, estimate};
use kneepoint_stats::distribution::student_quantile;
use kneepoint_vocab::Estimate;
use kneepoint_vocab::comparison::{
    Answer, ConditionAnswer, ConditionPlace, LevelRatio, NoCondition, RunPair,
};
use kneepoint_vocab::units::Ratio;

/// Total two-sided error of all ratios that one condition looks at.
const ERROR: f64 = 0.05;

/// Which ratios a condition looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// The peak and every level that two runs share.
    Anywhere,
    /// The peak.
    Peak,
    /// One number of clients.
    Clients(u32),
}

/// What must not be: a change of the throughput beyond a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    asked: String,
    wheres: Where,
    /// Whether a ratio below the limit meets it; else one above.
    below: bool,
    /// The limit, as a ratio.
    limit: f64,
}

impl Condition {
    /// From what was typed.
    ///
    /// # Errors
    /// It is no condition.
    pub fn parse(text: &str) -> Result<Self, NoCondition> {
        let at = text.find(['<', '>']).ok_or(NoCondition::Form)?;
        let (what, rest) = text.split_at(at);
        let below = rest.starts_with('<');
        let (quantity, wheres) = match what.trim().split_once('@') {
            None => (what.trim(), Where::Anywhere),
            Some((quantity, "peak")) => (quantity, Where::Peak),
            Some((quantity, clients)) => {
                let clients = clients.trim().parse().ok().filter(|clients| *clients > 0);
                (quantity, Where::Clients(clients.ok_or(NoCondition::Form)?))
            }
        };
        if quantity.trim() != "throughput" {
            return Err(NoCondition::Form);
        }
        let digits = rest[1..].trim().strip_suffix('%').ok_or(NoCondition::Form)?.trim();
        let percent: f64 =
            digits.replace('\u{2212}', "-").parse().map_err(|_| NoCondition::Form)?;
        if !percent.is_finite() || percent <= -100.0 || percent > 1e6 {
            return Err(NoCondition::Limit);
        }
        let asked = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { asked, wheres, below, limit: 1.0 + percent / 100.0 })
    }

    /// Whether it holds somewhere, by intervals that are right together however many ratios are
    /// looked at (Bonferroni), at so many degrees of freedom.
    pub(super) fn answer(&self, pairs: &[RunPair], freedom: u32) -> ConditionAnswer {
        let looked: Vec<(&RunPair, &LevelRatio, bool)> =
            pairs.iter().flat_map(|pair| self.ratios(pair)).collect();
        let reported: Vec<(Answer, Estimate<Ratio>, ConditionPlace)> = looked
            .iter()
            .map(|(pair, level, peak)| {
                let wide = widened(&level.ratio, looked.len(), freedom);
                (self.of(&wide), wide, place(pair, level, *peak))
            })
            .collect();
        let decisive = |answer: Answer| {
            let those = reported.iter().filter(move |one| one.0 == answer);
            let signed = |one: &&(Answer, Estimate<Ratio>, ConditionPlace)| {
                if self.below { one.1.value.0 } else { -one.1.value.0 }
            };
            those.min_by(|a, b| signed(a).total_cmp(&signed(b)))
        };
        let found = [Answer::Holds, Answer::Undecided, Answer::DoesNotHold]
            .into_iter()
            .find_map(decisive)
            .cloned();
        let asked = self.asked.clone();
        match found {
            Some((answer, ratio, place)) => {
                ConditionAnswer { asked, answer, place: Some(place), ratio: Some(ratio) }
            }
            None => {
                let answer = Answer::Undecided;
                ConditionAnswer { asked, answer, place: None, ratio: None }
            }
        }
    }

    fn ratios<'a>(
        &self,
        pair: &'a RunPair,
    ) -> impl Iterator<Item = (&'a RunPair, &'a LevelRatio, bool)> {
        let wheres = self.wheres;
        let peak = [&pair.peak].into_iter().filter(move |_| !matches!(wheres, Where::Clients(_)));
        let levels = pair.levels.iter().filter(move |level| match wheres {
            Where::Anywhere => true,
            Where::Peak => false,
            Where::Clients(clients) => level.clients == clients,
        });
        let peaks = peak.map(move |level| (pair, level, true));
        peaks.chain(levels.map(move |level| (pair, level, false)))
    }

    fn of(&self, ratio: &Estimate<Ratio>) -> Answer {
        let (low, high) = (ratio.low.0, ratio.high.0);
        let bare = high - low <= 1e-12 * ratio.value.0;
        let (holds, not) = match self.below {
            true => (high < self.limit, low >= self.limit),
            false => (low > self.limit, high <= self.limit),
        };
        match (bare, holds, not) {
            (false, true, _) => Answer::Holds,
            (false, _, true) => Answer::DoesNotHold,
            _ => Answer::Undecided,
        }
    }
}

fn place(pair: &RunPair, level: &LevelRatio, peak: bool) -> ConditionPlace {
    let (run, clients, cores) = (pair.run.clone(), level.clients, level.cores);
    ConditionPlace { run, peak, clients, cores }
}

/// The interval, as wide as one of `many` has to be for all to hold together.
fn widened(ratio: &Estimate<Ratio>, many: usize, freedom: u32) -> Estimate<Ratio> {
    let many = count(u64::try_from(many).unwrap_or(1).max(1));
    let quantile = |error: f64| student_quantile(1.0 - error / 2.0, f64::from(freedom.max(1)));
    let factor = quantile(ERROR / many) / quantile(ERROR);
    let value = ratio.value.0;
    let end = |end: Ratio| value * ((end.0 / value).ln() * factor).exp();
    estimate(value, end(ratio.low), end(ratio.high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_or_refused() {
        let read = |text: &str| Condition::parse(text).unwrap();
        let plain = read("throughput < -5%");
        assert!((plain.limit - 0.95).abs() < 1e-12 && plain.below);
        assert_eq!(plain.wheres, Where::Anywhere);
        assert_eq!(read("throughput@8>10 %").wheres, Where::Clients(8));
        assert_eq!(read(" throughput@peak  <  −3.5% ").asked, "throughput@peak < −3.5%");
        for bad in ["", "throughput", "latency < 5%", "throughput < 5", "throughput@0 < -5%"] {
            assert_eq!(Condition::parse(bad).unwrap_err(), NoCondition::Form, "{bad}");
        }
        for bad in ["throughput < -100%", "throughput < nan%"] {
            assert_eq!(Condition::parse(bad).unwrap_err(), NoCondition::Limit, "{bad}");
        }
    }

    #[test]
    fn only_a_whole_interval_answers() {
        let below = Condition::parse("throughput < -5%").unwrap();
        let answer = |value, low, high| below.of(&Estimate::of(value, low, high));
        assert_eq!(answer(0.8, 0.75, 0.85), Answer::Holds);
        assert_eq!(answer(0.93, 0.90, 0.96), Answer::Undecided);
        assert_eq!(answer(0.99, 0.96, 1.02), Answer::DoesNotHold);
        assert_eq!(answer(0.5, 0.5, 0.5), Answer::Undecided, "no interval answers nothing");
        let above = Condition::parse("throughput > 5%").unwrap();
        assert_eq!(above.of(&Estimate::of(1.2, 1.1, 1.3)), Answer::Holds);
        assert_eq!(above.of(&Estimate::of(1.0, 0.9, 1.04)), Answer::DoesNotHold);
    }

    #[test]
    fn many_looks_need_wider_intervals() {
        let one = Estimate::of(1.0, 0.95, 1.0 / 0.95);
        let same = widened(&one, 1, 7);
        assert!((same.low.0 - 0.95).abs() < 1e-12 && (same.high.0 - one.high.0).abs() < 1e-12);
        let wide = widened(&one, 8, 7);
        assert!(wide.low.0 < 0.93 && wide.high.0 > 1.07, "{wide:?}");
    }
}
