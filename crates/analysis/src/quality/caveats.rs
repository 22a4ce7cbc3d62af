//! Everything that limits what was said, with what to do about it.

use crate::limits::generator::remedy;
use crate::limits::saturation;
use crate::number::{count, quotient, size};
use crate::quality::measured::{left_out, measured};
use crate::quality::protocol::{disturbed_share, kept_share};
use crate::quality::{environment, nameless, stalls, steadiness};
use crate::{Limits, Swept, words};
use kneepoint_vocab::findings::{
    Caveat, Collector, Effect, LevelLedger, Nameless, Noise, Protocol, Severity, Unsteady, Verdict,
};
use kneepoint_vocab::units::Ratio;
use kneepoint_vocab::{Disposition, Level, ProtocolName, RunRecord, StoppedBy, Tier, VariantRole};

/// A ledger at the focus level that leaves more than this open cannot be relied on.
const OPEN: f64 = 0.05;
/// A ledger that leaves more than this open deserves a word.
const GAPING: f64 = 0.02;
/// Idle time beyond this part of all cores that is charged to no wait deserves a word.
const SHARED_OUT: f64 = 0.1;
/// Running time that differs more than this from `schedstat` deserves a word.
const CLOCKS: f64 = 0.03;
/// More disturbed slices than this deserve figures.
const DISTURBED: f64 = 1.0 / 3.0;
/// Such slices make the run unusable where others took more than this of capacity.
const TAKEN: f64 = 0.1;
/// So they do where two equal starts differ by more than this: the control saw what they did.
const LOUD: f64 = 0.2;
/// Fewer pairs than this are too few for a verdict.
const LEAST_PAIRS: u32 = 4;
/// The A/A control differs from 1 for sure at this p-value: one good run in a hundred has it.
const ALIKE: f64 = 0.01;
/// A collector that costs more throughput than this deserves a warning.
const DEAR: f64 = 0.05;
/// The most that one may cost, where nothing else was asked for.
const TOO_DEAR: f64 = 0.15;
/// Fewer sweep blocks than this in a run that was cut off decide nothing.
const LEAST_BLOCKS: u32 = 3;
/// Stacks that reach the outermost frame: below this share names may mislead.
const COMPLETE: f64 = 0.8;
/// How much code without names weighs: the figures hold, only their words are poor.
const NAMELESS: f64 = 0.1;

/// What the caveats are drawn from.
pub(crate) struct Drawn<'a> {
    pub(crate) record: &'a RunRecord,
    pub(crate) protocol: &'a Protocol,
    pub(crate) noise: &'a Noise,
    pub(crate) control_p: Option<f64>,
    pub(crate) effects: &'a [Effect],
    pub(crate) sweep: &'a Swept,
    pub(crate) ledgers: &'a [LevelLedger],
    pub(crate) focus: Level,
    pub(crate) collector: &'a Collector,
    pub(crate) few_starts: Option<usize>,
    pub(crate) limits: &'a Limits,
    /// Counts of generator and server that differ without an explanation.
    pub(crate) counts_off: Option<Ratio>,
    pub(crate) unsteady: &'a [Unsteady],
    pub(crate) nameless: &'a [Nameless],
}

impl Drawn<'_> {
    /// A collector that costs more than this measures something else than the system, unless that
    /// was asked for.
    fn too_dear(&self) -> f64 {
        self.record.plan.allowed_overhead.map_or(TOO_DEAR, |allowed| allowed.0)
    }

    fn imported(&self) -> bool {
        self.protocol.name == ProtocolName::Imported
    }
}

/// Caveats with their weights: by how much of itself a result may be off for it, roughly; 1 where
/// there is no result.
struct Caveats(Vec<(f64, Caveat)>);

impl Caveats {
    fn add(&mut self, severity: Severity, weight: f64, text: impl Into<String>) {
        self.0.push((weight, Caveat { severity, text: text.into() }));
    }
}

/// The caveats, the gravest first; of equal severity the one of the greatest weight.
pub(crate) fn caveats(drawn: &Drawn<'_>) -> Vec<Caveat> {
    let mut caveats = Caveats(Vec::new());
    run(drawn, &mut caveats);
    for caveat in stalls::caveats(&stalls::stalls(drawn.record)) {
        caveats.0.push((0.5, caveat));
    }
    caveats.0.extend(environment::caveat(&drawn.record.variants).map(|caveat| (0.03, caveat)));
    disturbed(drawn, &mut caveats);
    who_limits(drawn, &mut caveats);
    verdicts(drawn, &mut caveats);
    noise(drawn, &mut caveats);
    curve(drawn, &mut caveats);
    ledger(drawn, &mut caveats);
    collector(drawn, &mut caveats);
    odd(drawn, &mut caveats);
    let by = |one: &(f64, Caveat)| (one.1.severity, one.0);
    caveats.0.sort_by(|a, b| {
        let ((grave, weight), (other, less)) = (by(a), by(b));
        other.cmp(&grave).then(less.total_cmp(&weight))
    });
    caveats.0.into_iter().map(|(_, caveat)| caveat).collect()
}

