//! Figures of the findings in the text format of OpenMetrics 1.0, for databases of time series.
//!
//! Each figure is a gauge whose name ends with its unit. The ends of its interval are gauges of
//! their own, `_low` and `_high` before the unit, so that no sum or mean over labels mixes them
//! with values; where no interval was estimated they are not there.

use super::{Export, Made};
use crate::text;
use crate::words;
use kneepoint_vocab::findings::{
    Cause, Collector, CoreLine, CoreName, Curve, Effect, LineKind, Verdict,
};
use kneepoint_vocab::record::Host;
use kneepoint_vocab::{Estimate, Findings, Level, Profile, Unit, VariantId};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The figures of the findings.
pub const FIGURES: Export = Export {
    name: "openmetrics",
    holds: "figures",
    binary: None,
    made: Made::Concluded { run: render, profile: Some(profile) },
};

/// Renders the figures of a run.
#[must_use]
pub fn render(findings: &Findings) -> String {
    let mut sheet = Sheet::default();
    sheet.about("run", &findings.recipe, &findings.host);
    sheet.flag("run_trustworthy", "Whether the verdicts can be relied on.", findings.trustworthy);
    let elapsed = Figure::new("run_elapsed", "seconds", "Wall time of the run.");
    sheet.plain(&elapsed, &Labels::new(), findings.protocol.elapsed.0);
    let baseline = (VariantId::new(VariantId::BASELINE), &findings.curve);
    let by_cores = findings.by_cores.iter().map(|one| (baseline.0.clone(), &one.curve));
    let treated = findings.treated.iter().map(|one| (one.variant.clone(), &one.curve));
    let curves = if findings.by_cores.is_empty() { Some(baseline.clone()) } else { None };
    for (variant, curve) in curves.into_iter().chain(by_cores).chain(treated) {
        sheet.curve(&variant, curve, &findings.operation);
    }
    for ledger in &findings.ledgers {
        sheet.core_lines(&ledger.core.lines, &at(ledger.level), words::line::core);
        sheet.estimate(&CPU, &at(ledger.level), &ledger.core.demand);
    }
    for price in findings.price.iter().flat_map(|price| &price.levels) {
        let help = "Core-seconds of the whole machine per operation, idle cores included.";
        sheet.estimate(&Figure::new("price", "seconds", help), &at(price.level), &price.price);
    }
    for cause in &findings.causes {
        sheet.cause(cause, at(findings.focus));
    }
    let tried = findings.effects_at.unwrap_or(findings.focus);
    for effect in &findings.effects {
        sheet.effect(effect, at(tried));
    }
    if findings.noise.pairs > 0 {
        let help = "The baseline over another start of itself (A/A).";
        sheet.estimate(&Figure::new("noise", "ratio", help), &Labels::new(), &findings.noise.ratio);
    }
    sheet.collector(&findings.collector);
    sheet.written()
}

/// Renders the figures of a profile.
#[must_use]
pub fn profile(profile: &Profile) -> String {
    let mut sheet = Sheet::default();
    sheet.about("profile", &profile.subject, &profile.host);
    let words = "Whether the profile can be relied on.";
    sheet.flag("profile_trustworthy", words, profile.trustworthy);
    let none = Labels::new();
    let watched = Figure::new("watched", "seconds", "Length of all windows that count.");
    sheet.plain(&watched, &none, profile.watched.0);
    let busy = Figure::new("busy", "cores", "Cores that the system kept busy.");
    sheet.estimate(&busy, &none, &profile.busy);
    sheet.core_lines(&profile.core_lines, &none, words::line::of_profile);
    let threads = Figure::new("doing", "threads", "Threads by what they do, in the mean.");
    for line in &profile.thread_lines {
        let mut labels = none.clone();
        labels.insert("kind", kind(line.kind));
        labels.insert("line", words::line::threads(&line.name));
        sheet.estimate(&threads, &labels, &line.threads);
    }
    for one in &profile.causes {
        sheet.cause(&one.cause, none.clone());
        let waiting = Figure::new("cause_waiting", "threads", "Threads that wait for a cause.");
        sheet.estimate(&waiting, &of_cause(&one.cause, none.clone()), &one.threads);
    }
    if let Some(operations) = &profile.operations {
        sheet.estimate(&THROUGHPUT, &none, &operations.rate);
        sheet.estimate(&CPU, &none, &operations.cpu);
    }
    sheet.collector(&profile.collector);
    sheet.written()
}

/// Labels of a figure by name.
type Labels = BTreeMap<&'static str, String>;

