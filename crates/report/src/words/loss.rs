//! How much is lost, and which functions the CPU goes to.

use crate::number;
use kneepoint_vocab::findings::FlameNode;
use kneepoint_vocab::{Cores, Findings, Ratio, Unit};
use std::collections::BTreeMap;

/// Below this share of the machine there is no loss to explain.
const NOTHING: f64 = 0.03;
/// Functions that are named where there is no cause to name.
const NAMED: usize = 3;
/// Deeper frames are left out.
const DEEPEST: usize = 96;

/// Cores that are lost at the focus level, of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loss {
    lost: Cores,
    total: Cores,
    /// Whether it is worth explaining.
    explained: bool,
}

impl Loss {
    /// Whether it is so little that its causes are not worth a word.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.explained
    }

    /// `1.24 of 2 cores lost`.
    pub(crate) fn sentence(&self) -> String {
        let total = format!("{:.1}", self.total.get());
        let total = total.trim_end_matches(".0");
        format!("{} of {total} cores lost", number::plain_cores(self.lost))
    }
}

/// All that the shares of the causes are shares of; where the findings do not say it, from a cause
/// that has a share.
pub(crate) fn loss(findings: &Findings) -> Option<Loss> {
    if let Some(lost) = &findings.lost {
        let cores = Cores(lost.cores.value.get().max(0.0));
        return Some(Loss { lost: cores, total: lost.of, explained: lost.explained });
    }
    let ledger = findings.ledgers.iter().find(|ledger| ledger.level == findings.focus)?;
    let cause = findings.causes.iter().find(|cause| cause.share.value.get() > 1e-6)?;
    let lost = (cause.lost.value.get() / cause.share.value.get()).max(0.0);
    let total = ledger.core.total;
    let explained = lost >= NOTHING * total.get();
    lost.is_finite().then_some(Loss { lost: Cores(lost), total, explained })
}

/// A function's own seconds, and those with what it calls. It counts once on a path, however
/// often it recurs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) own: f64,
    pub(crate) total: f64,
}

/// All functions of a flame graph, those with most time of their own first.
pub(crate) fn functions(root: &FlameNode) -> Vec<(&str, Times)> {
    let mut times = BTreeMap::new();
    for child in &root.children {
        add(child, &mut Vec::new(), &mut times);
    }
    let mut rows: Vec<(&str, Times)> = times.into_iter().collect();
    rows.sort_by(|a, b| b.1.own.total_cmp(&a.1.own).then(a.0.cmp(b.0)));
    rows
}

fn add<'a>(node: &'a FlameNode, path: &mut Vec<&'a str>, times: &mut BTreeMap<&'a str, Times>) {
    if path.len() > DEEPEST {
        return;
    }
    let below: f64 = node.children.iter().map(|child| child.weight.get()).sum();
    let entry = times.entry(node.name.as_str()).or_default();
    entry.own += (node.weight.get() - below).max(0.0);
    if !path.contains(&node.name.as_str()) {
        entry.total += node.weight.get();
    }
    path.push(&node.name);
    for child in &node.children {
        add(child, path, times);
    }
    path.pop();
}

/// The functions with most CPU of their own: `btreeParseCellPtr 34 %`.
pub(crate) fn busiest(root: &FlameNode) -> Vec<String> {
    let all = root.weight.get();
    let named = functions(root).into_iter().take(NAMED).filter(|(_, times)| times.own > 0.0);
    let reported = named
        .filter(|_| all > 0.0)
        .map(|(name, times)| format!("{name} {}", number::plain_percent(Ratio(times.own / all))));
    reported.collect()
}