fn run(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Serious, Warning};
    let protocol = drawn.protocol;
    if protocol.slices == 0 {
        caveats.add(
            Serious,
            1.0,
            "No slice counts: nothing was measured; see the failed slices and run again.",
        );
    }
    if drawn.imported() {
        imported(drawn, caveats);
        return;
    }
    if let StoppedBy::Failed(error) = &protocol.stopped_by {
        caveats.add(Serious, 1.0, format!("The run failed: {error}; run it again."));
    }
    if matches!(protocol.stopped_by, StoppedBy::CutOff | StoppedBy::Interrupted) {
        let few = protocol.sweep_blocks < LEAST_BLOCKS;
        let severity = if few { Serious } else { Warning };
        let what = if few { "too few to rely on" } else { "intervals are wider than planned" };
        caveats.add(
            severity,
            0.5,
            format!(
                "The run was cut off after {} of the sweep: {what}; run it again.",
                words::counted(protocol.sweep_blocks, "block")
            ),
        );
    }
    if drawn.record.end.as_ref().is_some_and(|end| !end.steady) {
        caveats.add(
            Warning,
            0.1,
            "The system was not steady when measuring began: drift that random blocks do not \
             even out is in the numbers.",
        );
    }
    if protocol.failed > 0 {
        let slices = words::counted(protocol.failed, "slice");
        caveats.add(
            Warning,
            0.2,
            format!("{slices} failed and count for nothing; see the run directory for reasons."),
        );
    }
    damage(drawn, caveats);
    if protocol.stopped_by == StoppedBy::Decided {
        caveats.add(
            Note,
            0.0,
            "The run stopped as soon as each verdict was final: verdicts account for looking \
             often, intervals of decided variants are plain 95 % ones.",
        );
    }
    remarks(drawn, caveats);
}

/// What is not as the run has written it.
fn damage(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    let torn = &drawn.record.torn;
    let Some(first) = torn.first() else { return };
    let places = words::counted(crate::number::tally(torn.len()), "place");
    if drawn.record.end.is_some() {
        caveats.add(
            Severity::Serious,
            1.0,
            format!("The run directory is damaged in {places} ({first}); run it again."),
        );
    } else {
        caveats.add(
            Severity::Note,
            0.02,
            format!("What the cut-off run left cannot be read in {places} ({first})."),
        );
    }
}

/// What is known of results of other tools, and what is not.
fn imported(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    let (protocol, points) = (drawn.protocol, drawn.sweep.curve.points.len());
    let results = words::counted(protocol.slices, "result");
    let levels = words::counted(crate::number::tally(points), "level");
    caveats.add(
        Severity::Warning,
        0.3,
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
        caveats.add(Severity::Note, 0.05, remark.clone());
    }
}

/// Disturbances are judged by their size: what took a tenth of a percent too much harms nobody.
/// The worst is reported, since one bad slice of a few does more than the mean of all shows.
fn disturbed(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Serious, Warning};
    let protocol = drawn.protocol;
    let taken = protocol.others.0 + protocol.steal.0;
    let kept = measured(drawn.record).into_iter();
    let kept = kept.filter(|one| one.disposition == Disposition::KeptDisturbed);
    let worst = kept
        .map(|one| one.interference)
        .reduce(|worst, next| if next.share() > worst.share() { next } else { worst });
    let kept = words::counted(protocol.kept_disturbed, "disturbed slice");
    if let Some(worst) = worst {
        let figures = format!(
            "in the worst other processes took {} and the hypervisor {} of capacity, in the mean \
             {} and {}",
            words::percent(worst.others.0),
            words::percent(worst.steal.0),
            words::percent(protocol.others.0),
            words::percent(protocol.steal.0)
        );
        let loud = drawn.noise.pairs > 0 && drawn.noise.floor.0 > LOUD;
        let many = kept_share(protocol) > DISTURBED;
        let weight = worst.share().0 * kept_share(protocol);
        if many && (taken > TAKEN || loud) {
            let text = format!("{kept} had to be kept: {figures}; use a quieter machine.");
            caveats.add(Serious, weight, text);
        } else {
            let text = format!("{kept} had to be kept and weigh less: {figures}.");
            caveats.add(if many { Warning } else { Note }, weight, text);
        }
    } else if disturbed_share(protocol) > DISTURBED {
        let share = words::percent(disturbed_share(protocol));
        let text = format!("{share} of all slices were disturbed, and taken once more.");
        caveats.add(Note, 0.01, text);
    }
    let spoiled = left_out(drawn.record);
    if let Some(first) = spoiled.first() {
        let why = match &first.disposition {
            Disposition::Spoiled { reason } => reason.clone(),
            _ => {
                format!("others took {} of capacity", words::percent(first.interference.share().0))
            }
        };
        let slices = words::counted(crate::number::tally(spoiled.len()), "slice");
        caveats.add(
            Warning,
            quotient(size(spoiled.len()), count(u64::from(protocol.slices))),
            format!("{slices} too disturbed to count: {why}."),
        );
    }
}

