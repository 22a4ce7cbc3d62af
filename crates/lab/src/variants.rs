//! The variants of a run: one resident process each, all but one parked.

use crate::options::RunOptions;
use crate::watchdog::Watchdog;
use anyhow::{Context, Result, bail};
use kneepoint_rig::recipe::Variant;
use kneepoint_rig::scratch::Scratch;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::{Setup, System, Workload};
use kneepoint_vocab::{Plan, Seconds, VariantId, VariantRole, VariantStart};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Where systems stand: their files, and how to put back what they change.
pub(crate) struct Ground {
    // It holds the journal too.
    _watchdog: Watchdog,
    undo: Undo,
    // Dropped after the journal in it: fields are dropped in order.
    scratch: Scratch,
}

impl Ground {
    /// For one run, with what all its starts share.
    pub(crate) fn lay(options: &RunOptions, plan: &Plan, stop: &Arc<AtomicBool>) -> Result<Self> {
        let (scratch, undo) = Undo::in_scratch(&options.server)?;
        let watchdog = Watchdog::begin(stop, &undo)?;
        let ground = Self { _watchdog: watchdog, undo, scratch };
        let baseline =
            options.recipe.variants().into_iter().find(|variant| variant.plan.id.0 == BASELINE);
        if let Some(variant) = baseline {
            let setup = setup(options, plan, &ground, variant, 0);
            options.recipe.baseline.prepare(&setup).context("preparing the system")?;
        }
        Ok(ground)
    }
}

const BASELINE: &str = VariantId::BASELINE;

/// The systems of one start of every variant.
#[derive(Default)]
pub(crate) struct Variants {
    systems: BTreeMap<VariantId, Box<dyn System>>,
}

impl Variants {
    /// Starts the variants of `wanted` that have a process of their own, side by side, and proves
    /// each.
    pub(crate) fn start(
        options: &RunOptions,
        plan: &Plan,
        ground: &Ground,
        start: u32,
        wanted: &BTreeSet<VariantId>,
    ) -> Result<(Self, Vec<VariantStart>)> {
        let workload = options.recipe.workload;
        let setups: Vec<Setup> = options
            .recipe
            .variants()
            .into_iter()
            .filter(|variant| {
                variant.plan.role != VariantRole::Unprobed && wanted.contains(&variant.plan.id)
            })
            .map(|variant| setup(options, plan, ground, variant, start))
            .collect();
        let started: Vec<Result<Started>> = std::thread::scope(|scope| {
            let begin = |setup| {
                let builder = std::thread::Builder::new();
                builder.spawn_scoped(scope, move || start_one(workload, setup))
            };
            let handles: Vec<_> = setups.iter().map(begin).collect();
            let end = |handle: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| {
                let handle = handle.context("no thread can be started")?;
                handle.join().unwrap_or_else(|_| bail!("a starter panicked"))
            };
            handles.into_iter().map(end).collect()
        });
        let mut variants = Self::default();
        let mut records = Vec::new();
        for one in started {
            let (record, system) = one?;
            variants.systems.insert(record.variant.clone(), system);
            records.push(record);
        }
        Ok((variants, records))
    }

    /// The system that serves a variant; the unprobed variant is the baseline's own process.
    pub(crate) fn system(&mut self, variant: &VariantId) -> Result<&mut dyn System> {
        let serving =
            if variant.0 == VariantId::UNPROBED { VariantId::BASELINE } else { &variant.0 };
        match self.systems.get_mut(&VariantId::new(serving)) {
            Some(system) => Ok(system.as_mut()),
            None => bail!("variant {variant} has not been started"),
        }
    }

    /// Stops every system.
    pub(crate) fn stop(self) -> Result<()> {
        let mut first_failure = Ok(());
        for (variant, system) in self.systems {
            let stopped = system.stop().with_context(|| format!("stopping {variant}"));
            first_failure = first_failure.and(stopped);
        }
        first_failure
    }
}

type Started = (VariantStart, Box<dyn System>);

fn start_one(workload: &dyn Workload, setup: &Setup) -> Result<Started> {
    let begin = Instant::now();
    let mut system =
        workload.start(setup).with_context(|| format!("starting variant {}", setup.variant))?;
    let ready_after = Seconds(begin.elapsed().as_secs_f64());
    let (proofs, settings) =
        system.describe().with_context(|| format!("proving variant {}", setup.variant))?;
    let record = VariantStart {
        variant: setup.variant.clone(),
        start: setup.start,
        proofs,
        ready_after,
        settings,
        environment: system.environment(),
    };
    Ok((record, system))
}

fn setup(
    options: &RunOptions,
    plan: &Plan,
    ground: &Ground,
    variant: Variant,
    start: u32,
) -> Setup {
    let most = plan.levels.iter().map(|level| level.clients).max().unwrap_or(1);
    Setup {
        server: options.server.clone(),
        scratch: ground.scratch.path().to_owned(),
        variant: variant.plan.id,
        settings: variant.settings,
        scheduling: variant.scheduling,
        start,
        max_clients: most.max(plan.focus.clients),
        seed: plan.seed,
        undo: ground.undo.clone(),
    }
}
