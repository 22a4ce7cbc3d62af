//! What must hold for every record, sensible or not: conservation, finite numbers, the same
//! bytes every time, and no panic.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::Findings;
use kneepoint_vocab::*;
use proptest::prelude::*;

fn cell() -> impl Strategy<Value = Cell> {
    let part = || 0.0_f64..1.5;
    (
        (1.0_f64..1e5, part(), part(), (part(), part())),
        (part(), part(), part(), 0.0_f64..20.0),
        (part(), prop::collection::vec((0_u32..7, 0.0_f64..2.0), 0..5)),
        (0.0_f64..1e5, 0_u32..7),
    )
        .prop_map(|(a, b, c, d)| Cell {
            throughput: a.0,
            system: a.1,
            others: a.2,
            generator: a.3.0,
            kernel: a.3.1,
            idle_lock: b.0,
            idle_scheduler: b.1,
            idle_uncharged: b.2,
            blocked: b.3,
            runnable: c.0,
            on_cpu: c.1,
            waits: d.0,
            lock_stack: d.1,
        })
}

fn disposition() -> impl Strategy<Value = Disposition> {
    prop_oneof![
        6 => Just(Disposition::Kept),
        1 => Just(Disposition::Disturbed),
        1 => Just(Disposition::KeptDisturbed),
        1 => Just(Disposition::Failed { reason: "gone".to_owned() }),
    ]
}

/// What the waits of a slice are for: mostly the lock, else something a server's threads do.
fn request() -> impl Strategy<Value = Option<WaitKey>> {
    let reasons = [WaitReason::Socket, WaitReason::Poll, WaitReason::KernelLock];
    let other = (prop::sample::select(reasons.to_vec()), prop::sample::select(vec![0, 44, 45]));
    prop::option::of(other.prop_map(|(reason, syscall)| WaitKey {
        reason,
        object: 0,
        object_name: None,
        syscall,
    }))
}

fn waits_for(trial: &mut TrialRecord, key: Option<WaitKey>) {
    for fact in &mut trial.facts {
        match (fact, &key) {
            (Fact::Wait(wait), Some(key)) => wait.key = key.clone(),
            (Fact::Stack(StackWeight { wait: Some(wait), .. }), Some(key)) => *wait = key.clone(),
            _ => {}
        }
    }
}

/// Trials with plausible facts in any arrangement of phases, variants, starts, blocks and levels.
fn plausible() -> impl Strategy<Value = RunRecord> {
    let clients = prop::sample::select(vec![1_u32, 2, 8]);
    let one = (0_u32..5, 0_usize..4, 0_u32..3, clients, (cell(), request(), 1_u32..3));
    let phase = prop_oneof![3 => Just(Phase::Sweep), 2 => Just(Phase::Effects)];
    let trials = prop::collection::vec((one, phase, disposition(), any::<bool>()), 0..24);
    let design = (any::<bool>(), any::<bool>(), 0_u32..3);
    (trials, design, any::<u64>()).prop_map(|(trials, (ended, apart, generator_cores), seed)| {
        let mut record = empty(&[1, 2, 8], 2);
        if apart {
            record.plan.clients = Clients::Apart;
            record.plan.generator_cores = generator_cores;
        }
        record.plan.seed = seed;
        record.plan.variants.push(variant("other", VariantRole::Treatment, VariantId::BASELINE));
        record.plan.variants.push(variant(
            VariantId::CONTROL,
            VariantRole::Control,
            VariantId::BASELINE,
        ));
        record.plan.variants.push(variant(
            VariantId::UNPROBED,
            VariantRole::Unprobed,
            VariantId::BASELINE,
        ));
        for ((block, which, start, clients, what), phase, disposition, facts) in trials {
            let (cell, key, cores) = what;
            let name = ["baseline", "other", "control", "unprobed"][which];
            let mut trial = trial(phase, block, name, start, clients, &cell);
            trial.disposition = disposition;
            trial.id.level.cores = cores;
            waits_for(&mut trial, key);
            if !facts {
                trial.facts.truncate(1);
            }
            record.trials.push(trial);
        }
        if seed % 2 == 0 {
            record.plan.sweep_variants = vec![VariantId::new("other")];
        }
        if !ended {
            record.end = None;
        }
        record
    })
}

