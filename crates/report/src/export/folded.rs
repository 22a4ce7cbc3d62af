//! Stacks in the folded form that flame-graph tools read: `outer;inner COUNT`, one stack a line.

use super::{Export, Made};
use crate::text;
use kneepoint_vocab::findings::{Cause, FlameNode};
use kneepoint_vocab::{Findings, Unit};

/// Stacks on a core.
pub const ON_CPU: Export = Export {
    name: "folded",
    holds: "stacks on a core",
    binary: None,
    made: Made::Concluded {
        run: on_cpu,
        profile: Some(|profile| profile.on_cpu.as_ref().map(folded).unwrap_or_default()),
    },
};

/// Stacks of waits.
pub const WAITS: Export = Export {
    name: "folded-waits",
    holds: "stacks of waits",
    binary: None,
    made: Made::Concluded {
        run: off_cpu,
        profile: Some(|profile| waits(profile.causes.iter().map(|one| &one.cause))),
    },
};

/// On-CPU stacks at the focus level. The count is microseconds.
#[must_use]
pub fn on_cpu(findings: &Findings) -> String {
    findings.on_cpu.as_ref().map(folded).unwrap_or_default()
}

/// Stacks at the start of the waits of each cause at the focus level, below a frame that
/// carries the cause's name. The count is blocked microseconds.
#[must_use]
pub fn off_cpu(findings: &Findings) -> String {
    waits(&findings.causes)
}

fn waits<'a>(causes: impl IntoIterator<Item = &'a Cause>) -> String {
    let mut out = String::new();
    for cause in causes {
        let Some(stacks) = cause.stacks.as_ref().filter(|_| cause.waits.is_some()) else {
            continue;
        };
        fold(stacks, &mut vec![frame(&cause.name.to_string())], &mut out);
    }
    out
}

fn folded(root: &FlameNode) -> String {
    let mut out = String::new();
    fold(root, &mut Vec::new(), &mut out);
    out
}

/// Separators of the format inside a name would split it, so they are replaced.
fn frame(name: &str) -> String {
    text::disarm(name).replace(';', ":")
}

/// Writes what each node holds beyond its children; the root stands for all and has no frame.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "microseconds of a run, clamped at zero"
)]
fn fold(node: &FlameNode, path: &mut Vec<String>, out: &mut String) {
    let below: f64 = node.children.iter().map(|child| child.weight.get()).sum();
    let own = ((node.weight.get() - below) * 1e6).round().max(0.0) as u64;
    if own > 0 && !path.is_empty() {
        out.push_str(&format!("{} {own}\n", path.join(";")));
    }
    for child in &node.children {
        path.push(frame(&child.name));
        fold(child, path, out);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::Seconds;

    fn node(name: &str, weight: f64, children: Vec<FlameNode>) -> FlameNode {
        FlameNode { kernel: false, name: name.to_owned(), weight: Seconds(weight), children }
    }

    #[test]
    fn each_line_is_a_stack_with_its_own_time() {
        let inner = node("b;\n1", 0.25, Vec::new());
        let root = node("all", 1.5, vec![node("a", 1.0, vec![inner]), node("c", 0.5, Vec::new())]);
        assert_eq!(folded(&root), "a 750000\na;b: 1 250000\nc 500000\n");
    }
}
