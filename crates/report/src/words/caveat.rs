//! What limits what was said, with what to do about it.

use super::counted;
use super::limits::{bottleneck, remedy, saturated_thread};
use super::stalls::stalled;
use crate::number::sentence;
use kneepoint_vocab::findings::{CaveatReason, Disturbance, Regimes, Stall, Unseen};
use kneepoint_vocab::{Estimate, Level, Ratio, Seconds, Unit};

/// Of a run, in one sentence.
pub(crate) fn of_run(reason: &CaveatReason) -> String {
    use CaveatReason as Is;
    match reason {
        Is::NothingMeasured => fixed(NOTHING_MEASURED),
        Is::Imported { results, levels } => imported(*results, *levels),
        Is::Failed { error } => format!("The run failed: {error}; run it again."),
        Is::CutOff { blocks, too_few } => cut_off(*blocks, *too_few),
        Is::WatchCutOff => fixed("It was cut off: what it had seen until then is reported."),
        Is::NotSteady => fixed(NOT_STEADY),
        Is::FailedSlices { slices } => failed_slices(*slices),
        Is::Damaged { places, first } => damaged(*places, first),
        Is::Torn { places, first } => torn(*places, first),
        Is::StoppedDecided => fixed(STOPPED_DECIDED),
        Is::Remark { text } => text.clone(),
        Is::Stalled { stall } => stalled_level(stall),
        Is::Environment { variables } => environment(variables),
        Is::KeptDisturbed { slices, worst, mean, spoils } => {
            kept_disturbed(*slices, worst, mean, *spoils)
        }
        Is::Repeated { share } => repeated(*share),
        Is::TooDisturbed { slices, taken, noted } => {
            too_disturbed(*slices, *taken, noted.as_deref())
        }
        Is::CountsDiffer { off } => counts_differ(*off),
        Is::GeneratorLimits { bottleneck: why, own_cores } => {
            let (why, remedy) = (bottleneck(why), remedy(*own_cores));
            format!("The load generator limits the throughput: {why}; {remedy}.")
        }
        Is::SaturatedThread { name, busiest, level } => {
            no_faster(&saturated_thread(name, *busiest), *level)
        }
        Is::FewerCoresFaster { cores, than, ratio } => fewer_cores(*cores, *than, ratio),
        Is::FewPairs { label, pairs, needed } => few_pairs(label, *pairs, *needed),
        Is::NoControl => fixed(NO_CONTROL),
        Is::ControlDiffers { off } => control_differs(*off),
        Is::ControlTooWide { floor, smallest, pairs } => too_wide(*floor, *smallest, *pairs),
        Is::FewStarts { starts } => few_starts(*starts),
        Is::SingleRepetition => fixed(SINGLE_REPETITION),
        Is::FewBlocks => fixed(FEW_BLOCKS),
        Is::UnprovenCurve { label } => unproven_curve(label),
        Is::SingleLevel => fixed(SINGLE_LEVEL),
        Is::SmallMachine { cores } => small_machine(*cores),
        Is::NoLedger => fixed(NO_LEDGER),
        Is::CoreLedgerOpen { share, level } => left_open("core", *share, *level),
        Is::NoClientThreads { level } => no_client_threads(*level),
        Is::ThreadLedgerOpen { share, level } => left_open("thread", *share, *level),
        Is::Unaccounted { share } => {
            format!("{} of all core-time is not accounted for.", sentence::percent(*share))
        }
        Is::IdleSharedOut { share, level } => shared_out(*share, *level),
        Is::UnsteadyLevel { level, slices, of, restless, regimes } => {
            unsteady(*level, (*slices, *of), *restless, regimes.as_ref())
        }
        Is::NamelessCode { module, build_ids, on_cpu, waits } => {
            nameless(module, build_ids, *on_cpu, *waits)
        }
        Is::FallbackCollector => fixed(FALLBACK),
        Is::ClocksDiffer { off, level, per_wait } => clocks_differ(*off, *level, *per_wait),
        Is::NoStacks => fixed(NO_STACKS),
        Is::CutStacks { complete, compiled } => cut_stacks(*complete, *compiled),
        Is::LostEvents { losses } => lost_events(losses),
        Is::CollectorCosts { ratio } => collector_costs(ratio),
        Is::Thinned { covered } => thinned(*covered),
        Is::NoThreads => fixed("No thread was seen: there is nothing to tell."),
        Is::SingleWindow => fixed("A single window: no number has an interval; watch longer."),
        Is::ShortWatch => fixed("Less than a second was seen: watch longer with --seconds."),
        Is::OneLevelSeen => fixed(ONE_LEVEL_SEEN),
    }
}

