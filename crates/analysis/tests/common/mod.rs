//! Builds run records with a planted truth.
#![allow(dead_code, reason = "each test file uses its own part of the builder")]

use kneepoint_vocab::findings::{Caveat, CaveatReason, Conclusion};
use kneepoint_vocab::units::{Nanos, Ratio, Seconds};
use kneepoint_vocab::*;

/// What one slice holds, in cores and threads (seconds per second).
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) throughput: f64,
    pub(crate) system: f64,
    pub(crate) others: f64,
    pub(crate) generator: f64,
    pub(crate) kernel: f64,
    pub(crate) idle_lock: f64,
    pub(crate) idle_scheduler: f64,
    pub(crate) idle_uncharged: f64,
    /// Client threads blocked on the lock.
    pub(crate) blocked: f64,
    pub(crate) runnable: f64,
    /// On-CPU weights by stack index.
    pub(crate) on_cpu: Vec<(u32, f64)>,
    pub(crate) waits: f64,
    pub(crate) lock_stack: u32,
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            throughput: 1000.0,
            system: 1.0,
            others: 0.0,
            generator: 0.0,
            kernel: 0.0,
            idle_lock: 0.0,
            idle_scheduler: 0.0,
            idle_uncharged: 1.0,
            blocked: 0.0,
            runnable: 0.0,
            on_cpu: vec![(0, 1.0)],
            waits: 0.0,
            lock_stack: 2,
        }
    }
}

pub(crate) const CORES: u32 = 2;

fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}

pub(crate) fn level(clients: u32) -> Level {
    Level { clients, cores: CORES }
}

fn frames(names: &[(&str, &str)]) -> Vec<Frame> {
    names
        .iter()
        .map(|(function, module)| Frame {
            function: (*function).to_owned(),
            module: (*module).to_owned(),
        })
        .collect()
}

/// 0 work, 1 futex in the kernel, 2 shared mutex, 3 the same by another caller, 4 spin.
pub(crate) fn stacks() -> Vec<StackRecord> {
    let lists = [
        frames(&[("work", "app"), ("main", "app")]),
        frames(&[
            ("futex_wake", "[kernel]"),
            ("__x64_sys_futex", "[kernel]"),
            ("pthread_mutex_unlock", "libc.so.6"),
            ("main", "app"),
        ]),
        frames(&[
            ("__lll_lock_wait", "libc.so.6"),
            ("pthread_mutex_lock", "libc.so.6"),
            ("lockBtreeMutex", "app"),
            ("sqlite3BtreeEnter", "app"),
            ("sqlite3VdbeEnter", "app"),
            ("main", "app"),
        ]),
        frames(&[
            ("__lll_lock_wait", "libc.so.6"),
            ("pthread_mutex_lock", "libc.so.6"),
            ("sqlite3BtreeEnter", "app"),
            ("btreeEnterAll", "app"),
            ("main", "app"),
        ]),
        frames(&[("spin", "app"), ("work", "app"), ("main", "app")]),
    ];
    lists
        .into_iter()
        .enumerate()
        .map(|(id, frames)| StackRecord {
            id: StackId(id as u32),
            frames,
            truncated: false,
            code: CodeKind::Other,
            sources: Vec::new(),
            modules: Vec::new(),
        })
        .collect()
}

pub(crate) fn key(object: u64) -> WaitKey {
    WaitKey { reason: WaitReason::UserLock, object, object_name: None, syscall: 202 }
}

pub(crate) fn facts(clients: u32, cell: &Cell, object: u64) -> Vec<Fact> {
    let idle = cell.idle_lock + cell.idle_scheduler + cell.idle_uncharged;
    let threads = f64::from(clients);
    let mut facts = vec![
        Fact::Tier { tier: Tier::Full },
        Fact::CoreTime(CoreTime {
            cores: CORES,
            total: nanos(f64::from(CORES)),
            system: nanos(cell.system),
            generator: nanos(cell.generator),
            others: nanos(cell.others),
            kernel: nanos(cell.kernel),
            kneepoint: Nanos(0),
            idle: nanos(idle),
            idle_scheduler: nanos(cell.idle_scheduler),
            idle_uncharged: nanos(cell.idle_uncharged),
            irq: Nanos(0),
            steal: Nanos(0),
        }),
        Fact::ThreadTime(ThreadTime {
            role: Some(ThreadRole::Client),
            name: "client".to_owned(),
            threads: clients,
            existed: nanos(threads),
            running: nanos(cell.system),
            runnable_woken: nanos(cell.runnable),
            runnable_preempted: Nanos(0),
            blocked: nanos(cell.blocked),
            schedstat_running: Some(nanos(cell.system)),
            schedstat_runnable: Some(nanos(cell.runnable)),
            switches: cell.waits as u64,
        }),
        Fact::Cost(CollectorCost { programs: nanos(0.02), program_runs: 10, reader: nanos(0.01) }),
    ];
    if cell.blocked > 0.0 || cell.idle_lock > 0.0 {
        facts.push(Fact::Wait(Wait {
            role: ThreadRole::Client,
            name: "client".to_owned(),
            key: key(object),
            blocked: nanos(cell.blocked),
            count: cell.waits as u64,
            longest: nanos(0.001),
            idle_charged: nanos(cell.idle_lock),
            holders: Holders { running: 9, runnable: 1, blocked: 0, unknown: 0 },
        }));
        facts.push(Fact::Stack(StackWeight {
            kind: StackKind::OffCpu,
            stack: StackId(cell.lock_stack),
            wait: Some(key(object)),
            role: None,
            weight: nanos(cell.blocked),
            count: 10,
        }));
    }
    for (stack, weight) in &cell.on_cpu {
        facts.push(Fact::Stack(StackWeight {
            kind: StackKind::OnCpu,
            stack: StackId(*stack),
            wait: None,
            role: None,
            weight: nanos(*weight),
            count: 10,
        }));
    }
    facts
}

