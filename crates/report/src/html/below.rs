//! What stands below the pictures: what collected and at what cost, how it was measured, and
//! on which machine.

use crate::number;
use crate::words::{self, Axis};
use kneepoint_vocab::findings::Unfit;
use kneepoint_vocab::{Findings, Level, ProtocolName, Ratio, Unit};

/// A name with its value.
pub(super) type Fact = (String, String);

fn fact(name: &str, value: impl Into<String>) -> Fact {
    (name.to_owned(), value.into())
}

/// Key numbers for the top of the page, with what each means.
pub(super) fn strip(findings: &Findings, axis: Axis) -> Vec<(String, String, String)> {
    let of =
        |name: &str, value: String, meaning: &str| (name.to_owned(), value, meaning.to_owned());
    let knee = words::knee_value(&findings.curve, axis);
    let mut strip = vec![of("knee", knee, "95 % of the peak is reached here")];
    if findings.curve.points.len() > 1 {
        let ratio = number::factor(&findings.curve.last_over_peak);
        let shape = words::shape(findings.curve.shape);
        let meaning = [ratio.interval, format!("the curve {shape}")];
        let meaning = meaning.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        strip.push(of("last / peak", ratio.value, &meaning.join("; ")));
    }
    if let Some(most) = findings.by_cores.last().filter(|_| findings.by_cores.len() > 1) {
        let ratio = number::factor(&most.over_fewest);
        let fewest = words::counted(findings.by_cores[0].cores, "core");
        let meaning = format!("{} its peak over that of {fewest}", ratio.interval);
        strip.push(of(&words::counted(most.cores, "core"), ratio.value, &meaning));
    }
    if findings.noise.pairs > 1 {
        let floor = format!("±{}", number::plain_percent(findings.noise.floor));
        strip.push(of(
            "noise floor",
            floor,
            "A/A control: two starts of the baseline may differ so much",
        ));
    }
    if let Some(cost) = words::overhead(findings) {
        let shown = number::percent(&cost);
        let meaning = format!("{} of the throughput, by slices without collector", shown.interval);
        strip.push(of("overhead", shown.value, meaning.trim()));
    } else if let Some(cost) = &findings.collector.programs {
        let value = number::percent(cost).value;
        strip.push(of("collector", value, "of the machine's CPU, while it watched"));
    }
    if let Some(ledger) = findings.ledgers.iter().find(|one| one.level == findings.focus) {
        let value = number::plain_percent(ledger.core.unaccounted);
        strip.push(of("unaccounted", value, "what it could not place, of all cores"));
        if let Some(part) = words::shared_out(&ledger.core) {
            let meaning = "of all cores: charged to no wait, and split unlike what was charged";
            strip.push(of("idle shared out", number::plain_percent(part), meaning));
        }
    }
    let protocol = &findings.protocol;
    if words::imported(findings) {
        let count = findings.curve.points.iter().map(|point| point.slices).sum::<u32>();
        strip.push(of("results", count.to_string(), "imported, not measured here"));
        return strip;
    }
    let repeated = if protocol.repeated > 0 {
        format!(", {} repeated as disturbed", protocol.repeated)
    } else {
        String::new()
    };
    let elapsed = number::brief_seconds(protocol.elapsed);
    strip.push(of("slices", protocol.slices.to_string(), &format!("in {elapsed}{repeated}")));
    strip
}

/// What collected, how much it can be believed, and what it cost; nothing for imported results.
pub(super) fn collector(findings: &Findings, axis: Axis) -> Vec<Fact> {
    let collector = &findings.collector;
    if words::imported(findings) && collector.tier.is_none() {
        return Vec::new();
    }
    let mut facts = vec![fact("tier", words::tier(collector.tier))];
    if let Some(cost) = &collector.programs {
        facts
            .push(fact("eBPF programs", format!("{} of the machine's CPU", number::percent(cost))));
    }
    if let Some(cost) = collector.reader {
        let share = number::plain_percent(cost);
        facts.push(fact("Kneepoint's own threads", format!("{share} of the machine's CPU")));
    }
    if let Some(ratio) = &collector.on_off {
        facts.push(fact("throughput with it over without", number::factor(ratio).to_string()));
    }
    if let Some(part) = collector.covered {
        let text = "of the time that operations were counted over";
        facts.push(fact("watched", format!("{} {text}", number::plain_percent(part))));
    }
    if let Some(ratio) = collector.running_check {
        facts.push(fact("running time over the kernel's own count", precise(ratio)));
    }
    if let Some((level, ratio)) = collector.running_worst {
        facts.push(fact("at worst", worst(level, ratio, axis)));
    }
    if let Some(ratio) = collector.runnable_check {
        facts.push(fact("runnable time over the kernel's own count", precise(ratio)));
    }
    if collector.stacks > 0 {
        let complete = collector.stacks_complete.map_or_else(String::new, |share| {
            format!(", {} reached the outermost frame", number::plain_percent(share))
        });
        facts.push(fact("stacks", number::count(collector.stacks) + &complete));
    }
    for (what, count) in &collector.losses {
        facts.push(fact(&format!("lost: {what}"), number::count(*count)));
    }
    facts
}

