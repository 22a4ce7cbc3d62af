//! Words for what limits the throughput besides the system: its load generator, a full thread.

use super::counted;
use crate::number::sentence;
use kneepoint_vocab::findings::Bottleneck;
use kneepoint_vocab::{Cores, Ratio, Unit};

/// Why the load generator limits the throughput.
pub(crate) fn bottleneck(why: &Bottleneck) -> String {
    match why {
        Bottleneck::Thread { name, busiest, idle, of } => format!(
            "its thread {name} uses {} of a core while {} of {} cores idle for its next request",
            sentence::percent(Ratio(busiest.get())),
            sentence::quantity(*idle),
            sentence::quantity(*of)
        ),
        Bottleneck::OwnCores { busy, of } => {
            let of = counted(*of, "core");
            format!("it keeps {} of the {of} of its own busy", sentence::quantity(*busy))
        }
        Bottleneck::Outweighs { generator, system } => format!(
            "it takes {} cores on the machine that it shares, the system itself {}",
            sentence::quantity(*generator),
            sentence::quantity(*system)
        ),
    }
}

/// What to do about a generator that limits.
pub(crate) const fn remedy(own_cores: u32) -> &'static str {
    if own_cores > 0 {
        "give it more cores of its own (--generator-cores) or more threads"
    } else {
        "give it cores of its own (--generator-cores) or more threads"
    }
}

/// `kworker loop0 is saturated (98 % of a core)`.
pub(crate) fn saturated_thread(name: &str, busiest: Cores) -> String {
    let share = sentence::percent(Ratio(busiest.get().min(1.0)));
    format!("{name} is saturated ({share} of a core)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_that_limits_says_why() {
        let name = "pgbench".to_owned();
        let thread =
            Bottleneck::Thread { name, busiest: Cores(0.97), idle: Cores(0.7), of: Cores(2.0) };
        let said = "its thread pgbench uses 97 % of a core while 0.7 of 2 cores idle for its next \
                    request";
        assert_eq!(bottleneck(&thread), said);
        let own = Bottleneck::OwnCores { busy: Cores(0.95), of: 1 };
        assert_eq!(bottleneck(&own), "it keeps 0.95 of the 1 core of its own busy");
        let more = Bottleneck::Outweighs { generator: Cores(0.5), system: Cores(0.41) };
        let said = "it takes 0.5 cores on the machine that it shares, the system itself 0.41";
        assert_eq!(bottleneck(&more), said);
    }
}
