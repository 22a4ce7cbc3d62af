//! What of a run the calibration looks at: for each level throughput, CPU of an operation, and what
//! it waits for.

use super::awake::{LEAST_LEVELS, Watched, awake};
use super::confined::ConfinedThreads;
use super::library::{Library, library, library_cores};
use super::passing::Passing;
use crate::twin::Contended;
use kneepoint_vocab::findings::{
    Cause, CauseKind, Charge, CurvePoint, LevelLedger, LineKind, LockRow, Name, NoTwin, ThreadLine,
};
use kneepoint_vocab::{CodeKind, Cores, Findings, PerSecond, Ratio, Seconds};

/// Causes with less of the loss are not worth a lock in the twin.
const WORTH: f64 = 0.03;
/// Nor are locks that nobody waits for longer than this part of an operation.
const WAITED: f64 = 0.05;
/// A lock that an operation takes more often than this is simulated with fewer and longer visits:
/// each is several events of a simulation that has so many for all. Where it was waited for, how
/// many is fitted.
const MOST_VISITS: f64 = 16.0;
/// Most locks that a twin gets.
const LOCKS: usize = 3;
/// A lock that nobody waits for yet is worth one where it would be full on so many times the cores.
const FULL_ON: f64 = 8.0;
/// A lock that several clients hold for so much of the time is waited for.
const OFTEN_HELD: f64 = 0.5;
/// Least loss that makes a stage of what clients wait for,
const STAGE: f64 = 0.3;
/// and clients that wait there, for whom it is full.
const QUEUED: f64 = 1.0;
/// A number of clients that is so little below a whole one is that.
const WHOLE: f64 = 0.3;
/// A thread that ended so much of the waits serves them,
const SERVES: f64 = 0.9;
/// if it was busy for so much of the time.
const BUSY: f64 = 0.5;
/// Most causes of CPU that are tried.
const CPU_CAUSES: usize = 2;
/// Less extra CPU than this part of an operation's says nothing of what cores contend for.
const LEAST_EXTRA: f64 = 0.05;
/// Least that a throughput is taken to be off, relative to it: what the machine does from run to
/// run.
const LEAST_ERROR: f64 = 0.02;

/// A run, as far as a twin can follow it.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The recipe's name.
    pub name: String,
    /// Cores that were measured, or that its threads may run on.
    pub cores: u32,
    /// That these are not all, where so it is.
    pub confined: Option<ConfinedThreads>,
    /// Levels, ascending.
    pub levels: Vec<ObservedLevel>,
    /// Locks, those that cost most first.
    pub locks: Vec<ObservedLock>,
    /// Requests and answers of an operation between a generator and the system under test; absent
    /// where the clients live in it.
    pub round_trips: Option<f64>,
    /// What of the CPU of an operation one core has at a time.
    pub contended: Option<Contended>,
    /// Causes that are CPU.
    pub cpu: Vec<CpuCause>,
    /// The first cause's name.
    pub first_cause: Option<String>,
    /// Time an operation waits for neither a lock nor a core nor a request, at the fewest clients.
    pub delay: Seconds,
    /// The fewest clients of these levels, where fewer leave cores asleep.
    pub awake: Option<u32>,
    /// The part of an operation's CPU in which threads give up their cores, at the fewest clients.
    pub yielding: Option<Ratio>,
    /// The same run with what is waited for taken as something else than locks that whoever comes
    /// next takes, in the order in which they are tried.
    pub others: Vec<Observed>,
}

/// A level.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedLevel {
    /// Clients.
    pub clients: u32,
    /// Throughput.
    pub throughput: PerSecond,
    /// Standard error of it, relative to it.
    pub error: Ratio,
    /// CPU of an operation of system, generator and kernel, without what its lock waits cost.
    pub demand: Seconds,
    /// Part of that which is the generator's.
    pub generator: Seconds,
    /// CPU of an operation for waiting and waking at each lock.
    pub lock_cpu: Vec<Seconds>,
    /// Part of an operation's time that it is blocked at each lock.
    pub blocked: Vec<Ratio>,
}

