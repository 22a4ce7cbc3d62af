//! The whole experiment: the only loop over trials.

use crate::clock::Clock;
use crate::disturbance::{Disturbance, disturbance};
use crate::earlier::Earlier;
use crate::options::RunOptions;
use crate::precision;
use crate::progress::Progress;
use crate::schedule::{self, Planned, Step, block_has_ended, estimate, needed, outlook, schedule};
use crate::slice::{self, Shape, Taken};
use crate::stop_rule::StopRule;
use crate::store::{self, Store};
use crate::variants::{Ground, Variants};
use anyhow::{Context, Result, bail};
use kneepoint_machine::here;
use kneepoint_machine::windows::Windows;
use kneepoint_probe::{Census, Probe};
use kneepoint_rig::priority::Prompt;
use kneepoint_rig::{CpuSets, placement};
use kneepoint_stats::change_point::warm_up_end;
use kneepoint_vocab::{
    Disposition, Host, Interference, Level, Nanos, Phase, Plan, ProtocolName, RunEnd, StoppedBy,
    TrialId, TrialRecord, VariantId, VariantRole, VariantStart, Window,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod again;
mod outcome;
mod prepared;

use prepared::{Prepared, prepare};

pub use again::{resumable, resume};
pub use outcome::{Kept, Outcome};
pub use prepared::require;

/// How often a slice is taken at most, where something disturbs it.
const MOST_ATTEMPTS: u32 = 3;
/// Window of a warm-up slice.
const WARM_UP_SLICE: Nanos = Nanos::from_millis(100);
/// Least window of a warm-up slice where the plan fixes how long it lasts.
const FIXED_WARM_UP_SLICE: Nanos = Nanos::from_millis(1000);
/// Fewest warm-up slices: a change-point test needs some to judge.
const WARM_UP_LEAST: usize = 8;
/// Part of the budget that warm-up may take: a slice of a load generator that counts in whole
/// seconds is as long as one that is measured.
const WARM_UP_SHARE: u64 = 5;
/// Most warm-up slices of a system that settles within each slice.
const SETTLING_WARM_UP_MOST: usize = 3;
/// Most warm-up slices; a system that is not steady by then is called so.
const WARM_UP_MOST: usize = 24;

/// Runs the plan and writes the run directory. Stops early, in order, once `stop` is set.
///
/// # Errors
/// Where the directory cannot be written, the system does not start, fails or hangs. Trials
/// finished before stay in the run directory; everything started is stopped.
pub fn run(
    options: &RunOptions,
    plan: &Plan,
    host: &Host,
    progress: &mut dyn Progress,
    stop: &Arc<AtomicBool>,
) -> Result<Outcome> {
    require(options)?;
    if !options.numbered {
        store::vacant(&options.directory)?;
    }
    // Only what can measure makes a run directory.
    let prepared = prepare(options, plan, progress, stop)?;
    let create = if options.numbered { Store::create_beside } else { Store::create };
    let store = create(&options.directory, host, plan)?;
    Runner::new(options, plan, prepared, store, Clock::begin(), progress, stop).conduct()
}

/// The CPUs of a level: the generator's own are the last of `allowed`, the system's the first of
/// the rest. Empty sets where no level of the plan has to be kept off any.
fn cpu_sets(allowed: &[u32], plan: &Plan, level: Level) -> CpuSets {
    if plan.levels.iter().all(|level| level.cores as usize >= allowed.len()) {
        return CpuSets::default();
    }
    let kept = allowed.len().saturating_sub(plan.generator_cores as usize);
    let (left, own) = allowed.split_at(kept);
    let system: Vec<u32> = left.iter().copied().take(level.cores as usize).collect();
    let generator = if own.is_empty() { system.clone() } else { own.to_vec() };
    CpuSets { system, generator }
}

struct Runner<'a> {
    options: &'a RunOptions,
    plan: &'a Plan,
    ground: Ground,
    probe: Probe,
    /// What counts locks, where it can.
    census: Option<Census>,
    store: Store,
    clock: Clock,
    stop: &'a AtomicBool,
    progress: &'a mut dyn Progress,
    variants: Variants,
    /// Trials so far, without their facts: what the stop rule looks at.
    taken: Vec<TrialRecord>,
    /// Disturbed slices of the current block, with the number of their next attempt.
    put_back: Vec<(Planned, u32)>,
    /// Starts so far, with their proofs.
    started: Vec<VariantStart>,
    /// Variants that the effect blocks do without from now on.
    left_out: BTreeSet<VariantId>,
    steady: bool,
    remarks: Vec<String>,
    /// Blocks of the sweep beyond the planned ones.
    further: u32,
    /// Estimate of the steps that remain.
    pending: Nanos,
    /// Which start the running systems are of.
    start: u32,
    /// What the record holds of the steps to come, where a run goes on that was cut off.
    earlier: Earlier,
}

