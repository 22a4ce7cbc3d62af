//! `RunRecord -> Findings`: what the measured run means.
//!
//! A pure function: no clock, no machine, no randomness but from the run's own seed. The same
//! record gives the same findings, bit for bit.
//!
//! | room | what it answers |
//! |---|---|
//! | `frames` | which frame of a stack names a lock, and which stand between? |
//! | `waits` | which waits are one cause, and whose CPU is a wait's? |
//! | `ledgers` | where did the cores and the threads of each level go? |
//! | `scaling` | where does it stop scaling, on how many cores, with which treatment? |
//! | `limits` | is one part full: the load generator, a thread, a device? |
//! | `diagnosis` | what is the lost throughput charged to, on what evidence? |
//! | `price` | what does an operation cost, and what makes it dearer? |
//! | `treatments` | what helps, and against which cause? |
//! | `quality` | how far can all that be relied on? |
//! | `conclusions` | the story, clause by clause |
//! | `profile`, `compare` | one level of what ran already; several runs side by side |
//! | `recording` | slices and stacks as they are, for other tools |

pub mod compare;
mod conclusions;
mod diagnosis;
mod frames;
mod ledgers;
mod limits;
mod number;
mod price;
pub mod profile;
mod quality;
pub mod recording;
mod scaling;
mod treatments;
mod waits;

pub use ledgers::charging::Charging;
pub use treatments::reliefs::reliefs;

use crate::diagnosis::causes::Context;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::losses::{LEAST_LOSS, Loss, Rules};
use crate::diagnosis::{at_bound, causes, chain, difference, losses};
use crate::frames::names::Catalogue;
use crate::frames::stacks::Stacks;
use crate::ledgers::accounts::{Account, Accounts};
use crate::ledgers::core_ledger::{Charged, Slot};
use crate::ledgers::slices::{Functions, Slice, digest, sweep_at};
use crate::ledgers::{core_ledger, thread_ledger};
use crate::limits::{calls, devices, generator, instruments, saturation};
use crate::quality::{
    caveats, collector, counts, measured, nameless, protocol, stability, stalls, steadiness,
};
use crate::scaling::by_cores::Fewer;
use crate::scaling::story::Story;
use crate::scaling::treated::{Treated, is_apart, levels};
use crate::scaling::{by_cores, curve, superlinear, treated};
use crate::treatments::{cures, effects};
use crate::waits::census;
use crate::waits::classify::classified;
use crate::waits::counted;
use crate::waits::groups::Groups;
use crate::waits::pools::{Pools, limited};
use crate::waits::runtimes::told;
use kneepoint_vocab::findings::price::Price;
use kneepoint_vocab::findings::{
    AtBound, CallTable, Cause, CauseKind, ChainNode, Collector, CoresCurve, Curve, Effect,
    Generator, LevelInstruments, LevelLedger, LockTable, Lost, Nameless, Severity, StackDifference,
    Superlinear, TaskLine, Unsteady,
};
use kneepoint_vocab::units::{Cores, Ratio};
use kneepoint_vocab::{
    Clients, Estimate, Findings, Level, RunRecord, StackKind, TrialRecord, VariantId, VariantRole,
};
use std::collections::BTreeMap;

/// Version of [`Findings`] that this crate makes.
pub const SCHEMA: u32 = 2;

/// What a run found.
///
/// Takes any record, also one that was cut off or holds no trial at all: what cannot be said is
/// left out, and a caveat says so. All numbers are finite.
#[must_use]
pub fn analyse(record: &RunRecord) -> Findings {
    analyse_by(record, Charging::default())
}

