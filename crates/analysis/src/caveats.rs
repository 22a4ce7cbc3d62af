//! Everything that limits what was said, with what to do about it.

use crate::generator::remedy;
use crate::protocol::{CUT_OFF, kept_share, polluted_share};
use crate::{Limits, Swept, saturation, words};
use kneepoint_vocab::findings::{Caveat, Collector, LevelLedger, Noise, Protocol, Severity};
use kneepoint_vocab::units::Ratio;
use kneepoint_vocab::{ArmRole, Level, ProtocolName, RunRecord, Tier};

/// A ledger at the focus level that leaves more than this open cannot be relied on.
const OPEN: f64 = 0.05;
/// A ledger that leaves more than this open deserves a word.
const GAPING: f64 = 0.02;
/// Running time that differs more than this from `schedstat` deserves a word.
const CLOCKS: f64 = 0.03;
/// More polluted slices than this deserve figures.
const POLLUTED: f64 = 1.0 / 3.0;
/// Such slices make the run unusable where strangers and steal take more than this of capacity.
const TAKEN: f64 = 0.1;
/// So they do where two equal starts differ by more than this: the control saw what they did.
const LOUD: f64 = 0.2;
/// Fewer sweep blocks than this in a run that was cut off decide nothing.
const LEAST_BLOCKS: u32 = 3;
/// Stacks that reach the outermost frame: below this share names may mislead.
const COMPLETE: f64 = 0.8;

/// What the caveats are drawn from.
pub(crate) struct Drawn<'a> {
    pub(crate) record: &'a RunRecord,
    pub(crate) protocol: &'a Protocol,
    pub(crate) noise: &'a Noise,
    pub(crate) sweep: &'a Swept,
    pub(crate) ledgers: &'a [LevelLedger],
    pub(crate) focus: Level,
    pub(crate) collector: &'a Collector,
    pub(crate) few_starts: Option<usize>,
    pub(crate) limits: &'a Limits,
    /// Counts of generator and server that differ without an explanation.
    pub(crate) counts_off: Option<Ratio>,
}

impl Drawn<'_> {
    fn imported(&self) -> bool {
        self.protocol.name == ProtocolName::Imported
    }
}

struct Caveats(Vec<Caveat>);

impl Caveats {
    fn add(&mut self, severity: Severity, text: impl Into<String>) {
        self.0.push(Caveat { severity, text: text.into() });
    }
}

/// The caveats, the gravest first.
pub(crate) fn caveats(drawn: &Drawn<'_>) -> Vec<Caveat> {
    let mut caveats = Caveats(Vec::new());
    run(drawn, &mut caveats);
    pollution(drawn, &mut caveats);
    who_limits(drawn, &mut caveats);
    noise(drawn, &mut caveats);
    curve(drawn, &mut caveats);
    ledger(drawn, &mut caveats);
    collector(drawn, &mut caveats);
    caveats.0.sort_by_key(|caveat| std::cmp::Reverse(caveat.severity));
    caveats.0
}

fn run(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Serious, Warning};
    let protocol = drawn.protocol;
    if protocol.slices == 0 {
        caveats.add(
            Serious,
            "No slice counts: nothing was measured; see the failed slices and run again.",
        );
    }
    if drawn.imported() {
        imported(drawn, caveats);
        return;
    }
    if protocol.stopped_by == CUT_OFF || protocol.stopped_by == "interrupted" {
        let few = protocol.sweep_blocks < LEAST_BLOCKS;
        let severity = if few { Serious } else { Warning };
        let what = if few { "too few to rely on" } else { "intervals are wider than planned" };
        caveats.add(
            severity,
            format!(
                "The run was cut off after {} of the sweep: {what}; run it again.",
                words::counted(protocol.sweep_blocks, "block")
            ),
        );
    }
    if drawn.record.end.as_ref().is_some_and(|end| !end.steady) {
        caveats.add(
            Warning,
            "The system was not steady when measuring began: drift that random blocks do not \
             even out is in the numbers.",
        );
    }
    if protocol.failed > 0 {
        let slices = words::counted(protocol.failed, "slice");
        caveats.add(
            Warning,
            format!("{slices} failed and count for nothing; see the run directory for reasons."),
        );
    }
    if !drawn.record.torn.is_empty() {
        let records = words::counted(crate::number::tally(drawn.record.torn.len()), "record");
        caveats.add(Note, format!("{records} could not be read because the run was cut off."));
    }
    if protocol.stopped_by == "decided" {
        caveats.add(
            Note,
            "The run stopped as soon as it was precise enough; verdicts are held against the \
             level of \
             that look, intervals are plain 95 % ones.",
        );
    }
    remarks(drawn, caveats);
}

