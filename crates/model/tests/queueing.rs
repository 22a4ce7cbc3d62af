//! Closed networks against exact integers, and against identities where those would be too long.

use kneepoint_model::queueing::{Closed, QueueError, Servers, Station};
use kneepoint_vocab::Seconds;
use num_bigint::BigUint;
use proptest::prelude::*;

/// Demands are whole numbers here, so that all constants are, too.
#[derive(Clone, Copy, Debug)]
struct Whole {
    demand: u32,
    servers: Servers,
}

fn whole(demand: u32, servers: u32) -> Whole {
    Whole { demand, servers: Servers::Limited(servers) }
}

fn thinking(demand: u32) -> Whole {
    Whole { demand, servers: Servers::Unlimited }
}

fn network(stations: &[Whole]) -> Closed {
    let station =
        |it: &Whole| Station { demand: Seconds(f64::from(it.demand)), servers: it.servers };
    Closed::new(&stations.iter().map(station).collect::<Vec<_>>()).expect("a valid network")
}

/// g(0) to g(N), all times Π min(j, c) for j = 1..N: whole numbers, by a factor that cancels.
fn factors(it: Whole, clients: u32) -> Vec<BigUint> {
    let at_once = |j: u32| match it.servers {
        Servers::Limited(servers) => servers.min(j),
        Servers::Unlimited => j,
    };
    let mut all = vec![BigUint::from(it.demand).pow(clients)];
    for number in (1..=clients).rev() {
        let last = &all[all.len() - 1];
        all.push(last / it.demand * at_once(number));
    }
    all.reverse();
    all
}

/// Σ a(k) b(n-k).
fn convolved(a: &[BigUint], b: &[BigUint], number: usize) -> BigUint {
    (0..=number).map(|k| &a[k] * &b[number - k]).sum()
}

/// G(N-1) / G(N), exact but for the last rounding. Single servers before the last station take a
/// step for each client, any other before it the square.
fn exact(stations: &[Whole], clients: u32) -> f64 {
    let n = clients as usize;
    let mut all = vec![BigUint::ZERO; n + 1];
    all[0] = BigUint::from(1_u32);
    let (last, others) = stations.split_last().expect("stations");
    for it in others {
        if it.servers == Servers::Limited(1) {
            for number in 1..=n {
                let more = &all[number - 1] * it.demand;
                all[number] += more;
            }
        } else {
            let own = factors(*it, clients);
            all = (0..=n).map(|number| convolved(&own, &all, number)).collect();
        }
    }
    let own = factors(*last, clients);
    quotient(&convolved(&own, &all, n - 1), &convolved(&own, &all, n))
}

fn quotient(over: &BigUint, under: &BigUint) -> f64 {
    const BITS: i32 = 120;
    let shifted: BigUint = (over << BITS) / under;
    let digits = shifted.to_u64_digits();
    let value = digits.iter().rev().fold(0.0_f64, |sum, &digit| {
        #[allow(clippy::cast_precision_loss, reason = "53 bits are what a double has")]
        let digit = digit as f64;
        sum.mul_add(2.0_f64.powi(64), digit)
    });
    value / 2.0_f64.powi(BITS)
}

fn agrees(stations: &[Whole], clients: u32) {
    let found = network(stations).solve(clients).expect("solved").throughput(clients);
    let (found, exact) = (found.expect("a throughput").0, exact(stations, clients));
    assert!((found / exact - 1.0).abs() < 1e-9, "{stations:?} {clients}: {found} {exact}");
}

/// Cores of demand 10 and four locks of demand 1: a program that computes 1 µs and takes one of
/// four locks for 0.4 µs.
fn locks_and_cores(cores: u32) -> Vec<Whole> {
    vec![whole(1, 1), whole(1, 1), whole(1, 1), whole(1, 1), whole(10, cores)]
}

#[test]
fn small_network_has_its_published_throughput() {
    let solved = network(&locks_and_cores(8)).solve(64).expect("solved");
    let found = 10.0 * solved.throughput(64).expect("solved").0;
    assert!((found - 7.9991).abs() < 5e-5, "{found}");
    let solved = network(&locks_and_cores(16)).solve(64).expect("solved");
    let found = 10.0 * solved.throughput(64).expect("solved").0;
    assert!((found - 9.4764).abs() < 5e-5, "{found}");
}

/// The sizes at which mean value analysis in doubles is off by 73 to 95 %, and the greatest.
#[test]
fn convolution_agrees_with_exact_integers() {
    for (clients, cores) in [(64, 8), (128, 32), (256, 64), (512, 64)] {
        agrees(&locks_and_cores(cores), clients);
    }
    agrees(&locks_and_cores(512), 4096);
}

