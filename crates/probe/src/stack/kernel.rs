//! Kernel function names, from `/proc/kallsyms`.

use super::symbols::readable;
use std::io::{self, BufRead};

/// Module of kernel frames.
pub(crate) const KERNEL: &str = "[kernel]";
/// What a kernel frame is called where its name is hidden or not known.
pub(crate) const UNKNOWN: &str = "[kernel]+unknown";

/// A function of a loadable module ends here at the latest: kallsyms has no sizes, and between
/// modules lies memory of no function.
const LONGEST_IN_MODULE: u64 = 64 * 1024;

/// The kernel's functions by address.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    symbols: Vec<KernelSymbol>,
}

#[derive(Debug)]
struct KernelSymbol {
    address: u64,
    in_module: bool,
    /// `None` for a boundary that ends the function before it.
    name: Option<Box<str>>,
}

impl KernelSymbols {
    /// Reads them from `source`, laid out as `/proc/kallsyms`. Where addresses are hidden from
    /// the reader there are none.
    ///
    /// # Errors
    /// Where `source` cannot be read.
    pub(crate) fn read(mut source: impl BufRead) -> io::Result<Self> {
        let mut symbols = Vec::new();
        let mut line = String::new();
        while source.read_line(&mut line)? > 0 {
            symbols.extend(parse_line(&line));
            line.clear();
        }
        symbols.sort_by_key(|symbol: &KernelSymbol| symbol.address);
        for aliases in symbols.chunk_by_mut(|a, b| a.address == b.address) {
            aliases.sort_by(|a, b| a.rank().cmp(&b.rank()));
        }
        symbols.dedup_by_key(|symbol| symbol.address);
        Ok(Self { symbols })
    }

    /// The function that holds `address`, or [`UNKNOWN`].
    pub(crate) fn name(&self, address: u64) -> String {
        self.find(address).map_or_else(|| UNKNOWN.to_owned(), readable)
    }

    fn find(&self, address: u64) -> Option<&str> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = &self.symbols[after.checked_sub(1)?];
        let ended_by_next = after < self.symbols.len() && !symbol.in_module;
        let near = symbol.in_module && address - symbol.address < LONGEST_IN_MODULE;
        if ended_by_next || near { symbol.name.as_deref() } else { None }
    }
}

impl KernelSymbol {
    /// Least for the alias to show; boundaries come last.
    fn rank(&self) -> (bool, usize, usize, &str) {
        let name = self.name.as_deref().unwrap_or_default();
        let underscores = name.bytes().take_while(|byte| *byte == b'_').count();
        (self.name.is_none(), underscores, name.len(), name)
    }
}

fn parse_line(line: &str) -> Option<KernelSymbol> {
    let mut fields = line.split_ascii_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok().filter(|address| *address != 0)?;
    let code = matches!(fields.next()?, "t" | "T" | "w" | "W");
    let name = fields.next()?;
    let boundary = !code || name == "_etext" || name == "_einittext";
    Some(KernelSymbol {
        address,
        in_module: fields.next().is_some(),
        name: (!boundary).then(|| name.into()),
    })
}

/// How many of the innermost kernel functions belong to the taking of the stack itself.
///
/// A program loaded after the names were read has none; it is one of them if a known one follows.
pub(crate) fn collector_frames<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    let names: Vec<&str> = names.collect();
    let collector = names
        .iter()
        .take_while(|name| **name == UNKNOWN || is_collector(name))
        .enumerate()
        .filter(|(_, name)| is_collector(name))
        .last()
        .map_or(0, |(index, _)| index + 1);
    // A stack taken at the tick begins in the tick's own interrupt.
    let in_tick = names.get(collector).is_some_and(|name| *name == TIMERS);
    let interrupt = names.iter().position(|name| *name == TIMER_INTERRUPT);
    interrupt.filter(|_| in_tick).map_or(collector, |entry| entry + 1)
}

/// The function that runs expired timers.
const TIMERS: &str = "__hrtimer_run_queues";
/// The way into the kernel of the timer's interrupt.
const TIMER_INTERRUPT: &str = "asm_sysvec_apic_timer_interrupt";

fn is_collector(name: &str) -> bool {
    const PREFIXES: [&str; 8] = [
        "bpf_",
        "__bpf_",
        "___bpf_",
        "perf_",
        "__perf_",
        "__traceiter_",
        "trace_event_raw_event_",
        "__tracing_map",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
ffffffff81000000 T _stext
ffffffff81000010 T __pfx_vfs_read
ffffffff81000020 T vfs_read
ffffffff81000020 T __vfs_read_alias
ffffffff81000100 T last_of_text
ffffffff81000200 T _etext
ffffffff82000000 D some_data
ffffffffc0000000 t ext4_thing	[ext4]
ffffffffc0000400 t bpf_prog_1234_on_switch	[bpf]
";

    #[test]
    fn names_end_where_the_next_begins() {
        let kernel = KernelSymbols::read(TEXT.as_bytes()).unwrap();
        assert_eq!(kernel.name(0xffff_ffff_8100_0020), "vfs_read");
        assert_eq!(kernel.name(0xffff_ffff_8100_00ff), "vfs_read");
        assert_eq!(kernel.name(0xffff_ffff_8100_0201), UNKNOWN);
        assert_eq!(kernel.name(0xffff_ffff_8200_0001), UNKNOWN);
        assert_eq!(kernel.name(0xffff_ffff_80ff_ffff), UNKNOWN);
        assert_eq!(kernel.name(0xffff_ffff_c000_0001), "ext4_thing");
        assert_eq!(kernel.name(0xffff_ffff_c000_0401), "bpf_prog_1234_on_switch");
        assert_eq!(kernel.name(0xffff_ffff_c100_0401), UNKNOWN);
    }

    #[test]
    fn hidden_addresses_give_no_names() {
        let hidden = "0000000000000000 T vfs_read\n0000000000000000 T vfs_write\n";
        let kernel = KernelSymbols::read(hidden.as_bytes()).unwrap();
        assert_eq!(kernel.name(0xffff_ffff_8100_0020), UNKNOWN);
    }

    #[test]
    fn the_takers_of_stacks_are_left_out_only_in_front() {
        let count = |names: &[&str]| collector_frames(names.iter().copied());
        assert_eq!(count(&["bpf_prog_5e_on_switch", "bpf_trace_run4", "__schedule"]), 2);
        assert_eq!(count(&[UNKNOWN, "__traceiter_sched_switch", "__schedule"]), 2);
        assert_eq!(count(&[UNKNOWN, "__schedule", "bpf_trace_run4"]), 0);
        assert_eq!(count(&["__schedule", "schedule", "futex_wait_queue"]), 0);
        assert_eq!(count(&[]), 0);
    }
}
