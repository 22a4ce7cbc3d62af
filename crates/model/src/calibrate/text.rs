//! The twin file of a run and of parameters: text that a person can read, with where each number
//! comes from.

use super::observed::{Observed, ObservedLock};
use super::passing::Passing;
use crate::twin::Contended;
use std::fmt::Write;

/// What the levels have to determine.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Visits of an operation to each lock.
    pub visits: Vec<f64>,
    /// Part of an operation's CPU that is done holding each lock.
    pub inside: Vec<f64>,
    /// Seconds of an operation asleep holding each lock.
    pub asleep: Vec<f64>,
    /// Seconds until an idle core begins with a thread that was woken.
    pub idle_wake: f64,
}

/// Less sleep than this part of the CPU under a lock is noise.
const ASLEEP: f64 = 0.02;
/// Least visits to a lock in a round for which it is a loop rather than a chance.
const OFTEN: f64 = 0.95;
/// A round trip or a visit makes a round of the program; more would only cost events.
const MOST_ROUNDS: f64 = 64.0;
const SLICE: &str = "3 ms";
/// A switch and a wake-up where no wait for a lock was seen.
const SWITCH: f64 = 2e-6;

/// A length of time as twin files have it.
fn length(seconds: f64) -> String {
    format!("{:.6} us", seconds * 1e6)
}

fn quoted(name: &str) -> String {
    let inert: String = name.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", inert.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The twin of a run with these parameters.
#[must_use]
pub fn twin_text(seen: &Observed, own: &Parameters) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "name = {}\nabout = \"calibrated from {} levels on {} cores\"\n",
        quoted(&seen.name),
        seen.levels.len(),
        seen.cores
    );
    machine(&mut text, seen, own);
    for lock in &seen.locks {
        object(&mut text, lock);
    }
    if seen.round_trips.is_some() {
        text.push_str("[channel.requests]\n\n");
    }
    threads(&mut text, seen, own);
    text
}

/// A lock, or a semaphore for a stage.
fn object(text: &mut String, lock: &ObservedLock) {
    let name = quoted(&lock.name);
    if let Some(stage) = lock.stage {
        let _ = writeln!(text, "[semaphore.{name}]\nunits = {}\n", stage.servers);
        return;
    }
    let kind = match lock.passing {
        Passing::Barging => "futex",
        Passing::HandedOn => "fifo",
        Passing::Adaptive => "adaptive",
        Passing::WakesAll => "flag",
    };
    let _ = writeln!(text, "[lock.{name}]\nkind = \"{kind}\"");
    if let Some(look) = lock.look {
        let (cpu, source) = (length(look.0), "CPU that grows with its waits");
        let _ = writeln!(
            text,
            "look = {{ value = \"{cpu}\", from = \"measured\", source = \"{source}\" }}"
        );
    }
    text.push('\n');
}

fn machine(text: &mut String, seen: &Observed, own: &Parameters) {
    let least = seen.least_demand().0;
    let _ = writeln!(text, "[cores]\ncount = {}", seen.cores);
    text.push_str("# measured: CPU of an operation at each level over the least\ncrowding = [\n");
    for level in &seen.levels {
        let each = f64::from(level.clients) / f64::from(seen.cores);
        let factor = level.demand.0 / least;
        let _ = writeln!(text, "  {{ clients = {each:?}, factor = {factor:.4} }},");
    }
    text.push_str("]\n");
    if let Some(Contended { part, moved, cores }) = seen.contended {
        text.push_str("# fitted: what one core has at a time, by the CPU where all are busy\n");
        let _ =
            writeln!(text, "contended = {{ part = {part:.4}, moved = {moved}, cores = {cores} }}");
    }
    text.push_str("\n[scheduler]\n");
    let _ = writeln!(
        text,
        "slice = {{ value = \"{SLICE}\", from = \"assumed\", source = \"Linux 6.6 and later\" }}"
    );
    let paid: f64 = seen.locks.iter().map(|lock| lock.waits * lock.wait_cpu.0).sum();
    let waits: f64 = seen.locks.iter().map(|lock| lock.waits).sum();
    let of_wait = "CPU in the kernel for one wait; half each for switching and waking";
    let unseen = "no wait for a lock was seen; as lmbench finds on machines of today";
    let told = seen.locks.iter().any(|lock| lock.look.is_some());
    let cost = match (waits > 0.0, paid > 0.0) {
        _ if told => None,
        (true, true) => Some((0.5 * paid / waits, "measured", of_wait)),
        (false, _) if !seen.locks.is_empty() => Some((SWITCH, "assumed", unseen)),
        _ => None,
    };
    for key in ["switch", "wake"] {
        let Some((half, from, source)) = cost else { continue };
        let half = length(half);
        let _ = writeln!(
            text,
            "{key} = {{ value = \"{half}\", from = \"{from}\", source = \"{source}\" }}"
        );
    }
    let _ = writeln!(
        text,
        "idle_wake = {{ value = \"{}\", from = \"fitted\" }}\n",
        length(own.idle_wake)
    );
}

