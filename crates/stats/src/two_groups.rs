//! Whether values fall into two groups with nothing between them.
//!
//! The values are cut where the gap between two neighbours, over the standard deviation within both
//! parts, is greatest; each part has to hold a fifth of the values, and two. Values of one normal
//! distribution have such a gap too, a great one where they are few: so the gap counts only above
//! that of all but one in two hundred simulated samples of the same size.

use crate::random::Generator;

/// Fewer values fall into two groups by chance whatever the gap.
const LEAST: usize = 6;
/// Simulated samples of one group, and how many of them may have a greater gap.
const SAMPLES: usize = 2000;
const GREATER: usize = 10;
const SEED: u64 = 5;

/// How many of the sorted values belong to the lower group; none where there is one group.
///
/// Values that are not finite make no groups.
#[must_use]
pub fn two_groups(values: &[f64]) -> Option<usize> {
    if values.len() < LEAST || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let (cut, gap) = widest(values)?;
    let mut generator = Generator::new(SEED);
    let greater = (0..SAMPLES)
        .filter(|_| {
            let one: Vec<f64> = values.iter().map(|_| generator.normal()).collect();
            widest(&one).is_some_and(|(_, chance)| chance >= gap)
        })
        .count();
    (greater <= GREATER).then_some(cut)
}

/// The cut with the widest gap, and the gap over the standard deviation within both parts.
#[allow(clippy::cast_precision_loss, reason = "a few values")]
fn widest(values: &[f64]) -> Option<(usize, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let least = sorted.len().div_ceil(5).max(2);
    (least..=sorted.len() - least)
        .map(|cut| {
            let (left, right) = sorted.split_at(cut);
            let within = (squares(left) + squares(right)) / (sorted.len() - 2) as f64;
            let gap = right[0] - left[cut - 1];
            // Equal values on both sides are as far apart as can be, unless all are equal.
            let over = if gap > 0.0 { gap / within.sqrt() } else { 0.0 };
            (cut, over)
        })
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .filter(|(_, gap)| *gap > 0.0)
}

#[allow(clippy::cast_precision_loss, reason = "a few values")]
fn squares(part: &[f64]) -> f64 {
    let mean = part.iter().sum::<f64>() / part.len() as f64;
    part.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seed: u64, length: usize, shift: f64) -> Vec<f64> {
        let mut generator = Generator::new(1000 + seed);
        (0..length).map(|at| generator.normal() + if at % 3 == 0 { shift } else { 0.0 }).collect()
    }

    #[test]
    fn one_group_is_seldom_two() {
        for length in [6, 8, 12, 24] {
            let alarms = (0..200).filter(|seed| two_groups(&sample(*seed, length, 0.0)).is_some());
            let alarms = alarms.count();
            assert!(alarms <= 5, "{alarms} of 200 at {length}");
        }
    }

    #[test]
    fn two_groups_are_found_and_cut_between() {
        for (length, shift, least) in [(6_usize, 40.0, 150), (12, 12.0, 190), (24, 12.0, 198)] {
            let upper = length.div_ceil(3);
            let found = (0..200).map(|seed| two_groups(&sample(seed, length, shift)));
            let right = found.filter(|cut| *cut == Some(length - upper)).count();
            assert!(right >= least, "{right} of 200 at {length}");
        }
    }

    #[test]
    fn few_odd_and_equal_values_are_one_group() {
        assert_eq!(two_groups(&[1.0, 1.0, 5.0, 5.0, 5.0]), None);
        assert_eq!(two_groups(&[2.0; 9]), None);
        assert_eq!(two_groups(&[1.0, 1.0, 1.0, 9.0, 9.0, f64::NAN]), None);
        assert_eq!(two_groups(&[1.0, 1.0, 1.0, 9.0, 9.0, 9.0]), Some(3));
    }
}
