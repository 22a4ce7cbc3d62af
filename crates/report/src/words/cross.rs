//! What two variants do together, in words.

use super::counted;
use crate::number;
use kneepoint_vocab::findings::{Cross, CrossFigures, Interaction};
use kneepoint_vocab::{Findings, Ratio, VariantId};

/// The cells of a 2×2: name and throughput each.
pub(crate) type Cells = [(String, String); 4];

/// The label of a variant; of the baseline, its name.
pub(crate) fn label(findings: &Findings, id: &VariantId) -> String {
    let named = findings.effects.iter().find(|effect| &effect.variant == id);
    named.map_or_else(|| id.0.clone(), |effect| effect.label.clone())
}

/// The two by their labels: `jemalloc with one arena`.
pub(crate) fn pair(findings: &Findings, cross: &Cross) -> String {
    format!("{} with {}", label(findings, &cross.one), label(findings, &cross.other))
}

/// The four cells, base first.
pub(crate) fn cells(findings: &Findings, cross: &Cross, figures: &CrossFigures) -> Cells {
    let base = match cross.base.0.as_str() {
        VariantId::BASELINE => "neither".to_owned(),
        _ => label(findings, &cross.base),
    };
    [
        (base, number::rate(&figures.base).to_string()),
        (label(findings, &cross.one), number::rate(&figures.one).to_string()),
        (label(findings, &cross.other), number::rate(&figures.other).to_string()),
        ("both".to_owned(), number::rate(&figures.both).to_string()),
    ]
}

/// `together 1.9×, alone 1.2× and 1.3×: more than they add up to (1.56×), by 1.22× [1.10–1.35]`.
pub(crate) fn sentence(cross: &Cross) -> String {
    let Some(figures) = &cross.figures else {
        return "nothing is known of both together: a cell was not active, or too few blocks hold \
                all four"
            .to_owned();
    };
    let value = |ratio: &kneepoint_vocab::Estimate<Ratio>| number::factor(ratio).value;
    let product = figures.alone.value.0 * figures.other_alone.value.0;
    let product = number::plain_factor(Ratio(product));
    let by = number::factor(&figures.interaction);
    let said = match figures.verdict {
        Interaction::AddUp => format!("they add up ({product}): {by} of it"),
        Interaction::More => format!("more than they add up to ({product}), by {by}"),
        Interaction::Less => format!("less than they add up to ({product}), by {by}"),
        Interaction::Undecided => {
            format!("whether they add up ({product}) cannot be told: {by} of it")
        }
    };
    format!(
        "together {}, alone {} and {}: {said}",
        value(&figures.together),
        value(&figures.alone),
        value(&figures.other_alone)
    )
}

/// From how many blocks.
pub(crate) fn blocks(figures: &CrossFigures) -> String {
    counted(figures.blocks, "block")
}
