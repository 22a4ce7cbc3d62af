//! Findings as a run of the SQLite shared-cache recipe on two cores would give them; the
//! figures are invented, but they add up.

mod causes;
#[allow(dead_code, reason = "two tests are about differences")]
pub(crate) mod difference;
mod effects;
pub(crate) mod price;
pub(crate) mod server;
pub(crate) mod treated;

use kneepoint_vocab::findings::{
    CauseKind, Caveat, CaveatReason, Collector, Conclusion, CoreLedger, CoreLine, CoreName, Curve,
    CurvePoint, Fit, FitParameter, Knee, LevelLedger, LineKind, Name, Noise, Protocol, Severity,
    Shape, ThreadLedger, ThreadLine, ThreadName, Unfit, Unseen,
};
use kneepoint_vocab::record::Host;
use kneepoint_vocab::{
    Cores, Estimate, Findings, Latency, Level, Nanos, PerSecond, Ratio, Seconds, Tier, Unit,
    VariantId,
};

/// Throughputs at 1, 2, 4, 8 and 16 clients with relative half widths.
const CURVE: [(u32, f64, f64); 5] = [
    (1, 10_712.0, 0.03),
    (2, 4_604.0, 0.04),
    (4, 7_521.0, 0.05),
    (8, 6_030.0, 0.06),
    (16, 5_790.0, 0.05),
];
/// The least CPU time of an operation.
const DEMAND: f64 = 83.0e-6;

/// An estimate with a symmetric relative interval.
pub(crate) fn about<U: Unit>(value: f64, part: f64) -> Estimate<U> {
    let half = value.abs() * part;
    Estimate::of(value, value - half, value + half)
}

fn level(clients: u32) -> Level {
    Level { clients, cores: 2 }
}

/// The whole of it.
pub(crate) fn findings() -> Findings {
    Findings {
        by_cores: Vec::new(),
        treated: Vec::new(),
        generator: None,
        counts: None,
        stability: None,
        instruments: Vec::new(),
        schema: 2,
        recipe: "sqlite-shared-cache".to_owned(),
        summary: "In-memory SQLite, all clients on one shared page cache".to_owned(),
        operation: "transactions".to_owned(),
        conclusions: conclusions(),
        trustworthy: true,
        host: host(),
        protocol: protocol(),
        noise: Noise { ratio: Estimate::of(1.006, 0.971, 1.041), floor: Ratio(0.041), pairs: 12 },
        curve: curve(),
        ledgers: ledgers(),
        focus: level(2),
        effects_at: None,
        lost: None,
        causes: causes::causes(),
        price: None,
        on_cpu: Some(causes::on_cpu()),
        differences: Vec::new(),
        effects: effects::effects(),
        crosses: Vec::new(),
        collector: collector(),
        caveats: caveats(),
        stalls: Vec::new(),
        next: None,
        at_bound: None,
        locks: None,
        calls: None,
        chain: None,
        superlinear: Vec::new(),
        unsteady: Vec::new(),
        nameless: Vec::new(),
    }
}

fn conclusions() -> Vec<Conclusion> {
    let (kind, name) = (CauseKind::Lock, Some(Name::from("sqlite3BtreeEnter")));
    let knee = Knee { level: level(1), low: level(1), high: level(1), beyond_last: false };
    vec![
        Conclusion::StopsScaling { knee, throughput: about(10_712.0, 0.03) },
        Conclusion::Loss { kind, name, code: None, share: about(0.784, 0.05) },
        Conclusion::Cure {
            variant: VariantId::new("private-cache"),
            label: "private page caches".to_owned(),
            ratio: Some(Estimate::of(4.05, 3.79, 4.34)),
            proven: true,
        },
    ]
}

fn host() -> Host {
    let note = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Host {
        machine: kneepoint_vocab::MachineName::default(),
        schema: 1,
        kneepoint: "0.1.0".to_owned(),
        begun: "2026-11-21T20:31:07Z".to_owned(),
        arguments: ["run", "recipes/sqlite-shared-cache.toml", "--seed", "7"]
            .map(str::to_owned)
            .to_vec(),
        cores: 2,
        cpu: "AMD EPYC 7B13".to_owned(),
        memory: 25_276_510_208,
        kernel: "Linux 6.18.0".to_owned(),
        distribution: "Debian 12".to_owned(),
        notes: vec![
            note("hypervisor", "kvm"),
            note("governor", "none (virtual machine)"),
            note("transparent huge pages", "madvise"),
            note("SQLite", "3.51.0"),
        ],
    }
}

