//! Everything that limits what was said, with the figures that show it.

use crate::number::{count, quotient, size, tally};
use crate::quality::collector::WHOLE;
use crate::quality::measured::{left_out, measured};
use crate::quality::protocol::{disturbed_share, kept_share};
use crate::quality::{environment, nameless, stalls, steadiness};
use crate::scaling::by_cores::Fewer;
use crate::{Limits, Swept};
use kneepoint_vocab::findings::{
    Caveat, CaveatReason, Collector, Disturbance, Effect, LevelLedger, LineKind, Nameless, Noise,
    Protocol, Severity, Unsteady, Verdict,
};
use kneepoint_vocab::units::Ratio;
use kneepoint_vocab::{Disposition, Level, ProtocolName, RunRecord, StoppedBy, Tier, VariantRole};

/// A ledger at the focus level that leaves more than this open cannot be relied on.
const OPEN: f64 = 0.05;
/// A thread ledger that leaves more than this open knows nobody.
const NOBODY: f64 = 0.999;
/// A ledger that leaves more than this open deserves a word.
const GAPING: f64 = 0.02;
/// Idle time beyond this part of all cores that is charged to no wait deserves a word.
const SHARED_OUT: f64 = 0.1;
/// Running time that differs more than this from `schedstat` deserves a word.
const CLOCKS: f64 = 0.03;
/// So many seconds more at each wake-up are `schedstat`'s own: it counts a core's way out of idling
/// and the rest of the waker's call to the thread that is woken (docs/method.md).
const WAKE_UP: f64 = 40e-6;
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
    fn add(&mut self, severity: Severity, weight: f64, reason: CaveatReason) {
        self.0.push((weight, Caveat { severity, reason }));
    }
}

/// The caveats, the gravest first; of equal severity the one of the greatest weight.
pub(crate) fn caveats(drawn: &Drawn<'_>) -> Vec<Caveat> {
    let mut caveats = Caveats(Vec::new());
    run(drawn, &mut caveats);
    for caveat in stalls::caveats(&stalls::stalls(drawn.record)) {
        caveats.0.push((0.5, caveat));
    }
    let leaked = environment::caveat(&drawn.record.variants, &drawn.record.stacks);
    caveats.0.extend(leaked.map(|caveat| (0.03, caveat)));
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
        caveats.add(Serious, 1.0, CaveatReason::NothingMeasured);
    }
    if drawn.imported() {
        imported(drawn, caveats);
        return;
    }
    if let StoppedBy::Failed(error) = &protocol.stopped_by {
        caveats.add(Serious, 1.0, CaveatReason::Failed { error: error.clone() });
    }
    if matches!(protocol.stopped_by, StoppedBy::CutOff | StoppedBy::Interrupted) {
        let blocks = protocol.sweep_blocks;
        let too_few = blocks < LEAST_BLOCKS;
        let severity = if too_few { Serious } else { Warning };
        caveats.add(severity, 0.5, CaveatReason::CutOff { blocks, too_few });
    }
    if drawn.record.end.as_ref().is_some_and(|end| !end.steady) {
        caveats.add(Warning, 0.1, CaveatReason::NotSteady);
    }
    if protocol.failed > 0 {
        caveats.add(Warning, 0.2, CaveatReason::FailedSlices { slices: protocol.failed });
    }
    damage(drawn, caveats);
    if protocol.stopped_by == StoppedBy::Decided {
        caveats.add(Note, 0.0, CaveatReason::StoppedDecided);
    }
    remarks(drawn, caveats);
}

/// What is not as the run has written it.
fn damage(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    let torn = &drawn.record.torn;
    let Some(first) = torn.first().cloned() else { return };
    let places = tally(torn.len());
    if drawn.record.end.is_some() {
        caveats.add(Severity::Serious, 1.0, CaveatReason::Damaged { places, first });
    } else {
        caveats.add(Severity::Note, 0.02, CaveatReason::Torn { places, first });
    }
}

/// What is known of results of other tools, and what is not.
fn imported(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    let (results, levels) = (drawn.protocol.slices, tally(drawn.sweep.curve.points.len()));
    caveats.add(Severity::Warning, 0.3, CaveatReason::Imported { results, levels });
    remarks(drawn, caveats);
}

