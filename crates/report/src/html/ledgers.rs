//! Picture 2, why: the core ledger stacked to C, and the thread ledger of an operation.

use super::causes::fragment;
use super::markup::{Markup, Tag};
use super::stack::{Band, Column, Frame, draw};
use super::table::Table;
use crate::number::{self, Shown};
use crate::words::{self, Axis};
use kneepoint_vocab::findings::{CoreName, LevelLedger, LineKind, ThreadLine, ThreadName};
use kneepoint_vocab::{Findings, Level, Seconds, Unit};

/// One of the two ledgers, ready for the template.
pub(super) struct Ledger {
    pub(super) wide: Markup,
    pub(super) narrow: Markup,
    /// The lines of the focus level with their values.
    pub(super) readout: Markup,
    /// What the colours mean.
    pub(super) keys: Markup,
    pub(super) table: Markup,
    /// Some line at some level is below zero by more than can be seen, and so is not drawn.
    pub(super) below_zero: bool,
}

/// A line of either ledger in common terms.
struct Entry {
    kind: LineKind,
    label: String,
    value: f64,
    shown: Shown,
    /// The value with fewer digits, to print inside a band.
    brief: String,
    cause: Option<String>,
}

/// All entries of a level in the order of the stack.
struct LevelLines<'a> {
    ledger: &'a LevelLedger,
    entries: Vec<Entry>,
    total: f64,
}

/// Which of the two ledgers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Core,
    Thread,
}

/// The core ledger.
pub(super) fn core(findings: &Findings, axis: Axis) -> Ledger {
    ledger(findings, axis, Which::Core)
}

/// The thread ledger.
pub(super) fn thread(findings: &Findings, axis: Axis) -> Ledger {
    ledger(findings, axis, Which::Thread)
}

fn ledger(findings: &Findings, axis: Axis, which: Which) -> Ledger {
    let levels: Vec<LevelLines<'_>> =
        findings.ledgers.iter().map(|ledger| gather(findings, ledger, which)).collect();
    let columns: Vec<Column> =
        levels.iter().map(|level| column(findings, axis, level, which)).collect();
    let full = match which {
        Which::Core => levels.iter().map(|level| level.total).reduce(f64::max),
        Which::Thread => None,
    };
    let name = match which {
        Which::Core => "Where the cores go at each level, stacked to all cores",
        Which::Thread => "Where the time per operation goes at each level",
    };
    let tick = match which {
        Which::Core => |value: f64| number::plain(value),
        Which::Thread => |value: f64| number::plain_seconds(Seconds(value)),
    };
    let drawn = |width: f64, class: &str| {
        let along = axis.word();
        draw(&columns, &Frame { class, name, width, along, tick, full })
    };
    let focus = levels.iter().find(|level| level.ledger.level == findings.focus);
    Ledger {
        wide: drawn(500.0, "wide"),
        narrow: drawn(330.0, "narrow"),
        keys: keys(&levels),
        readout: focus.map(|level| readout(findings, level)).unwrap_or_default(),
        table: table(&levels, axis, which).folded("All levels in numbers"),
        below_zero: levels
            .iter()
            .any(|level| level.entries.iter().any(|entry| entry.value < -0.005 * level.total)),
    }
}

/// The kinds of lines that are drawn, from the ground up.
fn keys(levels: &[LevelLines<'_>]) -> Markup {
    let drawn = |entry: &&Entry| entry.value > 0.0;
    let all = levels.iter().flat_map(|level| level.entries.iter().filter(drawn));
    let mut kinds: Vec<LineKind> = all.map(|entry| entry.kind).collect();
    kinds.sort_by_key(|kind| words::order(*kind));
    kinds.dedup();
    let items = kinds.into_iter().map(|kind| {
        let swatch = Tag::of("span", &format!("swatch {}", words::class(kind))).done();
        Tag::new("li").with(&swatch).text(words::line_word(kind)).done()
    });
    Tag::of("ul", "keys").with(&items.collect()).done()
}

fn gather<'a>(findings: &Findings, ledger: &'a LevelLedger, which: Which) -> LevelLines<'a> {
    let opens = |cause: &Option<String>| cause.as_ref().and_then(|id| fragment(findings, id));
    let mut entries: Vec<Entry> = match which {
        Which::Core => ledger
            .core
            .lines
            .iter()
            .map(|line| Entry {
                kind: line.kind,
                label: words::line::core(&line.name),
                value: line.cores.value.get(),
                shown: number::ledger_cores(&line.cores),
                brief: number::plain_cores(line.cores.value),
                cause: opens(&line.cause),
            })
            .collect(),
        Which::Thread => ledger
            .thread
            .lines
            .iter()
            .map(|line| Entry {
                kind: colour(ledger, line),
                label: words::line::thread(&line.name),
                value: line.per_operation.value.get(),
                shown: number::seconds(&line.per_operation),
                brief: number::plain_seconds(line.per_operation.value),
                cause: opens(&line.cause),
            })
            .collect(),
    };
    entries.sort_by_key(|entry| words::order(entry.kind));
    let total = match which {
        Which::Core => ledger.core.total.get(),
        Which::Thread => ledger.thread.per_operation.get(),
    };
    LevelLines { ledger, entries, total }
}

