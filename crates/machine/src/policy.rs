//! Scheduling policies of threads, as sched(7) has them.

use std::fmt;
use std::str::FromStr;

/// Real-time priorities that there are.
const PRIORITIES: std::ops::RangeInclusive<u8> = 1..=99;

/// How the kernel picks a thread to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The usual one.
    Other,
    /// As one that computes: it is not favoured when it wakes.
    Batch,
    /// When nobody else wants the core.
    Idle,
    /// Before all of lower priority, until it blocks.
    Fifo(u8),
    /// The same, in turns with those of its priority.
    RoundRobin(u8),
}

impl Policy {
    /// The kernel's number of it, and the real-time priority.
    pub(crate) fn numbers(self) -> (libc::c_int, libc::c_int) {
        match self {
            Self::Other => (libc::SCHED_OTHER, 0),
            Self::Batch => (libc::SCHED_BATCH, 0),
            Self::Idle => (libc::SCHED_IDLE, 0),
            Self::Fifo(priority) => (libc::SCHED_FIFO, priority.into()),
            Self::RoundRobin(priority) => (libc::SCHED_RR, priority.into()),
        }
    }

    /// The policy of these numbers; none where it is another one, such as of deadlines.
    pub(crate) fn of_numbers(policy: libc::c_int, priority: u8) -> Option<Self> {
        match policy {
            libc::SCHED_OTHER => Some(Self::Other),
            libc::SCHED_BATCH => Some(Self::Batch),
            libc::SCHED_IDLE => Some(Self::Idle),
            libc::SCHED_FIFO => Some(Self::Fifo(priority)),
            libc::SCHED_RR => Some(Self::RoundRobin(priority)),
            _ => None,
        }
    }

    /// Whether its threads run before all ordinary ones.
    #[must_use]
    pub fn is_real_time(self) -> bool {
        matches!(self, Self::Fifo(_) | Self::RoundRobin(_))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.write_str("other"),
            Self::Batch => f.write_str("batch"),
            Self::Idle => f.write_str("idle"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

/// A text that is no policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPolicy;

impl FromStr for Policy {
    type Err = NoPolicy;

    fn from_str(text: &str) -> Result<Self, NoPolicy> {
        let priority = |text: &str| {
            let priority = text.parse().ok().filter(|priority| PRIORITIES.contains(priority));
            priority.ok_or(NoPolicy)
        };
        match text.split_once(':') {
            None => match text {
                "other" => Ok(Self::Other),
                "batch" => Ok(Self::Batch),
                "idle" => Ok(Self::Idle),
                _ => Err(NoPolicy),
            },
            Some(("fifo", rest)) => priority(rest).map(Self::Fifo),
            Some(("rr", rest)) => priority(rest).map(Self::RoundRobin),
            Some(_) => Err(NoPolicy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_what_its_words_say() {
        let all = [
            Policy::Other,
            Policy::Batch,
            Policy::Idle,
            Policy::Fifo(1),
            Policy::Fifo(99),
            Policy::RoundRobin(7),
        ];
        for policy in all {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            let (number, priority) = policy.numbers();
            assert_eq!(Policy::of_numbers(number, u8::try_from(priority).unwrap()), Some(policy));
            assert_eq!(policy.is_real_time(), priority > 0);
        }
        for bad in ["", "fifo", "fifo:0", "fifo:100", "rr:-1", "batch:1", "FIFO:1", "deadline"] {
            assert_eq!(bad.parse::<Policy>(), Err(NoPolicy), "{bad}");
        }
        assert_eq!(Policy::of_numbers(6, 0), None);
    }
}