/// The same with idle cores charged by another rule.
#[must_use]
pub fn analyse_by(record: &RunRecord, charging: Charging) -> Findings {
    let told = told(record);
    let classified = classified(&told);
    let (charged, pools) = limited(&classified);
    let record = &*charged;
    let measured = measured::measured(record);
    // What the sweep measured with a treatment is for that treatment's curve alone.
    let (apart, counting): (Vec<&TrialRecord>, Vec<&TrialRecord>) =
        measured.iter().copied().partition(|trial| is_apart(trial));
    let (stacks, groups, functions) = named(record, &counting, &pools);
    let clients = record.plan.clients;
    let slices = digest(&counting, &groups, &functions, &stacks, clients);
    let slices = charging.applied(slices);
    let baseline = of_baseline(&counting);
    let levels = levels(&baseline);
    let accounts = Accounts::build(&slices, &levels, record.plan.seed);
    let sweep = curve::Sweep::build(&baseline, record.plan.seed);
    let treated = treated::treated(record, &sweep, &apart, |trials| {
        charging.applied(digest(trials, &groups, &functions, &stacks, clients))
    });
    let superlinear =
        superlinear::superlinear(&sweep, &accounts, by_cores::cores_of(&sweep, record.plan.focus));
    let sweep = Swept::build(&sweep, treated, &slices, &accounts, record.plan.focus);
    let compared = effects::compare(record, &counting);
    let story = sweep.story(&accounts, record.plan.focus);
    let limits = Limits::build(record, &baseline, &accounts, &levels, story);
    let why = Why { accounts, groups, functions, stacks, slices, story, tried: record.plan.focus };
    let mut explained = why.explain(&limits, &compared.effects, &sweep.curve);
    explained.locks = why.locks(record, &measured, &explained.causes);
    explained.calls = calls::table(record);
    explained.chain = why.chain(record.plan.clients, &explained.causes);
    let odd =
        Odd { superlinear, unsteady: steadiness::unsteady(&baseline), nameless: why.nameless() };
    Concluded { record, measured, sweep, compared, limits, why, explained, odd }.findings()
}

/// What is odd about single levels and modules.
struct Odd {
    superlinear: Vec<Superlinear>,
    unsteady: Vec<Unsteady>,
    nameless: Vec<Nameless>,
}

/// All that was concluded, before it is judged as a whole.
struct Concluded<'a> {
    record: &'a RunRecord,
    measured: Vec<&'a TrialRecord>,
    sweep: Swept,
    compared: effects::Compared,
    limits: Limits,
    why: Why<'a>,
    explained: Explained,
    odd: Odd,
}

impl Concluded<'_> {
    fn findings(self) -> Findings {
        let Self { record, measured, sweep, compared, limits, why, explained, odd } = self;
        let Explained { causes, chain, ledgers, lost, price, at_bound, locks, calls } = explained;
        let protocol = protocol::protocol(record, &measured, &sweep, compared.blocks);
        let collector = why.collector(&measured, compared.on_off);
        let caveats = caveats::caveats(&caveats::Drawn {
            record,
            protocol: &protocol,
            noise: &compared.noise,
            control_p: compared.control_p,
            effects: &compared.effects,
            sweep: &sweep,
            ledgers: &ledgers,
            focus: why.story.level,
            collector: &collector,
            few_starts: compared.few_starts,
            limits: &limits,
            counts_off: counts::unexplained(&measured),
            unsteady: &odd.unsteady,
            nameless: &odd.nameless,
        });
        let conclusions = conclusions::conclusions(&conclusions::Reported {
            stalled: stalls::worst(record),
            sweep: &sweep,
            causes: &causes,
            lost: lost.as_ref(),
            price: price.as_ref(),
            at_bound: at_bound.as_ref(),
            scales: why.story.scales,
            limits: &limits,
            effects: &compared.effects,
        });
        Findings {
            schema: SCHEMA,
            differences: why.differences(&sweep.curve, &compared.effects),
            recipe: record.plan.recipe.clone(),
            summary: record.plan.summary.clone(),
            operation: record.plan.operation.clone(),
            conclusions,
            trustworthy: caveats.iter().all(|caveat| caveat.severity != Severity::Serious),
            host: record.host.clone(),
            protocol,
            noise: compared.noise,
            curve: sweep.curve,
            by_cores: sweep.by_cores,
            treated: sweep.treated.curves,
            ledgers,
            focus: why.story.level,
            effects_at: why.effects_at(&compared.effects),
            lost,
            at_bound,
            locks,
            calls,
            causes,
            chain,
            price,
            on_cpu: why.on_cpu(),
            effects: compared.effects,
            crosses: compared.crosses,
            generator: limits.generator,
            counts: counts::counts(&measured),
            stability: stability::stability(&record.trials),
            instruments: limits.instruments,
            collector,
            caveats,
            superlinear: odd.superlinear,
            unsteady: odd.unsteady,
            nameless: odd.nameless,
            stalls: stalls::stalls(record),
            next: None,
        }
    }
}

/// The stacks, and what they name.
fn named<'a>(
    record: &'a RunRecord,
    counting: &[&TrialRecord],
    pools: &Pools,
) -> (Stacks<'a>, Groups, Functions) {
    let stacks = Stacks::new(&record.stacks, Catalogue::with(&record.plan.names));
    let groups =
        Groups::build(counting, counted::slice(record), &stacks, pools, record.plan.clients);
    let functions = Functions::build(counting, &stacks, &groups, record.plan.clients);
    (stacks, groups, functions)
}