fn remarks(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    for remark in drawn.record.end.iter().flat_map(|end| &end.remarks) {
        caveats.add(Severity::Note, 0.05, CaveatReason::Remark { text: remark.clone() });
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
    if let Some(worst) = worst {
        let loud = drawn.noise.pairs > 0 && drawn.noise.floor.0 > LOUD;
        let many = kept_share(protocol) > DISTURBED;
        let spoils = many && (taken > TAKEN || loud);
        let severity = match (spoils, many) {
            (true, _) => Serious,
            (false, true) => Warning,
            (false, false) => Note,
        };
        let reason = CaveatReason::KeptDisturbed {
            slices: protocol.kept_disturbed,
            worst: Disturbance { others: worst.others, steal: worst.steal },
            mean: Disturbance { others: protocol.others, steal: protocol.steal },
            spoils,
        };
        caveats.add(severity, worst.share().0 * kept_share(protocol), reason);
    } else if disturbed_share(protocol) > DISTURBED {
        let share = Ratio(disturbed_share(protocol));
        caveats.add(Note, 0.01, CaveatReason::Repeated { share });
    }
    let spoiled = left_out(drawn.record);
    if let Some(first) = spoiled.first() {
        let noted = match &first.disposition {
            Disposition::Spoiled { reason } => Some(reason.clone()),
            _ => None,
        };
        let (slices, taken) = (tally(spoiled.len()), first.interference.share());
        caveats.add(
            Warning,
            quotient(size(spoiled.len()), count(u64::from(protocol.slices))),
            CaveatReason::TooDisturbed { slices, taken, noted },
        );
    }
}

/// What limits the throughput besides the system at this level.
fn who_limits(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Serious, Warning};
    if let Some(off) = drawn.counts_off {
        caveats.add(Serious, off.0, CaveatReason::CountsDiffer { off });
    }
    let generator = drawn.limits.generator.as_ref();
    let limits = generator.and_then(|one| Some((one.own_cores, one.bottleneck.clone()?)));
    if let Some((own_cores, bottleneck)) = limits {
        caveats.add(Warning, 0.5, CaveatReason::GeneratorLimits { bottleneck, own_cores });
    }
    for task in &drawn.limits.saturated {
        let (name, busiest, level) = (task.name.clone(), task.busiest, drawn.focus);
        caveats.add(Warning, 0.15, CaveatReason::SaturatedThread { name, busiest, level });
    }
    if let Some(fewer) = drawn.sweep.fewer {
        let Fewer { cores, than, ratio } = fewer;
        caveats.add(Warning, 0.1, CaveatReason::FewerCoresFaster { cores, than, ratio });
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
        let (label, pairs) = (effect.label.clone(), effect.pairs);
        let reason = CaveatReason::FewPairs { label, pairs, needed: LEAST_PAIRS };
        caveats.add(Severity::Serious, 0.9, reason);
    }
}

/// The A/A control checks what intervals of this run are worth: 1 ought to lie in its own, and what
/// is wider than the smallest effect cannot tell one.
fn noise(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Serious, Warning};
    let noise = drawn.noise;
    let treatments =
        drawn.record.plan.variants.iter().any(|variant| variant.role == VariantRole::Treatment);
    let smallest = drawn.record.plan.smallest_effect;
    if noise.pairs < 2 {
        if treatments {
            let own = drawn.protocol.name == ProtocolName::Default;
            caveats.add(if own { Serious } else { Warning }, 0.8, CaveatReason::NoControl);
        }
        return;
    }
    let differs = drawn.control_p.is_some_and(|p| p < ALIKE);
    let within = noise.ratio.low.0 >= 1.0 - smallest.0 && noise.ratio.high.0 <= 1.0 + smallest.0;
    let off = Ratio((noise.ratio.value.0 - 1.0).abs());
    if differs || noise.ratio.low.0 > 1.0 || noise.ratio.high.0 < 1.0 {
        let severity = match (differs, within) {
            (true, false) => Serious,
            (true, true) => Warning,
            (false, _) => Note,
        };
        caveats.add(severity, off.0, CaveatReason::ControlDiffers { off });
    }
    if treatments && noise.ratio.half_width() > smallest.0 {
        let (floor, pairs) = (noise.floor, noise.pairs);
        let reason = CaveatReason::ControlTooWide { floor, smallest, pairs };
        caveats.add(Serious, noise.ratio.half_width(), reason);
    }
    if let (Some(starts), true) = (drawn.few_starts, drawn.protocol.effect_blocks > 0) {
        caveats.add(Note, 0.1, CaveatReason::FewStarts { starts: tally(starts) });
    }
}

fn curve(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Warning};
    if drawn.sweep.curve.points.is_empty() {
        return;
    }
    if !drawn.sweep.has_intervals {
        let own = drawn.protocol.name == ProtocolName::Default;
        let reason = if own { CaveatReason::FewBlocks } else { CaveatReason::SingleRepetition };
        caveats.add(Warning, 0.3, reason);
    }
    for label in &drawn.sweep.treated.unproven {
        caveats.add(Warning, 0.3, CaveatReason::UnprovenCurve { label: label.clone() });
    }
    if drawn.sweep.curve.points.len() == 1 {
        caveats.add(Note, 0.05, CaveatReason::SingleLevel);
    }
    let cores = drawn.record.host.cores;
    if cores < 4 && !drawn.imported() {
        caveats.add(Note, 0.01, CaveatReason::SmallMachine { cores });
    }
}

