//! The simulator against queues with exact results.
//!
//! Seeds are fixed, so each test gives the same numbers every time; several seeds together narrow
//! the interval to a fraction of what is asked.

use kneepoint_model::queueing::{Closed, Servers, Stage, Station, open};
use kneepoint_model::sim::{Outcome, Replicated, Settings, replicate, seed_of};
use kneepoint_model::twin::{Twin, Wanted};
use kneepoint_vocab::{PerSecond, Ratio, Seconds};

fn simulated(twin: &str, wanted: Wanted, precision: f64) -> Vec<Outcome> {
    let twin = Twin::parse(twin).expect("a valid twin");
    let compiled = twin.compile(wanted).expect("compiles");
    let jobs: Vec<Replicated<'_>> = (0..4)
        .map(|number| {
            let settings = Settings {
                seed: seed_of(20, number),
                precision: Ratio(precision),
                ..Settings::default()
            };
            Replicated { twin: &compiled, settings }
        })
        .collect();
    let outcomes = replicate(&jobs, 4);
    outcomes.into_iter().map(|outcome| outcome.expect("a simulation")).collect()
}

fn mean(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "four")]
    let count = outcomes.len() as f64;
    outcomes.iter().map(of).sum::<f64>() / count
}

fn near(found: f64, exact: f64, part: f64) {
    assert!((found / exact - 1.0).abs() < part, "{found} for {exact}");
}

fn level(clients: u32, cores: u32) -> Wanted {
    Wanted { clients: Some(clients), cores: Some(cores) }
}

/// How narrow the intervals of single seeds are to be, and what throughput and response time may be
/// off by.
#[derive(Clone, Copy)]
struct Within {
    precision: f64,
    throughput: f64,
    response: f64,
}

/// What a debug build simulates in a second or two.
const ROUGHLY: Within = Within { precision: 0.0015, throughput: 0.002, response: 0.01 };
/// What is promised, with events enough.
const PROMISED: Within = Within { precision: 0.0004, throughput: 0.001, response: 0.001 };

#[test]
fn the_closed_network_is_nearly_exact() {
    closed_network_of_cores_and_locks(ROUGHLY);
}

#[test]
fn the_repairman_is_nearly_exact() {
    machine_repairman(ROUGHLY);
}

#[test]
fn the_closed_tandem_is_nearly_exact() {
    closed_tandem(ROUGHLY);
}

#[test]
fn the_queue_of_several_servers_is_nearly_exact() {
    open_queue_of_several_servers(ROUGHLY);
}

#[test]
fn the_open_tandem_is_nearly_exact() {
    open_tandem(ROUGHLY);
}

/// `cargo test --release -p kneepoint-model --test exact -- --ignored`
#[test]
#[ignore = "some 2e9 events"]
fn simulations_agree_to_a_thousandth() {
    closed_network_of_cores_and_locks(PROMISED);
    machine_repairman(PROMISED);
    closed_tandem(PROMISED);
    open_queue_of_several_servers(PROMISED);
    open_tandem(PROMISED);
}

fn closed_network_of_cores_and_locks(within: Within) {
    for (cores, exact) in [(8, 7.9991e6), (16, 9.4764e6)] {
        let network = include_str!("twins/network.toml");
        let found = simulated(network, level(64, cores), within.precision);
        near(mean(&found, |it| it.throughput.0), exact, 0.001);
    }
}

fn machine_repairman(within: Within) {
    let twin = r#"
        name = "repairman"
        [device.repair]
        servers = 3
        time = "1 us"
        cv = 1.0
        [[thread]]
        name = "machine"
        count = "clients"
        program = [{ think = "8 us", cv = 1.0 }, { io = "repair" }]
    "#;
    for clients in [5, 27, 60] {
        let network = Closed::repairman(Seconds(8e-6), Seconds(1e-6), 3).expect("valid");
        let exact = network.solve(clients).expect("solved").throughput(clients).expect("solved");
        let found = simulated(twin, level(clients, 1), within.precision);
        near(mean(&found, |it| it.throughput.0), exact.0, within.throughput);
    }
}

/// Two single servers and cores in a ring. A thread needs a core to go from one to the other.
fn closed_tandem(within: Within) {
    let twin = r#"
        name = "ring"
        [device.first]
        time = "1 us"
        cv = 1.0
        [device.second]
        time = "0.8 us"
        cv = 1.0
        [[thread]]
        name = "client"
        count = "clients"
        program = [
          { run = "1 us", cv = 1.0 },
          { io = "first" },
          { run = "1 us", cv = 1.0 },
          { io = "second" },
        ]
    "#;
    let station = |demand: f64, servers| Station {
        demand: Seconds(demand),
        servers: Servers::Limited(servers),
    };
    let network = Closed::new(&[station(1e-6, 1), station(0.8e-6, 1), station(2e-6, 2)]);
    let solved = network.expect("valid").solve(12).expect("solved");
    let found = simulated(twin, level(12, 2), within.precision);
    let exact = solved.throughput(12).expect("solved").0;
    near(mean(&found, |it| it.throughput.0), exact, within.throughput);
    let first = |outcome: &Outcome| {
        let account = &outcome.account;
        kneepoint_model::sim::seconds(account.device_busy[0])
            / kneepoint_model::sim::seconds(account.window())
    };
    near(mean(&found, first), solved.utilisation(0, 12).expect("a server").0, 0.003);
}

/// M/M/c: Poisson arrivals, workers of exponential service, each on a core of its own.
fn open_queue_of_several_servers(within: Within) {
    let twin = r#"
        name = "M/M/c"
        [channel.queue]
        [source.arrivals]
        to = "queue"
        every = "0.3125 us"
        [[thread]]
        name = "server"
        count = "cores"
        worker = true
        program = [{ take = "queue" }, { run = "1 us", cv = 1.0 }, { reply = true }]
    "#;
    let stage = Stage { service: Seconds(1e-6), servers: 4 };
    let exact = stage.under(PerSecond(3.2e6)).expect("80 % busy");
    let found = simulated(twin, level(1, 4), within.precision);
    near(mean(&found, |it| it.throughput.0), 3.2e6, within.throughput);
    near(mean(&found, |it| it.response.0), exact.response.0, within.response);
}

/// Two stations in a row: each is a queue of its own, and times add up.
fn open_tandem(within: Within) {
    let twin = r#"
        name = "M/M/1 to M/M/2"
        [cores]
        count = 3
        [channel.first]
        [channel.second]
        [source.arrivals]
        to = "first"
        every = "1 us"
        [[thread]]
        name = "front"
        count = 1
        worker = true
        program = [{ take = "first" }, { run = "0.6 us", cv = 1.0 }, { put = "second" }]
        [[thread]]
        name = "back"
        count = 2
        worker = true
        program = [{ take = "second" }, { run = "1.4 us", cv = 1.0 }, { reply = true }]
    "#;
    let stages = [
        Stage { service: Seconds(0.6e-6), servers: 1 },
        Stage { service: Seconds(1.4e-6), servers: 2 },
    ];
    let exact = open::tandem(PerSecond(1e6), &stages).expect("room");
    let found = simulated(twin, level(1, 3), within.precision);
    let response: f64 = exact.iter().map(|queue| queue.response.0).sum();
    near(mean(&found, |it| it.response.0), response, within.response);
}
