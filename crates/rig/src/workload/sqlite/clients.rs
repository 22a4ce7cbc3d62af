//! Closed-loop clients: parked connections, the threads that drive them, and what they count.
//!
//! A client's thread lives from [`ClientThreads::begin`] to [`ClientThreads::finish`]. It shares
//! nothing that is written while it works: its counter has cache lines of its own, its response
//! times are recorded in memory of its own.

use super::tally::Tally;
use super::transaction::Transaction;
use crate::workload::SliceOutput;
use anyhow::{Context as _, bail};
use kneepoint_vocab::Nanos;
use rand_pcg::Pcg64;
use rusqlite::Connection;
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

/// A client without a thread: its connection stays open and warm.
pub(super) struct Client {
    /// Its connection, which no other client uses.
    pub(super) connection: Connection,
    /// Where its ids come from.
    pub(super) random: Pcg64,
}

/// Clients at work.
pub(super) struct ClientThreads {
    threads: Vec<JoinHandle<Returned>>,
    shared: Arc<Shared>,
    window: Option<Edge>,
}

/// What the thread of requests and its clients share.
struct Shared {
    lanes: Vec<Lane>,
    /// Number of the open window; 0 before the first.
    window: AtomicU32,
    stop: AtomicBool,
    gate_open: Mutex<bool>,
    gate: Condvar,
}

/// One client's counter, alone in the pair of cache lines that a core fetches together.
#[repr(align(128))]
struct Lane(AtomicU64);

/// Clock and counters at one edge of a window.
struct Edge {
    at: Nanos,
    operations: Vec<u64>,
}

/// What a thread gives back when it ends.
struct Returned {
    client: Client,
    outcome: anyhow::Result<Tally>,
}

impl ClientThreads {
    /// Gives each client a thread and lets all of them begin together. On failure the clients
    /// come back.
    pub(super) fn begin(
        clients: Vec<Client>,
        rows: u32,
    ) -> Result<(Self, Vec<u32>), (Vec<Client>, anyhow::Error)> {
        let shared = Arc::new(Shared {
            lanes: clients.iter().map(|_| Lane(AtomicU64::new(0))).collect(),
            window: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            gate_open: Mutex::new(false),
            gate: Condvar::new(),
        });
        let (announce, arrivals) = mpsc::channel();
        let mut client_threads = Self { threads: Vec::new(), shared, window: None };
        let mut refused = None;
        for (index, client) in clients.into_iter().enumerate() {
            let (shared, announce) = (Arc::clone(&client_threads.shared), announce.clone());
            let thread = Builder::new().name(format!("client-{index}"));
            match thread.spawn(move || work(client, index, rows, &shared, &announce)) {
                Ok(thread) => client_threads.threads.push(thread),
                Err(error) => {
                    refused = Some(anyhow::Error::new(error).context("a thread cannot be started"));
                    break;
                }
            }
        }
        drop(announce);
        let threads = match refused {
            None => client_threads.await_arrival(&arrivals),
            Some(error) => Err(error),
        };
        match threads {
            Ok(threads) => {
                client_threads.shared.open_gate();
                Ok((client_threads, threads))
            }
            Err(error) => {
                let (clients, _) = client_threads.disband();
                Err((clients, error))
            }
        }
    }

    /// Waits until every client stands at the gate; their thread ids, in client order.
    fn await_arrival(&self, arrivals: &mpsc::Receiver<Arrival>) -> anyhow::Result<Vec<u32>> {
        let mut threads = vec![0; self.threads.len()];
        for _ in 0..threads.len() {
            let (index, arrived) = arrivals.recv().context("a client died before it began")?;
            let thread = arrived.map_err(|reason| anyhow::anyhow!("client {index}: {reason}"))?;
            threads[index] = thread;
        }
        Ok(threads)
    }

    /// Opens the counting window.
    pub(super) fn mark(&mut self) {
        self.window = Some(self.edge());
        self.shared.window.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes the counting window, ends the threads, and returns the clients.
    pub(super) fn finish(mut self) -> (Vec<Client>, anyhow::Result<SliceOutput>) {
        let end = self.edge();
        let begin = self.window.take();
        let (clients, tally) = self.disband();
        (clients, tally.and_then(|tally| slice(begin, &end, &tally)))
    }

    fn edge(&self) -> Edge {
        let now = clock_gettime(ClockId::Monotonic);
        let count = |lane: &Lane| lane.0.load(Ordering::Relaxed);
        let operations = self.shared.lanes.iter().map(count).collect();
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
        Edge { at: Nanos(seconds * 1_000_000_000 + nanos), operations }
    }

    /// Ends all threads; their clients, and all that they counted or the first thing that failed.
    pub(super) fn disband(self) -> (Vec<Client>, anyhow::Result<Tally>) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.open_gate();
        let mut clients = Vec::new();
        let mut all = Tally::new();
        for (index, thread) in self.threads.into_iter().enumerate() {
            let Ok(Returned { client, outcome }) = thread.join() else {
                all = all.and_then(|_| bail!("client {index} panicked"));
                continue;
            };
            clients.push(client);
            all = all.and_then(|mut all| {
                let own = outcome.with_context(|| format!("client {index} failed"))?;
                all.add(&own)?;
                Ok(all)
            });
        }
        (clients, all)
    }
}

