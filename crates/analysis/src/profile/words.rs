//! The headline and the caveats of a profile. They speak of where time goes, never of scaling.

use crate::words;
use kneepoint_vocab::findings::{CauseKind, Caveat, LineKind, Severity};
use kneepoint_vocab::{Profile, RunRecord, StoppedBy, Tier};

/// An account that leaves more than this part open is not one.
const OPEN: f64 = 0.1;
const GAPING: f64 = 0.02;
/// Below this share of complete stacks, names may be those of inner functions.
const COMPLETE: f64 = 0.8;
/// Seconds below which a profile says little.
const SHORT: f64 = 1.0;
/// A line below this part of C has no word in the headline.
const LEAST: f64 = 0.01;

/// `Busy 9.8 of 16 cores; 3.1 idle for mutex in f; 3.1 idle with nothing to do or for others.`
pub(crate) fn headline(reported: &Profile) -> String {
    if reported.windows == 0 {
        return format!("Nothing was seen of {}.", reported.subject);
    }
    let total = reported.cores.0;
    let sum = |wanted: &dyn Fn(LineKind) -> bool| -> f64 {
        let lines = reported.core_lines.iter().filter(|line| wanted(line.kind));
        lines.map(|line| line.cores.value.0).sum()
    };
    let least = |cores: f64| cores >= LEAST * total;
    let mut parts = vec![format!(
        "Busy {} of {} cores",
        words::quantity(reported.busy.value.0),
        words::quantity(total)
    )];
    let others = sum(&|kind| kind == LineKind::Others);
    if least(others) {
        parts.push(format!("{} used by others", words::quantity(others)));
    }
    let mut blamed = 0.0;
    for line in reported.core_lines.iter().filter(|line| line.cause.is_some()) {
        let idle = line.label.starts_with("idle");
        if idle && least(line.cores.value.0) {
            parts.push(format!("{} {}", words::quantity(line.cores.value.0), line.label));
            blamed += line.cores.value.0;
        }
    }
    let idle = reported.core_lines.iter().filter(|line| line.label.starts_with("idle"));
    let rest = idle.map(|line| line.cores.value.0).sum::<f64>() - blamed;
    if least(rest) {
        let quantity = words::quantity(rest);
        parts.push(format!("{quantity} idle with nothing to do, or for others"));
    }
    let mut text = parts.join("; ") + ".";
    if let Some(operations) = &reported.operations {
        text += &format!(
            " {} operations/s, {} of CPU each.",
            words::quantity(operations.rate.value.0),
            words::duration(operations.cpu.value.0)
        );
    }
    let waits = reported.causes.iter().filter(|one| one.cause.kind != CauseKind::Scheduler);
    if let Some(first) = waits.max_by(|a, b| a.threads.value.0.total_cmp(&b.threads.value.0))
        && first.threads.value.0 >= 0.01 * reported.threads.0
    {
        text += &format!(
            " Of {} threads {} wait for {}.",
            words::quantity(reported.threads.0),
            words::quantity(first.threads.value.0),
            first.cause.name
        );
    }
    text
}

/// What limits a profile, the gravest first.
pub(crate) fn caveats(reported: &Profile, record: &RunRecord) -> Vec<Caveat> {
    use Severity::{Note, Serious, Warning};
    let mut caveats = Vec::new();
    let mut add = |severity, text: String| caveats.push(Caveat { severity, text });
    if reported.windows == 0 {
        add(Serious, "Nothing was measured: no window counts.".to_owned());
    }
    if let StoppedBy::Failed(error) = &reported.stopped_by {
        add(Serious, format!("It failed: {error}; try again."));
    }
    if let (Some(first), Some(_)) = (record.torn.first(), &record.end) {
        add(Serious, format!("The run directory is damaged ({first}); profile again."));
    }
    if reported.stopped_by == StoppedBy::CutOff {
        add(Warning, "It was cut off: what it had seen until then is reported.".to_owned());
    }
    if reported.windows > 0 && !crate::profile::saw_threads(record) {
        add(Serious, "No thread was seen: there is nothing to tell.".to_owned());
    }
    let open = reported.unaccounted.0;
    if open > GAPING {
        let severity = if open > OPEN { Serious } else { Warning };
        add(severity, format!("{} of all core-time is not accounted for.", words::percent(open)));
    }
    if reported.windows == 1 {
        add(Warning, "A single window: no number has an interval; watch longer.".to_owned());
    } else if reported.windows > 0 && reported.watched.0 < SHORT {
        add(Warning, "Less than a second was seen: watch longer with --seconds.".to_owned());
    }
    let collector = &reported.collector;
    if collector.tier == Some(Tier::Fallback) {
        add(
            Warning,
            "Only the unprivileged collector ran: waits are sampled and idle time is shared out \
             by blocked time; see `doctor`."
                .to_owned(),
        );
    }
    if collector.tier.is_some() && collector.stacks == 0 {
        add(Note, "No stacks were taken: locks and functions have no names.".to_owned());
    }
    if let Some(complete) = collector.stacks_complete.filter(|complete| complete.0 < COMPLETE) {
        let text = format!(
            "Only {} of the stacks reach the outermost frame; names from cut stacks may be those \
             of inner functions.",
            words::percent(complete.0)
        );
        add(Warning, text);
    }
    if !collector.losses.is_empty() {
        let listed: Vec<String> =
            collector.losses.iter().map(|(what, n)| format!("{what} {n}")).collect();
        add(Note, format!("The collector lost events: {}.", listed.join(", ")));
    }
    for remark in record.end.iter().flat_map(|end| &end.remarks) {
        add(Note, remark.clone());
    }
    add(
        Note,
        "One level tells where time goes, not what more cores or clients would bring.".to_owned(),
    );
    caveats.sort_by_key(|caveat| std::cmp::Reverse(caveat.severity));
    caveats
}

pub(crate) fn is_trustworthy(caveats: &[Caveat]) -> bool {
    caveats.iter().all(|caveat| caveat.severity != Severity::Serious)
}
