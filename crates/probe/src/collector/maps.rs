//! The programs' maps by name, typed.

use super::ProbeError;
use super::wire::{
    Control, Core, GroupId, GroupSum, THREADS, Thread, WaitId, WaitRecord, WaitSum, counter,
};
use crate::sys;
use aya::Ebpf;
use aya::maps::{Map, MapData, RingBuf};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// All maps of one loaded object.
pub(crate) struct Maps {
    control: MapData,
    counters: MapData,
    cores: MapData,
    targets: MapData,
    clients: MapData,
    threads: sys::MappedArray<Thread>,
    waits: MapData,
    exited: MapData,
    stack_events: MapData,
    records: RingBuf<MapData>,
    possible: usize,
}

fn take(ebpf: &mut Ebpf, name: &str) -> Result<MapData, ProbeError> {
    match ebpf.take_map(name) {
        Some(
            Map::Array(data)
            | Map::PerCpuArray(data)
            | Map::HashMap(data)
            | Map::PerCpuHashMap(data)
            | Map::PerfEventArray(data)
            | Map::RingBuf(data),
        ) => Ok(data),
        _ => Err(ProbeError::Ebpf(format!("the object has no map `{name}`"))),
    }
}

fn failed(map: &'static str) -> impl FnOnce(io::Error) -> ProbeError {
    move |source| ProbeError::Map { map, source }
}

fn fd(map: &MapData) -> BorrowedFd<'_> {
    map.fd().as_fd()
}

impl Maps {
    /// Takes them out of a loaded object.
    pub(crate) fn take(ebpf: &mut Ebpf, possible: usize) -> Result<Self, ProbeError> {
        let records = ebpf
            .take_map("records")
            .ok_or_else(|| ProbeError::Ebpf("the object has no map `records`".to_owned()))?;
        Ok(Self {
            control: take(ebpf, "control")?,
            counters: take(ebpf, "counters")?,
            cores: take(ebpf, "cores")?,
            targets: take(ebpf, "targets")?,
            clients: take(ebpf, "clients")?,
            threads: {
                let threads = take(ebpf, "threads")?;
                sys::MappedArray::new(fd(&threads), THREADS).map_err(failed("threads"))?
            },
            waits: take(ebpf, "waits")?,
            exited: take(ebpf, "exited")?,
            stack_events: take(ebpf, "stack_events")?,
            records: RingBuf::try_from(records)
                .map_err(|error| ProbeError::Ebpf(error.to_string()))?,
            possible,
        })
    }

    pub(crate) fn set_control(&self, control: &Control) -> Result<(), ProbeError> {
        sys::map_set(fd(&self.control), &0_u32, control).map_err(failed("control"))
    }

    /// Lets programs on `cpu` write their stacks to `event`.
    pub(crate) fn set_event(&self, cpu: u32, event: BorrowedFd<'_>) -> Result<(), ProbeError> {
        sys::map_set_event(fd(&self.stack_events), cpu, event).map_err(failed("stack_events"))
    }

    /// Follows exactly these processes (with their class) and client threads.
    pub(crate) fn set_targets(
        &self,
        classes: &[(u32, u32)],
        clients: &[u32],
    ) -> Result<(), ProbeError> {
        for old in self.targets()? {
            if !classes.iter().any(|(pid, _)| *pid == old) {
                sys::map_delete(fd(&self.targets), &old).map_err(failed("targets"))?;
            }
        }
        for (pid, class) in classes {
            sys::map_set(fd(&self.targets), pid, class).map_err(failed("targets"))?;
        }
        sys::map_drain::<u32, u32>(fd(&self.clients), 1).map_err(failed("clients"))?;
        for tid in clients {
            sys::map_set(fd(&self.clients), tid, &1_u32).map_err(failed("clients"))?;
        }
        Ok(())
    }

    /// Processes followed now, children born since included.
    pub(crate) fn targets(&self) -> Result<Vec<u32>, ProbeError> {
        sys::map_keys(fd(&self.targets)).map_err(failed("targets"))
    }

    /// Threads seen in the window of this number, by their ids.
    pub(crate) fn threads(&self, window: u32) -> Vec<(u32, Thread)> {
        let all = self.threads.filter(|owner| owner >> 32 == u64::from(window));
        let mut all: Vec<_> = all.into_iter().map(|thread| (thread.id(), thread)).collect();
        all.sort_unstable_by_key(|(tid, _)| *tid);
        all
    }

    /// Empties `waits`, summed over CPUs.
    pub(crate) fn drain_waits(&self) -> Result<Vec<(WaitId, WaitSum)>, ProbeError> {
        let entries: Vec<(WaitId, Vec<WaitSum>)> =
            sys::map_drain(fd(&self.waits), self.possible).map_err(failed("waits"))?;
        let sum = |(id, all): (WaitId, Vec<WaitSum>)| {
            let mut sum = WaitSum::default();
            all.iter().for_each(|part| sum.add(part));
            (id, sum)
        };
        Ok(entries.into_iter().map(sum).collect())
    }

    /// Empties `exited`: one entry a CPU and group.
    pub(crate) fn drain_exited(&self) -> Result<Vec<(GroupId, GroupSum)>, ProbeError> {
        let entries: Vec<(GroupId, Vec<GroupSum>)> =
            sys::map_drain(fd(&self.exited), self.possible).map_err(failed("exited"))?;
        let parts = entries.into_iter().flat_map(|(id, all)| all.into_iter().map(move |s| (id, s)));
        Ok(parts.filter(|(_, sum)| sum.threads > 0).collect())
    }

    /// Accounts of all possible CPUs, by CPU number.
    pub(crate) fn cores(&self) -> Result<Vec<Core>, ProbeError> {
        sys::map_get_per_cpu(fd(&self.cores), 0, self.possible).map_err(failed("cores"))
    }

    /// Counters since load, summed over CPUs.
    pub(crate) fn counters(&self) -> Result<[u64; counter::COUNT as usize], ProbeError> {
        let mut sums = [0; counter::COUNT as usize];
        for (index, sum) in (0..counter::COUNT).zip(&mut sums) {
            let parts = sys::map_get_per_cpu::<u64>(fd(&self.counters), index, self.possible)
                .map_err(failed("counters"))?;
            *sum = parts.iter().sum();
        }
        Ok(sums)
    }

    /// Records of finished sampled waits that arrived since the last call.
    pub(crate) fn records(&mut self) -> Vec<WaitRecord> {
        let mut found = Vec::new();
        while let Some(item) = self.records.next() {
            found.extend(sys::read_wire::<WaitRecord>(&item));
        }
        found
    }
}