/// What was counted between two edges.
fn slice(begin: Option<Edge>, end: &Edge, tally: &Tally) -> anyhow::Result<SliceOutput> {
    let begin = begin.context("finish before mark: no window was open")?;
    let counted = end.operations.iter().zip(&begin.operations);
    let per_client: Vec<u64> = counted.map(|(end, begin)| end - begin).collect();
    Ok(SliceOutput {
        counts: None,
        operations: per_client.iter().sum(),
        counted_over: Nanos(end.at.0.saturating_sub(begin.at.0)),
        per_client,
        latency: tally.latency(),
    })
}

impl Shared {
    fn open_gate(&self) {
        *self.gate_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.gate.notify_all();
    }

    fn pass_gate(&self) {
        let mut open = self.gate_open.lock().unwrap_or_else(PoisonError::into_inner);
        while !*open {
            open = self.gate.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A client that stands at the gate: its index, and its thread id or why it cannot begin.
type Arrival = (usize, Result<u32, String>);

/// The life of a client's thread.
fn work(
    mut client: Client,
    index: usize,
    rows: u32,
    shared: &Shared,
    announce: &mpsc::Sender<Arrival>,
) -> Returned {
    let outcome = {
        let prepared = Transaction::prepare(&client.connection, rows);
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let arrival = prepared.as_ref().map(|_| thread).map_err(ToString::to_string);
        // The receiver is gone only if the client_threads is being disbanded already.
        let _ = announce.send((index, arrival));
        shared.pass_gate();
        match prepared {
            Ok(transaction) => repeat(transaction, &mut client.random, shared, index),
            Err(error) => Err(error.into()),
        }
    };
    if !client.connection.is_autocommit() {
        // The failure that left the transaction open is the one to report.
        let _ = client.connection.execute_batch("ROLLBACK");
    }
    Returned { client, outcome }
}

/// The closed loop. The end of an operation is the begin of the next, so the clock is read once.
fn repeat(
    mut transaction: Transaction<'_>,
    random: &mut Pcg64,
    shared: &Shared,
    index: usize,
) -> anyhow::Result<Tally> {
    let lane = &shared.lanes[index].0;
    let mut tally = Tally::new()?;
    let mut operations = 0;
    let mut window = 0;
    let mut begun = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        transaction.run(random)?;
        let ended = Instant::now();
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let open = shared.window.load(Ordering::Relaxed);
        if open != window {
            window = open;
            tally.reset();
        }
        operations += 1;
        lane.store(operations, Ordering::Relaxed);
        tally.record(ended - begun);
        begun = ended;
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    fn clients(count: u32, rows: u32) -> Vec<Client> {
        let client = |index| {
            let mut connection = Connection::open_in_memory().unwrap();
            if rows > 0 {
                table::load(&mut connection, rows, 1).unwrap();
            }
            Client { connection, random: Pcg64::new(1, u128::from(index)) }
        };
        (0..count).map(client).collect()
    }

    #[test]
    fn each_window_counts_from_its_own_mark() {
        let (mut client_threads, threads) =
            ClientThreads::begin(clients(2, 1000), 1000).map_err(|e| e.1).unwrap();
        assert_eq!(threads.len(), 2);
        client_threads.mark();
        while client_threads.edge().operations.contains(&0) {
            std::thread::yield_now();
        }
        let shared = Arc::clone(&client_threads.shared);
        let before = client_threads.edge().operations;
        client_threads.mark();
        let (parked, slice) = client_threads.finish();
        let slice = slice.unwrap();
        for (index, lane) in shared.lanes.iter().enumerate() {
            let all = lane.0.load(Ordering::Relaxed);
            assert!(slice.per_client[index] + before[index] <= all, "{slice:?} {before:?} {all}");
        }
        assert_eq!(parked.len(), 2);
        assert_eq!(slice.operations, slice.per_client.iter().sum::<u64>());
        assert!(slice.counted_over.0 > 0, "{slice:?}");
        // The clients come back usable, in order, and their counters start anew.
        let (mut client_threads, _) = ClientThreads::begin(parked, 1000).map_err(|e| e.1).unwrap();
        client_threads.mark();
        let (_, slice) = client_threads.finish();
        assert_eq!(slice.unwrap().per_client.len(), 2);
    }

    #[test]
    fn a_failed_transaction_fails_the_slice_and_is_rolled_back() {
        let (mut client_threads, _) =
            ClientThreads::begin(clients(2, 1000), 100_000_000).map_err(|e| e.1).unwrap();
        client_threads.mark();
        while !client_threads.threads.iter().all(JoinHandle::is_finished) {
            std::thread::yield_now();
        }
        let (parked, slice) = client_threads.finish();
        let message = format!("{:#}", slice.unwrap_err());
        assert!(message.starts_with("client 0 failed: "), "{message}");
        assert!(parked.iter().all(|client| client.connection.is_autocommit()));
        assert_eq!(parked.len(), 2);
    }

    #[test]
    fn a_client_that_cannot_begin_sends_all_of_them_home() {
        let mut some = clients(1, 1000);
        some.extend(clients(1, 0));
        let Err((parked, error)) = ClientThreads::begin(some, 1000) else { panic!("it began") };
        assert_eq!(parked.len(), 2);
        assert!(error.to_string().contains("client 1: no such table"), "{error}");
    }
}
