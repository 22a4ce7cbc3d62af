//! Live: a lock inside the kernel that many threads want, named by what the collector gathers.

#[cfg(test)]
mod common;
#[cfg(test)]
#[path = "common/test_threads.rs"]
mod test_threads;

use common::alone;
use gather::gather;
use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const BLOCK: usize = 16 << 10;
const BLOCKS: u64 = 64;

#[cfg(test)]
mod gather {
    use super::common::{assert_closed, probe, ratio, waits, window};
    use super::test_threads::{TestThreads, compute, load_group};
    use kneepoint_probe::Observation;
    use kneepoint_vocab::{Fact, StackKind, StackRecord, StackWeight, Tier, WaitReason};
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::sync::Arc;
    use std::time::Duration;

    /// Functions on the kernel side of each stack, innermost first.
    fn kernel_side(records: &[StackRecord]) -> BTreeMap<u32, Vec<String>> {
        let names = |record: &StackRecord| {
            let kernel = record.frames.iter().take_while(|frame| frame.module == "[kernel]");
            kernel.map(|frame| frame.function.clone()).collect()
        };
        records.iter().map(|record| (record.id.0, names(record))).collect()
    }

    fn stacks(seen: &Observation, kind: StackKind) -> Vec<&StackWeight> {
        let of = |fact: &'_ Fact| matches!(fact, Fact::Stack(stack) if stack.kind == kind);
        let facts = seen.facts.iter().filter(|fact| of(fact));
        facts
            .filter_map(|fact| if let Fact::Stack(stack) = fact { Some(stack) } else { None })
            .collect()
    }

    /// What several windows said together.
    #[derive(Default)]
    pub(super) struct Gathered {
        names: BTreeMap<u32, Vec<String>>,
        /// Blocked on kernel locks, ns, by the lock's name.
        pub(super) waited: BTreeMap<Option<String>, u64>,
        /// Weight of stacks that wait or spin for a kernel lock, ns: all, and those of a write that
        /// wants an rwsem.
        pub(super) stacks: [u64; 2],
        spun: u64,
    }

    impl Gathered {
        fn add(&mut self, seen: &Observation) {
            self.names.extend(kernel_side(&seen.new_stacks));
            for wait in waits(seen).into_iter().filter(|w| w.key.reason == WaitReason::KernelLock) {
                *self.waited.entry(wait.key.object_name.clone()).or_default() += wait.blocked.0;
            }
            for kind in [StackKind::OnCpu, StackKind::OffCpu] {
                for stack in stacks(seen, kind) {
                    let names = &self.names[&stack.stack.0];
                    let has = |part: &str| names.iter().any(|name| name.contains(part));
                    if !["rwsem_", "osq_lock", "mutex", "spin_lock_slowpath"].into_iter().any(has) {
                        continue;
                    }
                    let writes = has("rwsem_") && (has("down_write") || has("up_write"));
                    self.stacks[0] += stack.weight.0;
                    self.stacks[1] += if writes && has("vfs_write") { stack.weight.0 } else { 0 };
                    self.spun += if kind == StackKind::OnCpu { stack.weight.0 } else { 0 };
                }
            }
        }

        pub(super) fn named(&self, name: &str) -> f64 {
            let all: u64 = self.waited.values().sum();
            let named = self.waited.get(&Some(name.to_owned())).copied().unwrap_or(0);
            ratio(named, all.max(1))
        }

        fn print(&self, test: &str) {
            let mut stacks: Vec<_> =
                self.names.values().filter(|names| !names.is_empty()).collect();
            stacks.sort();
            stacks.dedup();
            stacks.iter().for_each(|names| println!("{test}: {}", names.join(" < ")));
            println!(
                "{test}: waited {:?}, stacks {:?}, spun {}",
                self.waited, self.stacks, self.spun
            );
        }
    }

    /// What a thread does over and over, with the file and a number drawn.
    pub(super) type Work = Arc<dyn Fn(&File, u64) + Send + Sync>;

    /// Four threads that each do `work` with a number of their own, over some windows; `None` where
    /// the machine lacks something.
    pub(super) fn gather(test: &str, work: &Work) -> Option<Gathered> {
        let mut probe = probe(test, Tier::Full, true)?;
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
            println!("SKIP {test}: no tmpfs at /dev/shm");
            return None;
        };
        let file = Arc::new(File::create(folder.path().join("one")).unwrap());
        let worker = |seed: u64| -> Box<dyn FnMut() + Send> {
            let (file, work, mut draw) = (Arc::clone(&file), Arc::clone(work), seed);
            Box::new(move || {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                compute(Duration::from_micros(1));
                work(&file, draw >> 33);
            })
        };
        let test_threads = TestThreads::start((1..=4).map(worker).collect());
        let mut gathered = Gathered::default();
        for _ in 0..4 {
            let seen = window(&mut probe, &test_threads.target(), Duration::from_millis(600));
            assert_closed(test, &seen);
            assert_eq!(load_group(&seen).threads, 4);
            gathered.add(&seen);
        }
        gathered.print(test);
        Some(gathered)
    }
}

#[test]
fn writers_of_one_file_wait_for_its_inode() {
    let _alone = alone();
    let write = |file: &File, draw: u64| {
        file.write_all_at(&[7; BLOCK], draw % BLOCKS * BLOCK as u64).unwrap();
    };
    let Some(seen) = gather("writers of one file", &(Arc::new(write) as _)) else { return };
    assert!(seen.named("inode rwsem") >= 0.5, "{:?}", seen.waited);
    assert!(seen.stacks[0] > 0 && 2 * seen.stacks[1] >= seen.stacks[0], "{:?}", seen.stacks);
}

/// A plain `write` goes to the open file's position, so threads that share the open file queue
/// for that before they reach the inode.
#[test]
fn writers_through_one_open_file_wait_for_its_position() {
    let _alone = alone();
    let write = |mut file: &File, draw: u64| {
        if draw.is_multiple_of(BLOCKS) {
            file.rewind().unwrap();
        }
        file.write_all(&[7; BLOCK]).unwrap();
    };
    let Some(seen) = gather("one position", &(Arc::new(write) as _)) else { return };
    assert!(seen.named("file position mutex") >= 0.5, "{:?}", seen.waited);
}