/// What limits the throughput besides the system at this level.
fn who_limits(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Serious, Warning};
    if let Some(off) = drawn.counts_off {
        let weight = off.0;
        let off = words::percent(off.0);
        caveats.add(
            Serious,
            weight,
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
        let text = format!("The load generator limits the throughput: {why}; {remedy}.");
        caveats.add(Warning, 0.5, text);
    }
    for task in &drawn.limits.saturated {
        let text = saturation::words_of(task);
        caveats.add(
            Warning,
            0.15,
            format!(
                "{text} at {}: what waits for it cannot go faster, however many cores idle.",
                clients(drawn.focus)
            ),
        );
    }
    if let Some(fewer) = drawn.sweep.fewer {
        caveats.add(
            Warning,
            0.1,
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

/// Whether there is enough to judge treatments at all.
fn verdicts(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    if drawn.imported() {
        return;
    }
    let asked = drawn.effects.iter().filter(|effect| {
        effect.role == VariantRole::Treatment && effect.verdict != Verdict::Invalid
    });
    let fewest = asked.min_by_key(|effect| effect.pairs).filter(|one| one.pairs < LEAST_PAIRS);
    if let Some(effect) = fewest {
        caveats.add(
            Severity::Serious,
            0.9,
            format!(
                "Only {} of {}: at least {LEAST_PAIRS} are needed for a verdict; give it more \
                 time.",
                words::counted(effect.pairs, "pair"),
                effect.label
            ),
        );
    }
}

/// The A/A control checks what intervals of this run are worth: 1 ought to lie in its own, and what
/// is wider than the smallest effect cannot tell one.
fn noise(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Serious, Warning};
    let noise = drawn.noise;
    let treatments =
        drawn.record.plan.variants.iter().any(|variant| variant.role == VariantRole::Treatment);
    let smallest = drawn.record.plan.smallest_effect.0;
    if noise.pairs < 2 {
        if treatments {
            let own = drawn.protocol.name == ProtocolName::Default;
            caveats.add(
                if own { Serious } else { Warning },
                0.8,
                "No A/A control was measured, so nothing shows what the intervals are worth; run \
                 again with one.",
            );
        }
        return;
    }
    let differs = drawn.control_p.is_some_and(|p| p < ALIKE);
    let within = noise.ratio.low.0 >= 1.0 - smallest && noise.ratio.high.0 <= 1.0 + smallest;
    let off = (noise.ratio.value.0 - 1.0).abs();
    if differs || noise.ratio.low.0 > 1.0 || noise.ratio.high.0 < 1.0 {
        let severity = match (differs, within) {
            (true, false) => Serious,
            (true, true) => Warning,
            (false, _) => Note,
        };
        caveats.add(
            severity,
            off,
            format!(
                "The A/A control differs from the baseline by {}: two starts of the same system \
                 are not alike; use more starts.",
                words::percent(off)
            ),
        );
    }
    if treatments && noise.ratio.half_width() > smallest {
        caveats.add(
            Serious,
            noise.ratio.half_width(),
            format!(
                "Two starts of the same system may differ by {}, more than the smallest effect of \
                 interest, {} (A/A, {}): this run cannot tell; give it more time or a quieter \
                 machine.",
                words::percent(noise.floor.0),
                words::percent(smallest),
                words::counted(noise.pairs, "pair")
            ),
        );
    }
    if let (Some(starts), true) = (drawn.few_starts, drawn.protocol.effect_blocks > 0) {
        let starts = words::counted(crate::number::tally(starts), "start");
        caveats.add(
            Note,
            0.1,
            format!(
                "Effects come from {starts} only: their intervals allow for what starts differ \
                 by; more starts would tell."
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
            0.3,
            "One repetition has no interval: throughput is shown as bare values, and differences \
             between levels may be chance.",
        );
    } else if !drawn.sweep.has_intervals {
        caveats.add(
            Warning,
            0.3,
            "Too few sweep blocks for intervals: throughput is shown as bare \
                              values; measure at least 2 blocks.",
        );
    }
    for label in &drawn.sweep.treated.unproven {
        caveats.add(
            Warning,
            0.3,
            format!(
                "The curve with {label} is left out: a start of it was not what it claims; see \
                 the proofs."
            ),
        );
    }
    if drawn.sweep.curve.points.len() == 1 {
        caveats.add(
            Note,
            0.05,
            "Only one level was measured: there is no curve, knee or least CPU \
                           per operation to compare with.",
        );
    }
    if drawn.record.host.cores < 4 && !drawn.imported() {
        caveats.add(
            Note,
            0.01,
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
                0.5,
                "No core accounting at the focus level: no causes can be \
                                  named; see `doctor` for what the collector lacks.",
            );
        }
        return;
    };
    let core = ledger.core.unaccounted.0;
    if core > GAPING {
        caveats.add(
            if core > OPEN { Serious } else { Warning },
            core,
            format!(
                "The core ledger leaves {} of all core-time open at {}.",
                words::percent(core),
                clients(drawn.focus)
            ),
        );
    }
    shared_out(drawn, ledger, caveats);
    let thread = ledger.thread.unaccounted.0;
    if thread > GAPING {
        caveats.add(
            Warning,
            thread,
            format!(
                "The thread ledger leaves {} of all thread-time open at {}.",
                words::percent(thread),
                clients(drawn.focus)
            ),
        );
    }
}

/// Levels that were not of one piece, and code without names.
fn odd(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Warning};
    for level in drawn.unsteady {
        let telling = level.level == drawn.focus || level.level == drawn.sweep.curve.peak;
        let severity = if telling { Warning } else { Note };
        caveats.add(severity, steadiness::weight(level), steadiness::sentence(level));
    }
    for one in drawn.nameless {
        caveats.add(Note, NAMELESS * nameless::most(one), nameless::sentence(one));
    }
}

/// Idle time that is charged to no wait is shared out over what was blocked meanwhile, which may be
/// the wrong thing. The unprivileged collector shares out all of it, and says so.
fn shared_out(drawn: &Drawn<'_>, ledger: &LevelLedger, caveats: &mut Caveats) {
    let Some(idle) = &ledger.core.idle else { return };
    let part = quotient(idle.spread.value.0, ledger.core.total.0);
    if part > SHARED_OUT && drawn.collector.tier == Some(Tier::Full) {
        caveats.add(
            Severity::Warning,
            0.5 * part,
            format!(
                "{} of all cores idled at {} for waits that could not be determined; that part is \
                 shared out over what was blocked meanwhile, and causes are less sure by it.",
                words::percent(part),
                clients(drawn.focus)
            ),
        );
    }
}

fn clients(level: Level) -> String {
    words::counted(level.clients, "client")
}

fn collector(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Serious, Warning};
    let collector = drawn.collector;
    if collector.tier == Some(Tier::Fallback) {
        caveats.add(
            Warning,
            0.3,
            "Only the unprivileged collector ran: waits are sampled and idle \
                              time is shared out by blocked time; see `doctor`.",
        );
    }
    if let Some((level, off)) = collector.running_worst.filter(|(_, off)| off.0 > CLOCKS) {
        caveats.add(
            Warning,
            off.0,
            format!(
                "Running time differs from the kernel's schedstat by {} at {}; the ledgers rest on \
                 the switches that the collector saw.",
                words::percent(off.0),
                clients(level)
            ),
        );
    }
    if collector.tier.is_some() && collector.stacks == 0 {
        let text = "No stacks were taken: locks and functions have no names; see `doctor`.";
        caveats.add(Note, 0.2, text);
    }
    if let Some(complete) = collector.stacks_complete.filter(|complete| complete.0 < COMPLETE) {
        caveats.add(
            Warning,
            1.0 - complete.0,
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
        caveats.add(Note, 0.05, format!("The collector lost events: {}.", listed.join(", ")));
    }
    if let Some(ratio) = collector.on_off.filter(|ratio| ratio.high.0 < 1.0) {
        let cost = 1.0 - ratio.value.0;
        let severity = match cost {
            cost if cost > drawn.too_dear() => Serious,
            cost if cost > DEAR => Warning,
            _ => Note,
        };
        caveats.add(
            severity,
            cost,
            format!(
                "Collecting costs throughput: with it {} [{} to {}] of that without.",
                words::percent(ratio.value.0),
                words::percent(ratio.low.0),
                words::percent(ratio.high.0)
            ),
        );
    }
}
