//! Pressure-stall accounting: of the machine, and of the system's control group where it has one
//! of its own.

use crate::sys;
use kneepoint_machine::{here, proc};
use kneepoint_vocab::{Nanos, Pressure};
use std::path::{Path, PathBuf};

const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];
const MICROSECOND: u64 = 1_000;

/// Totals of `some` and `full` since boot, ns; `full` is 0 where the file has none.
fn parse(text: &str) -> Option<[u64; 2]> {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
        let total = line.split(' ').find_map(|word| word.strip_prefix("total="))?;
        Some(total.parse::<u64>().ok()? * MICROSECOND)
    };
    Some([total("some")?, total("full").unwrap_or(0)])
}

/// Path of a process in the unified hierarchy, from its `cgroup` file.
fn group(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Where the unified hierarchy is mounted, from the list of mounts.
fn mount(text: &str) -> Option<PathBuf> {
    let line = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let at = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(at))
    };
    text.lines().find_map(line)
}

/// The folder of the group that `pid` shares neither with this process nor with everything.
fn own_group(pid: u32) -> Option<(String, PathBuf)> {
    let theirs = proc::text(&format!("{pid}/cgroup")).ok()?;
    let ours = proc::text("self/cgroup").ok()?;
    let path = group(&theirs).filter(|path| *path != "/" && Some(*path) != group(&ours))?;
    let at = mount(&proc::text("self/mounts").ok()?)?;
    Some((path.to_owned(), at.join(path.trim_start_matches('/'))))
}

#[derive(Debug)]
struct Source {
    resource: &'static str,
    scope: String,
    file: PathBuf,
    start: [u64; 2],
}

fn read(file: &Path) -> Option<[u64; 2]> {
    parse(&String::from_utf8_lossy(&here().read(file).ok()?))
}

/// Pressure totals at the start.
#[derive(Debug)]
pub(super) struct Pressures {
    begin: u64,
    sources: Vec<Source>,
}

impl Pressures {
    pub(super) fn start(pids: &[u32]) -> Self {
        let group = pids.first().and_then(|pid| own_group(*pid));
        let sources = RESOURCES.into_iter().flat_map(|resource| {
            let machine = ("machine".to_owned(), proc::path("pressure").join(resource));
            let of_group = group
                .clone()
                .map(|(scope, folder)| (scope, folder.join(format!("{resource}.pressure"))));
            [Some(machine), of_group].into_iter().flatten().filter_map(move |(scope, file)| {
                let start = read(&file)?;
                Some(Source { resource, scope, file, start })
            })
        });
        Self { sources: sources.collect(), begin: sys::monotonic() }
    }

    pub(super) fn finish(&self) -> Vec<Pressure> {
        let over = super::since(self.begin);
        let of = |source: &Source| {
            let end = read(&source.file)?;
            let rise = |index: usize| Nanos(end[index].saturating_sub(source.start[index]));
            Some(Pressure {
                resource: source.resource.to_owned(),
                scope: source.scope.clone(),
                over,
                some: rise(0),
                full: rise(1),
            })
        };
        self.sources.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_microseconds() {
        let text = "some avg10=1.50 avg60=0.00 avg300=0.00 total=1234\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        assert_eq!(parse(text), Some([1_234_000, 5_000]));
        assert_eq!(parse(text.lines().next().unwrap()), Some([1_234_000, 0]));
        assert_eq!(parse(""), None);
    }

    #[test]
    fn the_unified_group_is_found() {
        assert_eq!(
            group("4:memory:/a\n0::/system.slice/x.service\n"),
            Some("/system.slice/x.service")
        );
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(mount("proc /proc proc rw 0 0\n"), None);
        assert_eq!(own_group(std::process::id()), None, "our own group is not the system's");
    }
}