/// A lock.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedLock {
    /// Its name.
    pub name: String,
    /// Waits of an operation at the level where causes are ranked; 0 of a lock that is no cause.
    pub waits: f64,
    /// CPU for one wait: sleeping, waking and the switches.
    pub wait_cpu: Seconds,
    /// What the kernel does for the library which the lock is in.
    pub library: Option<Library>,
    /// What a census counted of it, where that is what an operation does: no reader shares it, and
    /// it is one.
    pub counted: Option<CountedLock>,
    /// What it is where it is no lock that whoever comes next takes.
    pub stage: Option<Stage>,
    /// How it goes from one to the next.
    pub passing: Passing,
    /// CPU of one who was woken for it, where that is told apart from what else is switched for.
    pub look: Option<Seconds>,
}

/// A cause that is CPU of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuCause {
    /// Whether it is a lock, which nobody waits for long.
    pub is_lock: bool,
    /// Its name.
    pub name: String,
    /// Its part of the CPU at the level where causes are ranked.
    pub part: Ratio,
    /// Whether its instructions are such as wait for other cores.
    pub contends: bool,
}

/// What clients pass one after another, or a few at once, in the order in which they come: a thread
/// that serves them, permits, a lock that is handed on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// How many it serves at once.
    pub servers: u32,
    /// How long an operation occupies one of them where the stage is full: servers over throughput
    /// (utilisation law; Denning and Buzen 1978).
    pub full: Seconds,
    /// CPU of an operation in it, where one thread does it.
    pub inside: Option<Seconds>,
}

/// A lock that was counted with few clients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedLock {
    /// How often an operation takes it.
    pub visits: f64,
    /// How long an operation holds it, all times together.
    pub held: Seconds,
}

impl Observed {
    /// What the findings of a run hold.
    ///
    /// # Errors
    /// Where the run cannot calibrate a twin, and what would.
    pub fn of(findings: &Findings) -> Result<Self, NoTwin> {
        if findings.ledgers.is_empty() {
            return Err(NoTwin::NotWatched);
        }
        let curve = &findings.curve;
        let cores = most_cores(findings);
        let pairs: Vec<(&CurvePoint, &LevelLedger)> = (curve.points.iter())
            .filter(|point| point.throughput.value.0 > 0.0)
            .filter_map(|point| {
                Some((point, findings.ledgers.iter().find(|it| it.level == point.level)?))
            })
            .collect();
        if pairs.len() < LEAST_LEVELS {
            return Err(NoTwin::FewLevels);
        }
        if pairs.iter().any(|(_, ledger)| is_shared(ledger)) {
            return Self::of_shared(findings, &pairs);
        }
        let (pairs, awake) = awake(findings, pairs);
        let taken = locks_of(findings, &pairs, cores);
        let mut seen = Self::with(findings, &pairs, &taken)?;
        seen.awake = awake;
        let mut others = Vec::new();
        if let Some((cause, stage)) = stage_of(findings, &pairs) {
            let rest = taken.into_iter().filter(|it| it.cause.is_none_or(|it| it.id != cause.id));
            let rest: Vec<_> = rest.take(LOCKS - 1).collect();
            let with = |stage: Option<Stage>| {
                let name = cause.name.to_string();
                let first = Taken { name, cause: Some(cause), counted: None, stage };
                let taken: Vec<_> = std::iter::once(first).chain(rest.iter().cloned()).collect();
                Ok(Self { awake, ..Self::with(findings, &pairs, &taken)? })
            };
            others.push(with(Some(stage))?);
            let handed = (!is_lock(cause)).then(|| with(None)).transpose()?;
            others.extend(handed.and_then(|it| it.with_passing(Passing::HandedOn)));
        }
        others.extend(seen.with_flags());
        let passed = [Passing::HandedOn, Passing::Adaptive].map(|it| seen.with_passing(it));
        others.extend(passed.into_iter().flatten());
        seen.others = others;
        Ok(seen)
    }