pub(crate) fn trial(
    phase: Phase,
    block: u32,
    variant: &str,
    start: u32,
    clients: u32,
    cell: &Cell,
) -> TrialRecord {
    TrialRecord {
        machine: kneepoint_vocab::MachineName::default(),
        id: TrialId {
            phase,
            block,
            position: 0,
            attempt: 0,
            variant: VariantId::new(variant),
            start,
            level: level(clients),
        },
        window: Window { begin: nanos(f64::from(block)), length: nanos(1.0) },
        operations: (cell.throughput * 10.0).round() as u64,
        counted_over: nanos(10.0),
        per_client: vec![],
        latency: Some(Latency { mean: Nanos(100), p50: Nanos(90), ..Latency::default() }),
        counts: None,
        stability: None,
        settling: None,
        interference: Interference::default(),
        disposition: Disposition::Kept,
        facts: facts(clients, cell, 0x1000 + u64::from(start) * 0x100),
    }
}

pub(crate) fn variant(name: &str, role: VariantRole, over: &str) -> VariantPlan {
    VariantPlan {
        id: VariantId::new(name),
        role,
        label: format!("{name} label"),
        over: VariantId::new(over),
        changes: vec!["a = b".to_owned()],
    }
}

pub(crate) fn start(variant: &str, number: u32, active: bool) -> VariantStart {
    VariantStart {
        variant: VariantId::new(variant),
        start: number,
        proofs: vec![Proof {
            what: "setting".to_owned(),
            expected: "on".to_owned(),
            found: if active { "on" } else { "off" }.to_owned(),
            active,
        }],
        ready_after: Seconds(0.1),
        environment: Vec::new(),
        settings: vec![],
    }
}

/// A record without trials.
pub(crate) fn empty(levels: &[u32], focus: u32) -> RunRecord {
    RunRecord {
        host: Host {
            machine: kneepoint_vocab::MachineName::default(),
            schema: SCHEMA,
            kneepoint: "0.1.0".to_owned(),
            begun: "2026-01-01T00:00:00Z".to_owned(),
            arguments: vec!["run".to_owned()],
            cores: CORES,
            cpu: "cpu".to_owned(),
            memory: 1 << 30,
            kernel: "Linux 6.18".to_owned(),
            distribution: "Debian 12".to_owned(),
            notes: vec![],
        },
        plan: Plan {
            recipe: "planted".to_owned(),
            summary: "planted".to_owned(),
            operation: "operations".to_owned(),
            clients: kneepoint_vocab::Clients::Inside,
            generator_cores: 0,
            sweep_variants: Vec::new(),
            protocol: kneepoint_vocab::ProtocolName::Default,
            level_order: kneepoint_vocab::LevelOrder::Random,
            warm_up: None,
            census: false,
            seed: 7,
            levels: levels.iter().map(|clients| level(*clients)).collect(),
            focus: level(focus),
            variants: vec![variant(
                VariantId::BASELINE,
                VariantRole::Baseline,
                VariantId::BASELINE,
            )],
            slice: nanos(1.0),
            ramp: nanos(0.2),
            settle: nanos(0.0),
            sweep_blocks: 5,
            effect_blocks: (6, 30),
            blocks_per_start: 3,
            precision: Ratio(0.05),
            smallest_effect: Ratio(0.05),
            allowed_overhead: None,
            sweep_precision: None,
            budget: nanos(60.0),
            others_limit: Ratio(0.03),
            steal_limit: Ratio(0.01),
            names: kneepoint_vocab::Names::default(),
        },
        variants: vec![],
        trials: vec![],
        stacks: stacks(),
        end: Some(RunEnd {
            elapsed: nanos(50.0),
            stopped_by: StoppedBy::PlannedBlocks,
            steady: true,
            remarks: vec![],
        }),
        torn: vec![],
    }
}

