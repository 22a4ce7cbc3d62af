//! Whether a variant was shown to be what it claims to be.
//!
//! All factors of a workload are read back in every start, the baseline's included. So what the
//! base shows just as well says nothing of the change: a variant is proven by a proof that its base
//! does not have, or expects another value in. Without such a proof it is *unproven*, which is said
//! beside its ratio. With one that failed, or with a start that is not on record, it may be another
//! system, and shows no ratio.

use kneepoint_vocab::{
    Proof, Proven, TrialRecord, VariantId, VariantPlan, VariantRole, VariantStart,
};

/// Whether a variant's changes were shown to be active in all its starts, among them all that
/// served one of `trials`.
#[must_use]
pub fn proven(starts: &[VariantStart], variant: &VariantPlan, trials: &[&TrialRecord]) -> Proven {
    let own = || of(starts, &variant.id);
    let mut served = trials.iter().filter(|trial| trial.id.variant == variant.id);
    let lacks_record = served.any(|trial| own().all(|start| start.start != trial.id.start));
    if lacks_record || own().any(|start| start.proven() == Proven::No) {
        return Proven::No;
    }
    // A control claims to be the baseline, and nothing else.
    let telling = |proof: &Proof| {
        variant.role != VariantRole::Treatment
            || !of(starts, &variant.over)
                .flat_map(|start| &start.proofs)
                .any(|other| same(proof, other))
    };
    let shown = |start: &VariantStart| start.proofs.iter().any(telling);
    if own().next().is_some() && own().all(shown) { Proven::Yes } else { Proven::Unproven }
}

fn of<'a>(
    starts: &'a [VariantStart],
    variant: &'a VariantId,
) -> impl Iterator<Item = &'a VariantStart> {
    starts.iter().filter(move |start| &start.variant == variant)
}

/// Whether two proofs ask for the same.
fn same(one: &Proof, other: &Proof) -> bool {
    one.what == other.what && one.expected == other.expected
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::Seconds;

    fn start(variant: &str, proofs: &[(&str, &str, bool)]) -> VariantStart {
        let proof = |(what, expected, active): &(&str, &str, bool)| Proof {
            what: (*what).to_owned(),
            expected: (*expected).to_owned(),
            found: String::new(),
            active: *active,
        };
        VariantStart {
            variant: VariantId::new(variant),
            start: 0,
            proofs: proofs.iter().map(proof).collect(),
            ready_after: Seconds(0.0),
            settings: Vec::new(),
            environment: Vec::new(),
        }
    }

    fn proven_as(role: VariantRole, starts: &[VariantStart]) -> Proven {
        let variant = VariantPlan {
            id: VariantId::new("v"),
            role,
            label: String::new(),
            over: VariantId::new(VariantId::BASELINE),
            changes: Vec::new(),
        };
        proven(starts, &variant, &[])
    }

    #[test]
    fn a_proof_that_the_base_has_too_proves_no_change() {
        let base = start("baseline", &[("cache", "shared", true), ("mutex", "none", true)]);
        let variant =
            |cache, active| start("v", &[("cache", cache, active), ("mutex", "none", true)]);
        let treated = |starts: &[VariantStart]| proven_as(VariantRole::Treatment, starts);
        assert_eq!(treated(&[base.clone(), variant("private", true)]), Proven::Yes);
        assert_eq!(treated(&[base.clone(), variant("private", false)]), Proven::No);
        assert_eq!(treated(&[base.clone(), variant("shared", true)]), Proven::Unproven);
        let second = start("v", &[]);
        assert_eq!(treated(&[base, variant("private", true), second]), Proven::Unproven);
    }

    #[test]
    fn nothing_read_back_proves_nothing() {
        assert_eq!(proven_as(VariantRole::Treatment, &[]), Proven::Unproven);
        assert_eq!(proven_as(VariantRole::Treatment, &[start("v", &[])]), Proven::Unproven);
        assert_eq!(proven_as(VariantRole::Control, &[start("v", &[])]), Proven::Unproven);
        let proofs = [("cache", "shared", true)];
        let both = [start("baseline", &proofs), start("v", &proofs)];
        assert_eq!(proven_as(VariantRole::Control, &both), Proven::Yes);
    }
}
