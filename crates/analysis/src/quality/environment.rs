//! Variables of the calling shell that change what is measured, and that nobody asked for.

use kneepoint_vocab::environment::read_by;
use kneepoint_vocab::findings::{Caveat, CaveatReason, Severity};
use kneepoint_vocab::{StackRecord, VariantId, VariantStart};
use std::collections::BTreeSet;

/// What recipes call the variables that they set.
const SETTING: &str = "environment";

/// Names the variables that the baseline has though its recipe does not set them, and that code in
/// its stacks reads.
pub(crate) fn caveat(starts: &[VariantStart], stacks: &[StackRecord]) -> Option<Caveat> {
    let baseline = || starts.iter().filter(|start| start.variant.0 == VariantId::BASELINE);
    let asked: BTreeSet<&str> = baseline()
        .flat_map(|start| &start.settings)
        .filter(|(name, _)| name == SETTING)
        .flat_map(|(_, names)| names.split_whitespace())
        .collect();
    let found: BTreeSet<(String, String)> = baseline()
        .flat_map(|start| &start.environment)
        .filter(|(name, _)| !asked.contains(name.as_str()))
        .filter(|(name, _)| read_by(name).is_some_and(|code| is_seen(code, stacks)))
        .cloned()
        .collect();
    let variables: Vec<(String, String)> = found.into_iter().collect();
    (!variables.is_empty()).then_some(Caveat {
        severity: Severity::Warning,
        reason: CaveatReason::Environment { variables },
    })
}

/// Whether code of one of these modules or functions was seen, or may have been there unseen.
fn is_seen(code: &[&str], stacks: &[StackRecord]) -> bool {
    let begins = |name: &str| code.iter().any(|begin| name.starts_with(begin));
    let mut frames = stacks.iter().flat_map(|stack| &stack.frames).peekable();
    code.is_empty()
        || frames.peek().is_none()
        || frames.any(|frame| begins(&frame.module) || begins(&frame.function))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::{CodeKind, Frame, Seconds, StackId};

    #[test]
    fn what_leaks_is_named_and_what_was_asked_for_is_not() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let start = |variant: &str, environment| VariantStart {
            variant: VariantId::new(variant),
            start: 0,
            proofs: Vec::new(),
            ready_after: Seconds(0.0),
            settings: vec![pair("environment", "MALLOC_ARENA_MAX OMP_NUM_THREADS")],
            environment,
        };
        let plain = vec![pair("PATH", "/bin"), pair("MALLOC_ARENA_MAX", "1")];
        assert_eq!(caveat(&[start("baseline", plain.clone())], &[]), None);
        let leaked = [plain, vec![pair("GLIBC_TUNABLES", "x=1"), pair("LD_PRELOAD", "/y.so")]];
        let leaked = leaked.concat();
        assert_eq!(caveat(&[start("v", leaked.clone())], &[]), None);
        let variables = vec![pair("GLIBC_TUNABLES", "x=1"), pair("LD_PRELOAD", "/y.so")];
        let reported = caveat(&[start("baseline", leaked)], &[]).unwrap().reason;
        assert_eq!(reported, CaveatReason::Environment { variables });
    }

    #[test]
    fn what_nothing_that_was_seen_reads_is_not_named() {
        let frame = |function: &str, module: &str| Frame {
            function: function.to_owned(),
            module: module.to_owned(),
        };
        let stack = |frames| {
            vec![StackRecord {
                id: StackId(1),
                frames,
                truncated: false,
                code: CodeKind::default(),
                sources: Vec::new(),
                modules: Vec::new(),
            }]
        };
        let all = |environment: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            vec![VariantStart {
                variant: VariantId::new(VariantId::BASELINE),
                start: 0,
                proofs: Vec::new(),
                ready_after: Seconds(0.0),
                settings: Vec::new(),
                environment: environment.iter().map(owned).collect(),
            }]
        };
        let starts = all(&[("OMP_NUM_THREADS", "1"), ("PYTHONUNBUFFERED", "1"), ("GOGC", "50")]);
        let named = |stacks: &[StackRecord]| match caveat(&starts, stacks).map(|it| it.reason) {
            Some(CaveatReason::Environment { variables }) => {
                variables.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        };
        assert_eq!(named(&stack(vec![frame("main", "bench")])), "");
        assert_eq!(named(&stack(vec![frame("take_gil", "python3.11")])), "PYTHONUNBUFFERED");
        assert_eq!(named(&stack(vec![frame("runtime.goexit.abi0", "bench")])), "GOGC");
        assert_eq!(named(&[]), "GOGC OMP_NUM_THREADS PYTHONUNBUFFERED", "nobody looked");
    }
}