/// A factor near 1, the same for the same place: the machine's noise.
pub(crate) fn wobble(block: u32, place: u32) -> f64 {
    let hash = (block.wrapping_mul(2_654_435_761) ^ place.wrapping_mul(40_503)).wrapping_mul(97);
    1.0 + 0.02 * (f64::from(hash % 1000) / 1000.0 - 0.5)
}

/// Adds `blocks` sweep blocks of the baseline.
pub(crate) fn sweep(record: &mut RunRecord, blocks: u32, cell: impl Fn(u32) -> Cell) {
    for block in 0..blocks {
        for at in record.plan.levels.clone() {
            let mut cell = cell(at.clients);
            cell.throughput *= wobble(block, at.clients);
            record.trials.push(trial(
                Phase::Sweep,
                block,
                VariantId::BASELINE,
                0,
                at.clients,
                &cell,
            ));
        }
    }
}

/// The shared-cache shape: one client cheap, two clients idle for one lock.
pub(crate) fn locked(clients: u32) -> Cell {
    if clients == 1 {
        return Cell { throughput: 1000.0, system: 0.9, idle_uncharged: 1.1, ..Cell::default() };
    }
    Cell {
        throughput: 450.0,
        system: 0.6,
        idle_lock: 1.3,
        idle_scheduler: 0.1,
        idle_uncharged: 0.0,
        blocked: f64::from(clients) - 0.6 - 0.1,
        runnable: 0.1,
        on_cpu: vec![(0, 0.4), (1, 0.2)],
        waits: 60_000.0,
        ..Cell::default()
    }
}

pub(crate) fn scaling(clients: u32) -> Cell {
    let busy = f64::from(clients.min(CORES));
    Cell {
        throughput: 1000.0 * busy,
        system: busy,
        idle_uncharged: f64::from(CORES) - busy,
        runnable: f64::from(clients) - busy,
        on_cpu: vec![(0, busy)],
        ..Cell::default()
    }
}

/// The gravest caveat with such a reason.
pub(crate) fn caveat(
    findings: &Findings,
    wanted: impl Fn(&CaveatReason) -> bool,
) -> Option<&Caveat> {
    findings.caveats.iter().find(|caveat| wanted(&caveat.reason))
}

pub(crate) fn says(findings: &Findings, wanted: impl Fn(&CaveatReason) -> bool) -> bool {
    caveat(findings, wanted).is_some()
}

pub(crate) fn concludes(findings: &Findings, wanted: impl Fn(&Conclusion) -> bool) -> bool {
    findings.conclusions.iter().any(wanted)
}

/// Whether both are equal to a part of a hundred.
pub(crate) fn near(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 1e-2 * wanted.abs()
}

/// The keys of all waits of a record, and of the stacks of those who wait.
pub(crate) fn wait_keys(record: &mut RunRecord) -> impl Iterator<Item = &mut WaitKey> {
    let facts = record.trials.iter_mut().flat_map(|trial| &mut trial.facts);
    facts.filter_map(|fact| match fact {
        Fact::Wait(wait) => Some(&mut wait.key),
        Fact::Stack(stack) => stack.wait.as_mut(),
        _ => None,
    })
}

/// A server that a generator feeds too slowly: at 2 clients 0.6 cores work, 1.4 idle.
pub(crate) fn starved(clients: u32) -> Cell {
    if clients == 1 {
        return Cell { throughput: 500.0, system: 0.3, idle_uncharged: 1.7, ..Cell::default() };
    }
    Cell {
        throughput: 520.0,
        system: 0.33,
        idle_lock: 1.67,
        idle_uncharged: 0.0,
        blocked: f64::from(clients) - 0.33,
        on_cpu: vec![(0, 0.33)],
        waits: 1000.0,
        ..Cell::default()
    }
}

/// The focus level's idle core-time becomes a wait of the clients for the next request.
pub(crate) fn for_requests(record: &mut RunRecord) {
    record.plan.clients = Clients::Apart;
    for key in wait_keys(record) {
        *key = WaitKey { reason: WaitReason::Socket, object: 0, object_name: None, syscall: 45 };
    }
}

/// Clients that poll, two thirds of the blocked time in the lock manager.
pub(crate) fn polling() -> RunRecord {
    let mut record = empty(&[1, 2], 2);
    let frame =
        |function: &&str| Frame { function: (*function).to_owned(), module: "postgres".to_owned() };
    let names =
        ["WaitLatch", "ProcSleep", "LockAcquireExtended", "XactLockTableWait", "heap_update"];
    record.stacks[2].frames = names.iter().map(frame).collect();
    sweep(&mut record, 5, starved);
    for_requests(&mut record);
    for fact in record.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
        if let Fact::Stack(stack) = fact
            && stack.kind == StackKind::OffCpu
        {
            stack.weight = Nanos(stack.weight.0 * 2 / 3);
        }
    }
    record
}