/// Of a profile, which has windows where a run has slices, and is taken again more easily.
pub(crate) fn of_profile(reason: &CaveatReason) -> String {
    match reason {
        CaveatReason::NothingMeasured => fixed("Nothing was measured: no window counts."),
        CaveatReason::Failed { error } => format!("It failed: {error}; try again."),
        CaveatReason::Damaged { first, .. } => {
            format!("The run directory is damaged ({first}); profile again.")
        }
        CaveatReason::NoStacks => fixed("No stacks were taken: locks and functions have no names."),
        other => of_run(other),
    }
}

const NOTHING_MEASURED: &str =
    "No slice counts: nothing was measured; see the failed slices and run again.";
const NOT_STEADY: &str = "The system was not steady when measuring began: drift that random blocks \
                          do not even out is in the numbers.";
const STOPPED_DECIDED: &str = "The run stopped as soon as each verdict was final: verdicts account \
                               for looking often, intervals of decided variants are plain 95 % \
                               ones.";
const NO_CONTROL: &str = "No A/A control was measured, so nothing shows what the intervals are \
                          worth; run again with one.";
const SINGLE_REPETITION: &str = "One repetition has no interval: throughput is shown as bare \
                                 values, and differences between levels may be chance.";
const FEW_BLOCKS: &str = "Too few sweep blocks for intervals: throughput is shown as bare values; \
                          measure at least 2 blocks.";
const SINGLE_LEVEL: &str = "Only one level was measured: there is no curve, knee or least CPU per \
                            operation to compare with.";
const NO_LEDGER: &str = "No core accounting at the focus level: no causes can be named; see \
                         `doctor` for what the collector lacks.";
const FALLBACK: &str = "Only the unprivileged collector ran: waits are sampled and idle time is \
                        shared out by blocked time; see `doctor`.";
const NO_STACKS: &str = "No stacks were taken: locks and functions have no names; see `doctor`.";
const ONE_LEVEL_SEEN: &str =
    "One level tells where time goes, not what more cores or clients would bring.";

fn fixed(sentence: &str) -> String {
    sentence.to_owned()
}

fn clients(level: Level) -> String {
    counted(level.clients, "client")
}

fn imported(results: u32, levels: u32) -> String {
    let (results, levels) = (counted(results, "result"), counted(levels, "level"));
    format!(
        "{results} of another tool at {levels} were imported and nothing was measured: there are \
         no ledgers, causes and noise floor, and the machine is whatever it was; run the workload \
         under Kneepoint for those."
    )
}

fn cut_off(blocks: u32, too_few: bool) -> String {
    let blocks = counted(blocks, "block");
    let what = if too_few { "too few to rely on" } else { "intervals are wider than planned" };
    format!("The run was cut off after {blocks} of the sweep: {what}; run it again.")
}

fn failed_slices(slices: u32) -> String {
    let slices = counted(slices, "slice");
    format!("{slices} failed and count for nothing; see the run directory for reasons.")
}

fn damaged(places: u32, first: &str) -> String {
    let places = counted(places, "place");
    format!("The run directory is damaged in {places} ({first}); run it again.")
}

fn torn(places: u32, first: &str) -> String {
    let places = counted(places, "place");
    format!("What the cut-off run left cannot be read in {places} ({first}).")
}

