//! `RunRecord -> Findings`: what the measured run means.
//!
//! A pure function: no clock, no machine, no randomness but from the run's own seed. The same
//! record gives the same findings, bit for bit.
//!
//! | module | what it answers |
//! |---|---|
//! | `curve`, `by_cores` | where does it stop scaling, on how many cores? |
//! | `treated` | where does it stop scaling with a treatment? |
//! | `slices`, `accounts`, `balance` | where did the cores of each level go? |
//! | `requests`, `generator`, `counts` | is it the load generator, and do both count alike? |
//! | `instruments`, `saturation` | what `vmstat`, `top -H` and `iostat` show; is one thread full? |
//! | `core_ledger`, `thread_ledger` | the same as lines that people read |
//! | `groups`, `naming`, `stacks` | which waits are one cause, and its name |
//! | `lock_work`, `kernel_locks` | whose CPU is a lock's |
//! | `losses`, `causes`, `evidence` | what is the lost throughput charged to? |
//! | `effects`, `cures` | what helps, and against which cause? |
//! | `collector`, `protocol`, `caveats` | how far can all that be relied on? |
//! | `headline` | the story in one sentence |

mod accounts;
mod balance;
mod by_cores;
mod causes;
mod caveats;
mod collector;
mod core_ledger;
mod counts;
mod cures;
mod curve;
mod devices;
mod effects;
mod evidence;
mod flame;
mod generator;
mod groups;
mod headline;
mod instruments;
mod kernel_locks;
mod lock_work;
mod losses;
mod naming;
mod number;
mod protocol;
mod requests;
mod resample;
mod saturation;
mod slices;
mod stability;
mod stacks;
mod thread_ledger;
mod treated;
mod words;

use crate::accounts::Accounts;
use crate::by_cores::Fewer;
use crate::causes::Context;
use crate::core_ledger::Slot;
use crate::evidence::Evidence;
use crate::groups::Groups;
use crate::slices::{Functions, Slice, digest, sweep_at};
use crate::stacks::Stacks;
use crate::treated::{Treated, is_apart, levels};
use kneepoint_vocab::findings::{
    Cause, CauseKind, CoresCurve, Curve, Effect, Generator, LevelInstruments, LevelLedger,
    Severity, TaskLine,
};
use kneepoint_vocab::{ArmId, Findings, Level, Phase, RunRecord, StackKind, TrialRecord};
use std::collections::BTreeMap;

/// Version of [`Findings`] that this crate makes.
pub const SCHEMA: u32 = 1;

/// Throughput this close to the operational bound is as much as the cores can give: there is no
/// loss to explain.
const ATTAINED: f64 = 0.95;

/// What a run found.
///
/// Takes any record, also one that was cut off or holds no trial at all: what cannot be said is
/// left out, and a caveat says so. All numbers are finite.
#[must_use]
pub fn analyse(record: &RunRecord) -> Findings {
    let measured = measured(record);
    // What the sweep measured with a treatment is for that treatment's curve alone.
    let (apart, counting): (Vec<&TrialRecord>, Vec<&TrialRecord>) =
        measured.iter().copied().partition(|trial| is_apart(trial));
    let stacks = Stacks::new(&record.stacks);
    let groups = Groups::build(&counting, &stacks);
    let functions = Functions::build(&counting, &stacks, &groups);
    let slices = digest(&counting, &groups, &functions, &stacks, record.plan.clients);
    let focus = record.plan.focus;

    let baseline: Vec<&TrialRecord> =
        counting.iter().copied().filter(|trial| trial.id.arm.0 == ArmId::BASELINE).collect();
    let levels = levels(&baseline);
    let accounts = Accounts::build(&slices, &levels, record.plan.seed);
    let sweep = curve::Sweep::build(&baseline, record.plan.seed);
    let treated = treated::treated(record, &sweep, &apart, |trials| {
        digest(trials, &groups, &functions, &stacks, record.plan.clients)
    });
    let sweep = Swept::build(&sweep, treated, &slices, &accounts, focus);
    let compared = effects::compare(record, &counting);
    let scales = scales(&sweep.curve, focus);
    let limits = Limits::build(record, &baseline, &accounts, &levels, scales);

    let why = Why { accounts, groups, functions, stacks, slices, focus };
    let (mut causes, ledgers) = why.explain(scales, &compared.effects);
    limits.follow(&mut causes);
    let protocol = protocol::protocol(record, &measured, &sweep, compared.blocks);
    let collector = collector::collector(&measured, &why.stacks, focus, compared.on_off);
    let caveats = caveats::caveats(&caveats::Drawn {
        record,
        protocol: &protocol,
        noise: &compared.noise,
        sweep: &sweep,
        ledgers: &ledgers,
        focus,
        collector: &collector,
        few_starts: compared.few_starts,
        limits: &limits,
        counts_off: counts::unexplained(&measured),
    });
    let headline = headline::headline(&headline::Told {
        sweep: &sweep,
        causes: &causes,
        scales,
        limits: &limits,
        effects: &compared.effects,
    });
    Findings {
        schema: SCHEMA,
        recipe: record.plan.recipe.clone(),
        summary: record.plan.summary.clone(),
        operation: record.plan.operation.clone(),
        headline,
        trustworthy: caveats.iter().all(|caveat| caveat.severity != Severity::Serious),
        host: record.host.clone(),
        protocol,
        noise: compared.noise,
        curve: sweep.curve,
        by_cores: sweep.by_cores,
        treated: sweep.treated.curves,
        ledgers,
        focus,
        causes,
        on_cpu: why.on_cpu(),
        effects: compared.effects,
        generator: limits.generator,
        counts: counts::counts(&measured),
        stability: stability::stability(&record.trials),
        instruments: limits.instruments,
        collector,
        caveats,
    }
}