impl<'a> Runner<'a> {
    fn new(
        options: &'a RunOptions,
        plan: &'a Plan,
        prepared: Prepared,
        store: Store,
        clock: Clock,
        progress: &'a mut dyn Progress,
        stop: &'a AtomicBool,
    ) -> Self {
        let Prepared { probe, census, remarks, ground } = prepared;
        for remark in &remarks {
            progress.remark(remark);
        }
        Self {
            options,
            plan,
            ground,
            probe,
            census,
            store,
            clock,
            stop,
            progress,
            variants: Variants::default(),
            taken: Vec::new(),
            put_back: Vec::new(),
            started: Vec::new(),
            left_out: BTreeSet::new(),
            steady: false,
            remarks,
            further: 0,
            pending: Nanos(0),
            start: 0,
            earlier: Earlier::default(),
        }
    }

    /// Takes all steps, and writes how the run ended.
    fn conduct(mut self) -> Result<Outcome> {
        let prompt = Prompt::begin();
        let stopped_by = self.all_steps();
        drop(prompt);
        self.end(stopped_by)
    }

    fn all_steps(&mut self) -> Result<StoppedBy> {
        let steps = schedule(self.plan);
        let mut rule = StopRule::of(self.plan);
        self.pending = outlook(self.plan, &steps, &self.left_out);
        for (index, step) in steps.iter().enumerate() {
            if !needed(step, &self.left_out) {
                continue;
            }
            if let Some(why) = self.step(step)? {
                return Ok(why);
            }
            if let Step::Look { blocks } = step {
                if rule.look(self.plan, &self.started, &self.taken, *blocks) {
                    return self.refine(StoppedBy::Decided);
                }
                self.left_out = rule.left_out(self.plan);
                self.pending = outlook(self.plan, &steps[index..], &self.left_out);
                if *blocks >= self.plan.effect_blocks.0
                    && let Some(why) = self.further()?
                {
                    return Ok(why);
                }
            }
        }
        self.catch_up(None)?;
        if self.interrupted() {
            return Ok(StoppedBy::Interrupted);
        }
        self.refine(StoppedBy::PlannedBlocks)
    }

    /// Takes a step, unless the run ends before it; then, why.
    fn step(&mut self, step: &Step) -> Result<Option<StoppedBy>> {
        let Some(attempt) = self.open_attempt(step) else { return Ok(None) };
        self.catch_up(Some(step))?;
        if self.interrupted() {
            return Ok(Some(StoppedBy::Interrupted));
        }
        if self.spent(step) {
            return Ok(Some(StoppedBy::Budget));
        }
        if self.is_beyond(step) {
            return Ok(None);
        }
        self.tell(step);
        match step {
            Step::Start { .. } => self.bring_up()?,
            Step::WarmUp => self.warm_up()?,
            Step::Slice(planned) => {
                self.go_on(planned)?;
                self.slice(planned, attempt)?;
            }
            Step::Look { .. } => {}
        }
        self.pending.0 = self.pending.0.saturating_sub(estimate(self.plan, step).0);
        Ok(None)
    }