fn stalled_level(stall: &Stall) -> String {
    let used = if stall.slices < stall.of {
        "the throughput of that level is of its other slices"
    } else {
        "that level has no throughput"
    };
    format!("{}; {used}.", stalled(stall))
}

fn environment(variables: &[(String, String)]) -> String {
    let list: Vec<String> =
        variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!(
        "The calling shell's environment changes how the system runs: {}; without that, begin \
         with env -u NAME.",
        list.join(", ")
    )
}

fn kept_disturbed(slices: u32, worst: &Disturbance, mean: &Disturbance, spoils: bool) -> String {
    let kept = counted(slices, "disturbed slice");
    let taken = format!(
        "in the worst other processes took {} and the hypervisor {} of capacity, in the mean {} \
         and {}",
        sentence::percent(worst.others),
        sentence::percent(worst.steal),
        sentence::percent(mean.others),
        sentence::percent(mean.steal)
    );
    if spoils {
        return format!("{kept} had to be kept: {taken}; use a quieter machine.");
    }
    format!("{kept} had to be kept and weigh less: {taken}.")
}

fn repeated(share: Ratio) -> String {
    format!("{} of all slices were disturbed, and taken once more.", sentence::percent(share))
}

fn too_disturbed(slices: u32, taken: Ratio, noted: Option<&str>) -> String {
    let slices = counted(slices, "slice");
    let took = || format!("others took {} of capacity", sentence::percent(taken));
    let why = noted.map_or_else(took, str::to_owned);
    format!("{slices} too disturbed to count: {why}.")
}

fn counts_differ(off: Ratio) -> String {
    format!(
        "The server counted {} more or fewer operations than the load generator: one of them does \
         not measure what it says; see the trials.",
        sentence::percent(off)
    )
}

fn no_faster(saturated: &str, level: Level) -> String {
    format!(
        "{saturated} at {}: what waits for it cannot go faster, however many cores idle.",
        clients(level)
    )
}

fn fewer_cores(cores: u32, than: u32, ratio: &Estimate<Ratio>) -> String {
    format!(
        "Fewer cores are faster: {} give {} [{} to {}] of what {than} give.",
        counted(cores, "core"),
        sentence::times(ratio.value),
        sentence::times(ratio.low),
        sentence::times(ratio.high)
    )
}

fn few_pairs(label: &str, pairs: u32, needed: u32) -> String {
    format!(
        "Only {} of {label}: at least {needed} are needed for a verdict; give it more time.",
        counted(pairs, "pair")
    )
}

fn control_differs(off: Ratio) -> String {
    format!(
        "The A/A control differs from the baseline by {}: two starts of the same system are not \
         alike; use more starts.",
        sentence::percent(off)
    )
}

fn too_wide(floor: Ratio, smallest: Ratio, pairs: u32) -> String {
    format!(
        "Two starts of the same system may differ by {}, more than the smallest effect of \
         interest, {} (A/A, {}): this run cannot tell; give it more time or a quieter machine.",
        sentence::percent(floor),
        sentence::percent(smallest),
        counted(pairs, "pair")
    )
}

fn few_starts(starts: u32) -> String {
    format!(
        "Effects come from {} only: their intervals allow for what starts differ by; more starts \
         would tell.",
        counted(starts, "start")
    )
}

fn unproven_curve(label: &str) -> String {
    format!(
        "The curve with {label} is left out: a start of it was not what it claims; see the proofs."
    )
}

fn small_machine(cores: u32) -> String {
    let cores = counted(cores, "core");
    format!("This machine has {cores}: what shows only on more cores cannot be seen here.")
}

fn thinned(covered: Ratio) -> String {
    format!(
        "The collector watched {} of the time: where threads switch often, watching all of it \
         would slow them. Ledgers and causes are of that part; throughput is of all.",
        crate::number::plain_percent(covered)
    )
}

fn no_client_threads(level: Level) -> String {
    let at = clients(level);
    format!("No thread was seen to serve one client at {at}: what a client waits for is not known.")
}