/// Trials that count, of all arms.
fn measured(record: &RunRecord) -> Vec<&TrialRecord> {
    let count = |trial: &&TrialRecord| trial.counts() && trial.id.phase != Phase::WarmUp;
    record.trials.iter().filter(count).collect()
}

/// What the sweep's throughputs say.
pub(crate) struct Swept {
    /// On the focus's cores.
    pub(crate) curve: Curve,
    /// On each number of cores; empty where only one was measured.
    pub(crate) by_cores: Vec<CoresCurve>,
    pub(crate) fewer: Option<Fewer>,
    /// With treatments that the sweep measured beside the baseline.
    pub(crate) treated: Treated,
    pub(crate) has_intervals: bool,
    pub(crate) blocks: u32,
}

impl Swept {
    fn build(
        sweep: &curve::Sweep<'_>,
        treated: Treated,
        slices: &[Slice<'_>],
        accounts: &Accounts,
        focus: Level,
    ) -> Self {
        let demand = accounts.reference_level.map(|_| accounts.reference.demand);
        let cores = by_cores::cores_of(sweep, focus);
        Self {
            curve: curve::curve(sweep, slices, demand, focus, cores),
            by_cores: by_cores::by_cores(sweep, slices, demand, focus),
            fewer: by_cores::fewer(sweep),
            treated,
            has_intervals: sweep.has_intervals(),
            blocks: sweep.blocks(),
        }
    }
}

/// What limits the throughput although it is no loss by itself.
pub(crate) struct Limits {
    focus: Level,
    pub(crate) generator: Option<Generator>,
    /// Saturated threads at the focus level, where that does not scale.
    pub(crate) saturated: Vec<TaskLine>,
    pub(crate) instruments: Vec<LevelInstruments>,
}

impl Limits {
    fn build(
        record: &RunRecord,
        baseline: &[&TrialRecord],
        accounts: &Accounts,
        levels: &[Level],
        scales: bool,
    ) -> Self {
        let focus = record.plan.focus;
        let instruments = instruments::instruments(baseline, levels);
        let account = accounts.at(focus);
        let generator = generator::generator(&record.plan, accounts, account, &instruments);
        let saturated =
            if scales { Vec::new() } else { saturation::saturated(&instruments, focus, baseline) };
        Self { focus, generator, saturated, instruments }
    }

    /// The generator, where it limits the throughput.
    pub(crate) fn limiting_generator(&self) -> Option<&Generator> {
        self.generator.as_ref().filter(|generator| generator.bottleneck.is_some())
    }

    /// Wait chains end in saturated threads; a generator that limits comes first.
    fn follow(&self, causes: &mut [Cause]) {
        saturation::follow(causes, &self.saturated);
        devices::follow(causes, self.instruments.iter().find(|one| one.level == self.focus));
        if self.limiting_generator().is_some() {
            causes.sort_by_key(|cause| cause.kind != CauseKind::Generator);
        }
    }
}

/// Whether the focus level gives what its cores and clients can give.
fn scales(curve: &Curve, focus: Level) -> bool {
    let point = curve.points.iter().find(|point| point.level == focus);
    point.is_some_and(|point| point.throughput.value.0 >= ATTAINED * point.ideal.0)
}

/// What the facts of the baseline's sweep say.
struct Why<'a> {
    accounts: Accounts,
    groups: Groups,
    functions: Functions,
    stacks: Stacks<'a>,
    slices: Vec<Slice<'a>>,
    focus: Level,
}

impl Why<'_> {
    fn explain(&self, scales: bool, effects: &[Effect]) -> (Vec<Cause>, Vec<LevelLedger>) {
        let (mut causes, slots) = if scales { Default::default() } else { self.causes() };
        cures::cures(&mut causes, &slots, effects, &self.slices, &self.functions, self.focus);
        let ids: BTreeMap<Slot, String> =
            slots.into_iter().zip(causes.iter().map(|cause| cause.id.clone())).collect();
        (causes, self.ledgers(&ids))
    }

    fn causes(&self) -> (Vec<Cause>, Vec<Slot>) {
        let Some(account) = self.accounts.at(self.focus) else { return Default::default() };
        let losses = losses::losses(&self.accounts, account, &self.functions);
        let slices = sweep_at(&self.slices, self.focus);
        let context = Context {
            accounts: &self.accounts,
            account,
            groups: &self.groups,
            functions: &self.functions,
            stacks: &self.stacks,
            slices: &slices,
        };
        let causes = causes::causes(&context, &losses);
        (causes, losses.iter().map(|loss| loss.slot).collect())
    }

    fn ledgers(&self, causes: &BTreeMap<Slot, String>) -> Vec<LevelLedger> {
        let (accounts, groups, functions) = (&self.accounts, &self.groups, &self.functions);
        let ledger = |account: &accounts::Account| LevelLedger {
            level: account.level,
            core: core_ledger::core_ledger(accounts, account, groups, functions, causes),
            thread: thread_ledger::thread_ledger(accounts, account, groups, functions, causes),
        };
        accounts.levels.iter().map(ledger).collect()
    }

    fn on_cpu(&self) -> Option<kneepoint_vocab::findings::FlameNode> {
        let slices = sweep_at(&self.slices, self.focus);
        Evidence::new(&slices, &self.stacks).flame(|_, stack| stack.kind == StackKind::OnCpu)
    }
}
