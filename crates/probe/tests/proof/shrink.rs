//! From a sequence in which something differs to one of few events in which something still does.

use super::event::Sequence;

/// The smallest sequence found by leaving out ever smaller runs of events ('delta debugging',
/// Zeller and Hildebrandt 2002), with times made short where that keeps the difference.
pub(super) fn shrink(
    sequence: &Sequence,
    differs: &mut dyn FnMut(&Sequence) -> Option<String>,
) -> Sequence {
    let mut best = sequence.clone();
    let mut run = best.events.len() / 2;
    while run > 0 {
        let before = best.events.len();
        let mut from = 0;
        while from < best.events.len() {
            let mut less = best.clone();
            less.events.drain(from..(from + run).min(best.events.len()));
            if differs(&less).is_some() {
                best = less;
            } else {
                from += run;
            }
        }
        run = if best.events.len() < before { run } else { run / 2 };
    }
    let mut short = best.clone();
    for (number, event) in short.events.iter_mut().enumerate() {
        event.at = 1000 + 100 * number as u64;
    }
    if differs(&short).is_some() { short } else { best }
}
