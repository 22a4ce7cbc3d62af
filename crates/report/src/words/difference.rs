//! Words of differences between two levels or two variants.

use super::{Axis, cross};
use crate::number;
use kneepoint_vocab::findings::{Side, StackDifference};
use kneepoint_vocab::{Findings, Seconds, StackKind, VariantId};

/// `on a core, 16 clients against 1 client`.
pub(crate) fn title(findings: &Findings, axis: Axis, one: &StackDifference) -> String {
    let (before, after) = (side(findings, axis, one, false), side(findings, axis, one, true));
    let place = match one.of {
        StackKind::OnCpu => "on a core",
        _ => "waits for locks and devices",
    };
    format!("{place}, {after} against {before}")
}

/// One side: its level where the levels differ, else its variant.
pub(crate) fn side(findings: &Findings, axis: Axis, one: &StackDifference, after: bool) -> String {
    let Side { variant, level } = if after { &one.after } else { &one.before };
    if one.before.level != one.after.level {
        return axis.phrase(*level);
    }
    if variant.0 == VariantId::BASELINE {
        return "the baseline".to_owned();
    }
    cross::label(findings, variant)
}

/// What the whole is on both sides, and how far the picture can be trusted.
pub(crate) fn sentence(findings: &Findings, axis: Axis, one: &StackDifference) -> String {
    let (before, after) = (side(findings, axis, one, false), side(findings, axis, one, true));
    let takes = match one.of {
        StackKind::OnCpu => "Of CPU an operation takes",
        _ => "Of waiting an operation has",
    };
    format!(
        "{takes} {} with {before} and {} with {after}. A frame is as wide as the mean of the two; \
         functions of the kernel are in italics. Frames have no intervals: a small change may be \
         chance.",
        amount(one.root.before),
        amount(one.root.after),
    )
}

fn amount(whole: Seconds) -> String {
    if whole.0 > 0.0 { number::plain_seconds(whole) } else { "nothing".to_owned() }
}