/// What is known of results of other tools, and what is not.
fn imported(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    let (protocol, points) = (drawn.protocol, drawn.sweep.curve.points.len());
    let results = words::counted(protocol.slices, "result");
    let levels = words::counted(crate::number::tally(points), "level");
    caveats.add(
        Severity::Warning,
        format!(
            "{results} of another tool at {levels} were imported and nothing was measured: there \
             are no ledgers, causes and noise floor, and the machine is whatever it was; run the \
             workload under Kneepoint for those."
        ),
    );
    remarks(drawn, caveats);
}

fn remarks(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    for remark in drawn.record.end.iter().flat_map(|end| &end.remarks) {
        caveats.add(Severity::Note, remark.clone());
    }
}

/// Pollution is judged by its size: what took a tenth of a percent too much harms nobody.
fn pollution(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Serious, Warning};
    let protocol = drawn.protocol;
    let (foreign, steal) = (protocol.foreign.0, protocol.steal.0);
    let figures = format!(
        "other processes took {}, the hypervisor {} of capacity in the slices that count",
        words::percent(foreign),
        words::percent(steal)
    );
    let loud = drawn.noise.pairs > 0 && drawn.noise.floor.0 > LOUD;
    if kept_share(protocol) > POLLUTED && (foreign + steal > TAKEN || loud) {
        let kept = words::percent(kept_share(protocol));
        caveats.add(
            Serious,
            format!(
                "{kept} of the slices were kept although polluted, and {figures}; use a \
                     quieter machine."
            ),
        );
    } else if polluted_share(protocol) > POLLUTED {
        let polluted = words::percent(polluted_share(protocol));
        caveats.add(
            Warning,
            format!(
                "{polluted} of all slices were polluted; {figures}. The ledger has both as \
                     lines, the A/A control and the blocks carry their effect."
            ),
        );
    } else if protocol.kept_polluted > 0 {
        let slices = words::counted(protocol.kept_polluted, "polluted slice");
        caveats.add(Warning, format!("{slices} had to be kept: {figures}."));
    }
}

/// What limits the throughput besides the system at this level.
fn who_limits(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Serious, Warning};
    if let Some(off) = drawn.counts_off {
        let off = words::percent(off.0);
        caveats.add(
            Serious,
            format!(
                "The server counted {off} more or fewer operations than the load generator: \
                     one of them does not measure what it says; see the trials."
            ),
        );
    }
    let generator = drawn.limits.generator.as_ref();
    let limits = generator.and_then(|one| Some((one, one.bottleneck.as_ref()?)));
    if let Some((generator, why)) = limits {
        let remedy = remedy(generator);
        caveats.add(Warning, format!("The load generator limits the throughput: {why}; {remedy}."));
    }
    for task in &drawn.limits.saturated {
        let text = saturation::words_of(task);
        caveats.add(
            Warning,
            format!(
                "{text} at {}: what waits for it cannot go faster, however many cores idle.",
                clients(drawn.focus)
            ),
        );
    }
    if let Some(fewer) = drawn.sweep.fewer {
        caveats.add(
            Warning,
            format!(
                "Fewer cores are faster: {} give {} [{} to {}] of what {} give.",
                words::counted(fewer.cores, "core"),
                words::times(fewer.ratio.value.0),
                words::times(fewer.ratio.low.0),
                words::times(fewer.ratio.high.0),
                fewer.than
            ),
        );
    }
}

fn noise(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Serious, Warning};
    let noise = drawn.noise;
    let treatments = drawn.record.plan.arms.iter().any(|arm| arm.role == ArmRole::Treatment);
    if noise.pairs < 2 {
        if treatments {
            let own = drawn.protocol.name == ProtocolName::Default;
            caveats.add(
                if own { Serious } else { Warning },
                "No A/A control was measured, so no verdict can be told from \
                                  noise; run again with one.",
            );
        }
    } else if noise.ratio.low.0 > 1.0 || noise.ratio.high.0 < 1.0 {
        let off = (noise.ratio.value.0 - 1.0).abs();
        let serious = off > drawn.record.plan.smallest_effect.0;
        caveats.add(
            if serious { Serious } else { Warning },
            format!(
                "The A/A control differs from the baseline by {}: two starts of the same system \
                 are not alike; use more starts.",
                words::percent(off)
            ),
        );
    }
    let smallest = drawn.record.plan.smallest_effect;
    if treatments && noise.pairs >= 2 && noise.floor.0 > smallest.0 {
        caveats.add(
            Warning,
            format!(
                "The noise floor of {} lies above the smallest effect of interest, {}; more \
                 effect blocks lower it.",
                words::percent(noise.floor.0),
                words::percent(smallest.0)
            ),
        );
    }
    if let (Some(starts), true) = (drawn.few_starts, drawn.protocol.effect_blocks > 0) {
        let starts = words::counted(crate::number::tally(starts), "start");
        caveats.add(
            Note,
            format!(
                "Effects speak of the {starts} measured, not of any start; more starts would tell."
            ),
        );
    }
}

