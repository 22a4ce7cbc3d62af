//! What is not the same in the runs beside the system itself.

use super::Run;
use kneepoint_vocab::comparison::Unlike;
use kneepoint_vocab::{Host, Ratio, VariantId, VariantStart};
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

/// Every condition that differs, the machine's first.
pub(super) fn unlike(runs: &[Run<'_>]) -> Vec<Unlike> {
    let mut out = Vec::new();
    machine(runs, &mut out);
    design(runs, &mut out);
    quiet(runs, &mut out);
    system(runs, &mut out);
    out
}

/// The values of a condition in all runs; none where it is the same in each.
fn differing<T: PartialEq>(runs: &[Run<'_>], value: impl Fn(&Run<'_>) -> T) -> Option<Vec<T>> {
    let values: Vec<T> = runs.iter().map(value).collect();
    values.windows(2).any(|two| two[0] != two[1]).then_some(values)
}

fn machine(runs: &[Run<'_>], out: &mut Vec<Unlike>) {
    let text = |value: fn(&Host) -> &String| differing(runs, |run| value(&run.record.host).clone());
    out.extend(text(|host| &host.cpu).map(|values| Unlike::Cpu { values }));
    out.extend(differing(runs, |run| run.record.host.cores).map(|values| Unlike::Cores { values }));
    let memory = differing(runs, |run| run.record.host.memory).filter(|bytes| {
        let (least, most) = ends(bytes.iter().map(|bytes| crate::number::count(*bytes)));
        most > least * (1.0 + MEMORY)
    });
    out.extend(memory.map(|values_bytes| Unlike::Memory { values_bytes }));
    out.extend(text(|host| &host.kernel).map(|values| Unlike::Kernel { values }));
    out.extend(text(|host| &host.distribution).map(|values| Unlike::Distribution { values }));
    let notes: Vec<Named<'_>> = runs.iter().map(|run| table(&run.record.host.notes)).collect();
    out.extend(named(&notes, |_| true));
    out.extend(text(|host| &host.kneepoint).map(|values| Unlike::Kneepoint { values }));
}

fn design(runs: &[Run<'_>], out: &mut Vec<Unlike>) {
    out.extend(differing(runs, |run| run.record.plan.summary.clone()).map(|values| {
        if runs[0].record.plan.recipe == super::COMMAND {
            Unlike::Command { values }
        } else {
            Unlike::Summary { values }
        }
    }));
    let protocol = differing(runs, |run| run.record.plan.protocol);
    out.extend(protocol.map(|values| Unlike::Protocol { values }));
    let clients = differing(runs, |run| run.record.plan.clients);
    out.extend(clients.map(|values| Unlike::Clients { values }));
    let cores = differing(runs, |run| run.record.plan.generator_cores);
    out.extend(cores.map(|values| Unlike::GeneratorCores { values }));
    let window = differing(runs, |run| run.record.plan.slice);
    out.extend(window.map(|values_ns| Unlike::Window { values_ns }));
    let tier = differing(runs, |run| run.findings.collector.tier);
    out.extend(tier.map(|values| Unlike::Collector { values }));
}

/// How quiet the machine was.
fn quiet(runs: &[Run<'_>], out: &mut Vec<Unlike>) {
    let apart = |share: fn(&Run<'_>) -> Ratio| {
        differing(runs, share).filter(|values| {
            let (least, most) = ends(values.iter().map(|share| share.0));
            most - least > OTHERS
        })
    };
    let others = apart(|run| run.findings.protocol.others);
    out.extend(others.map(|values| Unlike::OtherProcesses { values }));
    let steal = apart(|run| run.findings.protocol.steal);
    out.extend(steal.map(|values| Unlike::Steal { values }));
    if runs.iter().all(|run| run.findings.noise.pairs > 0) {
        let noise = differing(runs, |run| run.findings.noise.floor).filter(|values| {
            let (least, most) = ends(values.iter().map(|share| share.0));
            most > NOISE * least && most > OTHERS
        });
        out.extend(noise.map(|values| Unlike::Noise { values }));
    }
}

/// The least and the most of them.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(least, most), one| (least.min(one), most.max(one)))
}

/// What the systems say of themselves, and the environment that they ran with. What differs between
/// starts of one run is no condition.
fn system(runs: &[Run<'_>], out: &mut Vec<Unlike>) {
    let settings: Vec<Reported<'_>> =
        runs.iter().map(|run| steady(run, |one| &one.settings)).collect();
    out.extend(agreed(&settings, |_| true));
    let variables: Vec<Reported<'_>> =
        runs.iter().map(|run| steady(run, |one| &one.environment)).collect();
    if variables.iter().all(|reported| !reported.known.is_empty()) {
        out.extend(agreed(&variables, |name| !IDLE_VARIABLES.contains(&name)));
    }
}

/// What the starts of a system say.
struct Reported<'a> {
    /// What all agree in.
    known: Named<'a>,
    /// Names that they disagree in: ports, paths of scratch files.
    unsteady: BTreeSet<&'a str>,
}

type Pairs = Vec<(String, String)>;
type Named<'a> = BTreeMap<&'a str, &'a str>;

fn table(pairs: &Pairs) -> Named<'_> {
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

/// What differs of all wanted names that no run's own starts disagree in.
fn agreed(reported: &[Reported<'_>], wanted: impl Fn(&str) -> bool) -> Vec<Unlike> {
    let tables: Vec<Named<'_>> = reported.iter().map(|one| one.known.clone()).collect();
    let steady = |name: &str| reported.iter().all(|one| !one.unsteady.contains(name));
    named(&tables, |name| steady(name) && wanted(name))
}

/// Every wanted name whose value differs.
fn named(tables: &[Named<'_>], wanted: impl Fn(&str) -> bool) -> Vec<Unlike> {
    let names: BTreeSet<&str> = tables.iter().flat_map(|table| table.keys().copied()).collect();
    let values = |name: &str| -> Vec<Option<String>> {
        tables.iter().map(|table| table.get(name).map(|value| (*value).to_owned())).collect()
    };
    let rows = names.into_iter().filter(|name| wanted(name)).map(|name| (name, values(name)));
    rows.filter(|(_, values)| values.windows(2).any(|two| two[0] != two[1]))
        .map(|(name, values)| Unlike::Named { name: name.to_owned(), values })
        .collect()
}
