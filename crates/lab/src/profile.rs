//! One level of a system that runs already: watched for a while in several windows, and left as it
//! was.
//!
//! Nothing is started, stopped, moved or raised, but for a command that was given to be started.
//! What is written is a run directory as a run's: one variant, one level, a slice a window.

mod ask;
mod attached;
mod container;
mod counting;
mod rate;
mod subject;

use crate::clock::Clock;
use crate::profile::attached::Attached;
use crate::progress::Progress;
use crate::run::{Kept, Outcome};
use crate::slice::{self, Shape, Taken};
use crate::store::{self, Store};
use crate::watchdog::Watchdog;
use anyhow::{Context as _, Result, anyhow, bail};
use counting::Counter;
use kneepoint_machine::proc::tasks;
use kneepoint_probe::{Probe, ProbeOptions};
use kneepoint_rig::undo::Undo;
use kneepoint_rig::{CpuSets, placement};
use kneepoint_vocab::{
    Clients, Disposition, Host, Level, LevelOrder, Nanos, Phase, Plan, ProtocolName, Ratio, RunEnd,
    Seconds, StoppedBy, Tier, TrialId, TrialRecord, VariantId, VariantPlan, VariantRole,
    VariantStart,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use counting::Counted;
pub use subject::Subject;

/// Windows that a profile is divided into: enough for intervals, few enough to be cheap.
const WINDOWS: u32 = 8;
/// The least of a window: below it what begins and ends with it shows.
const LEAST_WINDOW: Nanos = Nanos::from_millis(100);

/// Calls a second above which what counting them costs is worth a word: 2 % of a core, at a
/// microsecond each.
const MANY_CALLS: f64 = 20_000.0;

/// What a caller asks of a profile.
#[derive(Debug)]
pub struct ProfileOptions {
    /// Whom to watch.
    pub subject: Subject,
    /// For how long, all windows together.
    pub length: Nanos,
    /// What counts operations, if anything does.
    pub counted: Option<Counted>,
    /// Collector tier; the best available where absent.
    pub tier: Option<Tier>,
    /// The run directory to make.
    pub directory: PathBuf,
    /// Whether it may get a number where there is one of this name.
    pub numbered: bool,
    /// The executable that starts commands: this one.
    pub server: PathBuf,
}

/// Watches the subject and writes the run directory. Ends early, in order, once `stop` is set or
/// the subject has ended.
///
/// # Errors
/// There is nobody to watch, or nobody that may be watched; the directory cannot be written; the
/// collector or the count fails. The subject goes on in every case.
pub fn profile(
    options: &ProfileOptions,
    host: &Host,
    progress: &mut dyn Progress,
    stop: &Arc<AtomicBool>,
) -> Result<Outcome> {
    if !options.numbered {
        store::vacant(&options.directory)?;
    }
    // A wrong process is reported before anything is loaded into the kernel.
    let whom = options.subject.find()?;
    let asked = options.counted.as_ref();
    let roots: Vec<u32> = whom.processes.iter().map(|one| one.pid).collect();
    let running = !matches!(options.subject, Subject::Command(_));
    let counter = Counter::begin(asked.filter(|_| running), &roots, false)?;
    let attach = ProbeOptions { tier: options.tier, stacks: true, sparing: true, cores: 0 };
    let (probe, mut remarks) = Probe::attach(&attach)?;
    let mut started = None;
    let mut attached = match &options.subject {
        Subject::Command(words) => {
            let (scratch, undo) = Undo::in_scratch(&options.server)?;
            let watchdog = Watchdog::begin(stop, &undo)?;
            let attached = Attached::start(words, scratch.path(), &undo, asked)?;
            started = Some((watchdog, undo, scratch));
            attached
        }
        _ => Attached::to(whom, asked, counter),
    };
    // Loading can take seconds, and numbers of processes are given again.
    remarks.extend(attached.look_again()?);
    let plan = plan(options, &attached);
    let create = if options.numbered { Store::create_beside } else { Store::create };
    let store = create(&options.directory, host, &plan)?;
    for remark in &remarks {
        progress.remark(remark);
    }
    let mut profiler = Profiler {
        plan: &plan,
        attached,
        probe,
        store,
        clock: Clock::begin(),
        remarks,
        sum: (0, Nanos(0)),
        asked,
    };
    let outcome = profiler.windows(progress, stop).and_then(|why| {
        profiler.were_calls()?;
        Ok(why)
    });
    let ended = profiler.end(outcome, stop);
    drop(started);
    ended
}

/// The design: one level, whose clients are the threads that there are.
fn plan(options: &ProfileOptions, attached: &Attached) -> Plan {
    let pids = attached.living();
    let threads: usize =
        tasks::family(&pids).into_iter().map(|pid| tasks::threads(pid).len()).sum();
    let cores = u32::try_from(placement::allowed().len()).unwrap_or(1);
    let level = Level { clients: u32::try_from(threads).unwrap_or(1).max(1), cores };
    let windows = u32::try_from(options.length.0 / LEAST_WINDOW.0).unwrap_or(WINDOWS);
    let windows = windows.clamp(1, WINDOWS);
    let baseline = VariantId::new(VariantId::BASELINE);
    Plan {
        recipe: "profile".to_owned(),
        summary: attached.reported(),
        operation: match options.counted {
            Some(_) => "operations".to_owned(),
            None => Plan::UNCOUNTED.to_owned(),
        },
        clients: Clients::Apart,
        generator_cores: 0,
        protocol: ProtocolName::Profile,
        level_order: LevelOrder::Random,
        warm_up: None,
        census: false,
        seed: 1,
        levels: vec![level],
        focus: level,
        variants: vec![VariantPlan {
            id: baseline.clone(),
            role: VariantRole::Baseline,
            label: "as it runs".to_owned(),
            over: baseline,
            changes: Vec::new(),
        }],
        sweep_variants: Vec::new(),
        slice: Nanos(options.length.0 / u64::from(windows)),
        ramp: Nanos(0),
        settle: Nanos(0),
        sweep_blocks: windows,
        effect_blocks: (0, 0),
        blocks_per_start: windows,
        precision: Ratio(0.05),
        sweep_precision: None,
        allowed_overhead: None,
        smallest_effect: Ratio(0.1),
        budget: Nanos(options.length.0 * 2),
        others_limit: Ratio(1.0),
        steal_limit: Ratio(1.0),
        names: kneepoint_vocab::Names::default(),
    }
}

struct Profiler<'a> {
    plan: &'a Plan,
    attached: Attached,
    probe: Probe,
    store: Store,
    clock: Clock,
    remarks: Vec<String>,
    /// Operations so far, and how long they were counted.
    sum: (u64, Nanos),
    asked: Option<&'a Counted>,
}

