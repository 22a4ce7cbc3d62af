//! The twins of docs/twin.md run, and so do the examples beside the tests.

use kneepoint_model::sweep::{Sweep, sweep};
use kneepoint_model::twin::Twin;
use kneepoint_vocab::{Level, Ratio};

const HOW: Sweep = Sweep { seed: 1, precision: Ratio(0.05), budget: 50_000_000, workers: 2 };

fn curve(text: &str) -> Vec<f64> {
    let twin = Twin::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let levels = [1, 2, 16].map(|clients| Level { clients, cores: twin.cores.count });
    let points = sweep(&twin, &levels, &HOW).expect("within the budget");
    points.into_iter().map(|point| point.expect("it goes on").throughput.0).collect()
}

#[test]
fn every_twin_of_the_page_runs() {
    let page = include_str!("../../../docs/twin.md");
    let twins: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(twins.len(), 2);
    let lock = curve(twins[0]);
    assert!(lock[1] > 1.5 * lock[0], "two clients on four cores: {lock:?}");
    assert!(lock[2] < 1.05e6, "the lock is held 1 µs for each operation: {lock:?}");
    let workers = curve(twins[1]);
    assert!(workers[2] > workers[0] && workers[2] < 2.0 / 26e-6 * 1.05, "{workers:?}");
}

#[test]
fn every_example_runs() {
    for text in [include_str!("twins/network.toml"), include_str!("twins/threads.toml")] {
        assert!(curve(text).iter().all(|rate| *rate > 0.0));
    }
}

/// Every key of the format is on the page.
#[test]
fn every_step_is_on_the_page() {
    let page = include_str!("../../../docs/twin.md");
    let verbs = [
        "run", "think", "hold", "io", "start", "repeat", "chance", "put", "take", "call", "reply",
        "within", "move",
    ];
    for verb in verbs {
        assert!(page.contains(&format!("`{{ {verb} = ")), "{verb}");
    }
    let wrong = Twin::parse("name = \"x\"\n[[thread]]\nname = \"c\"\ncount = 1\nprogram = [{}]\n");
    let said = wrong.expect_err("a step without a verb").message;
    for verb in verbs {
        assert!(said.contains(verb), "{said}");
    }
}
