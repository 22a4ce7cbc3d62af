//! `RunRecord -> Recording`: slices and stacks as tools want them that read profiles and traces.
//!
//! Futex waits are told apart as for findings, and parked threads wait for what their tasks wait
//! for; nothing else is judged.

use crate::frames::names::in_kernel;
use crate::quality::measured::measured;
use crate::waits::classify::classified;
use crate::waits::runtimes::told;
use kneepoint_vocab::recording::{
    RecordedFunction, RecordedSlice, RecordedStack, Recording, ThreadState,
};
use kneepoint_vocab::{
    Fact, Frame, ProtocolName, RunRecord, SourceLine, StackId, StackKind, StackRecord, StackWeight,
    TrialId, TrialRecord, VariantId,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a run holds. Takes any record, also one that was cut off or holds no trial at all.
#[must_use]
pub fn recording(record: &RunRecord) -> Recording {
    let told = told(record);
    let classified = classified(&told);
    let record: &RunRecord = &classified;
    let counting: BTreeSet<&TrialId> = measured(record).iter().map(|trial| &trial.id).collect();
    let tables = Tables::of(&record.stacks);
    let profile = record.plan.protocol == ProtocolName::Profile;
    let title = if profile { &record.plan.summary } else { &record.plan.recipe };
    let slices = record.trials.iter().map(|trial| RecordedSlice {
        phase: trial.id.phase,
        block: trial.id.block,
        variant: trial.id.variant.clone(),
        label: if profile { title.clone() } else { label(record, &trial.id.variant) },
        level: trial.id.level,
        window: trial.window,
        counts: counting.contains(&trial.id),
        throughput: record.plan.is_counted().then(|| trial.throughput()),
        interference: trial.interference,
        cores: trial.facts.iter().find_map(|fact| match fact {
            Fact::CoreTime(core) if core.cores > 0 && core.total.0 > 0 => Some(*core),
            _ => None,
        }),
        stacks: stacks(trial, &tables),
    });
    Recording {
        title: title.clone(),
        has_levels: !profile,
        operation: record.plan.is_counted().then(|| record.plan.operation.clone()),
        host: record.host.clone(),
        slices: slices.collect(),
        functions: tables.functions,
        stacks: tables.stacks,
    }
}

/// The words of a variant; its name where the plan has none.
fn label(record: &RunRecord, variant: &VariantId) -> String {
    let words = record.plan.variant(variant).map(|plan| plan.label.clone());
    words.filter(|words| !words.is_empty()).unwrap_or_else(|| variant.to_string())
}

fn stacks(trial: &TrialRecord, tables: &Tables) -> Vec<RecordedStack> {
    let taken = trial.facts.iter().filter_map(|fact| match fact {
        Fact::Stack(stack) => Some(stack),
        _ => None,
    });
    let recorded = taken.filter_map(|taken| {
        let (state, stack) = (state(taken)?, *tables.by_id.get(&taken.stack)?);
        Some(RecordedStack { state, stack, weight: taken.weight })
    });
    recorded.collect()
}

/// None for stacks of those who end waits: their time is that of the waits.
fn state(taken: &StackWeight) -> Option<ThreadState> {
    match taken.kind {
        StackKind::OnCpu => Some(ThreadState::Running),
        StackKind::OffCpu => taken.wait.as_ref().map(|wait| ThreadState::Waiting(wait.reason)),
        StackKind::Waker => None,
    }
}

/// The stack table with every function once.
struct Tables {
    functions: Vec<RecordedFunction>,
    stacks: Vec<Vec<usize>>,
    by_id: BTreeMap<StackId, usize>,
}

impl Tables {
    fn of(records: &[StackRecord]) -> Self {
        let sources: BTreeMap<(&str, &str), &SourceLine> = records
            .iter()
            .flat_map(|record| &record.sources)
            .map(|one| ((one.function.as_str(), one.module.as_str()), one))
            .collect();
        let mut builds: BTreeMap<&str, &str> = BTreeMap::new();
        for module in records.iter().flat_map(|record| &record.modules) {
            builds.entry(&module.name).or_insert(&module.build_id);
        }
        let mut tables = Self { functions: Vec::new(), stacks: Vec::new(), by_id: BTreeMap::new() };
        let mut known: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for record in records {
            let mut indices = Vec::with_capacity(record.frames.len());
            for frame in &record.frames {
                let name = (frame.function.as_str(), frame.module.as_str());
                let index = *known.entry(name).or_insert_with(|| {
                    tables.functions.push(function(frame, &sources, &builds));
                    tables.functions.len() - 1
                });
                indices.push(index);
            }
            tables.by_id.insert(record.id, tables.stacks.len());
            tables.stacks.push(indices);
        }
        tables
    }
}

fn function(
    frame: &Frame,
    sources: &BTreeMap<(&str, &str), &SourceLine>,
    builds: &BTreeMap<&str, &str>,
) -> RecordedFunction {
    let name = (frame.function.as_str(), frame.module.as_str());
    RecordedFunction {
        name: frame.function.clone(),
        module: frame.module.clone(),
        kernel: in_kernel(frame),
        build_id: builds.get(frame.module.as_str()).map(|&build| build.to_owned()),
        source: sources.get(&name).map(|&source| source.clone()),
    }
}