fn curve(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Warning};
    if drawn.sweep.curve.points.is_empty() {
        return;
    }
    if !drawn.sweep.has_intervals && drawn.protocol.name != ProtocolName::Default {
        caveats.add(
            Warning,
            "One repetition has no interval: throughput is shown as bare values, and differences \
             between levels may be chance.",
        );
    } else if !drawn.sweep.has_intervals {
        caveats.add(
            Warning,
            "Too few sweep blocks for intervals: throughput is shown as bare \
                              values; measure at least 2 blocks.",
        );
    }
    for label in &drawn.sweep.treated.unproven {
        caveats.add(
            Warning,
            format!(
                "The curve with {label} is left out: a start of it was not what it claims; see \
                 the proofs."
            ),
        );
    }
    if drawn.sweep.curve.points.len() == 1 {
        caveats.add(
            Note,
            "Only one level was measured: there is no curve, knee or least CPU \
                           per operation to compare with.",
        );
    }
    if drawn.record.host.cores < 4 && !drawn.imported() {
        caveats.add(
            Note,
            format!(
                "This machine has {}: what shows only on more cores cannot be seen here.",
                words::counted(drawn.record.host.cores, "core")
            ),
        );
    }
}

fn ledger(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Serious, Warning};
    let Some(ledger) = drawn.ledgers.iter().find(|ledger| ledger.level == drawn.focus) else {
        if !drawn.sweep.curve.points.is_empty() && !drawn.imported() {
            caveats.add(
                Warning,
                "No core accounting at the focus level: no causes can be \
                                  named; see `doctor` for what the collector lacks.",
            );
        }
        return;
    };
    let core = ledger.core.closes_to.0;
    if core > GAPING {
        caveats.add(
            if core > OPEN { Serious } else { Warning },
            format!(
                "The core ledger leaves {} of all core-time open at {}.",
                words::percent(core),
                clients(drawn.focus)
            ),
        );
    }
    let thread = ledger.thread.closes_to.0;
    if thread > GAPING {
        caveats.add(
            Warning,
            format!(
                "The thread ledger leaves {} of all thread-time open at {}.",
                words::percent(thread),
                clients(drawn.focus)
            ),
        );
    }
}

fn clients(level: Level) -> String {
    words::counted(level.clients, "client")
}

fn collector(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Warning};
    let collector = drawn.collector;
    if collector.tier == Some(Tier::Fallback) {
        caveats.add(
            Warning,
            "Only the unprivileged collector ran: waits are sampled and idle \
                              time is shared out by blocked time; see `doctor`.",
        );
    }
    if let Some((level, off)) = collector.running_worst.filter(|(_, off)| off.0 > CLOCKS) {
        caveats.add(
            Warning,
            format!(
                "Running time differs from the kernel's schedstat by {} at {}; the ledgers rest on \
                 the switches that the collector saw.",
                words::percent(off.0),
                clients(level)
            ),
        );
    }
    if collector.tier.is_some() && collector.stacks == 0 {
        caveats.add(Note, "No stacks were taken: locks and functions have no names; see `doctor`.");
    }
    if let Some(complete) = collector.stacks_complete.filter(|complete| complete.0 < COMPLETE) {
        caveats.add(
            Warning,
            format!(
                "Only {} of the stacks reach the outermost frame; names from cut stacks may \
                     be those of inner functions.",
                words::percent(complete.0)
            ),
        );
    }
    if !collector.losses.is_empty() {
        let listed: Vec<String> =
            collector.losses.iter().map(|(what, n)| format!("{what} {n}")).collect();
        caveats.add(Note, format!("The collector lost events: {}.", listed.join(", ")));
    }
    let perturbs = collector.on_off.filter(|ratio| ratio.high.0 < 1.0);
    if let Some(ratio) = perturbs {
        caveats.add(
            Note,
            format!(
                "Collecting costs throughput: with it {} of that without.",
                words::percent(ratio.value.0)
            ),
        );
    }
}