/// Work on a core has the colour that the core ledger gives the same work.
fn colour(ledger: &LevelLedger, line: &ThreadLine) -> LineKind {
    let ThreadName::Function { name, says_all: true } = &line.name else { return line.kind };
    let same = ledger.core.lines.iter().find(|core| match &core.name {
        CoreName::Function { name: other, .. } => other == name,
        _ => false,
    });
    same.filter(|_| line.kind == LineKind::Running).map_or(line.kind, |core| core.kind)
}

fn column(findings: &Findings, axis: Axis, level: &LevelLines<'_>, which: Which) -> Column {
    let LevelLines { ledger, entries, total } = level;
    let bands = entries
        .iter()
        .map(|entry| {
            let unit = if which == Which::Core { " cores" } else { "" };
            let Shown { value, interval } = &entry.shown;
            let part = number::plain_percent(kneepoint_vocab::Ratio(entry.value / total));
            let more = if entry.cause.is_some() { "\nopens the cause" } else { "" };
            Band {
                class: words::class(entry.kind),
                value: entry.value,
                inside: entry.brief.clone(),
                tip: format!(
                    "{}\n{value}{unit} {interval}\n{part} at {}{more}",
                    entry.label,
                    axis.phrase(ledger.level)
                ),
                opens: entry.cause.clone(),
            }
        })
        .collect();
    let top = match which {
        Which::Core => String::new(),
        Which::Thread => number::plain_seconds(Seconds(*total)),
    };
    Column { tick: axis.tick(ledger.level), focus: ledger.level == findings.focus, bands, top }
}

/// The legend of the picture, with the values of the focus level; from the top of the stack.
fn readout(findings: &Findings, level: &LevelLines<'_>) -> Markup {
    let worth = |entry: &&Entry| entry.value.abs() >= level.total * 0.002;
    let rows = level.entries.iter().rev().filter(worth).map(|entry| {
        let swatch = Tag::of("span", &format!("swatch {}", words::class(entry.kind))).done();
        let words = Tag::of("span", "label").attr("title", &entry.label);
        let words = words.with(&match &entry.cause {
            Some(fragment) => {
                let rank = fragment.replace('-', "\u{a0}");
                let mut link =
                    Tag::new("a").attr("href", &format!("#{fragment}")).text(&entry.label).done();
                link.push(&Tag::new("small").text(&format!(" {rank}")).done());
                link
            }
            None => Markup::text(&entry.label),
        });
        let name = Tag::new("th").attr("scope", "row").with(&swatch).with(&words.done()).done();
        let value = Tag::of("td", "value").text(&entry.shown.value).done();
        let interval = Tag::of("td", "interval").text(&entry.shown.interval).done();
        Tag::new("tr").with(&name).with(&value).with(&interval).done()
    });
    let caption = format!("At {}", Axis::of(findings).phrase(findings.focus));
    Tag::of("table", "readout")
        .with(&Tag::new("caption").text(&caption).done())
        .with(&Tag::new("tbody").with(&rows.collect()).done())
        .done()
}

/// Every line at every level. Lines are the same where kind and words are.
fn table(levels: &[LevelLines<'_>], axis: Axis, which: Which) -> Table {
    let name = |level: Level| format!("at {}", axis.tick(level));
    let unit = if which == Which::Core { "cores" } else { "time per operation" };
    let head = levels.iter().map(|level| name(level.ledger.level));
    let mut table = Table::new(std::iter::once(unit.to_owned()).chain(head));
    let mut keys: Vec<(LineKind, &str)> = levels
        .iter()
        .flat_map(|level| level.entries.iter().map(|entry| (entry.kind, entry.label.as_str())))
        .collect();
    keys.sort_by_key(|(kind, label)| (words::order(*kind), *label));
    keys.dedup();
    for (kind, label) in keys {
        let cells = levels.iter().map(|level| {
            let mut same =
                level.entries.iter().filter(|entry| entry.kind == kind && entry.label == label);
            same.next().map_or_else(|| "–".to_owned(), |entry| entry.shown.to_string())
        });
        table.row(std::iter::once(label.to_owned()).chain(cells));
    }
    let total = |level: &LevelLines<'_>| match which {
        Which::Core => number::plain(level.total),
        Which::Thread => number::plain_seconds(Seconds(level.total)),
    };
    table.row(std::iter::once("all".to_owned()).chain(levels.iter().map(total)));
    let closes = levels.iter().map(|level| match which {
        Which::Core => number::plain_percent(level.ledger.core.unaccounted),
        Which::Thread => number::plain_percent(level.ledger.thread.unaccounted),
    });
    table.row(std::iter::once("unaccounted".to_owned()).chain(closes));
    table
}
