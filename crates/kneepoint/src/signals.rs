//! What Ctrl-C, a hang-up and termination do to a run.

use crate::ERROR;
use anyhow::{Context, Result};
use kneepoint_machine::proc::process::own_status;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A second signal counts only so long after the first: timeout(1) sends one to the process and
/// at once another to its group.
const TOGETHER: Duration = Duration::from_secs(1);

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// To stop measuring and report.
    Stop,
    /// Nothing: it belongs to one that came before.
    Nothing,
    /// To end at once.
    End,
}

/// The signals so far.
#[derive(Debug, Default)]
struct Seen {
    first: Option<Instant>,
}

impl Seen {
    fn next(&mut self, now: Instant) -> Asked {
        match self.first {
            None => {
                self.first = Some(now);
                Asked::Stop
            }
            Some(first) if now.duration_since(first) < TOGETHER => Asked::Nothing,
            Some(_) => Asked::End,
        }
    }
}

/// Lets a file that may not grow any more be an error of the write, not the end of the process.
///
/// # Errors
/// The handler cannot be installed.
pub(crate) fn outlive_full_files() -> Result<()> {
    let noted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, noted).context("installing a signal handler")?;
    Ok(())
}

/// Set by the first signal; a second one, when the first has had time to be seen, ends Kneepoint
/// at once, and its systems end with it. Signals that Kneepoint was started to ignore, as by
/// nohup(1), stay ignored.
pub(crate) fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let ignored = ignored_signals();
    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|one| ignored >> (one - 1) & 1 == 0);
    let mut signals = Signals::new(heeded).context("installing the signal handlers")?;
    let flag = stop.clone();
    let watch = move || {
        let mut seen = Seen::default();
        for _ in &mut signals {
            match seen.next(Instant::now()) {
                Asked::Stop => flag.store(true, Ordering::SeqCst),
                Asked::Nothing => {}
                Asked::End => signal_hook::low_level::exit(i32::from(ERROR)),
            }
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(watch).context("starting the thread that waits for signals")?;
    Ok(stop)
}

/// Bit n - 1 stands for signal n: proc_pid_status(5). None where the kernel does not tell.
fn ignored_signals() -> u64 {
    let mask = own_status("SigIgn");
    mask.and_then(|digits| u64::from_str_radix(&digits, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signals_at_once_are_one() {
        let begin = Instant::now();
        let mut seen = Seen::default();
        assert_eq!(seen.next(begin), Asked::Stop);
        assert_eq!(seen.next(begin), Asked::Nothing);
        assert_eq!(seen.next(begin + TOGETHER / 2), Asked::Nothing);
        assert_eq!(seen.next(begin + TOGETHER), Asked::End);
    }
}