fn protocol() -> Protocol {
    Protocol {
        name: kneepoint_vocab::ProtocolName::Default,
        precision: None,
        elapsed: Seconds(52.4),
        slices: 96,
        repeated: 3,
        kept_disturbed: 0,
        failed: 0,
        slice: Seconds(0.5),
        sweep_blocks: 6,
        effect_blocks: 12,
        starts: 3,
        seed: 7,
        stopped_by: kneepoint_vocab::StoppedBy::PlannedBlocks,
        steady: true,
        others: Ratio(0.006),
        steal: Ratio(0.0007),
    }
}

fn curve() -> Curve {
    let points = CURVE
        .iter()
        .map(|&(clients, x, part)| {
            let mean = f64::from(clients) / x * 1e9;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
            let nanos = |times: f64| Nanos((mean * times) as u64);
            CurvePoint {
                level: level(clients),
                throughput: about(x, part),
                ideal: PerSecond((f64::from(clients) * 10_712.0).min(2.0 / DEMAND)),
                latency: Some(Latency {
                    mean: nanos(1.0),
                    p50: nanos(0.8),
                    p95: Some(nanos(2.2)),
                    p99: nanos(4.1),
                    longest: Some(nanos(40.0)),
                }),
                switches: Some(PerSecond(if clients == 1 { 310.0 } else { 70_200.0 })),
                slices: 6,
            }
        })
        .collect();
    let parameter = |name: &str, value: f64, error: f64| FitParameter {
        name: name.to_owned(),
        value,
        error: Some(error),
    };
    Curve {
        points,
        peak: level(1),
        knee: Knee { level: level(1), low: level(1), high: level(1), beyond_last: false },
        last_over_peak: Estimate::of(0.541, 0.512, 0.571),
        shape: Shape::Collapse,
        fits: vec![Fit {
            law: "USL".to_owned(),
            parameters: vec![
                parameter("throughput of one client", 10_650.0, 900.0),
                parameter("contention", 0.74, 0.21),
                parameter("coherency", 0.031, 0.028),
            ],
            fitted: [10_650.0, 6_000.0, 6_200.0, 6_050.0, 5_600.0].map(PerSecond).to_vec(),
            residual: Ratio(0.16),
            unfit: vec![Unfit::Said(
                "the curve dips and rises again, which the law cannot follow".to_owned(),
            )],
        }],
        drift: Ratio(0.021),
    }
}

/// One line of each ledger of a level: kind, name, value, cause.
type Row = (LineKind, &'static str, [f64; 5], Option<&'static str>);

/// Cores at 1, 2, 4, 8 and 16 clients. `useful` is X · D_ref, and `idle for lock` what is left.
const CORE_ROWS: [Row; 8] = [
    (LineKind::ExtraCpu, "sqlite3VdbeExec", [0.0, 0.01, 0.03, 0.03, 0.03], Some("function-1")),
    (LineKind::Kernel, "kernel: futex", [0.0, 0.33, 0.41, 0.38, 0.38], Some("kernel-1")),
    (LineKind::Kernel, "kernel: other", [0.0, 0.06, 0.09, 0.08, 0.08], None),
    (LineKind::IdleScheduler, "scheduler", [0.0, 0.06, 0.1, 0.19, 0.2], Some("scheduler-1")),
    (LineKind::Others, "others", [0.01, 0.012, 0.011, 0.013, 0.012], None),
    (LineKind::Others, "kneepoint", [0.004, 0.018, 0.017, 0.018, 0.019], None),
    (LineKind::IdleNoWork, "unused", [1.0, 0.0, 0.0, 0.0, 0.0], None),
    (LineKind::Unaccounted, "unaccounted", [0.003, 0.006, -0.004, 0.005, 0.004], None),
];

/// Shares of an operation's life, the lock taking what is left.
const THREAD_ROWS: [Row; 3] = [
    (LineKind::Running, "running in user code", [0.88, 0.19, 0.11, 0.05, 0.03], None),
    (LineKind::Kernel, "running in the kernel", [0.06, 0.17, 0.06, 0.03, 0.02], Some("kernel-1")),
    (LineKind::Runnable, "runnable", [0.04, 0.07, 0.11, 0.14, 0.17], None),
];

