//! Findings as a server on 1, 2 and 4 cores would give them, driven by a load generator that is
//! watched too; and the same curve as if it had been imported.

use super::{about, findings};
use kneepoint_vocab::fact::TaskOwner;
use kneepoint_vocab::findings::{
    Conclusion, CoresCurve, Counts, Curve, CurvePoint, DeviceLine, Generator, Knee,
    LevelInstruments, Noise, PressureLine, Shape, TaskLine, Vmstat,
};
use kneepoint_vocab::{
    Cores, Count, Estimate, Findings, Level, PerSecond, ProtocolName, Ratio, Seconds,
};

/// Clients of the sweep.
const CLIENTS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Cores, throughput at each number of clients, and the clients at the knee.
const CURVES: [(u32, [f64; 6], u32); 3] = [
    (1, [2_140.0, 3_310.0, 3_420.0, 3_390.0, 3_350.0, 3_290.0], 2),
    (2, [2_180.0, 3_980.0, 5_890.0, 6_120.0, 6_050.0, 5_930.0], 4),
    (4, [2_190.0, 4_120.0, 7_340.0, 9_870.0, 10_240.0, 9_960.0], 8),
];

fn curve(cores: u32, rates: [f64; 6], knee: u32) -> Curve {
    let level = |clients: u32| Level { clients, cores };
    let points = CLIENTS.iter().zip(rates).map(|(&clients, rate)| CurvePoint {
        level: level(clients),
        throughput: about(rate, 0.025),
        ideal: PerSecond((f64::from(clients) * rates[0]).min(f64::from(cores) * 3_500.0)),
        latency: None,
        switches: Some(PerSecond(71_200.0)),
        slices: 6,
    });
    let peak = if cores == 1 { 4 } else { knee * 2 };
    Curve {
        points: points.collect(),
        peak: level(peak),
        knee: Knee { level: level(knee), low: level(knee), high: level(peak), beyond_last: false },
        last_over_peak: Estimate::of(0.973, 0.951, 0.992),
        shape: Shape::Retrograde,
        fits: Vec::new(),
        drift: Ratio(0.012),
    }
}

/// A server with everything that can be said of one.
pub(crate) fn server() -> Findings {
    let mut all = findings();
    let focus = Level { clients: 16, cores: 4 };
    all.recipe = "mariadb-point-select".to_owned();
    "MariaDB under sysbench, on 1, 2 and 4 cores".clone_into(&mut all.summary);
    "queries".clone_into(&mut all.operation);
    all.conclusions.truncate(2);
    all.conclusions[0] = stops(Level { clients: 8, cores: 4 });
    all.host.cores = 4;
    all.by_cores = CURVES
        .iter()
        .map(|&(cores, rates, knee)| CoresCurve {
            cores,
            curve: curve(cores, rates, knee),
            over_fewest: match cores {
                1 => Estimate::of(1.0, 1.0, 1.0),
                2 => Estimate::of(1.79, 1.73, 1.85),
                _ => Estimate::of(2.99, 2.88, 3.11),
            },
        })
        .collect();
    all.curve = all.by_cores[2].curve.clone();
    all.focus = focus;
    for (index, ledger) in all.ledgers.iter_mut().enumerate() {
        ledger.level = Level { clients: [1, 16, 4, 8, 2][index], cores: 4 };
        ledger.core.total = Cores(4.0);
        for line in &mut ledger.core.lines {
            let of = |cores: Cores| 2.0 * cores.0;
            let (value, low, high) =
                (of(line.cores.value), of(line.cores.low), of(line.cores.high));
            line.cores = Estimate::of(value, low, high);
        }
    }
    all.generator = Some(Generator {
        cores: Estimate::of(0.41, 0.39, 0.44),
        own_cores: 0,
        busiest: Some(task(TaskOwner::Generator, "sysbench", [16.0, 0.41, 0.03])),
        bottleneck: None,
        saturated: false,
        per_operation: Some(Estimate::of(73e-6, 70e-6, 77e-6)),
        system_per_operation: Some(Estimate::of(345e-6, 339e-6, 352e-6)),
        system: Some("mariadbd".to_owned()),
    });
    all.counts = Some(Counts { counter: "Questions".to_owned(), trials: 84, worst: Ratio(0.0002) });
    all.instruments = [focus, Level { clients: 1, cores: 4 }].map(instruments).to_vec();
    all.protocol.name = ProtocolName::Published;
    all.protocol.precision = Some(Ratio(0.03));
    all
}

