//! Findings as one self-contained page: works offline, without script, on paper, on a phone,
//! by keyboard, and with a screen reader.
//!
//! The page asks for nothing from anywhere: its content security policy forbids everything but
//! its own style and script, which the policy names by hash.

mod below;
mod causes;
mod chain;
pub mod comparison;
mod curve;
mod difference;
mod effort;
mod flame;
mod forest;
mod frame;
mod instruments;
mod ledgers;
mod locks;
mod markup;
mod next;
mod policy;
mod price;
pub mod profile;
mod scale;
mod stack;
mod table;

use crate::series::{self, Series};
use crate::text;
use crate::words::{self, Axis};
use askama::Template;
use below::Fact;
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{Caveat, Curve, Severity};
use markup::{Markup, Tag};

const STYLE: &str = include_str!("../../templates/report.css");
const SCRIPT: &str = include_str!("../../templates/report.js");

/// Renders findings as a complete HTML document.
///
/// All pictures carry their numbers as tables. Names from outside are escaped, and characters
/// that steer rather than print are replaced by U+FFFD.
#[must_use]
pub fn render(findings: &Findings) -> String {
    let page = Page::of(findings);
    // Writing a template to a String fails only where a value's Display does, and none does.
    let html = page.render().unwrap_or_else(|error| {
        let reason = Markup::text(&error.to_string());
        Tag::new("p").text("The report could not be written: ").with(&reason).done().to_string()
    });
    disarm_lines(&html)
}

/// Disarms everything, keeping the document's own line feeds.
fn disarm_lines(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    for line in html.lines() {
        out.push_str(&text::disarm(line));
        out.push('\n');
    }
    out
}

