//! The scheduler's tick: where stacks of running threads are taken without an interrupt of our own.

use std::io::{BufRead, BufReader};

/// Names of the tick's timer handler over the kernel's versions.
const HANDLERS: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

/// Stacks aimed at for each second that the system runs on a core.
const STACKS_PER_CPU_SECOND: f64 = 60.0;
/// Stacks aimed at in a window, as far as its ticks reach: how a window's time divides over
/// functions is known as well as it has stacks, so that short windows need more of them a second.
const STACKS_PER_WINDOW: f64 = 400.0;

/// Address of the handler, where the kernel lets us know it.
pub(crate) fn handler() -> Option<u64> {
    find(BufReader::new(kneepoint_machine::proc::open("kallsyms").ok()?))
}

/// Reads no further than it must: the kernel makes up each line when it is read.
fn find(symbols: impl BufRead) -> Option<u64> {
    let address = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok()?;
        let name = fields.nth(1)?;
        (address != 0 && HANDLERS.contains(&name)).then_some(address)
    };
    symbols.lines().map_while(Result::ok).find_map(|line| address(&line))
}

/// The share of ticks, × 2^32, to take a stack at, when `ticks` of them found the system in
/// `seconds` of its running time.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1"
)]
pub(crate) fn share(ticks: u64, seconds: f64) -> Option<u32> {
    let wanted = (STACKS_PER_CPU_SECOND * seconds).max(STACKS_PER_WINDOW);
    (ticks > 0 && seconds.is_finite())
        .then(|| ((wanted / ticks as f64).min(1.0) * f64::from(u32::MAX)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handler_is_found_where_addresses_are_shown() {
        let text = "ffffffff81000000 T _stext\nffffffff814332e0 t tick_nohz_handler\n";
        assert_eq!(find(text.as_bytes()), Some(0xffff_ffff_8143_32e0));
        assert_eq!(find(&b"0000000000000000 t tick_nohz_handler\n"[..]), None);
        assert_eq!(find(&b"not a symbol table"[..]), None);
    }

    #[test]
    fn the_share_aims_at_a_rate() {
        assert_eq!(share(0, 1.0), None);
        assert_eq!(share(50, 1.0), Some(u32::MAX));
        let quarter = share(7200, 30.0).unwrap();
        assert!((f64::from(quarter) / f64::from(u32::MAX) - 0.25).abs() < 1e-6);
    }

    #[test]
    fn a_short_window_has_as_many_stacks_as_its_ticks_allow() {
        assert_eq!(share(250, 1.0), Some(u32::MAX));
        let part = share(1600, 4.0).unwrap();
        assert!((f64::from(part) / f64::from(u32::MAX) - 0.25).abs() < 1e-6);
    }
}
