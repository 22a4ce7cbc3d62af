//! Modules whose code has no names on this machine, and how much of what was seen that hides.

use crate::frames::names::{Catalogue, in_kernel, is_unnamed};
use crate::frames::naming::working_function;
use crate::frames::stacks::Stacks;
use crate::ledgers::slices::Slice;
use crate::number::{quotient, seconds};
use kneepoint_vocab::findings::{CaveatReason, Nameless};
use kneepoint_vocab::units::Ratio;
use kneepoint_vocab::{Fact, Frame, StackKind};
use std::collections::BTreeMap;

/// Less than this part of the CPU or of the blocked time is not worth a word.
const LEAST: f64 = 0.05;

/// Of the `slices` of one level, the module that hides most first.
pub(crate) fn nameless(slices: &[&Slice<'_>], stacks: &Stacks<'_>) -> Vec<Nameless> {
    let mut hidden: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    let mut all = [0.0; 2];
    let known = stacks.known;
    for fact in slices.iter().flat_map(|slice| &slice.trial.facts) {
        let Fact::Stack(stack) = fact else { continue };
        let kind = match stack.kind {
            StackKind::OnCpu => 0,
            StackKind::OffCpu => 1,
            StackKind::Waker => continue,
        };
        let (frames, weight) = (stacks.frames(stack.stack), seconds(stack.weight));
        all[kind] += weight;
        let first = if kind == 0 { working(known, frames) } else { waiting(known, frames) };
        if let Some(frame) = first.filter(|frame| is_unnamed(&frame.function)) {
            hidden.entry(&frame.module).or_default()[kind] += weight;
        }
    }
    let share = |hidden: [f64; 2], kind: usize| Ratio(quotient(hidden[kind], all[kind]));
    let of = |(module, hidden): (&str, [f64; 2])| Nameless {
        module: module.to_owned(),
        build_ids: stacks.build_ids(module),
        on_cpu: share(hidden, 0),
        waits: share(hidden, 1),
    };
    let mut found: Vec<Nameless> =
        hidden.into_iter().map(of).filter(|one| most(one) >= LEAST).collect();
    found.sort_by(|a, b| most(b).total_cmp(&most(a)).then_with(|| a.module.cmp(&b.module)));
    found
}

/// The user function that a stack on a core shows.
fn working(known: Catalogue, frames: &[Frame]) -> Option<&Frame> {
    working_function(known, frames).filter(|frame| !in_kernel(frame))
}

/// The function that waits, if it is none of the C library.
fn waiting(known: Catalogue, frames: &[Frame]) -> Option<&Frame> {
    frames.iter().find(|frame| !in_kernel(frame) && !known.in_c_library(frame))
}

/// The greater of both parts.
pub(crate) fn most(one: &Nameless) -> f64 {
    one.on_cpu.0.max(one.waits.0)
}

/// What it limits.
pub(crate) fn reason(one: &Nameless) -> CaveatReason {
    let worth_a_word = |share: Ratio| (share.0 >= LEAST).then_some(share);
    CaveatReason::NamelessCode {
        module: one.module.clone(),
        build_ids: one.build_ids.clone(),
        on_cpu: worth_a_word(one.on_cpu),
        waits: worth_a_word(one.waits),
    }
}