fn of_baseline<'a>(trials: &[&'a TrialRecord]) -> Vec<&'a TrialRecord> {
    trials.iter().copied().filter(|trial| trial.id.variant.0 == VariantId::BASELINE).collect()
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
        let demand = accounts.reference_level.map(|_| accounts.reference.of_the_machine());
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

impl Swept {
    /// At which level the loss is explained.
    fn story(&self, accounts: &Accounts, focus: Level) -> Story {
        let demand = accounts.reference_level.map(|_| accounts.reference.of_the_machine());
        let by_cores = demand.filter(|d| *d > 0.0).map(|d| f64::from(focus.cores) / d);
        let accounted: Vec<Level> = accounts.levels.iter().map(|one| one.level).collect();
        Story::of(&self.curve, focus, by_cores, &accounted)
    }
}

/// What limits the throughput although it is no loss by itself.
pub(crate) struct Limits {
    focus: Level,
    pub(crate) generator: Option<Generator>,
    /// Saturated threads at the level of the causes, where that does not scale.
    pub(crate) saturated: Vec<TaskLine>,
    pub(crate) instruments: Vec<LevelInstruments>,
}

impl Limits {
    fn build(
        record: &RunRecord,
        baseline: &[&TrialRecord],
        accounts: &Accounts,
        levels: &[Level],
        story: Story,
    ) -> Self {
        let focus = story.level;
        let instruments = instruments::instruments(baseline, levels);
        let account = accounts.at(focus);
        let generator = generator::generator(&record.plan, accounts, account, &instruments);
        let saturated = if story.scales {
            Vec::new()
        } else {
            saturation::saturated(&instruments, focus, baseline)
        };
        Self { focus, generator, saturated, instruments }
    }

    /// The generator, where it limits the throughput.
    pub(crate) fn limiting_generator(&self) -> Option<&Generator> {
        self.generator.as_ref().filter(|generator| generator.bottleneck.is_some())
    }

    /// Whether the generator has no more to give.
    fn generator_full(&self) -> bool {
        self.generator.as_ref().is_some_and(|generator| generator.saturated)
    }

    /// Wait chains end in saturated threads; a generator that limits comes first.
    fn follow(&self, causes: &mut [Cause]) {
        saturation::follow(causes, &self.saturated);
        devices::follow(causes, self.instruments.iter().find(|one| one.level == self.focus));
        if self.generator_full() {
            causes.sort_by_key(|cause| cause.kind != CauseKind::Generator);
        }
    }
}

/// What the facts of the baseline's sweep say.
struct Why<'a> {
    accounts: Accounts,
    groups: Groups,
    functions: Functions,
    stacks: Stacks<'a>,
    slices: Vec<Slice<'a>>,
    story: Story,
    /// Where treatments were tried.
    tried: Level,
}

struct Explained {
    causes: Vec<Cause>,
    ledgers: Vec<LevelLedger>,
    lost: Option<Lost>,
    price: Option<Price>,
    at_bound: Option<AtBound>,
    locks: Option<LockTable>,
    calls: Option<CallTable>,
    chain: Option<ChainNode>,
}