/// A ratio near one, where the third decimal matters.
fn precise(ratio: Ratio) -> String {
    format!("{:.3}×", ratio.get())
}

fn worst(level: Level, ratio: Ratio, axis: Axis) -> String {
    format!("{} off at {}", number::plain_percent(ratio), axis.phrase(level))
}

/// How it was measured.
pub(super) fn protocol(findings: &Findings) -> Vec<Fact> {
    let protocol = &findings.protocol;
    let noise = &findings.noise;
    if words::imported(findings) {
        return imported(findings);
    }
    let steady = if protocol.steady {
        "ended before the sweep, by a change-point test"
    } else {
        "had not ended before the sweep"
    };
    let mut facts = Vec::new();
    if protocol.name == ProtocolName::Published {
        facts.push(fact("protocol", "published, that of the recipe's document"));
    }
    if protocol.precision.is_some() || protocol.name != ProtocolName::Default {
        facts.push(fact("throughput", words::precision(findings)));
    }
    facts.extend([
        fact("slices that count", protocol.slices.to_string()),
        fact("window of a slice", number::plain_seconds(protocol.slice)),
        fact("sweep blocks", protocol.sweep_blocks.to_string()),
        fact("effect blocks", protocol.effect_blocks.to_string()),
        fact("launches of each variant", protocol.starts.to_string()),
        fact(
            "repeated, kept though disturbed, failed",
            format!("{}, {}, {}", protocol.repeated, protocol.kept_disturbed, protocol.failed),
        ),
        fact("warm-up", steady),
        fact("stopped by", protocol.stopped_by.as_str()),
        fact(
            "A/A control",
            if noise.pairs > 0 {
                let pairs = words::counted(noise.pairs, "pair");
                format!("{} over {pairs}", number::factor(&noise.ratio))
            } else {
                "none".to_owned()
            },
        ),
        fact(
            "drift on the absolute scale",
            format!("±{}", number::plain_percent(findings.curve.drift)),
        ),
        fact("CPU of other processes", number::plain_percent(protocol.others)),
        fact("steal", number::plain_percent(protocol.steal)),
        fact("seed", protocol.seed.to_string()),
    ]);
    facts
}

/// What is known of results that others measured.
fn imported(findings: &Findings) -> Vec<Fact> {
    let mut facts = vec![fact("throughput", words::precision(findings))];
    facts.extend(words::source(findings).map(|source| fact("imported", source)));
    facts
}

/// The machine and versions, as far as they are known.
pub(super) fn machine(findings: &Findings) -> Vec<Fact> {
    let host = &findings.host;
    let known = |known: bool, value: String| if known { value } else { String::new() };
    let mut facts = vec![
        fact("processor", host.cpu.as_str()),
        fact("cores", known(host.cores > 0, host.cores.to_string())),
        fact("memory", known(host.memory > 0, number::bytes(host.memory))),
        fact("kernel", host.kernel.as_str()),
        fact("distribution", host.distribution.as_str()),
        fact("Kneepoint", host.kneepoint.as_str()),
        fact("begun", host.begun.as_str()),
    ];
    facts.extend(host.notes.iter().cloned());
    facts.retain(|(_, value)| !value.is_empty() && value != "not known");
    facts
}

/// Fitted laws, with their parameters and whether these mean anything.
pub(super) fn fits(findings: &Findings) -> Vec<(String, Vec<Fact>)> {
    let fits = findings.curve.fits.iter();
    fits.map(|fit| {
        let mut facts: Vec<Fact> = fit
            .parameters
            .iter()
            .map(|parameter| {
                let error = parameter.error.map(|error| format!(" ± {}", number::plain(error)));
                fact(&parameter.name, number::plain(parameter.value) + &error.unwrap_or_default())
            })
            .collect();
        facts.push(fact("residual", number::plain_percent(fit.residual)));
        if let Some(why) = Unfit::sentence(&fit.unfit) {
            facts.push(fact("do not use", why));
        }
        (fit.law.clone(), facts)
    })
    .collect()
}

/// The command that runs the same again, quoted for a POSIX shell.
pub(super) fn command(findings: &Findings) -> String {
    let mut command = "kneepoint".to_owned();
    for argument in &findings.host.arguments {
        command.push(' ');
        command.push_str(&quoted(argument));
    }
    let arguments = &findings.host.arguments;
    let seeded = arguments.iter().any(|one| one == "--seed" || one.starts_with("--seed="));
    if arguments.first().is_some_and(|one| one == "run") && !seeded {
        // Before a measured command's own arguments.
        let seed = format!(" --seed {}", findings.protocol.seed);
        let at = command.find(" -- ").unwrap_or(command.len());
        command.insert_str(at, &seed);
    }
    command
}

fn quoted(argument: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(bare) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', "'\\''"))
    }
}

/// What broke under the load; empty where that was not looked for.
pub(super) fn stability(findings: &Findings) -> Vec<String> {
    let Some(found) = &findings.stability else { return Vec::new() };
    let (summary, broken) = words::stability::sentences(found);
    std::iter::once(summary).chain(broken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("run"), "run");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
