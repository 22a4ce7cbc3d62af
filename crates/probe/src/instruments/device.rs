//! `iostat`: what block devices did, from `/proc/diskstats`.

use crate::sys;
use kneepoint_vocab::{DeviceCounters, Nanos};
use std::collections::BTreeMap;
use std::path::Path;

/// The kernel counts in sectors of this many bytes, whatever the device's are.
const SECTOR: u64 = 512;
const MILLISECOND: u64 = 1_000_000;

/// A device's first ten counters since boot, in the kernel's order and units.
type Counters = [u64; 10];

fn parse(text: &str) -> BTreeMap<String, Counters> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next()?.to_owned();
        let mut counters = [0; 10];
        for counter in &mut counters {
            *counter = words.next()?.parse().ok()?;
        }
        Some((name, counters))
    };
    text.lines().filter_map(line).collect()
}

/// Devices at the start.
#[derive(Debug)]
pub(super) struct Devices {
    begin: u64,
    counters: BTreeMap<String, Counters>,
}

fn read() -> BTreeMap<String, Counters> {
    kneepoint_machine::proc::text("diskstats").map(|text| parse(&text)).unwrap_or_default()
}

impl Devices {
    pub(super) fn start() -> Self {
        Self { begin: sys::monotonic(), counters: read() }
    }

    /// Whole devices that something was asked of.
    pub(super) fn finish(&self) -> Vec<DeviceCounters> {
        let end = read();
        let over = super::since(self.begin);
        let used = end.iter().filter_map(|(name, end)| {
            let start = self.counters.get(name).copied().unwrap_or_default();
            used(name, &start, end, over)
        });
        used.filter(|device| is_whole(&device.name)).collect()
    }
}

/// `None` where nothing was asked of it.
fn used(name: &str, start: &Counters, end: &Counters, over: Nanos) -> Option<DeviceCounters> {
    // Reads, reads merged, sectors, ms; the same of writes; in flight; ms with any in flight.
    let rise = |index: usize| end[index].saturating_sub(start[index]);
    let device = DeviceCounters {
        name: name.to_owned(),
        over,
        reads: rise(0),
        writes: rise(4),
        read_bytes: rise(2) * SECTOR,
        written_bytes: rise(6) * SECTOR,
        read_time: Nanos(rise(3) * MILLISECOND),
        write_time: Nanos(rise(7) * MILLISECOND),
        busy: Nanos(rise(9) * MILLISECOND),
    };
    (device.reads + device.writes > 0 || device.busy.0 > 0).then_some(device)
}

/// A partition's requests are those of its disk as well, so only disks count. Where `/sys` is not
/// there, all do.
fn is_whole(name: &str) -> bool {
    let all = Path::new("/sys/block");
    !all.exists() || all.join(name.replace('/', "!")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_rise_is_in_bytes_and_nanoseconds() {
        let before = parse("   7  0 loop0 10 0 80 5 2 0 16 1 0 6 6 0 0 0 0 0 0\n 8 0 sda short\n");
        let after = parse("   7  0 loop0 14 1 96 9 5 0 40 8 1 20 17 0 0 0 0 0 0\n");
        let found = used("loop0", &before["loop0"], &after["loop0"], Nanos(7)).unwrap();
        let expected = DeviceCounters {
            name: "loop0".to_owned(),
            over: Nanos(7),
            reads: 4,
            writes: 3,
            read_bytes: 16 * 512,
            written_bytes: 24 * 512,
            read_time: Nanos::from_millis(4),
            write_time: Nanos::from_millis(7),
            busy: Nanos::from_millis(14),
        };
        assert_eq!(found, expected);
        assert_eq!(before.len(), 1, "a short line is no device");
        assert_eq!(used("loop0", &after["loop0"], &after["loop0"], Nanos(7)), None);
    }

    proptest! {
        #[test]
        fn counters_that_fall_are_no_use(
            start: [u64; 10], end in prop::array::uniform10(0_u64..9)
        ) {
            let start = start.map(|counter| counter | 16);
            prop_assert_eq!(used("sda", &start, &end, Nanos(1)), None);
        }
    }
}