fn left_open(ledger: &str, share: Ratio, level: Level) -> String {
    format!(
        "The {ledger} ledger leaves {} of all {ledger}-time open at {}.",
        sentence::percent(share),
        clients(level)
    )
}

fn shared_out(share: Ratio, level: Level) -> String {
    format!(
        "{} of all cores idled at {} for waits that could not be determined; that part is shared \
         out over what was blocked meanwhile, unlike the rest, and causes are less sure by it.",
        sentence::percent(share),
        clients(level)
    )
}

fn unsteady(
    level: Level,
    (slices, of): (u32, u32),
    restless: bool,
    regimes: Option<&Regimes>,
) -> String {
    let at = clients(level);
    let rest = format!(
        "{slices} of {} at {at} did not come to rest: the pace of the clients changed within the \
         window",
        counted(of, "slice")
    );
    let Some(two) = regimes else {
        return format!("{rest}; give clients longer to settle, or take longer slices.");
    };
    let regimes = format!(
        "slices at {at} are of two regimes, {} of {} and {} of {}: their mean is neither; where \
         threads find their cores by chance, pin them.",
        two.low_slices,
        sentence::rate(two.low),
        two.high_slices,
        sentence::rate(two.high)
    );
    if restless { format!("{rest}; the {regimes}") } else { format!("The {regimes}") }
}

fn nameless(
    module: &str,
    build_ids: &[String],
    on_cpu: Option<Ratio>,
    waits: Option<Ratio>,
) -> String {
    let parts = [(on_cpu, "the CPU"), (waits, "the blocked time")];
    let parts = parts.iter().filter_map(|(share, what)| Some(((*share)?, what)));
    let parts: Vec<String> =
        parts.map(|(share, what)| format!("{} of {what}", sentence::percent(share))).collect();
    let reported = parts.join(" and ");
    // A just-in-time compiler wrote it.
    if module == "[anonymous]" {
        return format!(
            "{reported} begins in compiled code without names: start Java (17 or later) with \
             -XX:+PreserveFramePointer, Node with --perf-basic-prof, others so that they write \
             /tmp/perf-PID.map."
        );
    }
    // `[vdso]`: no file has symbols of it.
    if module.starts_with('[') {
        return format!("{reported} begins in code without a file ({module}), so without names.");
    }
    let build = match build_ids {
        [] => String::new(),
        ids => format!(" (build id {})", ids.join(", ")),
    };
    format!(
        "{reported} begins in functions of {module}{build} that have no name here: install its \
         debug symbols (on Debian a package named -dbgsym), or build it with them."
    )
}

fn clocks_differ(off: Ratio, level: Level, per_wait: Option<Seconds>) -> String {
    let why = per_wait.map_or_else(String::new, |more| {
        format!(
            ": schedstat has {} more for each wait, since it counts a core's way out of idling to \
             the thread that is woken",
            sentence::duration(more)
        )
    });
    format!(
        "Running time differs from the kernel's schedstat by {} at {}{why}; the ledgers rest on \
         the switches that the collector saw.",
        sentence::percent(off),
        clients(level)
    )
}

fn cut_stacks(complete: Ratio, compiled: Ratio) -> String {
    let how = match compiled.get() > 0.5 * (1.0 - complete.get()) {
        true => {
            "; most end in code compiled at run time: start Java with -XX:+PreserveFramePointer"
        }
        false => "",
    };
    format!(
        "Only {} of the stacks reach the outermost frame; names from cut stacks may be those of \
         inner functions{how}.",
        sentence::percent(complete)
    )
}

fn lost_events(losses: &[(String, u64)]) -> String {
    let listed: Vec<String> = losses.iter().map(|(what, n)| format!("{what} {n}")).collect();
    format!("The collector lost events: {}.", listed.join(", "))
}

fn collector_costs(ratio: &Estimate<Ratio>) -> String {
    format!(
        "Collecting costs throughput: with it {} [{} to {}] of that without.",
        sentence::percent(ratio.value),
        sentence::percent(ratio.low),
        sentence::percent(ratio.high)
    )
}