impl Profiler<'_> {
    fn windows(&mut self, progress: &mut dyn Progress, stop: &AtomicBool) -> Result<StoppedBy> {
        self.store.variant(&VariantStart {
            variant: VariantId::new(VariantId::BASELINE),
            start: 0,
            proofs: Vec::new(),
            ready_after: Seconds(0.0),
            settings: self.attached.settings(),
            environment: Vec::new(),
        })?;
        let whole = Nanos(self.plan.slice.0 * u64::from(self.plan.sweep_blocks));
        for window in 0..self.plan.sweep_blocks {
            let done = Nanos(self.plan.slice.0 * u64::from(window));
            progress.step(done, whole, &format!("watching {}", self.plan.summary));
            match self.window(window, stop) {
                Ok(true) => {}
                Ok(false) => return Ok(self.early(stop)),
                // Its end may show first as an error of whoever looked at it.
                Err(_) if !self.attached.lives() && self.store.written() > 0 => {
                    return Ok(self.early(stop));
                }
                Err(_) if !self.attached.lives() => bail!(self.ended_too_soon()),
                Err(error) => return Err(error),
            }
        }
        Ok(StoppedBy::PlannedBlocks)
    }

    /// Takes a window; whether there is more to watch.
    fn window(&mut self, window: u32, stop: &AtomicBool) -> Result<bool> {
        let level = self.plan.focus;
        let shape = Shape {
            clients: level.clients,
            cpus: CpuSets::default(),
            ramp: Nanos(0),
            settle: Nanos(0),
            length: self.plan.slice,
            preparing: Nanos(0),
            thinned: true,
        };
        let taken =
            slice::take(&mut self.attached, Some(&mut self.probe), &shape, &self.clock, stop)?;
        let lives = self.attached.lives();
        self.sum.0 += taken.output.operations;
        self.sum.1 += taken.output.counted_over;
        // A scrap of a window says less than nothing beside whole ones.
        let scrap = taken.counted.0 * 2 < self.plan.slice.0 && self.store.written() > 0;
        if !scrap {
            let (record, stacks) = record(window, level, taken);
            self.store.trial(&record, &stacks)?;
        }
        Ok(lives && !stop.load(Ordering::Relaxed))
    }

    /// What nobody calls says nothing of an operation, and what is called very often pays for that.
    fn were_calls(&mut self) -> Result<()> {
        let Some(Counted::Calls(wanted)) = self.asked else { return Ok(()) };
        let (calls, seconds) = (self.sum.0, self.sum.1.seconds().0);
        if calls == 0 && self.store.written() > 0 {
            bail!(
                "--operation: {wanted} was not called in {seconds:.1} s, so nothing can be said of \
                 an operation: name a function that is, or leave it out"
            );
        }
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let rate = calls as f64 / seconds.max(f64::MIN_POSITIVE);
        if rate > MANY_CALLS {
            self.remarks.push(format!(
                "{wanted} was called {rate:.0} times a second; to be counted, each call takes its \
                 thread a microsecond or two, which are in what is shown."
            ));
        }
        Ok(())
    }

    fn early(&mut self, stop: &AtomicBool) -> StoppedBy {
        if stop.load(Ordering::Relaxed) {
            return StoppedBy::Interrupted;
        }
        let after = self.clock.now().seconds().0;
        self.remarks.push(format!("{} ended after {after:.1} s.", self.plan.summary));
        StoppedBy::PlannedBlocks
    }

    fn ended_too_soon(&self) -> String {
        format!("{} ended before anything was seen of it", self.plan.summary)
    }

    fn end(mut self, stopped_by: Result<StoppedBy>, stop: &AtomicBool) -> Result<Outcome> {
        let stopped = self.attached.leave();
        let end = RunEnd {
            elapsed: self.clock.now(),
            stopped_by: match &stopped_by {
                Ok(why) => why.clone(),
                Err(error) => StoppedBy::Failed(format!("{error:#}")),
            },
            steady: true,
            remarks: std::mem::take(&mut self.remarks),
        };
        let ended = self.store.end(&end);
        let directory = self.store.directory().to_owned();
        let seen = self.store.written() > 0;
        match stopped_by {
            Ok(_) if !seen && stop.load(Ordering::Relaxed) => {
                Err(anyhow!("interrupted before anything was measured"))
            }
            Ok(_) if !seen => Err(anyhow!(self.ended_too_soon())),
            Ok(why) => {
                stopped.context("ending the command")?;
                ended?;
                Ok(Outcome { directory, interrupted: why == StoppedBy::Interrupted })
            }
            Err(error) if seen => Err(Kept { directory, error }.into()),
            Err(error) => Err(error),
        }
    }
}

fn record(
    window: u32,
    level: Level,
    taken: Taken,
) -> (TrialRecord, Vec<kneepoint_vocab::StackRecord>) {
    let record = TrialRecord {
        machine: taken.machine,
        id: TrialId {
            phase: Phase::Sweep,
            block: window,
            position: 0,
            attempt: 0,
            variant: VariantId::new(VariantId::BASELINE),
            start: 0,
            level,
        },
        window: taken.window,
        operations: taken.output.operations,
        counted_over: taken.output.counted_over,
        per_client: taken.output.per_client,
        latency: None,
        counts: None,
        stability: None,
        settling: None,
        interference: taken.interference,
        disposition: Disposition::Kept,
        facts: taken.facts,
    };
    (record, taken.stacks)
}