/// Any counts at all, up to the greatest: torn clocks, zeros, missing variants.
fn absurd() -> impl Strategy<Value = RunRecord> {
    let nanos = || prop_oneof![Just(0_u64), 0_u64..5_000_000_000, Just(u64::MAX), any::<u64>()];
    let numbers = prop::collection::vec(nanos(), 16);
    (plausible(), prop::collection::vec((numbers, 0_u32..9), 0..8)).prop_map(|(mut record, odd)| {
        for (n, at) in odd {
            let mut trial = trial(Phase::Sweep, at, "baseline", 0, at % 3, &Cell::default());
            trial.operations = n[0];
            trial.counted_over = Nanos(n[1]);
            trial.window = Window { begin: Nanos(n[2]), length: Nanos(n[3]) };
            for fact in &mut trial.facts {
                match fact {
                    Fact::CoreTime(core) => {
                        core.cores = at;
                        core.total = Nanos(n[4]);
                        core.idle = Nanos(n[5]);
                        core.steal = Nanos(n[6]);
                        core.others = Nanos(n[7]);
                    }
                    Fact::ThreadTime(time) => {
                        time.running = Nanos(n[8]);
                        time.schedstat_running = (at % 2 == 0).then_some(Nanos(n[9]));
                        time.blocked = Nanos(n[10]);
                        time.switches = n[11];
                    }
                    Fact::Stack(stack) => {
                        stack.weight = Nanos(n[12]);
                        stack.count = n[13];
                        stack.stack = StackId(at * 1000);
                    }
                    _ => {}
                }
            }
            trial.facts.push(Fact::Loss(Loss { what: "odd".to_owned(), count: n[14], of: None }));
            record.trials.push(trial);
        }
        record
    })
}

/// JSON has no NaN or infinity: serde writes `null`, which an absent option writes too. So
/// every number is looked at in its debug form, which says `NaN` and `inf`.
fn all_finite(findings: &Findings) {
    let text = format!("{findings:?}");
    for word in [": NaN", "(NaN", ": inf", "(inf", ": -inf", "(-inf"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}

/// Every estimate, wherever it stands, holds its own value.
fn intervals_hold_their_values(value: &serde_json::Value) {
    if let Some(map) = value.as_object() {
        let number = |name: &str| map.get(name).and_then(serde_json::Value::as_f64);
        if let (Some(value), Some(low), Some(high)) =
            (number("value"), number("low"), number("high"))
        {
            assert!(low <= value && value <= high, "{map:?}");
        }
        map.values().for_each(intervals_hold_their_values);
    } else if let Some(items) = value.as_array() {
        items.iter().for_each(intervals_hold_their_values);
    }
}

fn close(sum: f64, whole: f64, scale: f64) -> bool {
    (sum - whole).abs() <= 1e-6 * scale.abs().max(whole.abs()).max(1e-12)
}

fn conserved(findings: &Findings) {
    for ledger in &findings.ledgers {
        let cores = || ledger.core.lines.iter().map(|line| line.cores.value.0);
        let scale = cores().map(f64::abs).sum();
        assert!(close(cores().sum(), ledger.core.total.0, scale), "{:#?}", ledger.core);
        let seconds = || ledger.thread.lines.iter().map(|line| line.per_operation.value.0);
        let scale = seconds().map(f64::abs).sum();
        let whole = ledger.thread.per_operation.0;
        assert!(close(seconds().sum(), whole, scale), "{:#?}", ledger.thread);
    }
    let shares: f64 = findings.causes.iter().map(|cause| cause.share.value.0).sum();
    assert!(shares <= 1.0 + 1e-9, "shares add up to {shares}");
    for cause in &findings.causes {
        assert!(cause.share.low.0 >= 0.0 && cause.share.high.0 <= 1.0 && cause.lost.low.0 >= 0.0);
    }
    for point in &findings.curve.points {
        let x = point.throughput;
        assert!(x.low.0 <= x.value.0 && x.value.0 <= x.high.0);
    }
}

fn same_every_time(record: &RunRecord, findings: &Findings) {
    let value = serde_json::to_value(findings).expect("findings are plain data");
    intervals_hold_their_values(&value);
    let json =
        |findings: &Findings| serde_json::to_string(findings).expect("findings are plain data");
    assert_eq!(json(findings), json(&analyse(record)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn plausible_records_are_conserved_and_reproducible(record in plausible()) {
        let findings = analyse(&record);
        all_finite(&findings);
        conserved(&findings);
        same_every_time(&record, &findings);
    }

    #[test]
    fn absurd_records_give_finite_numbers(record in absurd()) {
        let findings = analyse(&record);
        all_finite(&findings);
        conserved(&findings);
        same_every_time(&record, &findings);
    }

    #[test]
    fn order_of_trials_does_not_matter(record in plausible()) {
        let mut turned = record.clone();
        turned.trials.reverse();
        let (one, other) = (analyse(&record), analyse(&turned));
        prop_assert_eq!(one.curve.points.len(), other.curve.points.len());
        for (a, b) in one.causes.iter().zip(&other.causes) {
            prop_assert!((a.lost.value.0 - b.lost.value.0).abs() < 1e-9);
        }
    }
}
