//! Service completions each second: the closed network, and threads with slices, preemption,
//! spinning and wake-up costs; as they are, and on 512 cores with 4,096 threads. And how long a
//! curve of 64 levels takes to be known to within 1 %.
//!
//! `cargo bench -p kneepoint-model` prints completions each second; `bench/simulators.sh` puts
//! other simulators beside them.

use divan::counter::ItemsCount;
use kneepoint_model::sim::{Compiled, Settings, simulate};
use kneepoint_model::sweep::{Sweep, sweep};
use kneepoint_model::twin::{Twin, Wanted};
use kneepoint_vocab::{Level, Ratio};

const NETWORK: &str = include_str!("../tests/twins/network.toml");
const THREADS: &str = include_str!("../tests/twins/threads.toml");
/// Each operation of either is two services.
const SERVICES: u64 = 2;

fn main() {
    divan::main();
}

fn large(text: &str) -> String {
    let threads = text.replace("count = 64", "count = 4096");
    threads.replace("count = 8", "count = 512").replace("copies = 4", "copies = 256")
}

fn run(bencher: divan::Bencher<'_, '_>, text: &str) {
    let twin = Twin::parse(text).and_then(|twin| twin.compile(Wanted::default()));
    let Ok(twin) = twin else { return };
    let completed = completed(&twin);
    bencher.counter(ItemsCount::new(completed)).bench_local(|| simulate(&twin, &settings()));
}

/// Services of one simulation: the same each time, as the seed is.
fn completed(twin: &Compiled) -> u64 {
    simulate(twin, &settings()).map_or(0, |it| SERVICES * (it.account.operations + it.warm_up))
}

/// A precision that takes some hundred thousand operations.
fn settings() -> Settings {
    Settings { precision: Ratio(0.001), budget: 4_000_000, ..Settings::default() }
}

#[divan::bench(sample_count = 10)]
fn network(bencher: divan::Bencher<'_, '_>) {
    run(bencher, NETWORK);
}

#[divan::bench(sample_count = 10)]
fn threads(bencher: divan::Bencher<'_, '_>) {
    run(bencher, THREADS);
}

#[divan::bench(sample_count = 10)]
fn network_large(bencher: divan::Bencher<'_, '_>) {
    run(bencher, &large(NETWORK));
}

#[divan::bench(sample_count = 10)]
fn threads_large(bencher: divan::Bencher<'_, '_>) {
    run(bencher, &large(THREADS));
}

/// 1 to 64 clients, each level known to within 1 %.
fn curve(bencher: divan::Bencher<'_, '_>, text: &str) {
    let Ok(twin) = Twin::parse(&text.replace("count = 64", "count = \"clients\"")) else { return };
    let levels: Vec<Level> = (1..=64).map(|clients| Level { clients, cores: 8 }).collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let how = Sweep { seed: 1, precision: Ratio(0.01), budget: 1_000_000_000, workers };
    bencher.bench_local(|| sweep(&twin, &levels, &how));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn curve_of_64_levels_network(bencher: divan::Bencher<'_, '_>) {
    curve(bencher, NETWORK);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn curve_of_64_levels_threads(bencher: divan::Bencher<'_, '_>) {
    curve(bencher, THREADS);
}