    /// Where clients share threads, as tasks of a runtime do, no thread's life is an operation's.
    /// What an operation waits for is then what Little's law leaves of it beside its CPU: a delay
    /// that one client alone has as well, and at a stage the rest.
    fn of_shared(findings: &Findings, pairs: &[Watched<'_>]) -> Result<Self, NoTwin> {
        let alone = pairs.iter().find(|(point, _)| point.level.clients == 1);
        let (one, ledger) = alone.ok_or(NoTwin::SharedThreads)?;
        if pairs.iter().any(|(_, ledger)| cores(ledger, LineKind::Generator) > 0.0) {
            return Err(NoTwin::SharedThreads);
        }
        let delay = (1.0 - busy(ledger).0).max(0.0) / one.throughput.value.0;
        let stage = shared_stage(findings, pairs, Seconds(delay));
        let taken = stage.map(|(cause, stage)| {
            let name = cause.name.to_string();
            Taken { name, cause: Some(cause), counted: None, stage: Some(stage) }
        });
        let mut seen = Self::with(findings, pairs, taken.as_slice())?;
        seen.delay = Seconds(delay);
        for level in &mut seen.levels {
            level.blocked.clear();
        }
        Ok(seen)
    }

    /// With these locks and stages.
    fn with(
        findings: &Findings,
        pairs: &[Watched<'_>],
        taken: &[Taken<'_>],
    ) -> Result<Self, NoTwin> {
        let at_focus = pairs.iter().find(|(point, _)| point.level == findings.focus);
        let levels: Vec<ObservedLevel> =
            pairs.iter().map(|(point, ledger)| level(point, ledger, taken)).collect();
        if levels.iter().any(|level| level.demand.0 <= 0.0) {
            return Err(NoTwin::NoDemand);
        }
        let least = Seconds(levels.iter().map(|it| it.demand.0).fold(f64::INFINITY, f64::min));
        let rate = at_focus.map_or(1.0, |(point, _)| point.throughput.value.0);
        let index =
            at_focus.and_then(|at| levels.iter().position(|it| it.clients == at.0.level.clients));
        let locks = (taken.iter().enumerate())
            .map(|(number, lock)| {
                let waits = lock.cause.map_or(0.0, |cause| {
                    cause.waits.map_or(1.0, |waits| waits.value.0 / rate).max(0.01)
                });
                let cpu = index.map_or(0.0, |index| levels[index].lock_cpu[number].0).max(0.0);
                let wait_cpu = Seconds(if waits > 0.0 { cpu / waits } else { 0.0 });
                let library = lock.cause.zip(index).and_then(|(cause, index)| {
                    let at = &levels[index];
                    let waits = Seconds(at.lock_cpu.iter().map(|it| it.0).sum());
                    let own = Seconds(library_cores(cause)?.0 / rate - cpu);
                    library(own, at.demand, waits, least)
                });
                let (name, counted, stage) = (lock.name.clone(), lock.counted, lock.stage);
                let (passing, look) = (Passing::Barging, None);
                ObservedLock { name, waits, wait_cpu, library, counted, stage, passing, look }
            })
            .collect();
        let generated = levels.iter().any(|level| level.generator.0 > 0.02 * level.demand.0);
        let (first, ledger) = pairs[0];
        let trips = first.switches.map_or(1.0, |it| it.0 / first.throughput.value.0).max(1.0);
        let mut kinds = vec![LineKind::IdleDevice, LineKind::IdleOther];
        if !generated {
            kinds.extend([LineKind::IdleThread, LineKind::IdleNoWork]);
        }
        let waited: Vec<&Cause> = taken.iter().filter_map(|lock| lock.cause).collect();
        let delayed = |line: &&ThreadLine| {
            kinds.contains(&line.kind)
                && !waited.iter().any(|it| line.cause.as_ref() == Some(&it.id))
        };
        let lines = ledger.thread.lines.iter().filter(delayed);
        Ok(Self {
            name: findings.recipe.clone(),
            cores: usable_cores(findings),
            confined: ConfinedThreads::of(findings),
            locks,
            contended: contended(findings, &levels),
            cpu: at_focus.map_or_else(Vec::new, |(_, ledger)| cpu_causes(findings, busy(ledger))),
            first_cause: findings.causes.first().map(|cause| cause.name.to_string()),
            round_trips: generated.then_some(trips.round()),
            delay: Seconds(lines.map(|line| line.per_operation.value.0).sum()),
            awake: None,
            yielding: pairs.first().and_then(|(_, ledger)| ledger.yielding),
            others: Vec::new(),
            levels,
        })
    }

    /// The greatest number of clients that was measured.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.levels.last().map_or(1, |level| level.clients)
    }

    /// CPU of an operation at the level where it is least.
    #[must_use]
    pub fn least_demand(&self) -> Seconds {
        let all = self.levels.iter().map(|level| level.demand.0);
        Seconds(all.fold(f64::INFINITY, f64::min))
    }

    /// How much the CPU of an operation, with its waits, changed from the last level but one to the
    /// last: its logarithm for each doubling of the clients, without its sign.
    pub(super) fn drift(&self) -> f64 {
        let [.., before, last] = &self.levels[..] else { return 0.0 };
        let cpu = |level: &ObservedLevel| {
            level.demand.0 + level.lock_cpu.iter().map(|it| it.0).sum::<f64>()
        };
        let doublings = (f64::from(last.clients) / f64::from(before.clients)).log2();
        (cpu(last) / cpu(before)).ln().abs() / doublings
    }
}

/// A lock that a twin gets.
#[derive(Clone)]
struct Taken<'a> {
    name: String,
    /// The cause that it is; none where nobody waits for it yet.
    cause: Option<&'a Cause>,
    counted: Option<CountedLock>,
    stage: Option<Stage>,
}

/// Cores of the level with most.
fn most_cores(findings: &Findings) -> u32 {
    findings.curve.points.iter().map(|point| point.level.cores).max().unwrap_or(1)
}

/// Cores that the threads may run on.
fn usable_cores(findings: &Findings) -> u32 {
    let confined = ConfinedThreads::of(findings).map(|it| it.to.cpus);
    confined.unwrap_or_else(|| most_cores(findings)).min(most_cores(findings))
}

/// The cause that clients wait for most, if it costs much, and at which level it is full.
fn stage_of<'a>(findings: &'a Findings, pairs: &[Watched<'_>]) -> Option<(&'a Cause, Stage)> {
    let is_wait = |cause: &&Cause| matches!(cause.evidence.charge, Charge::Wait { .. });
    let cause = findings.causes.iter().find(is_wait)?;
    if cause.share.value.0 < STAGE {
        return None;
    }
    let queued = |(point, ledger): &Watched<'_>| {
        f64::from(point.level.clients) * blocked_for(ledger, cause).0
    };
    let most = pairs.iter().max_by(|a, b| queued(a).total_cmp(&queued(b)))?;
    if queued(most) < QUEUED {
        return None;
    }
    let servers = match &cause.name {
        Name::PoolLimit { permits, .. } => u32::try_from(*permits).ok()?,
        _ => 1,
    };
    let full = Seconds(f64::from(servers) / most.0.throughput.value.0);
    let focus = pairs.iter().find(|(point, _)| point.level == findings.focus);
    let busy = cause.evidence.woken_by.as_ref().filter(|by| by.share.0 >= SERVES);
    let busy = busy.map(|by| by.busy.0).filter(|busy| *busy >= BUSY);
    let inside = busy.zip(focus).map(|(busy, (it, _))| Seconds(busy / it.throughput.value.0));
    Some((cause, Stage { servers, full, inside }))
}

