//! What the kernel counted of a program that has ended: what its own count is checked against.

use super::private;
use crate::process::Process;
use kneepoint_machine::proc::io::{self, IoCounts};
use kneepoint_vocab::CountCheck;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::time::{Duration, Instant};

/// Whether a child has ended. Unlike [`Process::ended`] it leaves it unreaped, with its counts.
pub(super) fn has_ended(process: &Process) -> bool {
    let id = i32::try_from(process.pid()).ok().and_then(Pid::from_raw);
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let waited = id.map(|id| waitid(WaitId::Pid(id), options));
    // What cannot be waited for has ended and been reaped.
    !matches!(waited, Some(Ok(None)))
}

/// Waits until a child has ended and returns what it did in its life.
///
/// # Errors
/// It does not end within `timeout`.
pub(super) fn final_counts(process: &Process, timeout: Duration) -> anyhow::Result<IoCounts> {
    let deadline = Instant::now() + timeout;
    while !has_ended(process) {
        if Instant::now() > deadline {
            return Err(process.lost(&format!("did not end within {timeout:?}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(io::of(process.pid())?)
}

/// The same without what the first thread did.
///
/// # Errors
/// Like [`final_counts`].
pub(super) fn calls_beside_first_thread(
    process: &Process,
    timeout: Duration,
) -> anyhow::Result<IoCounts> {
    let whole = final_counts(process, timeout)?;
    let pid = process.pid();
    let first = io::of_thread(pid, pid)?;
    Ok(IoCounts {
        read_calls: whole.read_calls.saturating_sub(first.read_calls),
        write_calls: whole.write_calls.saturating_sub(first.write_calls),
        device_bytes: whole.device_bytes.saturating_sub(first.device_bytes),
    })
}

/// The check, where the two agree within 1 %.
///
/// # Errors
/// They do not: there is no telling which is right.
pub(super) fn agreed(check: CountCheck, who: &str) -> anyhow::Result<CountCheck> {
    private::agreed(check, |check| {
        format!(
            "{who} counted {} operations, the kernel {} ({}): {:.1} % apart",
            check.generator,
            check.server,
            check.counter,
            check.disagreement().0 * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_a_percent_apart_are_refused() {
        let check = |server| CountCheck { counter: "reads".into(), generator: 1000, server };
        assert!(agreed(check(1009), "fio").is_ok());
        let error = agreed(check(1020), "fio").unwrap_err().to_string();
        assert!(error.contains("fio counted 1000") && error.contains("2.0 % apart"), "{error}");
        assert!(agreed(check(0), "fio").is_err());
    }
}
