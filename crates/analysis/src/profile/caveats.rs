//! What limits a profile.

use crate::number::tally;
use crate::quality::collector::WHOLE;
use kneepoint_vocab::findings::{Caveat, CaveatReason, Severity};
use kneepoint_vocab::{Profile, Ratio, RunRecord, StoppedBy, Tier};

/// An account that leaves more than this part open is not one.
const OPEN: f64 = 0.1;
const GAPING: f64 = 0.02;
/// Below this share of complete stacks, names may be those of inner functions.
const COMPLETE: f64 = 0.8;
/// Seconds below which a profile says little.
const SHORT: f64 = 1.0;

/// What limits a profile, the gravest first.
pub(crate) fn caveats(reported: &Profile, record: &RunRecord) -> Vec<Caveat> {
    use Severity::{Note, Serious, Warning};
    let mut caveats = Vec::new();
    let mut add = |severity, reason| caveats.push(Caveat { severity, reason });
    if reported.windows == 0 {
        add(Serious, CaveatReason::NothingMeasured);
    }
    if let StoppedBy::Failed(error) = &reported.stopped_by {
        add(Serious, CaveatReason::Failed { error: error.clone() });
    }
    if let (Some(first), Some(_)) = (record.torn.first(), &record.end) {
        let (places, first) = (tally(record.torn.len()), first.clone());
        add(Serious, CaveatReason::Damaged { places, first });
    }
    if reported.stopped_by == StoppedBy::CutOff {
        add(Warning, CaveatReason::WatchCutOff);
    }
    if reported.windows > 0 && !crate::profile::saw_threads(record) {
        add(Serious, CaveatReason::NoThreads);
    }
    let share = reported.unaccounted;
    if share.0 > GAPING {
        let severity = if share.0 > OPEN { Serious } else { Warning };
        add(severity, CaveatReason::Unaccounted { share });
    }
    if reported.windows == 1 {
        add(Warning, CaveatReason::SingleWindow);
    } else if reported.windows > 0 && reported.watched.0 < SHORT {
        add(Warning, CaveatReason::ShortWatch);
    }
    let collector = &reported.collector;
    if collector.tier == Some(Tier::Fallback) {
        add(Warning, CaveatReason::FallbackCollector);
    }
    if collector.tier.is_some() && collector.stacks == 0 {
        add(Note, CaveatReason::NoStacks);
    }
    if let Some(complete) = collector.stacks_complete.filter(|complete| complete.0 < COMPLETE) {
        let compiled = collector.stacks_cut_compiled.unwrap_or(Ratio(0.0));
        add(Warning, CaveatReason::CutStacks { complete, compiled });
    }
    if !collector.losses.is_empty() {
        add(Note, CaveatReason::LostEvents { losses: collector.losses.clone() });
    }
    if let Some(covered) = collector.covered.filter(|covered| covered.0 < WHOLE) {
        add(Note, CaveatReason::Thinned { covered });
    }
    for remark in record.end.iter().flat_map(|end| &end.remarks) {
        add(Note, CaveatReason::Remark { text: remark.clone() });
    }
    add(Note, CaveatReason::OneLevelSeen);
    caveats.sort_by_key(|caveat| std::cmp::Reverse(caveat.severity));
    caveats
}

pub(crate) fn is_trustworthy(caveats: &[Caveat]) -> bool {
    caveats.iter().all(|caveat| caveat.severity != Severity::Serious)
}
