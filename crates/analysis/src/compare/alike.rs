//! What is not the same in the runs beside the system itself.

use super::Run;
use kneepoint_vocab::comparison::Unlike;
use kneepoint_vocab::{Clients, Host, ProtocolName, Tier, VariantId, VariantStart};
use std::collections::{BTreeMap, BTreeSet};

/// Memory may differ by this part: what the kernel keeps for itself changes with its version.
const MEMORY: f64 = 0.02;
/// Shares of capacity that others took may differ by this much.
const OTHERS: f64 = 0.05;
/// A noise floor this many times as high is another one.
const NOISE: f64 = 2.0;
/// Variables that say where somebody stood, not how a program runs.
const IDLE_VARIABLES: [&str; 9] =
    ["PWD", "OLDPWD", "SHLVL", "_", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM"];
/// What a run that has no such value shows.
const NONE: &str = "none";

/// Every condition that differs, the machine's first.
pub(super) fn unlike(runs: &[Run<'_>]) -> Vec<Unlike> {
    let mut out = Vec::new();
    machine(runs, &mut out);
    design(runs, &mut out);
    quiet(runs, &mut out);
    system(runs, &mut out);
    out
}

/// Notes it where not all runs say the same.
fn note(out: &mut Vec<Unlike>, what: &str, values: Vec<String>) {
    if values.windows(2).any(|two| two[0] != two[1]) {
        out.push(Unlike { what: what.to_owned(), values });
    }
}

fn each(runs: &[Run<'_>], value: impl Fn(&Run<'_>) -> String) -> Vec<String> {
    runs.iter().map(value).collect()
}

fn machine(runs: &[Run<'_>], out: &mut Vec<Unlike>) {
    let host = |value: fn(&Host) -> String| each(runs, |run| value(&run.record.host));
    note(out, "CPU", host(|host| host.cpu.clone()));
    note(out, "cores", host(|host| host.cores.to_string()));
    let memory: Vec<f64> =
        runs.iter().map(|run| crate::number::count(run.record.host.memory)).collect();
    let (least, most) = memory
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
    if most > least * (1.0 + MEMORY) {
        let gib = |bytes: &f64| format!("{:.1} GiB", bytes / f64::from(1 << 30));
        note(out, "memory", memory.iter().map(gib).collect());
    }
    note(out, "kernel", host(|host| host.kernel.clone()));
    note(out, "distribution", host(|host| host.distribution.clone()));
    let tables: Vec<BTreeMap<&str, &str>> =
        runs.iter().map(|run| table(&run.record.host.notes)).collect();
    differing(&tables, out, |_| true);
    note(out, "Kneepoint", host(|host| host.kneepoint.clone()));
}

fn design(runs: &[Run<'_>], out: &mut Vec<Unlike>) {
    let what = if runs[0].record.plan.recipe == super::COMMAND { "command" } else { "summary" };
    note(out, what, each(runs, |run| run.record.plan.summary.clone()));
    let protocol = |run: &Run<'_>| match run.record.plan.protocol {
        ProtocolName::Default => "Kneepoint's",
        ProtocolName::Published => "published",
        ProtocolName::Imported => "imported",
        ProtocolName::Profile => "profile",
    };
    note(out, "protocol", each(runs, |run| protocol(run).to_owned()));
    let clients = |run: &Run<'_>| match run.record.plan.clients {
        Clients::Inside => "inside the system",
        Clients::Apart => "apart",
    };
    note(out, "clients live", each(runs, |run| clients(run).to_owned()));
    note(out, "generator cores", each(runs, |run| run.record.plan.generator_cores.to_string()));
    let window = |run: &Run<'_>| format!("{} ms", run.record.plan.slice.0 / 1_000_000);
    note(out, "window of a slice", each(runs, window));
    let tier = |run: &Run<'_>| match run.findings.collector.tier {
        Some(Tier::Full) => "full",
        Some(Tier::Fallback) => "fallback",
        None => NONE,
    };
    note(out, "collector", each(runs, |run| tier(run).to_owned()));
}

/// How quiet the machine was.
fn quiet(runs: &[Run<'_>], out: &mut Vec<Unlike>) {
    let shares = |share: fn(&Run<'_>) -> f64| -> Vec<f64> { runs.iter().map(share).collect() };
    let spread = |values: &[f64]| {
        let most = values.iter().copied().fold(f64::MIN, f64::max);
        let least = values.iter().copied().fold(f64::MAX, f64::min);
        (least, most)
    };
    let percent = |value: &f64| format!("{:.1} %", value * 100.0);
    let others = shares(|run| run.findings.protocol.others.0);
    let steal = shares(|run| run.findings.protocol.steal.0);
    for (what, values) in [("CPU of other processes", others), ("steal", steal)] {
        let (least, most) = spread(&values);
        if most - least > OTHERS {
            note(out, what, values.iter().map(percent).collect());
        }
    }
    if runs.iter().all(|run| run.findings.noise.pairs > 0) {
        let floors = shares(|run| run.findings.noise.floor.0);
        let (least, most) = spread(&floors);
        if most > NOISE * least && most > OTHERS {
            note(
                out,
                "noise (A/A)",
                floors.iter().map(|one| format!("±{}", percent(one))).collect(),
            );
        }
    }
}

/// What the systems say of themselves, and the environment that they ran with. What differs between
/// starts of one run is no condition.
fn system(runs: &[Run<'_>], out: &mut Vec<Unlike>) {
    let settings: Vec<Reported<'_>> =
        runs.iter().map(|run| steady(run, |one| &one.settings)).collect();
    agreed(&settings, out, |_| true);
    let variables: Vec<Reported<'_>> =
        runs.iter().map(|run| steady(run, |one| &one.environment)).collect();
    if variables.iter().all(|reported| !reported.known.is_empty()) {
        agreed(&variables, out, |name| !IDLE_VARIABLES.contains(&name));
    }
}

/// What the starts of a system say.
struct Reported<'a> {
    /// What all agree in.
    known: BTreeMap<&'a str, &'a str>,
    /// Names that they disagree in: ports, paths of scratch files.
    unsteady: BTreeSet<&'a str>,
}

type Pairs = Vec<(String, String)>;

fn table(pairs: &Pairs) -> BTreeMap<&str, &str> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Of the starts of the baseline and of its control, which is the same system.
fn steady<'a>(run: &Run<'a>, of: impl Fn(&'a VariantStart) -> &'a Pairs) -> Reported<'a> {
    let same = [VariantId::BASELINE, VariantId::CONTROL];
    let ours = run.record.variants.iter().filter(|start| same.contains(&start.variant.0.as_str()));
    let mut starts = ours.map(|start| table(of(start)));
    let mut known = starts.next().unwrap_or_default();
    let mut unsteady = BTreeSet::new();
    for other in starts {
        unsteady.extend(other.keys().filter(|name| !known.contains_key(*name)).copied());
        let differs =
            |(name, value): (&&'a str, &&'a str)| (other.get(name) != Some(value)).then_some(*name);
        unsteady.extend(known.iter().filter_map(differs));
    }
    known.retain(|name, _| !unsteady.contains(name));
    Reported { known, unsteady }
}

/// Notes what differs of all that no run's own starts disagree in.
fn agreed(reported: &[Reported<'_>], out: &mut Vec<Unlike>, wanted: impl Fn(&str) -> bool) {
    let tables: Vec<BTreeMap<&str, &str>> = reported.iter().map(|one| one.known.clone()).collect();
    let steady = |name: &str| reported.iter().all(|one| !one.unsteady.contains(name));
    differing(&tables, out, |name| steady(name) && wanted(name));
}

/// Notes every wanted name whose value differs.
fn differing(
    tables: &[BTreeMap<&str, &str>],
    out: &mut Vec<Unlike>,
    wanted: impl Fn(&str) -> bool,
) {
    let names: BTreeSet<&str> = tables.iter().flat_map(|table| table.keys().copied()).collect();
    for name in names.into_iter().filter(|name| wanted(name)) {
        let values =
            tables.iter().map(|table| table.get(name).map_or(NONE, |value| *value).to_owned());
        note(out, name, values.collect());
    }
}
