//! Lines at the head of the page that only some runs have: the load generator, whose counts were
//! compared, which protocol was followed, and where imported results come from.

use crate::words;
use kneepoint_vocab::Findings;

/// A name with its sentence.
pub(super) fn lines(findings: &Findings) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(source) = words::source(findings) {
        lines.push(("imported", source));
    }
    if let Some(generator) = &findings.generator {
        lines.push(("load generator", words::generator(generator)));
        if let Some(price) = words::bench_price(generator) {
            lines.push(("CPU per operation", price));
        }
    }
    if let Some(counts) = &findings.counts {
        lines.push(("counts", words::counts(counts)));
    }
    if words::imported(findings) {
        lines.push(("precision", words::precision(findings)));
    } else if let Some(protocol) = words::protocol(findings) {
        lines.push(("protocol", protocol));
    }
    lines
}
