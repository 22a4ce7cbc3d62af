//! The whole experiment: the only loop over trials.

use crate::arms::{Arms, Ground};
use crate::clock::Clock;
use crate::options::RunOptions;
use crate::progress::Progress;
use crate::schedule::{Planned, Step, estimate, needed, outlook, schedule};
use crate::slice::{self, Shape, Taken};
use crate::stop_rule::StopRule;
use crate::store::Store;
use anyhow::{Context, Result, bail};
use kneepoint_probe::{Probe, ProbeOptions};
use kneepoint_rig::priority::Prompt;
use kneepoint_rig::{CpuSets, Need, placement};
use kneepoint_stats::change_point::warm_up_end;
use kneepoint_vocab::{
    ArmId, Disposition, Host, Level, Nanos, Phase, Plan, Pollution, ProtocolName, RunEnd, TrialId,
    TrialRecord, Window,
};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Repetitions of a polluted slice.
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
/// Most warm-up slices; a system that is not steady by then is called so.
const WARM_UP_MOST: usize = 24;

/// How a run ended, for the caller.
#[derive(Debug)]
pub struct Outcome {
    /// The run directory.
    pub directory: PathBuf,
    /// Someone asked it to stop.
    pub interrupted: bool,
}

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
    stop: &AtomicBool,
) -> Result<Outcome> {
    require(options)?;
    // The collector goes first: loading beside a busy system can take seconds. Only what can
    // measure makes a run directory.
    let (probe, remarks) =
        Probe::attach(&ProbeOptions { tier: options.tier, stacks: true, cores: 0 })?;
    progress.step(Nanos(0), plan.budget, "preparing the system");
    let ground = Ground::lay(options, plan)?;
    let store = Store::create(&options.directory, host, plan)?;
    let clock = Clock::begin();
    for remark in &remarks {
        progress.remark(remark);
    }
    let mut runner = Runner {
        options,
        plan,
        ground,
        probe,
        store,
        clock,
        stop,
        progress,
        arms: Arms::default(),
        taken: Vec::new(),
        left_out: BTreeSet::new(),
        steady: false,
        remarks,
        pending: Nanos(0),
    };
    let prompt = Prompt::begin();
    let stopped_by = runner.all_steps();
    drop(prompt);
    let arms = std::mem::take(&mut runner.arms);
    let stopped = arms.stop();
    let end = RunEnd {
        elapsed: runner.clock.now(),
        stopped_by: match &stopped_by {
            Ok(why) => (*why).to_owned(),
            Err(error) => format!("{error:#}"),
        },
        steady: runner.steady,
        remarks: runner.remarks,
    };
    runner.store.end(&end)?;
    let why = stopped_by?;
    stopped?;
    Ok(Outcome { directory: options.directory.clone(), interrupted: why == INTERRUPTED })
}

/// Refuses a recipe for which something is not on the machine, and says how to get it.
fn require(options: &RunOptions) -> Result<()> {
    let recipe = &options.recipe;
    let needs = recipe.needs();
    let lacking: Vec<_> = needs.iter().filter(|need| !need.here).collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let what: Vec<_> = lacking.iter().map(|need| need.what.as_str()).collect();
    let how = Need::install_line(&needs).map(|line| format!("; {line}")).unwrap_or_default();
    bail!("{} needs {}, not found here{how}", recipe.name, what.join(", "))
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

const DECIDED: &str = "decided";
const BUDGET: &str = "budget";
const PLANNED: &str = "planned blocks";
const INTERRUPTED: &str = "interrupted";

struct Runner<'a> {
    options: &'a RunOptions,
    plan: &'a Plan,
    ground: Ground,
    probe: Probe,
    store: Store,
    clock: Clock,
    stop: &'a AtomicBool,
    progress: &'a mut dyn Progress,
    arms: Arms,
    /// Trials so far, without their facts: what the stop rule looks at.
    taken: Vec<TrialRecord>,
    /// Arms that the effect blocks do without from now on.
    left_out: BTreeSet<ArmId>,
    steady: bool,
    remarks: Vec<String>,
    /// Estimate of the steps that remain.
    pending: Nanos,
}