/// What a figure is called and means.
struct Figure {
    /// Without the prefix and the unit.
    name: &'static str,
    unit: &'static str,
    help: &'static str,
}

impl Figure {
    const fn new(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, unit, help }
    }
}

const THROUGHPUT: Figure =
    Figure::new("throughput", "operations_per_second", "Operations that ended.");
const CPU: Figure = Figure::new("cpu_per_operation", "seconds", "CPU of the system per operation.");

/// Families of figures, each once, in the order in which they first came.
#[derive(Default)]
struct Sheet {
    families: Vec<Family>,
}

struct Family {
    name: String,
    kind: &'static str,
    unit: &'static str,
    help: String,
    /// Lines without the name.
    lines: Vec<String>,
}

impl Sheet {
    fn add(&mut self, family: Family, line: String) {
        match self.families.iter_mut().find(|one| one.name == family.name) {
            // What two findings give the same name and labels is there once.
            Some(known) => {
                if !known.lines.iter().any(|one| labels_of(one) == labels_of(&line)) {
                    known.lines.push(line);
                }
            }
            None => self.families.push(Family { lines: vec![line], ..family }),
        }
    }

    fn gauge(&mut self, figure: &Figure, end: &str, what: &str, labels: &Labels, value: f64) {
        if !value.is_finite() {
            return;
        }
        let name = format!("kneepoint_{}{end}_{}", figure.name, figure.unit);
        let help = format!("{what}{}", figure.help);
        let family = Family { name, kind: "gauge", unit: figure.unit, help, lines: Vec::new() };
        self.add(family, format!("{} {value}", written(labels)));
    }

    /// A figure that has no interval.
    fn plain(&mut self, figure: &Figure, labels: &Labels, value: f64) {
        self.gauge(figure, "", "", labels, value);
    }

    /// A figure, and the ends of its interval where there is one.
    fn estimate<U: Unit>(&mut self, figure: &Figure, labels: &Labels, value: &Estimate<U>) {
        let (low, high) = (value.low.get(), value.high.get());
        self.plain(figure, labels, value.value.get());
        if low < high {
            self.gauge(figure, "_low", "Lower end of the 95 % interval: ", labels, low);
            self.gauge(figure, "_high", "Upper end of the 95 % interval: ", labels, high);
        }
    }

    /// 1 for yes, 0 for no: such a figure has no unit.
    fn flag(&mut self, name: &str, help: &str, yes: bool) {
        let (name, help) = (format!("kneepoint_{name}"), help.to_owned());
        let family = Family { name, kind: "gauge", unit: "", help, lines: Vec::new() };
        self.add(family, format!(" {}", u8::from(yes)));
    }

    /// What it is about, as labels of a line whose value says nothing.
    fn about(&mut self, name: &str, title: &str, host: &Host) {
        let labels = [
            ("name", title),
            ("begun", &host.begun),
            ("kneepoint", &host.kneepoint),
            ("kernel", &host.kernel),
            ("cpu", &host.cpu),
        ];
        let labels: Labels =
            labels.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let name = format!("kneepoint_{name}");
        let help = "What was measured, with what, where and when.".to_owned();
        let family = Family { name, kind: "info", unit: "", help, lines: Vec::new() };
        self.add(family, format!("_info{} 1", written(&labels)));
    }

    fn curve(&mut self, variant: &VariantId, curve: &Curve, operation: &str) {
        let bound = Figure::new(
            "bound",
            "operations_per_second",
            "The most that so many clients and cores could do if nothing waited.",
        );
        let switches = Figure::new("switches", "per_second", "Switches off a core.");
        let mean = Figure::new("latency_mean", "seconds", "Mean response time.");
        let p99 = Figure::new("latency_p99", "seconds", "99th percentile of the response time.");
        for point in &curve.points {
            let mut labels = at(point.level);
            labels.insert("variant", variant.to_string());
            labels.insert("operation", operation.to_owned());
            self.estimate(&THROUGHPUT, &labels, &point.throughput);
            self.plain(&bound, &labels, point.ideal.get());
            if let Some(latency) = &point.latency {
                self.plain(&mean, &labels, latency.mean.seconds().0);
                self.plain(&p99, &labels, latency.p99.seconds().0);
            }
            if let Some(rate) = point.switches {
                self.plain(&switches, &labels, rate.get());
            }
        }
        if let Some(point) = curve.points.first() {
            let mut labels = Labels::from([("variant", variant.to_string())]);
            labels.insert("cores", point.level.cores.to_string());
            let knee = Figure::new("knee", "clients", "The fewest clients with 95 % of the peak.");
            self.plain(&knee, &labels, f64::from(curve.knee.level.clients));
            let low = f64::from(curve.knee.low.clients);
            let high = f64::from(curve.knee.high.clients);
            self.gauge(&knee, "_low", "Lower end of the 95 % interval: ", &labels, low);
            self.gauge(&knee, "_high", "Upper end of the 95 % interval: ", &labels, high);
        }
    }