#[test]
fn stations_of_every_kind_agree_with_exact_integers() {
    agrees(&[thinking(2000), whole(3, 1), whole(40, 16), whole(25, 8)], 200);
    agrees(&[whole(7, 3), thinking(1)], 150);
    agrees(&[thinking(900), whole(31, 24)], 300);
}

/// Every balanced network of M single servers has X = N / (D (N + M - 1)).
#[test]
fn balanced_networks_have_their_formula() {
    let solved = network(&[whole(3, 1); 5]).solve(4096).expect("solved");
    for clients in [1, 2, 77, 4096] {
        let expected = f64::from(clients) / (3.0 * f64::from(clients + 4));
        let found = solved.throughput(clients).expect("solved").0;
        assert!((found / expected - 1.0).abs() < 1e-11, "{clients}");
    }
}

/// The machine repairman by its birth and death rates, summed from the most likely state outwards.
#[test]
fn repairman_follows_its_balance_equations() {
    for (clients, servers, think) in [(10_u32, 1_u32, 9.0), (64, 8, 6.5), (4096, 512, 7.2)] {
        let network = Closed::repairman(Seconds(think), Seconds(1.0), servers).expect("valid");
        let found = network.solve(clients).expect("solved").throughput(clients).expect("solved");
        let mut logs = vec![0.0_f64];
        for k in 0..clients {
            let up = f64::from(clients - k) / think;
            let down = f64::from((k + 1).min(servers));
            logs.push(logs[k as usize] + (up / down).ln());
        }
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weight = |k: u32| (logs[k as usize] - top).exp();
        let all: f64 = (0..=clients).map(weight).sum();
        let busy: f64 = (0..=clients).map(|k| weight(k) * f64::from(k.min(servers))).sum();
        assert!((found.0 * all / busy - 1.0).abs() < 1e-9, "{clients} {servers}");
    }
}

#[test]
fn all_clients_are_somewhere() {
    let stations = [thinking(5000), whole(3, 1), whole(600, 512), whole(25, 32)];
    let solved = network(&stations).solve(4096).expect("solved");
    let at = |station| solved.number(station, 4096).expect("solved");
    let sum: f64 = (0..stations.len()).map(at).sum();
    assert!((sum / 4096.0 - 1.0).abs() < 1e-9, "{sum}");
    let thinking = solved.throughput(4096).expect("solved").0 * 5000.0;
    assert!((at(0) / thinking - 1.0).abs() < 1e-9, "Little's law where nobody waits");
    assert_eq!(solved.utilisation(0, 4096), None);
    assert!(solved.utilisation(2, 4096).expect("servers").0 <= 1.0);
}

#[test]
fn what_has_no_answer_is_refused() {
    let none = Closed::new(&[Station { demand: Seconds(0.0), servers: Servers::Limited(1) }]);
    assert_eq!(none, Err(QueueError::NoDemand));
    let none = Closed::repairman(Seconds(-1.0), Seconds(1.0), 1);
    assert!(matches!(none, Err(QueueError::Number(_))));
    assert_eq!(Closed::repairman(Seconds(1.0), Seconds(1.0), 0), Err(QueueError::NoServer));
    let network = network(&[whole(1, 1)]);
    assert!(matches!(network.solve(1 << 20), Err(QueueError::TooMany(..))));
    let solved = network.solve(3).expect("solved");
    assert_eq!(solved.throughput(0), None);
    assert_eq!(solved.throughput(4), None);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..Default::default()
    })]

    /// Any small network: exact, never above the operational bounds, never falling with clients.
    #[test]
    fn any_network_is_exact_and_within_its_bounds(
        stations in prop::collection::vec((1..2000_u32, prop::option::of(1..20_u32)), 1..5),
        clients in 2..60_u32,
    ) {
        let servers = |limit: Option<u32>| limit.map_or(Servers::Unlimited, Servers::Limited);
        let all: Vec<Whole> = stations
            .iter()
            .map(|&(demand, limit)| Whole { demand, servers: servers(limit) })
            .collect();
        agrees(&all, clients);
        let solved = network(&all).solve(clients).expect("solved");
        let round: f64 = all.iter().map(|it| f64::from(it.demand)).sum();
        let mut before = 0.0;
        for number in 1..=clients {
            let found = solved.throughput(number).expect("solved").0;
            prop_assert!(found <= f64::from(number) / round * (1.0 + 1e-12));
            prop_assert!(found >= before * (1.0 - 1e-12));
            before = found;
            for station in 0..all.len() {
                let busy = solved.utilisation(station, number);
                prop_assert!(busy.is_none_or(|busy| busy.0 <= 1.0 + 1e-12));
            }
        }
    }
}
