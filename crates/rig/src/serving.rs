//! Which processes of a server serve which threads of a load generator.
//!
//! A connection tells which process serves it, by its other end. Which thread of the generator
//! drives it no table tells; a thread that waits for answers names the descriptors that it waits
//! for. So threads are looked at until each connection was seen with its own.

use kneepoint_machine::proc::{sockets, tasks};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For so long threads are looked at.
const LOOKED: Duration = Duration::from_millis(100);
/// Between two looks.
const GLANCE: Duration = Duration::from_micros(200);

/// Each thread of `generator` together with those of `servers` that serve it, in the order of the
/// threads' ids; none where that is not seen soon, or may not be looked at.
pub(crate) fn groups(generator: u32, servers: &[u32]) -> Option<Vec<Vec<u32>>> {
    let threads = tasks::threads(generator);
    let served = served(generator, servers);
    let deadline = Instant::now() + LOOKED;
    let mut seen = BTreeMap::new();
    while !served.is_empty() && Instant::now() < deadline {
        for thread in &threads {
            for descriptor in sockets::awaited(generator, *thread) {
                seen.entry(descriptor).or_insert(*thread);
            }
        }
        if let Some(groups) = grouped(&threads, &served, &seen) {
            return Some(groups);
        }
        std::thread::sleep(GLANCE);
    }
    None
}

/// The process at the other end of each of the generator's descriptors.
fn served(generator: u32, servers: &[u32]) -> BTreeMap<i32, u32> {
    let ends: BTreeMap<u64, u32> = servers
        .iter()
        .flat_map(|server| sockets::of(*server).into_values().map(|inode| (inode, *server)))
        .collect();
    let peers = sockets::peers();
    let other_end =
        |(descriptor, inode): (i32, u64)| Some((descriptor, *ends.get(peers.get(&inode)?)?));
    sockets::of(generator).into_iter().filter_map(other_end).collect()
}

/// Where every connection has a thread. Where all threads but one are seen with an even share of
/// them, the others are that one's: it may have so much to do that it never waits.
fn grouped(
    threads: &[u32],
    served: &BTreeMap<i32, u32>,
    seen: &BTreeMap<i32, u32>,
) -> Option<Vec<Vec<u32>>> {
    let mut groups: Vec<Vec<u32>> = threads.iter().map(|thread| vec![*thread]).collect();
    let mut unseen = Vec::new();
    for (descriptor, server) in served {
        let thread = seen.get(descriptor);
        match thread.and_then(|thread| threads.iter().position(|one| one == thread)) {
            Some(place) => groups[place].push(*server),
            None => unseen.push(*server),
        }
    }
    if !unseen.is_empty() {
        let even = served.len().is_multiple_of(threads.len().max(1));
        let share = served.len() / threads.len().max(1);
        let mut lacking = groups.iter_mut().filter(|group| group.len() - 1 < share);
        lacking.next().filter(|_| even)?.extend(unseen);
        if lacking.next().is_some() {
            return None;
        }
    }
    Some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    fn connections(threads: &[u32]) -> BTreeMap<i32, u32> {
        (3..).zip(threads.iter().copied()).collect()
    }

    #[test]
    fn every_connection_needs_a_thread() {
        let served = connections(&[101, 102, 103, 104]);
        let seen = |threads: &[u32]| grouped(&[7, 8], &served, &connections(threads));
        assert_eq!(seen(&[7, 8, 8, 7]), Some(vec![vec![7, 101, 104], vec![8, 102, 103]]));
        assert_eq!(seen(&[8, 8]), Some(vec![vec![7, 103, 104], vec![8, 101, 102]]));
        assert_eq!(seen(&[8]), None, "either may have the others");
        assert_eq!(seen(&[]), None);
        assert_eq!(seen(&[9, 7, 8, 8]), Some(vec![vec![7, 102, 101], vec![8, 103, 104]]));
        let three = connections(&[101, 102, 103]);
        assert_eq!(grouped(&[7, 8], &three, &connections(&[7])), None, "no even shares");
        assert_eq!(grouped(&[], &three, &connections(&[7])), None);
    }

    /// This process is generator and server at once.
    #[test]
    fn a_thread_that_waits_is_found_with_what_serves_it() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let own = kneepoint_machine::own_pid();
        if sockets::peers().is_empty() {
            println!("SKIP a_thread_that_waits: the kernel does not tell ends of UNIX sockets");
            return;
        }
        let (told, tid) = std::sync::mpsc::channel();
        let waiter = std::thread::spawn(move || {
            told.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let mut fds = [rustix::event::PollFd::new(&near, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut fds, None).unwrap();
            near.read_exact(&mut [0]).unwrap();
        });
        let tid = u32::try_from(tid.recv().unwrap()).unwrap();
        let served = served(own, &[own]);
        let deadline = Instant::now() + Duration::from_secs(20);
        let found = std::iter::repeat_with(|| sockets::awaited(own, tid))
            .inspect(|_| std::thread::sleep(GLANCE))
            .find(|found| !found.is_empty() || Instant::now() > deadline)
            .unwrap();
        assert_eq!(found.len(), 1, "what it waits for is seen");
        assert_eq!(served.get(&found[0]), Some(&own));
        far.write_all(&[1]).unwrap();
        waiter.join().unwrap();
    }
}
