//! Variables of the calling shell that change what is measured, and that nobody asked for.

use kneepoint_vocab::environment::changes_programs;
use kneepoint_vocab::findings::{Caveat, CaveatReason, Severity};
use kneepoint_vocab::{VariantId, VariantStart};
use std::collections::BTreeSet;

/// What recipes call the variables that they set.
const SETTING: &str = "environment";

/// Names the variables that the baseline has though its recipe does not set them.
pub(crate) fn caveat(starts: &[VariantStart]) -> Option<Caveat> {
    let baseline = || starts.iter().filter(|start| start.variant.0 == VariantId::BASELINE);
    let asked: BTreeSet<&str> = baseline()
        .flat_map(|start| &start.settings)
        .filter(|(name, _)| name == SETTING)
        .flat_map(|(_, names)| names.split_whitespace())
        .collect();
    let found: BTreeSet<(String, String)> = baseline()
        .flat_map(|start| &start.environment)
        .filter(|(name, _)| changes_programs(name) && !asked.contains(name.as_str()))
        .cloned()
        .collect();
    let variables: Vec<(String, String)> = found.into_iter().collect();
    (!variables.is_empty()).then_some(Caveat {
        severity: Severity::Warning,
        reason: CaveatReason::Environment { variables },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::Seconds;

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
        assert_eq!(caveat(&[start("baseline", plain.clone())]), None);
        let leaked = [plain, vec![pair("GLIBC_TUNABLES", "x=1"), pair("LD_PRELOAD", "/y.so")]];
        let leaked = leaked.concat();
        assert_eq!(caveat(&[start("v", leaked.clone())]), None);
        let variables = vec![pair("GLIBC_TUNABLES", "x=1"), pair("LD_PRELOAD", "/y.so")];
        let reported = caveat(&[start("baseline", leaked)]).unwrap().reason;
        assert_eq!(reported, CaveatReason::Environment { variables });
    }
}