/// The same where clients share threads. As many are in the stage where it is full as their delays
/// keep there, at least one; the rest of the clients queue.
fn shared_stage<'a>(
    findings: &'a Findings,
    pairs: &[Watched<'_>],
    delay: Seconds,
) -> Option<(&'a Cause, Stage)> {
    let is_wait = |cause: &&Cause| matches!(cause.evidence.charge, Charge::Wait { .. });
    let cause = findings.causes.iter().find(is_wait).filter(|it| it.share.value.0 >= STAGE)?;
    let queued = |(point, ledger): &Watched<'_>| {
        let held = busy(ledger).0 + point.throughput.value.0 * delay.0;
        f64::from(point.level.clients) - held
    };
    let most = pairs.iter().max_by(|a, b| queued(a).total_cmp(&queued(b)))?;
    if queued(most) < QUEUED {
        return None;
    }
    let rate = most.0.throughput.value.0;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "few, at least 1")]
    let servers = (rate * delay.0 + WHOLE).floor().max(1.0) as u32;
    let full = Seconds(f64::from(servers) / rate);
    Some((cause, Stage { servers, full, inside: None }))
}

/// Part of an operation's time that it is blocked for a cause.
fn blocked_for(ledger: &LevelLedger, cause: &Cause) -> Ratio {
    let own = ledger.thread.lines.iter().filter(|it| it.cause.as_ref() == Some(&cause.id));
    let blocked = own.filter(|line| line.kind != LineKind::Running);
    let blocked: f64 = blocked.map(|line| line.per_operation.value.0).sum();
    Ratio((blocked / ledger.thread.per_operation.0).clamp(0.0, 1.0))
}