    /// One more block of the levels that decide, where the peak is not known well enough; why the
    /// run ends within it, if it does.
    fn further(&mut self) -> Result<Option<StoppedBy>> {
        let Some(levels) = precision::wanting(self.plan, &self.taken) else { return Ok(None) };
        let start = self.started.iter().map(|one| one.start).max().unwrap_or(0);
        let block = self.plan.sweep_blocks + self.further;
        self.further += 1;
        for step in schedule::further(self.plan, &levels, block, start) {
            self.pending += estimate(self.plan, &step);
            if let Some(why) = self.step(&step)? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    /// Once nothing else is left to do, further blocks until the peak is known well enough or the
    /// budget is spent; what ended the rest of the run is still what ended it.
    fn refine(&mut self, done: StoppedBy) -> Result<StoppedBy> {
        Ok(match self.refined()? {
            Some(why) if why != StoppedBy::Budget => why,
            _ => done,
        })
    }

    /// Further blocks, with new starts as in the plan; why they ended early, if they did.
    fn refined(&mut self) -> Result<Option<StoppedBy>> {
        let swept =
            |id: &VariantId| id.0 == VariantId::BASELINE || self.plan.sweep_variants.contains(id);
        let others = self.plan.variants.iter().map(|variant| &variant.id).filter(|id| !swept(id));
        self.left_out = others.cloned().collect();
        let mut blocks: u32 = 0;
        while precision::wanting(self.plan, &self.taken).is_some() {
            if blocks.is_multiple_of(self.plan.blocks_per_start.max(1)) {
                let last = self.started.iter().map(|one| one.start).max();
                let start = last.map_or(0, |last| last + 1);
                if let Some(why) = self.step(&Step::Start { start })? {
                    return Ok(Some(why));
                }
            }
            if let Some(why) = self.further()? {
                return Ok(Some(why));
            }
            blocks += 1;
        }
        self.catch_up(None)?;
        Ok(self.interrupted().then_some(StoppedBy::Interrupted))
    }

    /// Stops the systems and writes how the run ended.
    fn end(mut self, mut stopped_by: Result<StoppedBy>) -> Result<Outcome> {
        let mut stopped = std::mem::take(&mut self.variants).stop();
        // Systems that are killed because a stop was asked for have not failed.
        if self.interrupted() {
            stopped_by = stopped_by.or(Ok(StoppedBy::Interrupted));
            stopped = Ok(());
        }
        let end = RunEnd {
            elapsed: self.clock.now(),
            stopped_by: match &stopped_by {
                Ok(why) => why.clone(),
                Err(error) => StoppedBy::Failed(format!("{error:#}")),
            },
            steady: self.steady,
            remarks: std::mem::take(&mut self.remarks),
        };
        let ended = self.store.end(&end);
        let directory = self.store.directory().to_owned();
        let outcome = stopped_by.and_then(|why| {
            stopped?;
            ended?;
            Ok(why)
        });
        match outcome {
            Ok(why) => Ok(Outcome { directory, interrupted: why == StoppedBy::Interrupted }),
            Err(error) if self.store.written() > 0 => Err(Kept { directory, error }.into()),
            Err(error) => Err(error),
        }
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the step needs what could not be had: without a census no locks are counted.
    fn is_beyond(&self, step: &Step) -> bool {
        let counts = matches!(step, Step::Slice(planned) if planned.phase == Phase::Census);
        counts && self.census.is_none()
    }

    /// Whether the step would end after the budget.
    fn spent(&self, step: &Step) -> bool {
        self.clock.now() + estimate(self.plan, step) > self.plan.budget
    }

    fn tell(&mut self, step: &Step) {
        let doing = match step {
            Step::Start { .. } => "starting every variant anew".to_owned(),
            Step::WarmUp => "waiting until it is steady".to_owned(),
            Step::Slice(planned) => doing(self.plan, planned),
            Step::Look { .. } => return,
        };
        let now = self.clock.now();
        let total = (now + self.pending).min(self.plan.budget);
        self.progress.step(now, total.max(now), &doing);
    }

    /// Replaces every variant's process by a new one.
    fn replace_variants(&mut self) -> Result<()> {
        std::mem::take(&mut self.variants).stop()?;
        let start = self.started.iter().map(|one| one.start + 1).max().unwrap_or(0);
        self.start = start;
        let planned = self.plan.variants.iter().map(|variant| &variant.id);
        let wanted = planned.filter(|id| !self.left_out.contains(id)).cloned().collect();
        let (variants, records) =
            Variants::start(self.options, self.plan, &self.ground, start, &wanted)?;
        self.variants = variants;
        for record in records {
            self.store.variant(&record)?;
            for proof in record.proofs.iter().filter(|proof| !proof.active) {
                let text = format!(
                    "{} is not what it claims: {} is {}, expected {}",
                    record.variant, proof.what, proof.found, proof.expected
                );
                self.progress.remark(&text);
                self.remarks.push(text);
            }
            self.started.push(record);
        }
        Ok(())
    }

    /// Short slices of the baseline at the focus level until the change-point test finds them
    /// steady; where the plan fixes the length, so long.
    fn warm_up(&mut self) -> Result<()> {
        let recipe = &self.options.recipe;
        if recipe.baseline.fresh_each_slice() {
            self.steady = true;
            return Ok(());
        }
        let baseline = VariantId::new(VariantId::BASELINE);
        let fixed = self.plan.warm_up;
        let length = fixed.map_or(WARM_UP_SLICE, |whole| {
            Nanos(whole.0 / WARM_UP_MOST as u64).max(FIXED_WARM_UP_SLICE)
        });
        let until = fixed.map(|whole| self.clock.now() + whole);
        // What tells how it settles is watched as it will be in the sweep.
        let settles = self.plan.settle > Nanos(0) && fixed.is_none();
        let shape = match settles {
            true => self.shape(self.plan.focus, self.plan.ramp, self.plan.slice),
            false => Shape { settle: Nanos(0), ..self.shape(self.plan.focus, Nanos(0), length) },
        };
        let most = if settles { SETTLING_WARM_UP_MOST } else { WARM_UP_MOST };
        let mut series = Vec::new();
        let latest = self.clock.now() + Nanos(self.plan.budget.0 / WARM_UP_SHARE);
        let enough = |slices: usize, now| slices >= most || now >= latest;
        while !self.interrupted() {
            let now = self.clock.now();
            if until.map_or(enough(series.len(), now), |until| now >= until) {
                break;
            }
            let planned = Planned {
                phase: Phase::WarmUp,
                block: 0,
                position: u32::try_from(series.len()).unwrap_or(u32::MAX),
                variant: baseline.clone(),
                level: self.plan.focus,
                start: self.start,
            };
            let system = self.variants.system(&baseline)?;
            let taken = match slice::take(system, None, &shape, &self.clock, self.stop) {
                Ok(taken) => taken,
                Err(_) if self.interrupted() => return Ok(()),
                Err(error) => return self.failed(&planned, 0, &error),
            };
            let (record, _) = self.record(&planned, 0, taken, Disposition::Kept);
            series.push(record.throughput().0);
            self.store.trial(&record, &[])?;
            self.steady = is_steady(&series, &record, settles);
            if self.steady && fixed.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Takes once more what was disturbed in the block that ends before `next`. A disturbance often
    /// lasts longer than a slice, so a slice is not repeated at once.
    fn catch_up(&mut self, next: Option<&Step>) -> Result<()> {
        let first = self.put_back.first();
        let ended = first.is_some_and(|(planned, _)| block_has_ended(planned, next));
        while ended && !self.put_back.is_empty() {
            let (planned, attempt) = self.put_back.remove(0);
            if self.interrupted() || self.spent(&Step::Slice(planned.clone())) {
                self.put_back.clear();
                break;
            }
            self.slice(&planned, attempt)?;
        }
        Ok(())
    }

    /// Takes one planned slice; where something disturbed it, puts it back to the end of its block.
    /// A published protocol repeats nothing.
    fn slice(&mut self, planned: &Planned, attempt: u32) -> Result<()> {
        let taken = match self.take(planned) {
            Ok(taken) => taken,
            // What is killed because a stop was asked for has not failed.
            Err(_) if self.interrupted() => return Ok(()),
            // Nothing rests on it, and a system that it has broken fails the next slice.
            Err(error) if planned.phase == Phase::Census => {
                // Its probes go with it.
                self.census = None;
                self.remarks.push(format!("locks were not counted: {error:#}"));
                return Ok(());
            }
            Err(error) => return self.failed(planned, attempt, &error),
        };
        if self.interrupted() {
            return Ok(());
        }
        let last = self.plan.protocol == ProtocolName::Published
            || attempt + 1 >= MOST_ATTEMPTS
            || self.clock.now() + self.pending > self.plan.budget;
        let disposition = match self.disturbance(&taken) {
            None => Disposition::Kept,
            Some(Disturbance::Slight) => Disposition::KeptDisturbed,
            Some(_) if !last => Disposition::Disturbed,
            Some(Disturbance::Some) => Disposition::KeptDisturbed,
            Some(Disturbance::Gross(reason)) => Disposition::Spoiled { reason },
        };
        if disposition == Disposition::Disturbed {
            self.put_back.push((planned.clone(), attempt + 1));
        }
        let (mut record, stacks) = self.record(planned, attempt, taken, disposition);
        let stacks = self.earlier.renumber(&mut record, stacks);
        self.store.trial(&record, &stacks)?;
        self.progress.measured(record.throughput());
        record.facts.clear();
        self.taken.push(record);
        Ok(())
    }

    /// What disturbed a slice, if anything did.
    fn disturbance(&self, taken: &Taken) -> Option<Disturbance> {
        let recipe = &self.options.recipe;
        let fixed_work = recipe.baseline.fixed_work();
        disturbance(self.plan, taken.interference, taken.counted, fixed_work)
    }

    fn take(&mut self, planned: &Planned) -> Result<Taken> {
        let mut shape = self.shape(planned.level, self.plan.ramp, self.plan.slice);
        if planned.phase == Phase::Census {
            shape.preparing = Census::PREPARING;
        }
        if planned.phase != Phase::Census {
            // It is over, with all that it had open.
            self.census = None;
        }
        let system = self.variants.system(&planned.variant)?;
        let probe = match planned.phase {
            Phase::Census => self.census.as_mut().map(|census| census as &mut dyn Windows),
            _ if planned.variant.0 == VariantId::UNPROBED => None,
            _ => Some(&mut self.probe as &mut dyn Windows),
        };
        slice::take(system, probe, &shape, &self.clock, self.stop)
    }

    fn shape(&self, level: Level, ramp: Nanos, length: Nanos) -> Shape {
        let cpus = cpu_sets(&placement::allowed(), self.plan, level);
        let thinned = !self.options.recipe.baseline.fixed_work();
        let (clients, settle) = (level.clients, self.plan.settle);
        Shape { clients, cpus, ramp, settle, length, preparing: Nanos(0), thinned }
    }

    fn record(
        &self,
        planned: &Planned,
        attempt: u32,
        taken: Taken,
        disposition: Disposition,
    ) -> (TrialRecord, Vec<kneepoint_vocab::StackRecord>) {
        let record = TrialRecord {
            machine: taken.machine,
            id: self.id(planned, attempt),
            window: taken.window,
            operations: taken.output.operations,
            counted_over: taken.output.counted_over,
            per_client: taken.output.per_client,
            latency: taken.output.latency,
            counts: taken.output.counts,
            stability: taken.stability,
            settling: taken.settling,
            interference: taken.interference,
            disposition,
            facts: taken.facts,
        };
        (record, taken.stacks)
    }

    fn id(&self, planned: &Planned, attempt: u32) -> TrialId {
        TrialId {
            phase: planned.phase,
            block: planned.block,
            position: planned.position,
            attempt,
            variant: planned.variant.clone(),
            start: self.start,
            level: planned.level,
        }
    }

    /// Keeps a trial without a number, and ends the run: the variant's process is not to be
    /// trusted.
    fn failed(&mut self, planned: &Planned, attempt: u32, error: &anyhow::Error) -> Result<()> {
        let reason = format!("{error:#}");
        let record = TrialRecord {
            machine: here().machine(),
            id: self.id(planned, attempt),
            window: Window { begin: self.clock.now(), length: Nanos(0) },
            operations: 0,
            counted_over: Nanos(0),
            per_client: Vec::new(),
            latency: None,
            counts: None,
            stability: None,
            settling: None,
            interference: Interference::default(),
            disposition: Disposition::Failed { reason: reason.clone() },
            facts: Vec::new(),
        };
        self.store.trial(&record, &[]).context("recording a failed trial")?;
        bail!("{} at {} clients: {reason}", planned.variant, planned.level.clients)
    }
}

/// What a slice measures, in words: `private page caches at 2 clients`.
fn doing(plan: &Plan, planned: &Planned) -> String {
    let clients = planned.level.clients;
    if planned.phase == Phase::Census {
        return "counting locks".to_owned();
    }
    let several = plan.levels.iter().any(|level| level.cores != planned.level.cores);
    let label = match plan.variant(&planned.variant) {
        Some(variant) if variant.role != VariantRole::Baseline => variant.label.as_str(),
        _ => "baseline",
    };
    let plural = if clients == 1 { "" } else { "s" };
    let on = if several { format!(" on {} cores", planned.level.cores) } else { String::new() };
    format!("{label} at {clients} client{plural}{on}")
}

/// Whether the throughput of warm-up slices has come to rest, or the last one tells so itself.
fn is_steady(series: &[f64], last: &TrialRecord, settles: bool) -> bool {
    let by_slices = series.len() >= WARM_UP_LEAST
        && warm_up_end(series).is_some_and(|end| end + WARM_UP_LEAST / 2 <= series.len());
    by_slices || settles && last.settling.as_ref().is_some_and(|it| it.steady)
}
