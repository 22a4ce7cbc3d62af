//! What a process of Kneepoint's own may do: of root's rights those alone that its work needs.
//!
//! It is the process that reads what others have written: output, symbols, run directories.
//! Programs that it starts as root have all of root's rights again once they begin, for they run
//! as their user runs them. capabilities(7) says what each right is.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Starting systems, watching them, and putting back what they have changed.
    Measuring,
    /// Reading files and writing reports.
    Reading,
    /// Being measured: the embedded workload.
    Serving,
}

impl Work {
    fn needs(self) -> CapabilitySet {
        let files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        match self {
            Self::Measuring => {
                // The collector: programs, events, the kernel's names, maps of other processes.
                let watching = CapabilitySet::BPF
                    | CapabilitySet::PERFMON
                    | CapabilitySet::SYS_PTRACE
                    | CapabilitySet::SYSLOG
                    | CapabilitySet::IPC_LOCK
                    | CapabilitySet::SYS_RESOURCE;
                // Mounts and devices, servers under accounts of their own, and priorities.
                let changing = CapabilitySet::SYS_ADMIN
                    | CapabilitySet::SYS_NICE
                    | CapabilitySet::KILL
                    | CapabilitySet::SETUID
                    | CapabilitySet::SETGID
                    | CapabilitySet::CHOWN
                    | CapabilitySet::FOWNER
                    | CapabilitySet::FSETID
                    | CapabilitySet::IPC_OWNER;
                files | watching | changing
            }
            Self::Reading => files,
            Self::Serving => CapabilitySet::empty(),
        }
    }
}

/// Gives up all rights but those that the work needs: of the calling thread, and of threads that
/// it starts later. So it comes first. Who has none has none to give up.
pub fn keep_only(work: Work) {
    let Ok(mut sets) = capabilities(None) else { return };
    sets.permitted &= work.needs();
    sets.effective &= work.needs();
    // Fewer rights are never refused; where they are, nothing is worse than before.
    if let Err(error) = set_capabilities(None, sets) {
        tracing::debug!("rights are as they were: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_gone_and_only_for_this_thread() {
        let before = capabilities(None).unwrap();
        std::thread::spawn(|| {
            for work in [Work::Measuring, Work::Reading, Work::Serving] {
                keep_only(work);
                let left = capabilities(None).unwrap();
                let more = (left.effective | left.permitted) - work.needs();
                assert!(more.is_empty(), "{work:?}: {more:?}");
            }
        })
        .join()
        .unwrap();
        assert_eq!(capabilities(None).unwrap(), before);
    }

    #[test]
    fn nobody_needs_to_load_modules_or_to_open_networks() {
        let never = CapabilitySet::SYS_MODULE
            | CapabilitySet::SYS_RAWIO
            | CapabilitySet::SYS_BOOT
            | CapabilitySet::NET_ADMIN
            | CapabilitySet::NET_RAW
            | CapabilitySet::MKNOD
            | CapabilitySet::SETPCAP;
        for work in [Work::Measuring, Work::Reading, Work::Serving] {
            assert!((work.needs() & never).is_empty(), "{work:?}");
        }
    }
}