/// What a collector cannot see.
pub(crate) const fn unseen(what: Unseen) -> &'static str {
    match what {
        Unseen::UserSpins => {
            "waits that spin in user space without blocking: they show as CPU per operation"
        }
        Unseen::SharedHolders => "which thread of several readers holds a shared lock",
        Unseen::SingleWaits => "number and length of single waits, and who ended them",
        Unseen::ShortWaits => "waits much shorter than the interval between two readings",
        Unseen::KernelLocks => "locks inside the kernel",
        Unseen::IdleReasons => {
            "which wait a core was idle for: idle time is shared out by blocked time"
        }
        Unseen::EndedThreads => "threads that ended within a window",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::PerSecond;

    fn level(clients: u32) -> Level {
        Level { clients, cores: 2 }
    }

    #[test]
    fn a_level_in_two_regimes_is_one_sentence() {
        let (low, high) = (PerSecond(2400.0), PerSecond(4900.0));
        let two = Regimes { low, high, low_slices: 3, high_slices: 5 };
        assert_eq!(
            unsteady(level(8), (1, 8), false, Some(&two)),
            "The slices at 8 clients are of two regimes, 3 of 2.4k/s and 5 of 4.9k/s: their mean \
             is neither; where threads find their cores by chance, pin them."
        );
        let restless = unsteady(level(8), (6, 8), true, None);
        assert!(restless.starts_with("6 of 8 slices at 8 clients did not come to rest"));
        let both = unsteady(level(8), (6, 8), true, Some(&two));
        assert!(both.contains("within the window; the slices at 8 clients are of two"));
    }

    #[test]
    fn code_without_names_says_how_it_gets_some() {
        let said = |module: &str, ids: &[String]| {
            nameless(module, ids, Some(Ratio(0.67)), Some(Ratio(1.0)))
        };
        assert_eq!(
            said("mariadbd", &["4fa0".to_owned()]),
            "67 % of the CPU and 100 % of the blocked time begins in functions of mariadbd (build \
             id 4fa0) that have no name here: install its debug symbols (on Debian a package named \
             -dbgsym), or build it with them."
        );
        assert!(said("[anonymous]", &[]).contains("write /tmp/perf-PID.map"));
        assert!(said("[vdso]", &[]).ends_with("code without a file ([vdso]), so without names."));
        let waits = nameless("a", &[], None, Some(Ratio(0.3)));
        assert!(waits.starts_with("30 % of the blocked time begins in functions of a that"));
    }

    #[test]
    fn disturbances_have_their_figures() {
        let worst = Disturbance { others: Ratio(0.08), steal: Ratio(0.04) };
        let said = kept_disturbed(2, &worst, &worst, true);
        assert!(
            said.starts_with("2 disturbed slices had to be kept: in the worst other processes")
        );
        assert!(said.contains("took 8.0 % and the hypervisor 4.0 %") && said.contains("quieter"));
        assert!(kept_disturbed(1, &worst, &worst, false).contains("kept and weigh less: in the"));
        let frozen = too_disturbed(1, Ratio(0.5), Some("its window lasted 9 s"));
        assert_eq!(frozen, "1 slice too disturbed to count: its window lasted 9 s.");
        let taken = too_disturbed(2, Ratio(0.5), None);
        assert_eq!(taken, "2 slices too disturbed to count: others took 50 % of capacity.");
    }

    #[test]
    fn a_profile_has_windows_where_a_run_has_slices() {
        let said = of_profile(&CaveatReason::NothingMeasured);
        assert_eq!(said, "Nothing was measured: no window counts.");
        assert!(of_run(&CaveatReason::NothingMeasured).starts_with("No slice counts"));
        let failed = CaveatReason::Failed { error: "it died".to_owned() };
        assert_eq!(of_profile(&failed), "It failed: it died; try again.");
        assert_eq!(of_run(&failed), "The run failed: it died; run it again.");
    }
}