/// Whether clients share threads, whose waits are then nobody's.
fn is_shared(ledger: &LevelLedger) -> bool {
    part(ledger, &[LineKind::Unaccounted]) > 0.5
}

fn is_lock(cause: &Cause) -> bool {
    matches!(cause.kind, CauseKind::Lock | CauseKind::KernelLock)
}

/// Whether nobody waits for a lock for long at any level: what it costs is CPU, of taking it and
/// giving it back on several cores.
fn is_brief(findings: &Findings, cause: &Cause) -> bool {
    let waited = |ledger: &LevelLedger| blocked_for(ledger, cause).0 > WAITED;
    is_lock(cause) && !findings.ledgers.iter().any(|it| is_shared(it) || waited(it))
}

/// Whether a cause is a good part of the CPU at some level.
fn is_dear(pairs: &[Watched<'_>], cause: &Cause) -> bool {
    let most = pairs.iter().map(|(_, ledger)| busy(ledger).0).fold(0.0, f64::max);
    cause.lost.value.0 > LEAST_EXTRA * most
}

/// Causes that are locks, as far as they are worth one, and locks that were counted and would be
/// full on more cores.
fn locks_of<'a>(
    findings: &'a Findings,
    pairs: &[(&CurvePoint, &LevelLedger)],
    cores: u32,
) -> Vec<Taken<'a>> {
    let is_waited_for = |cause: &&Cause| {
        is_lock(cause)
            && cause.share.value.0 > WORTH
            && cause.waits.is_some()
            && !is_brief(findings, cause)
    };
    let row_of = |cause: &Cause| {
        findings.locks.iter().flat_map(|table| &table.rows).find(|row| is(row, cause))
    };
    let of_cause = |cause: &'a Cause| Taken {
        name: cause.name.to_string(),
        cause: Some(cause),
        counted: row_of(cause)
            .and_then(counted)
            .filter(|it| it.visits <= MOST_VISITS || cores == 1),
        stage: None,
    };
    let mut all: Vec<Taken<'_>> =
        findings.causes.iter().filter(is_waited_for).take(LOCKS).map(of_cause).collect();
    let demand = pairs.iter().map(|(point, ledger)| busy(ledger).0 / point.throughput.value.0);
    let room = demand.fold(f64::INFINITY, f64::min) / (FULL_ON * f64::from(cores));
    let rows = findings.locks.iter().flat_map(|table| &table.rows);
    let fills = |row: &&LockRow| row.held_per_operation.is_some_and(|it| it.value.0 > room);
    for row in rows.filter(fills) {
        // What it costs is among the CPU that cores contend for, and bounds them there.
        let costs_cpu = |cause: &Cause| is_brief(findings, cause) && is_dear(pairs, cause);
        let known = all.iter().any(|lock| lock.cause.is_some_and(|cause| is(row, cause)))
            || findings.causes.iter().any(|cause| is(row, cause) && costs_cpu(cause));
        let Some(held) = counted(row).filter(|_| !known) else { continue };
        let uncounted = |lock: &&mut Taken<'_>| lock.cause.is_some() && lock.counted.is_none();
        let often = held.held.0 * most_shared(pairs) >= OFTEN_HELD;
        // Nobody waits for it, though it is often held: it is waited for by another name.
        if let Some(lock) = all.iter_mut().filter(|_| often).find(uncounted) {
            lock.counted = Some(held);
            continue;
        }
        if all.len() >= LOCKS {
            continue;
        }
        let name = row.name.to_string();
        all.push(Taken { name, cause: None, counted: Some(held), stage: None });
    }
    for counted in all.iter_mut().filter_map(|lock| lock.counted.as_mut()) {
        counted.visits = counted.visits.min(MOST_VISITS);
    }
    all
}

