//! Loads with a known ledger, run by threads of this process.

use super::common::groups;
use kneepoint_probe::{Observation, Target};
use kneepoint_vocab::ThreadTime;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads that run `work` over and over until dropped.
pub(crate) struct TestThreads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Their kernel ids.
    pub(crate) tids: Vec<u32>,
}

impl TestThreads {
    pub(crate) fn start(works: Vec<Box<dyn FnMut() + Send>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (send, tids) = mpsc::channel();
        let threads = works
            .into_iter()
            .map(|mut work| {
                let (stop, send) = (Arc::clone(&stop), send.clone());
                let run = move || {
                    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
                    send.send(tid).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        work();
                    }
                };
                std::thread::Builder::new().name("load".to_owned()).spawn(run).unwrap()
            })
            .collect::<Vec<_>>();
        let tids = tids.iter().take(threads.len()).collect();
        Self { stop, threads, tids }
    }

    pub(crate) fn target(&self) -> Target {
        let pids = vec![std::process::id()];
        Target { pids, clients: self.tids.clone(), generators: Vec::new(), cpus: Vec::new() }
    }
}

impl Drop for TestThreads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Computes for about so long.
pub(crate) fn compute(length: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < length {
        std::hint::black_box((0..200_u64).fold(0, |sum, step| sum ^ step.wrapping_mul(31)));
    }
}

/// The group of the threads of a test.
pub(crate) fn load_group(seen: &Observation) -> &ThreadTime {
    groups(seen).into_iter().find(|group| group.name == "load").expect("threads named load")
}