/// Three repetitions of a curve that somebody else measured.
pub(crate) fn imported() -> Findings {
    let mut all = findings();
    all.ledgers.clear();
    all.causes.clear();
    all.effects.clear();
    all.caveats.clear();
    all.on_cpu = None;
    all.noise = Noise { ratio: Estimate::of(1.0, 1.0, 1.0), floor: Ratio(0.0), pairs: 0 };
    all.collector.tier = None;
    all.collector.cannot_see.clear();
    all.collector.losses.clear();
    (all.collector.programs, all.collector.reader, all.collector.on_off) = (None, None, None);
    (all.collector.running_check, all.collector.running_worst) = (None, None);
    (all.collector.runnable_check, all.collector.stacks) = (None, 0);
    all.collector.stacks_complete = None;
    for point in &mut all.curve.points {
        (point.latency, point.switches, point.slices) = (None, None, 3);
    }
    all.conclusions = vec![stops(Level { clients: 1, cores: 2 })];
    (all.host.cores, all.host.memory) = (0, 0);
    for unknown in [&mut all.host.cpu, &mut all.host.kernel, &mut all.host.distribution] {
        unknown.clear();
    }
    all.host.arguments = vec!["import".to_owned(), "pgbench".to_owned(), "a b.log".to_owned()];
    all.host.notes = vec![("imported from".to_owned(), "pgbench output, a b.log".to_owned())];
    all.protocol.name = ProtocolName::Imported;
    all.protocol.precision = Some(Ratio(0.031));
    all.protocol.elapsed = Seconds(0.0);
    all
}

fn stops(level: Level) -> Conclusion {
    let knee = Knee { level, low: level, high: level, beyond_last: false };
    Conclusion::StopsScaling { knee, throughput: about(9_870.0, 0.025) }
}

fn task(owner: TaskOwner, name: &str, [threads, cores, busiest]: [f64; 3]) -> TaskLine {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small, positive")]
    let threads = threads as u32;
    let name = name.to_owned();
    TaskLine { owner, name, threads, cores: Cores(cores), busiest: Cores(busiest) }
}

fn instruments(level: Level) -> LevelInstruments {
    LevelInstruments {
        level,
        vmstat: Some(Vmstat {
            runnable: Count(4.1),
            blocked: Count(0.3),
            interrupts: PerSecond(18_400.0),
            switches: PerSecond(71_200.0),
            user: Ratio(0.61),
            system: Ratio(0.30),
            idle: Ratio(0.03),
            iowait: Ratio(0.0),
            steal: Ratio(0.01),
            sum: Ratio(0.95),
        }),
        tasks: vec![
            task(TaskOwner::System, "mariadbd", [16.0, 2.71, 0.19]),
            task(TaskOwner::System, "ib_log_writer", [1.0, 0.96, 0.96]),
            task(TaskOwner::Generator, "sysbench", [16.0, 0.41, 0.03]),
            task(TaskOwner::Kernel, "ksoftirqd/0", [1.0, 0.02, 0.02]),
            task(TaskOwner::Kneepoint, "kneepoint", [2.0, 0.02, 0.014]),
        ],
        devices: vec![device("vda", Some(Seconds(312.0e-6))), device("zram0", None)],
        pressure: vec![PressureLine {
            resource: "cpu".to_owned(),
            scope: "machine".to_owned(),
            some: Ratio(0.31),
            full: Ratio(0.0),
        }],
    }
}

fn device(name: &str, response: Option<Seconds>) -> DeviceLine {
    DeviceLine {
        name: name.to_owned(),
        reads: PerSecond(3.2),
        writes: PerSecond(1_210.0),
        read_bytes: PerSecond(52_400.0),
        written_bytes: PerSecond(19.4e6),
        response,
        in_flight: Count(0.38),
        busy: Ratio(0.34),
    }
}
