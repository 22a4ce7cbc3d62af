//! A simulated run as a run directory holds it: the analysis and every picture work on it, and a
//! diagnosis can be checked where the truth is known.

use crate::sim::{Outcome, facts, stacks, window};
use crate::sweep::{Sweep, SweepError, outcomes};
use crate::twin::{Twin, Wanted};
use kneepoint_vocab::{
    Clients, Disposition, Host, Interference, Level, LevelOrder, Nanos, Phase, Plan, ProtocolName,
    Ratio, RunEnd, RunRecord, SCHEMA, StoppedBy, TrialId, TrialRecord, VariantId, VariantPlan,
    VariantRole, Window,
};

/// A simulated run that failed at a level.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// Nothing was simulated.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// A level failed.
    #[error("{} clients on {} cores: {why}", level.clients, level.cores)]
    Level {
        /// Which.
        level: Level,
        /// Why.
        why: crate::sim::SimError,
    },
}

/// Simulates all levels and records them: one seed is one block, one level of it one slice.
///
/// # Errors
/// As [`crate::sweep::sweep`], and the first level that failed.
pub fn record(twin: &Twin, levels: &[Level], how: &Sweep) -> Result<RunRecord, RecordError> {
    let all = outcomes(twin, levels, how)?;
    let mut slices: Vec<(Level, u32, Outcome)> = Vec::new();
    for (level, seeds) in levels.iter().zip(all) {
        for (block, outcome) in (0_u32..).zip(seeds) {
            let outcome = outcome.map_err(|why| RecordError::Level { level: *level, why })?;
            slices.push((*level, block, outcome));
        }
    }
    slices.sort_by_key(|(level, block, _)| (*block, *level));
    let compiled = |level: &Level| {
        let wanted = Wanted { clients: Some(level.clients), cores: Some(level.cores) };
        twin.compile(wanted).map_err(SweepError::Twin)
    };
    let mut begin = Nanos(0);
    let mut trials = Vec::with_capacity(slices.len());
    for (position, (level, block, outcome)) in (0_u32..).zip(&slices) {
        let length = window(&outcome.account);
        trials.push(TrialRecord {
            machine: kneepoint_vocab::MachineName::default(),
            id: TrialId {
                phase: Phase::Sweep,
                block: *block,
                position,
                attempt: 0,
                variant: VariantId::new(VariantId::BASELINE),
                start: 0,
                level: *level,
            },
            window: Window { begin, length },
            operations: outcome.account.operations,
            counted_over: length,
            per_client: Vec::new(),
            latency: None,
            counts: None,
            stability: None,
            settling: None,
            interference: Interference::default(),
            disposition: Disposition::Kept,
            facts: facts(&compiled(level)?, &outcome.account),
        });
        begin += length;
    }
    let first = levels.first().copied().unwrap_or(Level { clients: 1, cores: 1 });
    let end = RunEnd {
        elapsed: begin,
        stopped_by: StoppedBy::PlannedBlocks,
        steady: slices.iter().all(|(.., outcome)| outcome.settled),
        remarks: Vec::new(),
    };
    Ok(RunRecord {
        host: host(twin, levels),
        plan: plan(twin, levels, how, &trials),
        variants: Vec::new(),
        trials,
        stacks: stacks(&compiled(&first)?),
        end: Some(end),
        torn: Vec::new(),
    })
}

/// No machine measured it; who writes the record down adds Kneepoint's version and the time.
fn host(twin: &Twin, levels: &[Level]) -> Host {
    let simulated = || "simulated".to_owned();
    Host {
        machine: kneepoint_vocab::MachineName::default(),
        schema: SCHEMA,
        kneepoint: String::new(),
        begun: String::new(),
        arguments: Vec::new(),
        cores: levels.iter().map(|level| level.cores).max().unwrap_or(twin.cores.count),
        cpu: simulated(),
        memory: 0,
        kernel: simulated(),
        distribution: simulated(),
        notes: vec![("twin".to_owned(), twin.name.clone())],
    }
}

fn plan(twin: &Twin, levels: &[Level], how: &Sweep, trials: &[TrialRecord]) -> Plan {
    let mut sorted = levels.to_vec();
    sorted.sort_unstable();
    let best = trials.iter().max_by(|a, b| a.throughput().0.total_cmp(&b.throughput().0));
    let mut lengths: Vec<Nanos> = trials.iter().map(|trial| trial.window.length).collect();
    lengths.sort_unstable();
    Plan {
        recipe: twin.name.clone(),
        summary: if twin.about.is_empty() {
            "a simulated machine".into()
        } else {
            twin.about.clone()
        },
        operation: "operations".to_owned(),
        clients: Clients::Inside,
        generator_cores: 0,
        protocol: ProtocolName::Default,
        level_order: LevelOrder::Ascending,
        warm_up: None,
        census: false,
        seed: how.seed,
        focus: best.map_or(Level { clients: 1, cores: 1 }, |trial| trial.id.level),
        levels: sorted,
        variants: vec![VariantPlan {
            id: VariantId::new(VariantId::BASELINE),
            role: VariantRole::Baseline,
            label: "as the twin file says".to_owned(),
            over: VariantId::new(VariantId::BASELINE),
            changes: Vec::new(),
        }],
        sweep_variants: Vec::new(),
        slice: lengths.get(lengths.len() / 2).copied().unwrap_or_default(),
        ramp: Nanos(0),
        settle: Nanos(0),
        sweep_blocks: trials.iter().map(|trial| trial.id.block + 1).max().unwrap_or(0),
        effect_blocks: (0, 0),
        blocks_per_start: 1,
        precision: Ratio(0.05),
        smallest_effect: Ratio(0.10),
        allowed_overhead: None,
        sweep_precision: None,
        budget: Nanos(0),
        others_limit: Ratio(1.0),
        steal_limit: Ratio(1.0),
        names: kneepoint_vocab::Names::default(),
    }
}
