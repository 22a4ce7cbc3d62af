//! Waits for a lock whose holder waits for another one.
//!
//! Who waits for the outer of two locks while its holder waits for the inner one is late because of
//! the inner. So the cores that idle for the outer lock are the inner one's, in the part of the
//! waits in which the collector saw its holder wait: nobody who waited for the outer lock was woken
//! between that wait and the release (docs/method.md, "A lock held while another is waited for").

use crate::ledgers::row::{Behind, Row};
use crate::number::{quotient, seconds};
use crate::waits::groups::Groups;
use kneepoint_vocab::findings::CauseKind;
use kneepoint_vocab::{Fact, TrialRecord};
use std::collections::BTreeMap;

/// Locks held one inside the other that are followed.
const DEEPEST: usize = 3;

/// Adds what a slice says of it to its row, whose waits are complete.
pub(crate) fn add(row: &mut Row, trial: &TrialRecord, groups: &Groups) {
    let mut ended: BTreeMap<usize, f64> = BTreeMap::new();
    let mut behind: Behind = BTreeMap::new();
    for fact in &trial.facts {
        let Fact::Waker(waker) = fact else { continue };
        let kind = |group: &usize| groups.list[*group].kind;
        let outer = groups.of(trial, &waker.key).filter(|group| kind(group) == CauseKind::Lock);
        let Some(outer) = outer else { continue };
        *ended.entry(outer).or_default() += seconds(waker.of);
        for one in &waker.behind {
            let inner = groups.of(trial, &one.key).filter(|inner| {
                *inner != outer && matches!(kind(inner), CauseKind::Lock | CauseKind::KernelLock)
            });
            if let Some(inner) = inner {
                *behind.entry((outer, inner)).or_default() += seconds(one.blocked);
            }
        }
    }
    for ((outer, inner), time) in behind {
        let share = quotient(time, ended[&outer]).min(1.0);
        *row.behind.entry((outer, inner)).or_default() += share * row.waited[outer];
    }
}

/// The part of the waits for `outer` in which its holder waits for `inner`.
pub(crate) fn share(row: &Row, outer: usize, inner: usize) -> f64 {
    let behind = row.behind.get(&(outer, inner)).copied().unwrap_or_default();
    quotient(behind, row.waited[outer]).clamp(0.0, 1.0)
}

/// Moves what idles for outer locks to the inner ones, and tells how much of what idles for each
/// group then came to it so.
pub(crate) fn pass_on(row: &Row, idle: &mut [f64]) -> Vec<f64> {
    let mut moving = idle.to_vec();
    let mut came = vec![0.0; idle.len()];
    for _ in 0..DEEPEST {
        let mut moved = vec![0.0; idle.len()];
        for (outer, inner) in row.behind.keys().copied() {
            let part = moving[outer] * share(row, outer, inner);
            idle[outer] -= part;
            idle[inner] += part;
            moved[inner] += part;
        }
        came.iter_mut().zip(&moved).for_each(|(came, moved)| *came += moved);
        moving = moved;
    }
    came.iter_mut().zip(idle).for_each(|(came, idle)| *came = came.min(*idle));
    came
}

/// The lock that the holders of a lock wait for most, and all waits behind any as a part of its
/// own.
pub(crate) fn inner(row: &Row, outer: usize) -> Option<(usize, f64)> {
    let behind = || row.behind.iter().filter(|((of, _), _)| *of == outer);
    let ((_, most), _) = behind().max_by(|a, b| a.1.total_cmp(b.1))?;
    let all: f64 = behind().map(|((_, inner), _)| share(row, outer, *inner)).sum();
    Some((*most, all.min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(waited: &[f64], behind: &[((usize, usize), f64)]) -> Row {
        Row { waited: waited.to_vec(), behind: behind.iter().copied().collect(), ..Row::default() }
    }

    fn near(idle: &[f64], expected: &[f64]) {
        let off = idle.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 1e-12, "{idle:?} instead of {expected:?}");
    }

    #[test]
    fn what_idles_for_an_outer_lock_goes_to_the_inner_one_in_proportion() {
        let mut idle = [1.0, 0.2, 0.5];
        let row = row(&[4.0, 1.0, 2.0], &[((0, 1), 3.0)]);
        let came = pass_on(&row, &mut idle);
        near(&idle, &[0.25, 0.95, 0.5]);
        near(&came, &[0.0, 0.75, 0.0]);
        assert_eq!((inner(&row, 0), inner(&row, 1)), (Some((1, 0.75)), None));
    }

    #[test]
    fn it_goes_on_to_the_innermost() {
        let mut idle = [1.0, 0.0, 0.0];
        pass_on(&row(&[1.0, 1.0, 1.0], &[((0, 1), 1.0), ((1, 2), 0.5)]), &mut idle);
        near(&idle, &[0.0, 0.5, 0.5]);
    }

    #[test]
    fn locks_that_wait_for_each_other_keep_all_that_idles_between_them() {
        let mut idle = [1.0, 0.5];
        pass_on(&row(&[1.0, 1.0], &[((0, 1), 0.6), ((1, 0), 0.4)]), &mut idle);
        assert!((idle.iter().sum::<f64>() - 1.5).abs() < 1e-12, "{idle:?}");
        assert!(idle.iter().all(|idle| *idle >= 0.0), "{idle:?}");
    }

    #[test]
    fn without_waits_nothing_moves() {
        let mut idle = [1.0, 0.5];
        pass_on(&row(&[0.0, 1.0], &[((0, 1), 0.0)]), &mut idle);
        near(&idle, &[1.0, 0.5]);
    }
}