fn ledgers() -> Vec<LevelLedger> {
    CURVE
        .iter()
        .enumerate()
        .map(|(index, &(clients, x, _))| LevelLedger {
            level: level(clients),
            core: core(index, x),
            thread: thread(index, clients, x),
            yielding: None,
        })
        .collect()
}

/// What a row counts: a function, where it is nothing else.
fn core_name(row: &str) -> CoreName {
    match row {
        "scheduler" => CoreName::Scheduler,
        "others" => CoreName::Others,
        "kneepoint" => CoreName::Kneepoint,
        "unused" => CoreName::Unused,
        "unaccounted" => CoreName::Unaccounted,
        function => CoreName::Function { name: Name::from(function), lock: None },
    }
}

fn thread_name(row: &str) -> ThreadName {
    match row {
        "runnable" => ThreadName::Runnable,
        function => ThreadName::Function { name: Name::from(function), says_all: true },
    }
}

fn core(index: usize, x: f64) -> CoreLedger {
    let line = |kind, name: CoreName, value: f64, cause: Option<&str>| CoreLine {
        kind,
        name,
        cores: about(value, 0.05),
        cause: cause.map(str::to_owned),
    };
    let mut lines = vec![line(LineKind::Useful, CoreName::Useful, x * DEMAND, None)];
    lines.extend(
        CORE_ROWS
            .iter()
            .map(|(kind, name, values, cause)| line(*kind, core_name(name), values[index], *cause)),
    );
    let sum: f64 = lines.iter().map(|line| line.cores.value.get()).sum();
    let wait = CoreName::Wait { name: Name::from("sqlite3BtreeEnter") };
    let lock = line(LineKind::IdleLock, wait, 2.0 - sum, Some("lock-1"));
    lines.insert(5, lock);
    CoreLedger {
        unaccounted: Ratio(CORE_ROWS[7].2[index].abs() / 2.0),
        idle: None,
        lines,
        total: Cores(2.0),
        demand: about(DEMAND * if index == 0 { 1.0 } else { 2.1 }, 0.04),
        demand_reference: Seconds(DEMAND),
    }
}

fn thread(index: usize, clients: u32, x: f64) -> ThreadLedger {
    let life = f64::from(clients) / x;
    let line = |kind, name: ThreadName, share: f64, cause: Option<&str>| ThreadLine {
        kind,
        name,
        per_operation: about(share * life, 0.04),
        cause: cause.map(str::to_owned),
    };
    let mut lines: Vec<_> = THREAD_ROWS
        .iter()
        .map(|(kind, name, shares, cause)| line(*kind, thread_name(name), shares[index], *cause))
        .collect();
    let left = 1.0 - THREAD_ROWS.iter().map(|row| row.2[index]).sum::<f64>() - 0.004;
    let wait = ThreadName::Wait { name: Name::from("sqlite3BtreeEnter") };
    lines.push(line(LineKind::IdleLock, wait, left, Some("lock-1")));
    lines.push(line(LineKind::Unaccounted, ThreadName::Unaccounted, 0.004, None));
    ThreadLedger { lines, per_operation: Seconds(life), unaccounted: Ratio(0.004), idle_threads: 1 }
}

fn collector() -> Collector {
    Collector {
        tier: Some(Tier::Full),
        cannot_see: vec![Unseen::UserSpins, Unseen::SharedHolders],
        programs: Some(Estimate::of(0.0181, 0.0174, 0.0189)),
        reader: Some(Ratio(0.004)),
        on_off: Some(Estimate::of(0.972, 0.948, 0.997)),
        covered: Some(Ratio(1.0)),
        on_off_active: Some(Estimate::of(0.972, 0.948, 0.997)),
        running_check: Some(Ratio(0.9987)),
        running_worst: Some((level(16), Ratio(0.0041))),
        running_per_wait: None,
        runnable_check: Some(Ratio(1.012)),
        stacks: 48_211,
        stacks_complete: Some(Ratio(0.983)),
        stacks_cut_compiled: None,
        losses: vec![("stack records".to_owned(), 12), ("wait map full".to_owned(), 0)],
    }
}

fn caveats() -> Vec<Caveat> {
    let caveat = |severity, text: &str| Caveat {
        severity,
        reason: CaveatReason::Remark { text: text.to_owned() },
    };
    vec![
        caveat(
            Severity::Warning,
            "The USL fit leaves residuals of 16 %: do not use its parameters.",
        ),
        caveat(Severity::Note, "Two cores: the curve says nothing about larger machines."),
        caveat(Severity::Note, "The clients share the cores with the system under test."),
    ]
}
