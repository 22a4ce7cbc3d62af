//! Stop means stop: whatever hangs, a run that was asked to end has ended its systems within a time
//! that a person waits for.

use anyhow::Context as _;
use kneepoint_rig::undo::Undo;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long systems have to end in their own order once a stop was asked for.
const GRACE: Duration = Duration::from_millis(1500);
/// How often is looked whether one was. Seldom: each look is a thread that wakes on a core of the
/// system under test, and twenty a second made the scheduler part clients from the threads that
/// serve them.
const LOOK: Duration = Duration::from_millis(500);

/// Kills all that was started some time after a stop was asked for, unless dropped before.
pub(crate) struct Watchdog {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches `stop` for the systems noted in `undo`.
    pub(crate) fn begin(stop: &Arc<AtomicBool>, undo: &Undo) -> anyhow::Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        let (stop, undo, over) = (Arc::clone(stop), undo.clone(), Arc::clone(&done));
        let watch = move || {
            let mut since = None;
            while !over.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    let asked: Instant = *since.get_or_insert_with(Instant::now);
                    if asked.elapsed() > GRACE {
                        undo.halt();
                        return;
                    }
                }
                std::thread::park_timeout(LOOK);
            }
        };
        let thread = std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(watch)
            .context("no thread can be started")?;
        Ok(Self { done, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}
