//! The closed network of crates/model/tests/twins/network.toml in nexosim: 64 customers, 8 cores of
//! mean service 1, 4 single servers of mean 0.4 of which each visit takes one at random.
//! Prints its name, service completions for each second, and throughput (exact: 7.9991).

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::{EventSource, Output};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CUSTOMERS: u32 = 64;
const CORES: u32 = 8;
const SERVERS: usize = 4;
/// Simulated seconds.
const UNTIL: u64 = 50_000;

/// Servers with one queue; who is served goes on to one of the next stations at random.
#[derive(Serialize, Deserialize)]
struct Station {
    next: Vec<Output<u32>>,
    free: u32,
    mean: f64,
    queue: VecDeque<u32>,
    chance: u64,
    #[serde(skip)]
    done: Arc<AtomicU64>,
}

#[Model]
impl Station {
    /// A customer comes.
    pub async fn arrive(&mut self, customer: u32, cx: &Context<Self>) {
        if self.free == 0 {
            self.queue.push_back(customer);
            return;
        }
        self.free -= 1;
        self.begin(customer, cx);
    }

    /// A service ends.
    #[nexosim(schedulable)]
    async fn end(&mut self, customer: u32, cx: &Context<Self>) {
        self.done.fetch_add(1, Ordering::Relaxed);
        match self.queue.pop_front() {
            Some(waiting) => self.begin(waiting, cx),
            None => self.free += 1,
        }
        let place = (self.draw() * self.next.len() as f64) as usize;
        self.next[place].send(customer).await;
    }
}

impl Station {
    fn new(servers: u32, mean: f64, next: usize, done: &Arc<AtomicU64>, seed: u64) -> Self {
        Self {
            next: (0..next).map(|_| Output::default()).collect(),
            free: servers,
            mean,
            queue: VecDeque::new(),
            chance: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            done: Arc::clone(done),
        }
    }

    /// Uniform between 0 and 1 (xorshift64*).
    fn draw(&mut self) -> f64 {
        self.chance ^= self.chance >> 12;
        self.chance ^= self.chance << 25;
        self.chance ^= self.chance >> 27;
        let bits = self.chance.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }

    fn begin(&mut self, customer: u32, cx: &Context<Self>) {
        let length = -self.mean * (1.0 - self.draw()).ln();
        let length = Duration::from_secs_f64(length).max(Duration::from_nanos(1));
        cx.schedule_event(length, schedulable!(Self::end), customer).expect("in the future");
    }
}

fn main() {
    let (on_cores, on_servers) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut cores = Station::new(CORES, 1.0, SERVERS, &on_cores, 1);
    let cores_box = Mailbox::new();
    let mut bench = SimInit::with_num_threads(1);
    let mut servers = Vec::new();
    for number in 0..SERVERS {
        let mut server = Station::new(1, 0.4, 1, &on_servers, 2 + number as u64);
        let own = Mailbox::new();
        cores.next[number].connect(Station::arrive, &own);
        server.next[0].connect(Station::arrive, &cores_box);
        servers.push((server, own));
    }
    let arrive = EventSource::new().connect(Station::arrive, &cores_box).register(&mut bench);
    for (number, (server, own)) in servers.into_iter().enumerate() {
        bench = bench.add_model(server, own, &format!("server {number}"));
    }
    bench = bench.add_model(cores, cores_box, "cores");
    let mut simulation = bench.init(MonotonicTime::EPOCH).expect("a bench");
    for customer in 0..CUSTOMERS {
        simulation.process_event(&arrive, customer).expect("arrives");
    }
    let begun = Instant::now();
    simulation.step_until(Duration::from_secs(UNTIL)).expect("runs");
    let spent = begun.elapsed().as_secs_f64();
    let operations = on_servers.load(Ordering::Relaxed);
    let completions = on_cores.load(Ordering::Relaxed) + operations;
    println!(
        "nexosim\t{:.0}\t{:.3}",
        completions as f64 / spent,
        operations as f64 / UNTIL as f64
    );
}
