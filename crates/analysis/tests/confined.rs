//! Threads that may not run on all cores, in a simulated run: its twin has as many cores as they
//! may run on, and says what all of them would bring.

use kneepoint_analysis::analyse;
use kneepoint_model::calibrate::{Asked, Observed, Oracle, calibrate, next};
use kneepoint_model::recorded::record;
use kneepoint_model::sweep::Sweep;
use kneepoint_model::twin::{Change, Twin};
use kneepoint_vocab::findings::{Altered, Findings};
use kneepoint_vocab::{Fact, Level, Nanos, Ratio, TaskCpu, TaskOwner};

const PINNED: &str = r#"
    name = "pinned"
    [cores]
    count = 2
    [scheduler]
    slice = "3 ms"
    [[thread]]
    name = "client"
    count = "clients"
    core = 0
    program = [{ run = "100 us", cv = 1.0 }]
"#;

const CONFINED: &str = "threads confined to 1 of 2 cores";

fn findings() -> Findings {
    let twin = Twin::parse(PINNED).expect("valid");
    let levels: Vec<Level> = [1, 2, 4, 8].map(|clients| Level { clients, cores: 2 }).into();
    let how = Sweep { seed: 11, precision: Ratio(0.02), budget: 200_000_000, workers: 2 };
    let mut record = record(&twin, &levels, &how).expect("simulated");
    for trial in &mut record.trials {
        let (cpu, over) = (Nanos::from_millis(1000), Nanos::from_millis(1000));
        let (owner, name) = (TaskOwner::System, "client".to_owned());
        trial.facts.push(Fact::Task(TaskCpu { owner, name, tid: 7, cpu, over, cpus: Some(1) }));
    }
    analyse(&record)
}

#[test]
fn all_cores_are_what_confined_threads_lack() {
    let findings = findings();
    assert_eq!(findings.causes[0].name.to_string(), CONFINED, "{:?}", findings.causes);
    let seen = Observed::of(&findings).expect("enough was seen");
    assert_eq!(seen.cores, 1);
    let twin = calibrate(&seen, 3, 2).expect("calibrated");
    let mut oracle = Oracle::new(&twin, 3, 2).expect("usable");
    let mut at = |cores, changes: Vec<Change>| {
        let level = Level { clients: 8, cores };
        oracle.ask(&Asked { level, changes }).expect("an answer").throughput.0
    };
    let gone = Change::Without(CONFINED.to_owned());
    assert!((at(2, Vec::new()) / 10_000.0 - 1.0).abs() < 0.05, "more cores are not theirs");
    assert!((at(2, vec![gone]) / 20_000.0 - 1.0).abs() < 0.05, "all of them");
    let next = next(&findings, 2);
    let [first, ..] = &next.what_if[..] else { panic!("{next:?}") };
    assert!(first.first_cause, "{first:?}");
    assert_eq!(first.change, Altered::Without { lock: CONFINED.to_owned() });
    assert!(!next.what_if.iter().any(|it| matches!(it.change, Altered::Cores { .. })));
    assert!(next.levels.iter().all(|it| it.level.cores == 1), "{:?}", next.levels);
}
