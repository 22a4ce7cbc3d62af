//! How the clients drove the system, and what the classic instruments saw at the focus level.
//!
//! Only for systems that something else drives: where the clients live in the system, its
//! threads are the clients, and the core ledger says more than these lines could.

use super::focus;
use super::line::{Line, Style};
use crate::number;
use crate::text;
use crate::words;
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{LevelInstruments, TaskLine, Vmstat};

/// Columns of a line's name.
const NAME: usize = 8;
/// The most threads that are named.
const THREADS: usize = 3;

/// At most `most` lines, the most telling first.
pub(super) fn lines(findings: &Findings, width: usize, most: usize) -> Vec<Line> {
    let mut reported: Vec<(&str, String)> = Vec::new();
    if let Some(generator) = &findings.generator {
        reported.push(("load", words::generator(generator)));
    }
    let level = findings.instruments.iter().find(|level| level.level == findings.focus);
    let driven = findings.generator.is_some() || focus(findings).is_none();
    if let Some(level) = level.filter(|_| driven) {
        let room = width.saturating_sub(NAME);
        reported.extend(top(level, room).map(|line| ("top", line)));
        reported.extend(level.vmstat.as_ref().map(|line| ("vmstat", vmstat(line))));
    }
    if let Some(counts) = &findings.counts {
        let mut said = words::counts(counts);
        if text::columns(&text::disarm(&said)) > width.saturating_sub(NAME) {
            // The figure comes before a long name is cut.
            let worst = number::plain_percent(counts.worst);
            said = format!("generator and server agree, worst {worst}: {}", counts.counter);
        }
        reported.push(("counts", said));
    }
    reported.truncate(most);
    let line = |(name, said): (&str, String)| {
        Line::new(Style::Plain, &text::pad(name, NAME)).then(Style::Faint, &said)
    };
    reported.into_iter().map(line).collect()
}

/// Saturated threads, else the busiest; whole names only, as many as fit.
fn top(level: &LevelInstruments, room: usize) -> Option<String> {
    let full: Vec<&TaskLine> = level.tasks.iter().filter(|line| words::saturated(line)).collect();
    let named: Vec<String> = if full.is_empty() {
        level.tasks.iter().take(THREADS).map(busy).collect()
    } else {
        full.iter().take(THREADS).map(|line| saturated(line)).collect()
    };
    let lead = if full.is_empty() { "" } else { "saturated: " };
    let kept = (1..=named.len()).rev().map(|kept| format!("{lead}{}", named[..kept].join(", ")));
    let mut kept = kept.peekable();
    let least = kept.clone().last()?;
    Some(kept.find(|words| text::columns(words) <= room).unwrap_or(least))
}

fn busy(line: &TaskLine) -> String {
    let many =
        if line.threads > 1 { format!(" ({} threads)", line.threads) } else { String::new() };
    format!("{} {}{many}", text::disarm(&line.name), number::plain_cores(line.cores))
}

fn saturated(line: &TaskLine) -> String {
    let many = if line.threads > 1 { format!(" of {}", line.threads) } else { String::new() };
    let busiest = number::plain_cores(line.busiest);
    format!("{} ({}{many}) {busiest} of a core", text::disarm(&line.name), words::owner(line.owner))
}

fn vmstat(line: &Vmstat) -> String {
    let share = words::whole_percent;
    let blocked = number::plain_mean(line.blocked);
    let blocked = if blocked == "0.0" { String::new() } else { format!("  b {blocked}") };
    let sum = words::odd_sum(line).map(|sum| format!("  (sum {sum})")).unwrap_or_default();
    format!(
        "r {}{blocked}  cs {}/s  us {} sy {} id {} wa {} st {}{sum}",
        number::plain_mean(line.runnable),
        number::plain_rate(line.switches),
        share(line.user),
        share(line.system),
        share(line.idle),
        share(line.iowait),
        share(line.steal),
    )
}