#[derive(Template)]
#[template(path = "report.html")]
struct Page<'a> {
    findings: &'a Findings,
    headline: String,
    policy: String,
    style: &'static str,
    script: &'static str,
    focus: String,
    /// Where treatments were tried.
    tried: String,
    axis_word: &'static str,
    ledger_axis: &'static str,
    strip: Vec<(String, String, String)>,
    serious: Vec<String>,
    effort: Vec<(&'static str, String)>,
    bottleneck: Option<String>,
    trust: words::Trust,
    loss: Option<String>,
    busiest: String,
    times: Markup,
    laws: bool,
    picks: Markup,
    curve_wide: Markup,
    curve_narrow: Markup,
    curve_table: Markup,
    peaks: Markup,
    several: bool,
    lede: String,
    treated: Vec<String>,
    superlinear: Vec<String>,
    at_bound: Option<String>,
    why: bool,
    fits: Vec<(String, Vec<Fact>)>,
    price: price::PriceView,
    core: ledgers::Ledger,
    thread: ledgers::Ledger,
    idle_threads: Option<String>,
    idle_account: Option<String>,
    causes: Vec<causes::CauseView<'a>>,
    chain: Markup,
    locks: Markup,
    on_cpu: Markup,
    differences: Markup,
    forest: forest::Forest<'a>,
    noise: Option<String>,
    next: Option<next::NextView>,
    instruments: Markup,
    collector: Vec<Fact>,
    protocol: Vec<Fact>,
    machine: Vec<Fact>,
    caveats: Vec<(&'static str, String)>,
    unseen: Vec<&'static str>,
    stability: Vec<String>,
    command: String,
}

impl<'a> Page<'a> {
    fn of(findings: &'a Findings) -> Self {
        let axis = Axis::of(findings);
        let series = Series::of(findings);
        let mut caveats: Vec<&Caveat> = findings.caveats.iter().collect();
        caveats.sort_by_key(|caveat| std::cmp::Reverse(caveat.severity));
        let wide = if series.several() { 1000.0 } else { 530.0 };
        Self {
            findings,
            headline: words::headline(findings),
            policy: policy::policy(STYLE, SCRIPT),
            style: STYLE,
            script: SCRIPT,
            focus: axis.phrase(findings.focus),
            tried: axis.phrase(findings.effects_at.unwrap_or(findings.focus)),
            axis_word: series.axis.word(),
            ledger_axis: axis.word(),
            strip: below::strip(findings, axis),
            serious: caveats
                .iter()
                .filter(|caveat| caveat.severity == Severity::Serious)
                .map(|caveat| words::caveat::of_run(&caveat.reason))
                .collect(),
            effort: effort::lines(findings),
            bottleneck: bottleneck(findings),
            picks: curve::picks(findings),
            trust: words::trust(findings),
            loss: words::loss(findings).map(|loss| loss.sentence()),
            busiest: busiest(findings).join(", "),
            times: curve::times(findings),
            laws: curve::laws(&series),
            curve_wide: curve::draw(findings, wide, "wide"),
            curve_narrow: curve::draw(findings, 330.0, "narrow"),
            curve_table: curve::table(findings).folded("The curve in numbers"),
            peaks: curve::peaks(findings),
            several: series.several(),
            lede: lede(&findings.curve, &series),
            treated: findings.treated.iter().map(|one| words::treated(one, series.axis)).collect(),
            superlinear: superlinear(findings, series.axis),
            at_bound: findings.at_bound.as_ref().map(words::at_bound),
            why: !findings.ledgers.is_empty()
                || !findings.causes.is_empty()
                || findings.on_cpu.is_some()
                || !findings.differences.is_empty(),
            fits: below::fits(findings),
            price: price::view(findings, axis),
            core: ledgers::core(findings, axis),
            thread: ledgers::thread(findings, axis),
            idle_threads: idle_threads(findings),
            idle_account: idle_account(findings),
            causes: causes::views(findings),
            chain: chain::view(findings.chain.as_ref()),
            locks: locks::view(findings, axis),
            on_cpu: on_cpu(findings),
            differences: difference::views(findings, axis),
            forest: forest::forest(findings),
            next: findings.next.as_ref().map(next::view),
            noise: (findings.noise.pairs > 0)
                .then(|| crate::number::plain_percent(findings.noise.floor)),
            instruments: instruments::instruments(findings, axis),
            collector: below::collector(findings, axis),
            protocol: below::protocol(findings),
            machine: below::machine(findings),
            caveats: caveats
                .iter()
                .map(|one| (words::severity(one.severity), words::caveat::of_run(&one.reason)))
                .collect(),
            unseen: unseen(findings),
            stability: below::stability(findings),
            command: below::command(findings),
        }
    }
}

/// Where the cores were at the focus level.
fn on_cpu(findings: &Findings) -> Markup {
    let root = findings.on_cpu.as_ref();
    root.map(|root| flame::draw(root, "k-running", "Where the cores were")).unwrap_or_default()
}

/// The knee and the shape; with several numbers of cores, on those of the focus.
fn lede(curve: &Curve, series: &Series<'_>) -> String {
    let on = if series.several() {
        format!("On {}: knee", words::counted(series::cores(curve), "core"))
    } else {
        "Knee".to_owned()
    };
    let then = if series.several() { "; the" } else { ". The" };
    let knee = words::knee(curve, series.axis);
    if curve.points.len() == 1 {
        return format!("{on} {knee}.");
    }
    format!("{on} {knee}{then} curve {}.", words::shape(curve.shape))
}

fn superlinear(findings: &Findings, axis: Axis) -> Vec<String> {
    findings.superlinear.iter().map(|step| words::superlinear(step, axis)).collect()
}

/// Why the load generator limits the throughput, where it does.
fn bottleneck(findings: &Findings) -> Option<String> {
    findings.generator.as_ref()?.bottleneck.as_ref().map(words::bottleneck)
}

/// What the collector cannot see.
fn unseen(findings: &Findings) -> Vec<&'static str> {
    findings.collector.cannot_see.iter().map(|one| words::caveat::unseen(*one)).collect()
}

/// Where the CPU goes.
fn busiest(findings: &Findings) -> Vec<String> {
    findings.on_cpu.as_ref().map(words::busiest).unwrap_or_default()
}

/// How the idle cores of the focus level came to their lines.
fn idle_account(findings: &Findings) -> Option<String> {
    let ledger = findings.ledgers.iter().find(|ledger| ledger.level == findings.focus)?;
    ledger.core.idle.as_ref().map(words::idle_account)
}

/// Threads of the focus level that wait for work and are part of no operation.
fn idle_threads(findings: &Findings) -> Option<String> {
    let ledger = findings.ledgers.iter().find(|ledger| ledger.level == findings.focus)?;
    let count = ledger.thread.idle_threads;
    (count > 0).then(|| words::counted(count, "thread"))
}
