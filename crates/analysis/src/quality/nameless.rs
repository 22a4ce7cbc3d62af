//! Modules whose code has no names on this machine, and how much of what was seen that hides.

use crate::frames::names::{Catalogue, in_kernel, is_unnamed};
use crate::frames::naming::working_function;
use crate::frames::stacks::Stacks;
use crate::ledgers::slices::Slice;
use crate::number::{quotient, seconds};
use crate::words;
use kneepoint_vocab::findings::Nameless;
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

/// A sentence for people, with what to do.
pub(crate) fn sentence(one: &Nameless) -> String {
    let parts = [(one.on_cpu, "the CPU"), (one.waits, "the blocked time")];
    let reported: Vec<String> = parts
        .iter()
        .filter(|(share, _)| share.0 >= LEAST)
        .map(|(share, what)| format!("{} of {what}", words::percent(share.0)))
        .collect();
    let reported = reported.join(" and ");
    // A just-in-time compiler wrote it.
    if one.module == "[anonymous]" {
        return format!(
            "{reported} begins in compiled code without names: start Java (17 or later) with \
             -XX:+PreserveFramePointer, Node with --perf-basic-prof, others so that they write \
             /tmp/perf-PID.map."
        );
    }
    // `[vdso]`: no file has symbols of it.
    if one.module.starts_with('[') {
        return format!(
            "{reported} begins in code without a file ({}), so without names.",
            one.module
        );
    }
    let build = match &one.build_ids[..] {
        [] => String::new(),
        ids => format!(" (build id {})", ids.join(", ")),
    };
    format!(
        "{reported} begins in functions of {}{build} that have no name here: install its debug \
         symbols (on Debian a package named -dbgsym), or build it with them.",
        one.module
    )
}