fn ledger(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Serious, Warning};
    let level = drawn.focus;
    let Some(ledger) = drawn.ledgers.iter().find(|ledger| ledger.level == level) else {
        if !drawn.sweep.curve.points.is_empty() && !drawn.imported() {
            caveats.add(Warning, 0.5, CaveatReason::NoLedger);
        }
        return;
    };
    let share = ledger.core.unaccounted;
    if share.0 > GAPING {
        let severity = if share.0 > OPEN { Serious } else { Warning };
        caveats.add(severity, share.0, CaveatReason::CoreLedgerOpen { share, level });
    }
    shared_out(drawn, ledger, caveats);
    let share = ledger.thread.unaccounted;
    if share.0 > NOBODY {
        caveats.add(Note, 0.1, CaveatReason::NoClientThreads { level });
    } else if share.0 > GAPING {
        caveats.add(Warning, share.0, CaveatReason::ThreadLedgerOpen { share, level });
    }
}

/// Levels that were not of one piece, and code without names.
fn odd(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Warning};
    for level in drawn.unsteady {
        let telling = level.level == drawn.focus || level.level == drawn.sweep.curve.peak;
        let severity = if telling { Warning } else { Note };
        caveats.add(severity, steadiness::weight(level), steadiness::reason(level));
    }
    for one in drawn.nameless {
        caveats.add(Note, NAMELESS * nameless::most(one), nameless::reason(one));
    }
}

/// Idle time that is charged to no wait is shared out over what was blocked meanwhile, which may be
/// the wrong thing where that is another than what was charged. The unprivileged collector shares
/// out all of it, and says so.
fn shared_out(drawn: &Drawn<'_>, ledger: &LevelLedger, caveats: &mut Caveats) {
    let Some(idle) = &ledger.core.idle else { return };
    let lines = ledger.core.lines.iter().filter(|line| line.kind.is_idle());
    let (ready, blocked): (Vec<_>, Vec<_>) =
        lines.partition(|line| line.kind == LineKind::IdleScheduler);
    let [ready, blocked] =
        [ready, blocked].map(|lines| lines.iter().map(|line| line.cores.value.0).sum::<f64>());
    // Beside threads that are ready to run nothing is guessed.
    let guessed = quotient(blocked, ready + blocked);
    let part = guessed * quotient(idle.doubtful.value.0, ledger.core.total.0);
    if part > SHARED_OUT && drawn.collector.tier == Some(Tier::Full) {
        let reason = CaveatReason::IdleSharedOut { share: Ratio(part), level: drawn.focus };
        caveats.add(Severity::Warning, 0.5 * part, reason);
    }
}

fn collector(drawn: &Drawn<'_>, caveats: &mut Caveats) {
    use Severity::{Note, Serious, Warning};
    let collector = drawn.collector;
    if collector.tier == Some(Tier::Fallback) {
        caveats.add(Warning, 0.3, CaveatReason::FallbackCollector);
    }
    if let Some((level, off)) = collector.running_worst.filter(|(_, off)| off.0 > CLOCKS) {
        let per_wait = collector.running_per_wait;
        let (severity, weight) = match per_wait {
            Some(more) if more.0 <= WAKE_UP => (Note, 0.05),
            _ => (Warning, off.0),
        };
        caveats.add(severity, weight, CaveatReason::ClocksDiffer { off, level, per_wait });
    }
    if collector.tier.is_some() && collector.stacks == 0 {
        caveats.add(Note, 0.2, CaveatReason::NoStacks);
    }
    if let Some(complete) = collector.stacks_complete.filter(|complete| complete.0 < COMPLETE) {
        let compiled = collector.stacks_cut_compiled.unwrap_or(Ratio(0.0));
        caveats.add(Warning, 1.0 - complete.0, CaveatReason::CutStacks { complete, compiled });
    }
    if !collector.losses.is_empty() {
        let losses = collector.losses.clone();
        caveats.add(Note, 0.05, CaveatReason::LostEvents { losses });
    }
    if let Some(covered) = collector.covered.filter(|covered| covered.0 < WHOLE) {
        caveats.add(Note, 0.05, CaveatReason::Thinned { covered });
    }
    if let Some(ratio) = collector.on_off.filter(|ratio| ratio.high.0 < 1.0) {
        let cost = 1.0 - ratio.value.0;
        let severity = match cost {
            cost if cost > drawn.too_dear() => Serious,
            cost if cost > DEAR => Warning,
            _ => Note,
        };
        caveats.add(severity, cost, CaveatReason::CollectorCosts { ratio });
    }
}