/// Rounds that the program is divided into.
fn rounds(seen: &Observed, own: &Parameters) -> f64 {
    let wanted = match seen.round_trips {
        Some(trips) => trips,
        None => own.visits.iter().copied().fold(1.0, f64::max),
    };
    wanted.round().clamp(1.0, MOST_ROUNDS)
}

fn threads(text: &mut String, seen: &Observed, own: &Parameters) {
    let rounds = rounds(seen, own);
    let body = body(seen, own, rounds);
    let _ = writeln!(text, "[[thread]]\nname = \"client\"\ncount = \"clients\"\nprogram = [");
    if seen.round_trips.is_none() {
        let _ = writeln!(text, "  {{ repeat = {rounds:.0}, steps = [\n{body}  ] }},\n]");
        return;
    }
    let asks = length(part_of_generator(seen) * seen.least_demand().0 / rounds);
    let trips = |times: f64| {
        format!(
            "{{ repeat = {times:.0}, steps = [\n    {{ run = \"{asks}\", cv = 1.0 }},\n    \
             {{ call = \"requests\" }},\n  ] }}"
        )
    };
    let across = across(seen).map(|index| {
        let held = (own.inside[index] * rounds).round().clamp(1.0, rounds);
        (quoted(&seen.locks[index].name), held)
    });
    let before = rounds - across.as_ref().map_or(0.0, |(_, held)| *held);
    if before > 0.0 {
        let _ = writeln!(text, "  {},", trips(before));
    }
    if let Some((name, held)) = across {
        let _ = writeln!(text, "  {{ hold = {name}, steps = [{}] }},", trips(held));
    }
    let _ = writeln!(
        text,
        "]\n\n[[thread]]\nname = \"server\"\ncount = \"clients\"\nworker = true\nprogram = [\n    \
         {{ take = \"requests\" }},\n{body}    {{ reply = true }},\n]"
    );
}

/// The steps of one round: of the server, or of the client where there is none.
fn body(seen: &Observed, own: &Parameters, rounds: f64) -> String {
    let least = seen.least_demand().0;
    let across = across(seen);
    let locks = || (0..seen.locks.len()).filter(move |index| across != Some(*index));
    let inside: f64 = locks().map(|index| own.inside[index]).sum();
    let outside = (1.0 - part_of_generator(seen) - inside).max(0.0) * least / rounds;
    let mut body = format!("    {{ run = \"{}\", cv = 1.0 }},\n", length(outside));
    for index in locks() {
        let hold = hold(seen, own, index);
        let each = own.visits[index] / rounds;
        let _ = match each {
            _ if (OFTEN..1.5).contains(&each) => writeln!(body, "    {hold},"),
            _ if each < OFTEN => {
                writeln!(body, "    {{ chance = {each:.4}, steps = [{hold}] }},")
            }
            _ => writeln!(body, "    {{ repeat = {:.0}, steps = [{hold}] }},", each.round()),
        };
    }
    let delay = (seen.delay.0 - own.asleep.iter().sum::<f64>()) / rounds;
    if delay > 0.02 * least / rounds {
        let _ = writeln!(body, "    {{ think = \"{}\", cv = 1.0 }},", length(delay));
    }
    body
}

/// One visit to a lock or stage.
fn hold(seen: &Observed, own: &Parameters, index: usize) -> String {
    let lock = &seen.locks[index];
    let visits = own.visits[index].max(1e-9);
    let held = own.inside[index] * seen.least_demand().0 / visits;
    let from = match (lock.counted, lock.stage.and_then(|stage| stage.inside)) {
        (Some(_), _) => "\"measured\", source = \"census of locks\"",
        (_, Some(_)) => "\"measured\", source = \"CPU of the thread that serves\"",
        (None, None) => "\"fitted\"",
    };
    let run = format!("{{ value = \"{}\", from = {from} }}", length(held));
    let asleep = own.asleep[index] / visits;
    let asleep = match asleep > ASLEEP * held {
        true => format!(", {{ think = \"{}\", cv = 1.0 }}", length(asleep)),
        false => String::new(),
    };
    let step = if lock.stage.is_some() { "within" } else { "hold" };
    let name = quoted(&lock.name);
    format!("{{ {step} = {name}, steps = [{{ run = {run}, cv = 1.0 }}{asleep}] }}")
}

/// The lock that is held from one request to the next, as that of a row until the transaction ends.
fn across(seen: &Observed) -> Option<usize> {
    seen.round_trips.filter(|trips| *trips > 1.0)?;
    seen.locks.iter().position(|lock| lock.passing == Passing::WakesAll)
}

/// Part of an operation's CPU that is the generator's, at the level where the CPU is least.
fn part_of_generator(seen: &Observed) -> f64 {
    if seen.round_trips.is_none() {
        return 0.0;
    }
    let least = seen.levels.iter().min_by(|a, b| a.demand.0.total_cmp(&b.demand.0));
    least.map_or(0.0, |level| (level.generator.0 / level.demand.0).clamp(0.0, 0.95))
}
