//! Which processes, threads and cores a window is about.

/// Whom to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Processes of the system under test; their descendants are followed.
    pub pids: Vec<u32>,
    /// Kernel thread ids of the client threads among theirs.
    pub clients: Vec<u32>,
    /// Load generators in processes of their own.
    pub generators: Vec<u32>,
    /// CPUs that the ledgers are about; all that are watched where empty. The system's threads
    /// are expected to run there only.
    pub cpus: Vec<u32>,
}

impl Target {
    /// The CPUs that the ledgers are about, where `watched` are those that can be.
    pub(crate) fn cpus_of(&self, watched: &[u32]) -> Vec<u32> {
        if self.cpus.is_empty() { watched.to_vec() } else { self.cpus.clone() }
    }
}
