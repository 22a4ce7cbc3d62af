//! Differences of stacks, with one frame of every kind of change.

use kneepoint_vocab::findings::{DifferenceNode, Side, StackDifference};
use kneepoint_vocab::{Findings, Level, Seconds, StackKind, VariantId};

fn node(name: &str, micros: [f64; 2], children: Vec<DifferenceNode>) -> DifferenceNode {
    let [before, after] = micros.map(|micros| Seconds(micros * 1e-6));
    DifferenceNode {
        name: name.to_owned(),
        kernel: name.starts_with("do_"),
        before,
        after,
        children,
    }
}

fn root() -> DifferenceNode {
    let futex = node("do_futex", [0.0, 50.0], Vec::new());
    let step = node(
        "sqlite3_step",
        [80.0, 130.0],
        vec![node("<script>", [78.0, 79.0], Vec::new()), futex],
    );
    node("all", [90.0, 136.0], vec![step, node("idle", [10.0, 6.0], Vec::new())])
}

/// The findings with a difference of levels and one of variants.
pub(crate) fn beside(mut findings: Findings) -> Findings {
    let level = |clients| Level { clients, cores: 2 };
    let side =
        |variant: &str, clients| Side { variant: VariantId::new(variant), level: level(clients) };
    findings.differences = vec![
        StackDifference {
            of: StackKind::OnCpu,
            before: side(VariantId::BASELINE, 1),
            after: side(VariantId::BASELINE, 16),
            root: root(),
        },
        StackDifference {
            of: StackKind::OffCpu,
            before: side(VariantId::BASELINE, 2),
            after: side("private-cache", 2),
            root: root(),
        },
    ];
    findings
}