impl Why<'_> {
    fn explain(&self, limits: &Limits, effects: &[Effect], curve: &Curve) -> Explained {
        let full = limits.generator_full();
        let account = self.accounts.at(self.story.level);
        let shown = account.map_or_else(Vec::new, |account| {
            losses::certain_functions(&self.accounts, account, &self.functions)
        });
        let inherent = self.inherent();
        let rules = Rules {
            functions: &self.functions,
            shown: &shown,
            generator_full: full,
            inherent: &inherent,
        };
        let losses = account.map(|account| losses::losses(&self.accounts, account, &rules));
        let lost = losses.as_ref().zip(account).map(|(losses, account)| Lost {
            cores: losses.total,
            of: Cores(number::finite(account.balance.total)),
            least: Ratio(LEAST_LOSS),
            explained: !self.story.scales && !losses.list.is_empty(),
        });
        let list = losses.filter(|_| !self.story.scales).map_or_else(Vec::new, |one| one.list);
        let list = account.map_or_else(Vec::new, |account| {
            let slices = sweep_at(&self.slices, self.story.level);
            causes::locks_first(&self.context(account, &slices), list)
        });
        let slots: Vec<Slot> = list.iter().map(|loss| loss.slot).collect();
        let mut causes = account.map_or_else(Vec::new, |account| self.causes(account, &list));
        let (slices, accounts, level) = (&self.slices, &self.accounts, self.tried);
        cures::Treated { effects, slices, accounts, rules, level }.cures(&mut causes, &slots);
        let ids: BTreeMap<Slot, String> =
            slots.into_iter().zip(causes.iter().map(|cause| cause.id.clone())).collect();
        limits.follow(&mut causes);
        let price = self.price(curve, &ids, full);
        Explained {
            causes,
            ledgers: self.ledgers(&ids, full),
            lost,
            price,
            at_bound: self.at_bound(limits),
            locks: None,
            calls: None,
            chain: None,
        }
    }

    fn locks(
        &self,
        record: &RunRecord,
        measured: &[&TrialRecord],
        causes: &[Cause],
    ) -> Option<LockTable> {
        let (groups, level) = (&self.groups, self.story.level);
        census::Given { record, measured, groups, causes, level }.table()
    }

    fn chain(&self, clients: Clients, causes: &[Cause]) -> Option<ChainNode> {
        let slices = &*sweep_at(&self.slices, self.story.level);
        let evidence = &Evidence::new(slices, &self.stacks);
        let (groups, stacks) = (&self.groups, &self.stacks);
        chain::Given { slices, groups, evidence, stacks, clients, causes }.chain()
    }

    fn price(
        &self,
        curve: &Curve,
        causes: &BTreeMap<Slot, String>,
        generator_full: bool,
    ) -> Option<Price> {
        price::price(&price::Given {
            curve,
            accounts: &self.accounts,
            groups: &self.groups,
            functions: &self.functions,
            tried: self.tried,
            story: self.story,
            generator_full,
            causes,
        })
    }

    /// Where treatments were tried, if there were some and elsewhere.
    fn effects_at(&self, effects: &[Effect]) -> Option<Level> {
        let some = effects.iter().any(|effect| effect.role == VariantRole::Treatment);
        (some && self.tried != self.story.level).then_some(self.tried)
    }

    /// What the level is bound by, where nothing is lost and no generator limits.
    fn at_bound(&self, limits: &Limits) -> Option<AtBound> {
        let account = self.accounts.at(self.story.level)?;
        let bound = self.story.scales && limits.limiting_generator().is_none();
        bound.then(|| at_bound::at_bound(&self.accounts, account, &self.functions, &self.groups))
    }

    fn collector(&self, measured: &[&TrialRecord], on_off: Option<Estimate<Ratio>>) -> Collector {
        collector::collector(measured, &self.stacks, self.story.level, on_off)
    }

    fn nameless(&self) -> Vec<Nameless> {
        nameless::nameless(&sweep_at(&self.slices, self.story.level), &self.stacks)
    }

    /// What an operation waits with nobody in its way, by wait group.
    fn inherent(&self) -> Vec<f64> {
        let alone = self.story.alone.and_then(|level| self.accounts.at(level));
        alone.map_or_else(Vec::new, Account::blocked_per_operation)
    }

    fn causes(&self, account: &Account, losses: &[Loss]) -> Vec<Cause> {
        let slices = sweep_at(&self.slices, self.story.level);
        causes::causes(&self.context(account, &slices), losses)
    }

    fn context<'a>(&'a self, account: &'a Account, slices: &'a [&'a Slice<'a>]) -> Context<'a> {
        Context {
            accounts: &self.accounts,
            account,
            groups: &self.groups,
            functions: &self.functions,
            stacks: &self.stacks,
            slices,
        }
    }

    fn ledgers(&self, causes: &BTreeMap<Slot, String>, generator_full: bool) -> Vec<LevelLedger> {
        let (accounts, groups, functions) = (&self.accounts, &self.groups, &self.functions);
        let charged = Charged { causes, generator_full };
        let ledger = |account: &Account| LevelLedger {
            level: account.level,
            core: core_ledger::core_ledger(accounts, account, groups, functions, &charged),
            thread: thread_ledger::thread_ledger(accounts, account, groups, functions, &charged),
            yielding: {
                let slices = sweep_at(&self.slices, account.level);
                Evidence::new(&slices, &self.stacks).yielding()
            },
        };
        accounts.levels.iter().map(ledger).collect()
    }

    fn on_cpu(&self) -> Option<kneepoint_vocab::findings::FlameNode> {
        let slices = sweep_at(&self.slices, self.story.level);
        Evidence::new(&slices, &self.stacks).flame(|_, stack| stack.kind == StackKind::OnCpu)
    }

    /// Stacks of the best level beside the last, and of variants beside their base.
    fn differences(&self, curve: &Curve, effects: &[Effect]) -> Vec<StackDifference> {
        let (slices, stacks, groups) = (&self.slices, &self.stacks, &self.groups);
        difference::Given { curve, effects, tried: self.tried, slices, stacks, groups }
            .differences()
    }
}
