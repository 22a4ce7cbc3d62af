//! The classic instruments: what `vmstat`, `top -H`, `iostat -x` and pressure files would have
//! shown at each level.

use super::markup::{Markup, Tag};
use super::table::Table;
use crate::number;
use crate::words::{self, Axis};
use kneepoint_vocab::findings::{DeviceLine, LevelInstruments, PressureLine, TaskLine, Vmstat};
use kneepoint_vocab::{Cores, Findings, PerSecond, Ratio, Unit};

/// The most threads of a level that are listed.
const MOST_TASKS: usize = 40;
/// Size of the bar of a thread in pixels: one core.
const BAR: (f64, f64) = (90.0, 10.0);
const MIB: f64 = 1_048_576.0;

/// The instruments of the focus level, then those of the others, folded away.
pub(super) fn instruments(findings: &Findings, axis: Axis) -> Markup {
    let shown = findings.instruments.iter().filter(|level| !is_empty(level));
    let (focus, others): (Vec<_>, Vec<_>) = shown.partition(|level| level.level == findings.focus);
    let mut out = Markup::default();
    for level in focus {
        let title = format!("Instruments at {}", axis.phrase(level.level));
        out.push(&Tag::new("h3").text(&title).done());
        out.push(&tables(level));
    }
    if out == Markup::default() && !others.is_empty() {
        out.push(&Tag::new("h3").text("Instruments").done());
    }
    for level in others {
        let line = format!("Instruments at {}", axis.phrase(level.level));
        let folded = Tag::of("details", "numbers")
            .with(&Tag::new("summary").text(&line).done())
            .with(&tables(level));
        out.push(&folded.done());
    }
    out
}

fn is_empty(level: &LevelInstruments) -> bool {
    level.vmstat.is_none()
        && level.tasks.is_empty()
        && level.devices.is_empty()
        && level.pressure.is_empty()
}

fn tables(level: &LevelInstruments) -> Markup {
    let mut out = Markup::default();
    if let Some(line) = &level.vmstat {
        out.push(&vmstat(line));
    }
    if !level.tasks.is_empty() {
        out.push(&tasks(&level.tasks));
    }
    if !level.devices.is_empty() {
        out.push(&devices(&level.devices));
    }
    if !level.pressure.is_empty() {
        out.push(&pressure(&level.pressure));
    }
    out
}

fn vmstat(line: &Vmstat) -> Markup {
    let mut table = Table::new([
        "", "r", "b", "in /s", "cs /s", "us %", "sy %", "id %", "wa %", "st %", "sum %",
    ]);
    let share = |ratio: Ratio| words::whole_percent(ratio);
    table.row([
        "mean of the slices".to_owned(),
        number::plain_mean(line.runnable),
        number::plain_mean(line.blocked),
        number::plain_rate(line.interrupts),
        number::plain_rate(line.switches),
        share(line.user),
        share(line.system),
        share(line.idle),
        share(line.iowait),
        share(line.steal),
        share(line.sum),
    ]);
    let mut out = table.named("vmstat: the machine");
    if let Some(sum) = words::odd_sum(line) {
        let said = format!(
            "The five shares add up to {sum}, not to 100 %: the kernel's ticks did not account \
             for all of the time, so trust the core ledger over this line."
        );
        out.push(&Tag::of("p", "aside").text(&said).done());
    }
    out
}

fn tasks(lines: &[TaskLine]) -> Markup {
    let mut table = Table::new(["threads", "of", "at work", "cores", "busiest", "", ""]);
    for line in lines.iter().take(MOST_TASKS) {
        let text = |words: &str| Markup::text(words);
        let full = words::saturated(line);
        let said = Tag::of("b", "full-word").text(if full { "saturated" } else { "" });
        table.cells([
            text(&line.name),
            text(words::owner(line.owner)),
            text(&line.threads.to_string()),
            text(&number::plain_cores(line.cores)),
            text(&number::plain_cores(line.busiest)),
            bar(line.busiest, full),
            said.done(),
        ]);
    }
    let mut out = table.named("top -H: threads by CPU; the bar is the busiest, to one core");
    if lines.len() > MOST_TASKS {
        let said = format!("{} more used less.", lines.len() - MOST_TASKS);
        out.push(&Tag::of("p", "aside").text(&said).done());
    }
    out
}

/// How much of one core a thread kept busy.
fn bar(busiest: Cores, full: bool) -> Markup {
    let part = busiest.get();
    let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
    let (width, height) = BAR;
    let ground = Tag::of("rect", "ground").num("width", width).num("height", height);
    let class = if full { "peak full-bar" } else { "peak" };
    let filled = Tag::of("rect", class).num("width", part * width).num("height", height);
    Tag::of("svg", "bar")
        .attr("aria-hidden", "true")
        .num("width", width)
        .num("height", height)
        .with(&ground.done())
        .with(&filled.done())
        .done()
}

fn devices(lines: &[DeviceLine]) -> Markup {
    let mut table = Table::new([
        "device",
        "reads /s",
        "writes /s",
        "read MiB/s",
        "written MiB/s",
        "response",
        "in flight",
        "busy",
    ]);
    let mib = |rate: PerSecond| {
        let mib = rate.get() / MIB;
        if mib < 10.0 { format!("{mib:.2}") } else { number::plain(mib) }
    };
    for line in lines {
        table.row([
            line.name.clone(),
            number::plain_rate(line.reads),
            number::plain_rate(line.writes),
            mib(line.read_bytes),
            mib(line.written_bytes),
            line.response.map_or_else(|| "–".to_owned(), number::plain_seconds),
            format!("{:.2}", line.in_flight.get()),
            number::plain_percent(line.busy),
        ]);
    }
    let mut out = table.named("iostat -x: block devices");
    let said = "Busy is the share of time with a request in flight; a device that serves many \
                requests at once has room left at 100 %.";
    out.push(&Tag::of("p", "aside").text(said).done());
    out
}

fn pressure(lines: &[PressureLine]) -> Markup {
    let mut table = Table::new(["pressure", "of", "some thread stalled", "all stalled"]);
    for line in lines {
        table.row([
            line.resource.clone(),
            line.scope.clone(),
            number::plain_percent(line.some),
            number::plain_percent(line.full),
        ]);
    }
    table.named("Pressure: share of time lost for want of a resource")
}
