//! What the kernel complains of while a load runs.

use kneepoint_vocab::{Failure, Nanos};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

/// What failures of the kernel are called.
pub(super) const KERNEL: &str = "kernel";
/// Messages of this syslog level and below are errors.
const ERROR: u64 = 3;
/// What a message of any level says when something broke.
const ALARMS: [&str; 7] = [
    "BUG:",
    "WARNING:",
    "Oops",
    "soft lockup",
    "blocked for more than",
    "rcu_sched self-detected",
    "Out of memory",
];

/// The kernel's log from a moment on.
#[derive(Debug)]
pub(super) struct KernelLog {
    file: File,
    begun: Nanos,
}

impl KernelLog {
    /// From now on; none where it may not be read.
    pub(super) fn from_now() -> Option<Self> {
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
        let mut file =
            OpenOptions::new().read(true).custom_flags(nonblocking).open("/dev/kmsg").ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        let now = clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).ok()?;
        let nanos = u64::try_from(now.tv_nsec).ok()?;
        Some(Self { file, begun: Nanos(seconds * 1_000_000_000 + nanos) })
    }

    /// Complaints since then.
    pub(super) fn complaints(&mut self) -> Vec<Failure> {
        let mut found = Vec::new();
        let mut record = vec![0; 8192];
        loop {
            match self.file.read(&mut record) {
                Ok(0) => return found,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    found.extend(complaint(&text, self.begun));
                }
                // Older records were overwritten: reading goes on with those that are left.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return found,
            }
        }
    }
}

/// A record `level,sequence,microseconds,flags;message`, if it is the kernel's own and bad.
fn complaint(record: &str, begun: Nanos) -> Option<Failure> {
    let (head, message) = record.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u64 = fields.next()?.parse().ok()?;
    let micros: u64 = fields.nth(1)?.parse().ok()?;
    let text = message.lines().next()?.trim();
    let own = priority >> 3 == 0;
    let bad = priority & 7 <= ERROR || ALARMS.iter().any(|alarm| text.contains(alarm));
    (own && bad && !text.is_empty()).then(|| Failure {
        class: KERNEL.to_owned(),
        after: Nanos((micros * 1000).saturating_sub(begun.0)),
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_and_alarms_of_the_kernel_are_complaints() {
        let begun = Nanos::from_millis(1000);
        let seen = |record| complaint(record, begun);
        let failure = seen("3,7,3500000,-;EXT4-fs error\n SUBSYSTEM=x\n").unwrap();
        assert_eq!(
            (failure.after, failure.text.as_str()),
            (Nanos::from_millis(2500), "EXT4-fs error")
        );
        assert!(seen("6,7,3500000,-;watchdog: BUG: soft lockup - CPU#0 stuck").is_some());
        assert!(seen("6,7,3500000,-;eth0: link up").is_none());
        assert!(seen("11,7,3500000,-;a daemon's error").is_none(), "facility 1 is not the kernel");
        assert!(seen("garbage").is_none());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}") {
            let _ = complaint(&text, Nanos(0));
        }
    }
}
