//! A profile as one self-contained page: headline, two ledgers, what is waited for, where the CPU
//! goes, how it was measured.

use super::chain;
use super::flame;
use super::frame::{self, section};
use super::markup::{Markup, Tag};
use super::table::Table;
use crate::number;
use crate::words;
use kneepoint_vocab::Profile;
use kneepoint_vocab::findings::LineKind;
use kneepoint_vocab::profile::ProfileCause;

/// Renders a profile as a complete HTML document.
#[must_use]
pub fn render(profile: &Profile) -> String {
    let body: Markup = [header(profile), main(profile)].into_iter().collect();
    frame::page(&profile.subject, &body)
}

fn header(profile: &Profile) -> Markup {
    let seen = format!(
        "{}, {} windows, {} threads, {} cores",
        number::brief_seconds(profile.watched),
        profile.windows,
        words::profile::threads(profile),
        number::plain(profile.cores.0)
    );
    let name = Tag::of("p", "recipe")
        .with(&Tag::new("b").text(&profile.subject).done())
        .text(" ")
        .with(&Tag::new("span").text(&seen).done())
        .done();
    let trust = if profile.trustworthy { "Trust: good" } else { "Not trustworthy" };
    let limited = profile
        .caveats
        .iter()
        .find(|caveat| caveat.severity > kneepoint_vocab::findings::Severity::Note);
    let word = match (profile.trustworthy, limited) {
        (true, Some(_)) => "Trust: limited",
        _ => trust,
    };
    let said = limited.map(|one| format!(": {}", words::caveat::of_profile(&one.reason)));
    let said = said.unwrap_or_default();
    let trust = Tag::of("p", "trust").with(&Tag::new("b").text(word).done()).text(&said).done();
    let headline = Tag::new("h1").text(&words::profile::headline(profile)).done();
    Tag::new("header").with(&name).with(&headline).with(&trust).done()
}

fn main(profile: &Profile) -> Markup {
    let causes: Markup = profile.causes.iter().map(cause).collect();
    let on_cpu = profile.on_cpu.as_ref();
    let on_cpu = on_cpu.map(|root| flame::draw(root, "k-running", "Where the cores were"));
    let parts = [
        section("cores", "Where the cores go", &cores(profile)),
        section("threads", "What the threads do", &threads(profile)),
        section("waits", "What is waited for", &causes),
        section("chain", "Who waits for whom", &chain::view(profile.chain.as_ref())),
        section("cpu", "Where the CPU goes", &on_cpu.unwrap_or_default()),
        section("measured", "How it was measured", &measured(profile)),
    ];
    Tag::new("main").with(&parts.into_iter().collect()).done()
}

/// A bar as wide as its part of the whole.
fn bar(kind: LineKind, part: f64) -> Markup {
    let rect = Tag::of("rect", words::class(kind))
        .attr("x", "0")
        .attr("y", "2")
        .attr("height", "12")
        .part("width", part.clamp(0.0, 1.0))
        .done();
    Tag::new("svg")
        .attr("width", "160")
        .attr("height", "16")
        .attr("aria-hidden", "true")
        .with(&rect)
        .done()
}

fn cores(profile: &Profile) -> Markup {
    let mut table = Table::new(["where", "", "cores", "95 % interval", "kind"]);
    for line in &profile.core_lines {
        let shown = number::ledger_cores(&line.cores);
        table.cells([
            Markup::text(&words::line::of_profile(&line.name)),
            bar(line.kind, line.cores.value.0 / profile.cores.0),
            Markup::text(&shown.value),
            Markup::text(&shown.interval_or_dash()),
            Markup::text(words::profile::kind(line.kind)),
        ]);
    }
    if profile.core_lines.is_empty() { Markup::default() } else { table.markup() }
}

fn threads(profile: &Profile) -> Markup {
    let mut head = vec!["what", "", "threads", "kind"];
    if profile.operations.is_some() {
        head.push("per operation");
    }
    let mut table = Table::new(head);
    for line in &profile.thread_lines {
        let mut cells = vec![
            Markup::text(&words::line::threads(&line.name)),
            bar(line.kind, line.threads.value.0 / profile.threads.0),
            Markup::text(&number::plain(line.threads.value.0)),
            Markup::text(words::profile::kind(line.kind)),
        ];
        if profile.operations.is_some() {
            let each = line.per_operation.as_ref().map(|each| number::seconds(each).to_string());
            cells.push(Markup::text(&each.unwrap_or_default()));
        }
        table.cells(cells);
    }
    if profile.thread_lines.is_empty() { Markup::default() } else { table.markup() }
}

fn cause(one: &ProfileCause) -> Markup {
    let cause = &one.cause;
    let heading = format!("{}: {}", words::word_of(cause), cause.name);
    let said = format!(
        "{} cores, {} threads wait. {}.",
        number::cores(&cause.lost),
        number::plain(one.threads.value.0),
        words::evidence(&cause.evidence)
    );
    let mut out = Tag::new("h3").text(&heading).done();
    out.push(&Tag::new("p").text(&said).done());
    if !cause.path.is_empty() {
        out.push(&Tag::new("p").text(&cause.path.join(" < ")).done());
    }
    let holders: Vec<String> = cause
        .holders
        .iter()
        .map(|(state, share)| format!("{} {}", state.as_str(), number::plain_percent(*share)))
        .collect();
    if !holders.is_empty() {
        out.push(&Tag::new("p").text(&format!("Holder: {}.", holders.join(", "))).done());
    }
    let kind = "k-idle-lock";
    let flames = [
        cause.stacks.as_ref().map(|root| flame::draw(root, kind, "Where it is waited for")),
        cause.waker_stacks.as_ref().map(|root| flame::draw(root, kind, "Who ends the waits")),
    ];
    let flames: Markup = flames.into_iter().flatten().collect();
    if !flames.is_empty() {
        let summary = Tag::new("summary").text("stacks").done();
        out.push(&Tag::new("details").with(&summary).with(&flames).done());
    }
    Tag::new("article").with(&out).done()
}

fn measured(profile: &Profile) -> Markup {
    let host = &profile.host;
    let mut table = Table::new(["what", "value"]);
    let mut row = |what: &str, value: String| table.row([what.to_owned(), value]);
    row("begun", host.begun.clone());
    row("Kneepoint", host.kneepoint.clone());
    row("command", format!("kneepoint {}", host.arguments.join(" ")));
    row("machine", format!("{} × {}, {}", host.cores, host.cpu, number::bytes(host.memory)));
    row("kernel", host.kernel.clone());
    row("distribution", host.distribution.clone());
    row("watched", number::plain_seconds(profile.watched));
    row("not accounted for", number::plain_percent(profile.unaccounted));
    for (name, value) in &profile.settings {
        row(name, value.clone());
    }
    if let Some(operations) = &profile.operations {
        row("operations/s", number::rate(&operations.rate).to_string());
        row("CPU per operation", number::seconds(&operations.cpu).to_string());
    }
    if let Some(switches) = profile.switches {
        row("switches/s", number::plain_rate(switches));
    }
    if let Some(cost) = words::profile::cost(&profile.collector) {
        row("cost", cost);
    }
    let mut out = table.markup();
    let sentences = profile.caveats.iter().map(|one| words::caveat::of_profile(&one.reason));
    let caveats: Markup = sentences.map(|one| Tag::new("li").text(&one).done()).collect();
    out.push(&Tag::new("ul").with(&caveats).done());
    out
}