impl Runner<'_> {
    fn all_steps(&mut self) -> Result<&'static str> {
        let steps = schedule(self.plan);
        let mut rule = StopRule::of(self.plan)?;
        self.pending = outlook(self.plan, &steps, &self.left_out);
        for (index, step) in steps.iter().enumerate() {
            if !needed(step, &self.left_out) {
                continue;
            }
            if self.interrupted() {
                return Ok(INTERRUPTED);
            }
            if self.spent(step) {
                return Ok(BUDGET);
            }
            self.tell(step);
            match step {
                Step::Start { start } => self.replace_arms(*start)?,
                Step::WarmUp => self.warm_up()?,
                Step::Slice(planned) => self.slice(planned)?,
                Step::Look { blocks } => {
                    if rule.look(self.plan, &self.taken, *blocks) {
                        return Ok(DECIDED);
                    }
                    self.left_out = rule.left_out(self.plan);
                    self.pending = outlook(self.plan, &steps[index..], &self.left_out);
                }
            }
            self.pending.0 = self.pending.0.saturating_sub(estimate(self.plan, step).0);
        }
        Ok(if self.interrupted() { INTERRUPTED } else { PLANNED })
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether the step would end after the budget.
    fn spent(&self, step: &Step) -> bool {
        self.clock.now() + estimate(self.plan, step) > self.plan.budget
    }

    fn tell(&mut self, step: &Step) {
        let doing = match step {
            Step::Start { .. } => "starting every arm anew".to_owned(),
            Step::WarmUp => "waiting until it is steady".to_owned(),
            Step::Slice(planned) => {
                format!("{} at {} clients", planned.arm, planned.level.clients)
            }
            Step::Look { .. } => return,
        };
        let now = self.clock.now();
        let total = (now + self.pending).min(self.plan.budget);
        self.progress.step(now, total.max(now), &doing);
    }

    fn replace_arms(&mut self, start: u32) -> Result<()> {
        std::mem::take(&mut self.arms).stop()?;
        let planned = self.plan.arms.iter().map(|arm| &arm.id);
        let wanted = planned.filter(|id| !self.left_out.contains(id)).cloned().collect();
        let (arms, records) = Arms::start(self.options, self.plan, &self.ground, start, &wanted)?;
        self.arms = arms;
        for record in &records {
            self.store.arm(record)?;
            for proof in record.proofs.iter().filter(|proof| !proof.active) {
                let text = format!(
                    "{} is not what it claims: {} is {}, expected {}",
                    record.arm, proof.what, proof.found, proof.expected
                );
                self.progress.remark(&text);
                self.remarks.push(text);
            }
        }
        Ok(())
    }

    /// Short slices of the baseline at the focus level until the change-point test finds them
    /// steady; where the plan fixes the length, so long.
    fn warm_up(&mut self) -> Result<()> {
        let recipe = &self.options.recipe;
        if recipe.workload.fresh_each_slice(&recipe.settings) {
            self.steady = true;
            return Ok(());
        }
        let baseline = ArmId::new(ArmId::BASELINE);
        let fixed = self.plan.warm_up;
        let length = fixed.map_or(WARM_UP_SLICE, |whole| {
            Nanos(whole.0 / WARM_UP_MOST as u64).max(FIXED_WARM_UP_SLICE)
        });
        let until = fixed.map(|whole| self.clock.now() + whole);
        let shape = self.shape(self.plan.focus, Nanos(0), length);
        let mut series = Vec::new();
        let latest = self.clock.now() + Nanos(self.plan.budget.0 / WARM_UP_SHARE);
        let enough = |slices: usize, now| slices >= WARM_UP_MOST || now >= latest;
        while !self.interrupted() {
            let now = self.clock.now();
            if until.map_or(enough(series.len(), now), |until| now >= until) {
                break;
            }
            let planned = Planned {
                phase: Phase::WarmUp,
                block: 0,
                position: u32::try_from(series.len()).unwrap_or(u32::MAX),
                arm: baseline.clone(),
                level: self.plan.focus,
                start: 0,
            };
            let system = self.arms.system(&baseline)?;
            let taken = match slice::take(system, None, &shape, &self.clock, self.stop) {
                Ok(taken) => taken,
                Err(error) => return self.failed(&planned, 0, &error),
            };
            let (record, _) = self.record(&planned, 0, taken, Disposition::Kept);
            series.push(record.throughput().0);
            self.store.trial(&record, &[])?;
            self.steady = series.len() >= WARM_UP_LEAST
                && warm_up_end(&series).is_some_and(|end| end + WARM_UP_LEAST / 2 <= series.len());
            if self.steady && fixed.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Takes one planned slice, again where something else used the machine meanwhile. A published
    /// protocol repeats nothing.
    fn slice(&mut self, planned: &Planned) -> Result<()> {
        let published = self.plan.protocol == ProtocolName::Published;
        let most = if published { 1 } else { MOST_ATTEMPTS };
        for attempt in 0..most {
            let taken = match self.take(planned) {
                Ok(taken) => taken,
                Err(error) => return self.failed(planned, attempt, &error),
            };
            if self.interrupted() {
                return Ok(());
            }
            let polluted = self.is_polluted(taken.pollution) || self.is_cut_short(&taken);
            let last = attempt + 1 == most || self.clock.now() + self.pending > self.plan.budget;
            let disposition = match (polluted, last) {
                (false, _) => Disposition::Kept,
                (true, false) => Disposition::Polluted,
                (true, true) => Disposition::KeptPolluted,
            };
            let again = disposition == Disposition::Polluted;
            let (mut record, stacks) = self.record(planned, attempt, taken, disposition);
            self.store.trial(&record, &stacks)?;
            record.facts.clear();
            self.taken.push(record);
            if !again {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_polluted(&self, pollution: Pollution) -> bool {
        pollution.foreign > self.plan.foreign_limit || pollution.steal > self.plan.steal_limit
    }

    /// Whether a generator that runs for a fixed time ended before half of the window had passed:
    /// Kneepoint came to watch too late.
    fn is_cut_short(&self, taken: &Taken) -> bool {
        let recipe = &self.options.recipe;
        let fixed_work = recipe.workload.fixed_work(&recipe.settings);
        !fixed_work && taken.window.length.0 < self.plan.slice.0 / 2
    }

    fn take(&mut self, planned: &Planned) -> Result<Taken> {
        let unprobed = planned.arm.0 == ArmId::UNPROBED;
        let shape = self.shape(planned.level, self.plan.ramp, self.plan.slice);
        let system = self.arms.system(&planned.arm)?;
        if !unprobed {
            return slice::take(system, Some(&mut self.probe), &shape, &self.clock, self.stop);
        }
        self.probe.detach()?;
        let taken = slice::take(system, None, &shape, &self.clock, self.stop);
        self.probe.reattach()?;
        taken
    }

    fn shape(&self, level: Level, ramp: Nanos, length: Nanos) -> Shape {
        let cpus = cpu_sets(&placement::allowed(), self.plan, level);
        Shape { clients: level.clients, cpus, ramp, length }
    }

    fn record(
        &self,
        planned: &Planned,
        attempt: u32,
        taken: Taken,
        disposition: Disposition,
    ) -> (TrialRecord, Vec<kneepoint_vocab::StackRecord>) {
        let record = TrialRecord {
            id: id(planned, attempt),
            window: taken.window,
            operations: taken.output.operations,
            counted_over: taken.output.counted_over,
            per_client: taken.output.per_client,
            latency: taken.output.latency,
            counts: taken.output.counts,
            stability: taken.stability,
            pollution: taken.pollution,
            disposition,
            facts: taken.facts,
        };
        (record, taken.stacks)
    }

    /// Keeps a trial without a number, and ends the run: the arm's process is not to be trusted.
    fn failed(&mut self, planned: &Planned, attempt: u32, error: &anyhow::Error) -> Result<()> {
        let reason = format!("{error:#}");
        let record = TrialRecord {
            id: id(planned, attempt),
            window: Window { begin: self.clock.now(), length: Nanos(0) },
            operations: 0,
            counted_over: Nanos(0),
            per_client: Vec::new(),
            latency: None,
            counts: None,
            stability: None,
            pollution: Pollution::default(),
            disposition: Disposition::Failed { reason: reason.clone() },
            facts: Vec::new(),
        };
        self.store.trial(&record, &[]).context("recording a failed trial")?;
        bail!("{} at {} clients: {reason}", planned.arm, planned.level.clients)
    }
}

fn id(planned: &Planned, attempt: u32) -> TrialId {
    TrialId {
        phase: planned.phase,
        block: planned.block,
        position: planned.position,
        attempt,
        arm: planned.arm.clone(),
        start: planned.start,
        level: planned.level,
    }
}
