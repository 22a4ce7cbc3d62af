//! Words for what a run tells besides its losses.

use super::{Axis, counted};
use crate::number;
use kneepoint_vocab::findings::{AtBound, Bound, CoreLedger, GainReason, IdleAccount, Superlinear};
use kneepoint_vocab::{Cores, Estimate, Ratio, Unit};

/// That a level is at its bound: `Nothing is wrong: 1.97 of 2 cores are used up`.
pub(crate) fn at_bound(at: &AtBound) -> String {
    let (busy, of) = (number::plain_cores(at.busy.value), counted(at.level.cores, "core"));
    match at.bound {
        Bound::Cores => format!("Nothing is wrong: {busy} of {of} are used up"),
        Bound::Clients => {
            let mut said = format!("{}, {busy} of {of} are busy", undisturbed(at));
            said[..1].make_ascii_uppercase();
            said
        }
    }
}

/// That more clients bring no more waits, and what waits there are.
pub(crate) fn undisturbed(at: &AtBound) -> String {
    match &at.waits {
        None => "nothing is wrong: no client waits for another".to_owned(),
        Some(waits) => format!(
            "more clients lose nothing: what {} cores idle for, {}, one client waits for too",
            number::plain_cores(waits.idle),
            waits.name
        ),
    }
}

/// Where the CPU goes: `parse 62 %`, the greatest first.
pub(crate) fn busy_functions(at: &AtBound) -> Vec<String> {
    let named = at.functions.iter();
    named.map(|one| format!("{} {}", one.name, number::plain_percent(one.share))).collect()
}

/// A step that gains more than its clients, and why, as far as the ledgers tell.
pub(crate) fn superlinear(step: &Superlinear, axis: Axis) -> String {
    let from = axis.phrase(step.from);
    let gains = format!(
        "From {from} to {} throughput gains {}, more than the clients",
        axis.tick(step.to),
        number::factor(&step.ratio)
    );
    let one = step.from.clients == 1;
    let why = match (step.reason, &step.evidence) {
        (GainReason::SleepingCores, Some(seen)) => format!(
            "{} {} of {} asleep, which have to be woken: {} per operation",
            if one { "one client leaves" } else { "fewer clients leave" },
            number::plain_cores(seen.idle),
            counted(step.from.cores, "core"),
            number::brief_seconds(seen.waking)
        ),
        (GainReason::DearerOperations, Some(seen)) => format!(
            "{} of CPU per operation there, {} with more clients",
            number::brief_seconds(seen.cpu),
            number::brief_seconds(seen.cpu_with_more)
        ),
        _ => "the ledgers do not show what slows the fewer down".to_owned(),
    };
    format!("{gains}: {why}.")
}

/// How the idle cores of a level came to their lines.
pub(crate) fn idle_account(idle: &IdleAccount) -> String {
    let cores = |estimate: &Estimate<Cores>| number::plain_cores(estimate.value);
    format!(
        "Of the idle cores {} were charged to what the next thread had waited for, {} handed over \
         with its wake-ups, {} shared out over what was blocked meanwhile; {} were unused.",
        cores(&idle.charged),
        cores(&idle.handed_over),
        cores(&idle.spread),
        cores(&idle.unused)
    )
}

/// The part of all cores that idled and was shared out, as far as it went elsewhere than what was
/// charged: the weakest part of a core ledger.
pub(crate) fn shared_out(core: &CoreLedger) -> Option<Ratio> {
    let idle = core.idle.as_ref().filter(|_| core.total.get() > 0.0)?;
    Some(Ratio(idle.doubtful.value.get() / core.total.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::findings::{BusyFunction, GainEvidence, IdleFor, Name};
    use kneepoint_vocab::{Level, Seconds};

    #[test]
    fn a_gain_above_the_clients_has_its_reason() {
        let evidence = GainEvidence {
            idle: Cores(1.62),
            waking: Seconds(120e-6),
            waking_with_more: Seconds(20e-6),
            cpu: Seconds(300e-6),
            cpu_with_more: Seconds(150e-6),
        };
        let step = Superlinear {
            from: Level { clients: 1, cores: 2 },
            to: Level { clients: 2, cores: 2 },
            ratio: Estimate::of(5.6, 5.1, 6.2),
            clients: Ratio(2.0),
            reason: GainReason::SleepingCores,
            evidence: Some(evidence),
        };
        assert_eq!(
            superlinear(&step, Axis::Clients),
            "From 1 client to 2 throughput gains 5.6× [5.1–6.2], more than the clients: one client \
             leaves 1.62 of 2 cores asleep, which have to be woken: 120 µs per operation."
        );
        let dearer = Superlinear { reason: GainReason::DearerOperations, ..step.clone() };
        assert!(
            superlinear(&dearer, Axis::Clients)
                .contains("300 µs of CPU per operation there, 150 µs")
        );
        let open = Superlinear { reason: GainReason::Open, evidence: None, ..step };
        assert!(
            superlinear(&open, Axis::Clients).ends_with("do not show what slows the fewer down.")
        );
    }

    #[test]
    fn the_ways_of_idle_cores_are_distinguished() {
        let idle = IdleAccount {
            charged: Estimate::of(0.61, 0.5, 0.7),
            handed_over: Estimate::of(0.2, 0.1, 0.3),
            spread: Estimate::of(0.04, 0.0, 0.1),
            doubtful: Estimate::of(0.03, 0.0, 0.1),
            unused: Estimate::of(0.0, 0.0, 0.0),
        };
        let said = idle_account(&idle);
        for part in ["0.61 were charged", "0.20 handed over", "0.04 shared out", "0.00 were unused"]
        {
            assert!(said.contains(part), "{said}");
        }
        let core = CoreLedger {
            lines: Vec::new(),
            total: Cores(2.0),
            unaccounted: Ratio(0.0),
            idle: Some(idle),
            demand: Estimate::of(1.0, 1.0, 1.0),
            demand_reference: Seconds(1.0),
        };
        assert_eq!(shared_out(&core), Some(Ratio(0.015)));
        assert_eq!(shared_out(&CoreLedger { idle: None, ..core }), None);
    }

    #[test]
    fn a_used_up_machine_is_said_to_be_well() {
        let mut at = AtBound {
            level: Level { clients: 2, cores: 2 },
            bound: Bound::Cores,
            busy: Estimate::of(1.97, 1.96, 1.98),
            of: Cores(2.0),
            functions: vec![BusyFunction { name: Name::from("parse"), share: Ratio(0.62) }],
            waits: None,
        };
        assert_eq!(at_bound(&at), "Nothing is wrong: 1.97 of 2 cores are used up");
        assert_eq!(busy_functions(&at), ["parse 62 %"]);
        at.bound = Bound::Clients;
        assert!(at_bound(&at).contains("no client waits for another"));
        at.waits = Some(IdleFor { name: Name::from("condition in rest"), idle: Cores(0.49) });
        let wanted = "More clients lose nothing: what 0.49 cores idle for, condition in rest, one \
                      client waits for too, 1.97 of 2 cores are busy";
        assert_eq!(at_bound(&at), wanted);
    }
}