    fn core_lines(&mut self, lines: &[CoreLine], level: &Labels, said: fn(&CoreName) -> String) {
        let figure = Figure::new("ledger", "cores", "Where the cores went; lines add up to all.");
        for line in lines {
            let mut labels = level.clone();
            labels.insert("kind", kind(line.kind));
            labels.insert("line", said(&line.name));
            self.estimate(&figure, &labels, &line.cores);
        }
    }

    fn cause(&mut self, cause: &Cause, level: Labels) {
        let labels = of_cause(cause, level);
        let lost = Figure::new("cause_lost", "cores", "Cores lost to a cause.");
        self.estimate(&lost, &labels, &cause.lost);
        let share = Figure::new("cause_share", "ratio", "A cause's part of the lost cores.");
        self.estimate(&share, &labels, &cause.share);
        if let Some(rate) = &cause.waits {
            let waits = Figure::new("cause_waits", "per_second", "Waits for a cause that ended.");
            self.estimate(&waits, &labels, rate);
        }
        if let Some(mean) = cause.wait_mean {
            let figure = Figure::new("cause_wait_mean", "seconds", "Mean length of such a wait.");
            self.plain(&figure, &labels, mean.0);
        }
    }

    fn effect(&mut self, effect: &Effect, mut labels: Labels) {
        labels.insert("variant", effect.variant.to_string());
        labels.insert("over", effect.over.to_string());
        labels.insert("verdict", verdict(effect.verdict).to_owned());
        if let Some(ratio) = &effect.ratio {
            let help = "Throughput of a variant over that of the one it is compared with.";
            self.estimate(&Figure::new("effect", "ratio", help), &labels, ratio);
        }
    }

    fn collector(&mut self, collector: &Collector) {
        let none = Labels::new();
        if let Some(programs) = &collector.programs {
            let help = "Run time of the collector's programs over the machine's capacity.";
            self.estimate(&Figure::new("collector_programs", "ratio", help), &none, programs);
        }
        if let Some(paid) = &collector.on_off_active {
            let help = "Throughput while the collector watches over throughput without it.";
            self.estimate(&Figure::new("collector_throughput", "ratio", help), &none, paid);
        }
    }

    fn written(&self) -> String {
        let mut out = String::new();
        for family in &self.families {
            let Family { name, kind, unit, help, lines } = family;
            // Writing to a String cannot fail.
            let _ = writeln!(out, "# TYPE {name} {kind}");
            if !unit.is_empty() {
                let _ = writeln!(out, "# UNIT {name} {unit}");
            }
            let _ = writeln!(out, "# HELP {name} {}", escaped(help));
            for line in lines {
                let _ = writeln!(out, "{name}{line}");
            }
        }
        out.push_str("# EOF\n");
        out
    }
}

/// A line without its value.
fn labels_of(line: &str) -> &str {
    line.rsplit_once(' ').map_or(line, |(labels, _)| labels)
}

fn at(level: Level) -> Labels {
    let (clients, cores) = (level.clients.to_string(), level.cores.to_string());
    Labels::from([("clients", clients), ("cores", cores)])
}

fn of_cause(cause: &Cause, mut labels: Labels) -> Labels {
    labels.insert("id", cause.id.clone());
    labels.insert("kind", cause.kind.as_str().to_owned());
    labels.insert("name", cause.name.to_string());
    labels.insert("key", cause.key.to_string());
    labels
}

/// Labels in braces, none for none.
fn written(labels: &Labels) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pair = |(name, value): (&&str, &String)| {
        format!("{name}=\"{}\"", escaped(&text::disarm(value)).replace('"', "\\\""))
    };
    format!("{{{}}}", labels.iter().map(pair).collect::<Vec<String>>().join(","))
}

/// Text on one line, by the format's own escapes.
fn escaped(words: &str) -> String {
    words.replace('\\', "\\\\").replace('\n', "\\n")
}

/// The word of a ledger line's kind, as JSON has it.
fn kind(kind: LineKind) -> String {
    words::class(kind).trim_start_matches("k-").to_owned()
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NoEffect { .. } => "no-effect",
        Verdict::Undecided { .. } => "undecided",
        Verdict::Invalid => "invalid",
    }
}