/// The greatest throughput of several clients.
fn most_shared(pairs: &[Watched<'_>]) -> f64 {
    let shared = pairs.iter().filter(|(point, _)| point.level.clients > 1);
    shared.map(|(point, _)| point.throughput.value.0).fold(0.0, f64::max)
}

/// Whether a lock that was counted is this cause.
fn is(row: &LockRow, cause: &Cause) -> bool {
    row.cause.as_ref() == Some(&cause.id)
}

/// What the census says of a lock. Where it knows how long an operation holds the lock but not how
/// often it takes it, as of locks whose functions it cannot watch, that is once.
fn counted(row: &LockRow) -> Option<CountedLock> {
    let held = row.held_per_operation.filter(|_| row.at_most.is_some())?;
    let visits = row.taken.map_or(1.0, |taken| taken.0);
    Some(CountedLock { visits, held: held.value })
}

/// Causes that are CPU of an operation, and their part of the cores that work.
fn cpu_causes(findings: &Findings, busy: Cores) -> Vec<CpuCause> {
    let of_cpu = |cause: &Cause| {
        matches!(cause.kind, CauseKind::Kernel | CauseKind::Function | CauseKind::Generator)
    };
    let is_cpu = |cause: &&Cause| {
        (of_cpu(cause) || is_brief(findings, cause)) && cause.share.value.0 > WORTH
    };
    let all = findings.causes.iter().filter(is_cpu).take(CPU_CAUSES);
    all.map(|cause| CpuCause {
        name: cause.name.to_string(),
        part: Ratio(cause.lost.value.0 / busy.0.max(1e-9)),
        contends: code(findings, cause).is_some(),
        is_lock: is_lock(cause),
    })
    .collect()
}

/// What causes that spin or take cache lines from each other make of an operation's CPU, by how
/// much more of it an operation takes where all cores are busy for the first time: with more
/// clients a lock whose holder was preempted adds to that.
fn contended(findings: &Findings, levels: &[ObservedLevel]) -> Option<Contended> {
    let cores = most_cores(findings);
    let lost = |cause: &Cause| cause.lost.value.0;
    let causes: Vec<&Cause> =
        findings.causes.iter().filter(|it| code(findings, it).is_some()).collect();
    let most = causes.iter().max_by(|a, b| lost(a).total_cmp(&lost(b)))?;
    // What is changed between a look and the next is held, as by who spins.
    let moved = !matches!(code(findings, most)?, CodeKind::Spin | CodeKind::Retry);
    let least = levels.iter().map(|it| it.demand.0).fold(f64::INFINITY, f64::min);
    let extra = |level: &ObservedLevel| level.demand.0 / least - 1.0;
    let focus = levels.iter().find(|it| it.clients == findings.focus.clients)?;
    let all = extra(focus) * least * focus.throughput.0;
    let part = (causes.iter().map(|it| lost(it)).sum::<f64>() / all).clamp(0.0, 1.0);
    let full = levels.iter().find(|it| it.clients >= cores)?;
    let extra = part * extra(full);
    (cores > 1 && extra > LEAST_EXTRA).then(|| Contended::fitted(extra, moved, cores))
}

/// What the instructions of a cause do. Nobody sleeps for a spin lock of the kernel, nor for one
/// that is held so briefly that who comes later finds it free.
fn code(findings: &Findings, cause: &Cause) -> Option<CodeKind> {
    match &cause.evidence.charge {
        Charge::Wait { wait } => {
            let spins = cause.waits.is_none() && wait.work.is_some_and(|work| work.spins);
            (spins || is_brief(findings, cause)).then_some(CodeKind::Spin)
        }
        charge => charge.code(),
    }
}

fn level(point: &CurvePoint, ledger: &LevelLedger, locks: &[Taken<'_>]) -> ObservedLevel {
    let rate = point.throughput.value.0;
    let is = |cause: &Option<String>, lock: &Taken<'_>| {
        lock.cause.is_some_and(|own| cause.as_ref() == Some(&own.id))
    };
    let lock_cpu: Vec<Seconds> = (locks.iter())
        .map(|lock| {
            let own = ledger.core.lines.iter().filter(|line| is(&line.cause, lock));
            let busy = own.filter(|line| line.kind == LineKind::Kernel).map(|it| it.cores.value.0);
            Seconds(busy.sum::<f64>().max(0.0) / rate)
        })
        .collect();
    let blocked =
        |lock: &Taken<'_>| lock.cause.map_or(Ratio(0.0), |cause| blocked_for(ledger, cause));
    let blocked = locks.iter().map(blocked).collect();
    let paid: f64 = lock_cpu.iter().map(|it| it.0).sum();
    ObservedLevel {
        clients: point.level.clients,
        throughput: point.throughput.value,
        error: Ratio((point.throughput.half_width() / 1.96 / rate).max(LEAST_ERROR)),
        demand: Seconds((busy(ledger).0 / rate - paid).max(0.0)),
        generator: Seconds(cores(ledger, LineKind::Generator) / rate),
        lock_cpu,
        blocked,
    }
}

/// Cores that work for operations: neither idle nor other processes nor unknown.
fn busy(ledger: &LevelLedger) -> Cores {
    use LineKind as K;
    let all = [K::Useful, K::ExtraCpu, K::Kernel, K::Generator, K::Interrupt];
    Cores(all.into_iter().map(|kind| cores(ledger, kind)).sum())
}

fn cores(ledger: &LevelLedger, kind: LineKind) -> f64 {
    let own = ledger.core.lines.iter().filter(|line| line.kind == kind);
    own.map(|line| line.cores.value.0).sum()
}

/// Part of an operation's time in lines of these kinds.
fn part(ledger: &LevelLedger, kinds: &[LineKind]) -> f64 {
    let own = ledger.thread.lines.iter().filter(|line| kinds.contains(&line.kind));
    let all: f64 = own.map(|line| line.per_operation.value.0).sum();
    all / ledger.thread.per_operation.0.max(f64::MIN_POSITIVE)
}
