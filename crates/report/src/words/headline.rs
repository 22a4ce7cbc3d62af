//! The story in one sentence.

use super::counted;
use super::limits::{remedy, saturated_thread};
use super::stalls::stalled;
use crate::number::sentence;
use kneepoint_vocab::findings::price::PriceLine;
use kneepoint_vocab::findings::{AtBound, Bound, CauseKind, Conclusion, Knee, Name};
use kneepoint_vocab::{CodeKind, Estimate, Findings, Level, PerSecond, Ratio, VariantId};

/// Where it stops scaling, why, and what cures it.
pub(crate) fn headline(findings: &Findings) -> String {
    let several = findings.by_cores.len() > 1;
    let mut before = String::new();
    let mut clauses: Vec<String> = Vec::new();
    let mut cure: Option<&VariantId> = None;
    for conclusion in &findings.conclusions {
        match conclusion {
            Conclusion::Stalled { stall } => before = stalled(stall) + ". ",
            Conclusion::ScalesFurther { variant, speedup, peak, .. } if cure == Some(variant) => {
                let scales = scales_to(speedup, *peak);
                if let Some(cured) = clauses.last_mut() {
                    cured.push_str(&format!(", which {scales}"));
                }
            }
            _ => clauses.push(clause(conclusion, several)),
        }
        if let Conclusion::Cure { variant, .. } = conclusion {
            cure = Some(variant);
            // The rest of the sentence is about another level.
            if let (Some(cured), Some(tried)) = (clauses.last_mut(), findings.effects_at) {
                cured.push_str(&format!(" at {}", place(tried, several)));
            }
        }
    }
    format!("{before}{}.", clauses.join("; "))
}

/// A level in a clause; with its cores, where there are several numbers of them.
fn place(level: Level, several: bool) -> String {
    let clients = counted(level.clients, "client");
    if several { format!("{clients} on {}", counted(level.cores, "core")) } else { clients }
}

fn clause(conclusion: &Conclusion, several: bool) -> String {
    let at = |level: &Level| place(*level, several);
    match conclusion {
        Conclusion::Stalled { stall } => stalled(stall),
        Conclusion::NothingMeasured => "Nothing was measured".to_owned(),
        Conclusion::SingleLevel { level } => format!("Measured at {} only", at(level)),
        Conclusion::StillRises { level, throughput } => {
            format!("Still rises at {} ({}): the knee lies beyond", at(level), rate(throughput))
        }
        Conclusion::ScalesFully { level, throughput } => {
            let (at, rate) = (at(level), rate(throughput));
            format!("Scales as far as the cores reach, full at {at} ({rate})")
        }
        Conclusion::StopsScaling { knee, throughput } => {
            format!("Stops scaling at {}{} ({})", at(&knee.level), range(knee), rate(throughput))
        }
        Conclusion::NeverScales { best, throughput, worst, worst_throughput } => {
            let (low, high) = (rate(worst_throughput), rate(throughput));
            let does = if best.clients == 1 { "does" } else { "do" };
            format!("Does not scale: {} do {low}, {} {does} {high}", at(worst), best.clients)
        }
        Conclusion::Falls { best, throughput, worst, worst_throughput, ratio } => {
            let (low, high) = (rate(worst_throughput), rate(throughput));
            let over = ratio.map(|ratio| format!(" ({})", sentence::factor(&ratio)));
            let over = over.unwrap_or_default();
            format!("Best at {} ({high}); {} do {low}{over}", at(best), worst.clients)
        }
        Conclusion::FewerCores { cores, than, ratio } => {
            let times = sentence::times(ratio.value);
            format!("fastest on {cores} of {than} cores, {times} of what all give")
        }
        Conclusion::GeneratorLimits { own_cores } => {
            format!("the load generator limits it: {}", remedy(*own_cores))
        }
        Conclusion::AtBound { at } => at_bound(at),
        Conclusion::NothingLost { cores, of } => {
            let (cores, of) = (sentence::quantity(*cores), sentence::quantity(*of));
            format!("nothing to explain: {cores} of {of} cores lost")
        }
        Conclusion::Unsettled { kind, name, code, share_at_most } => {
            unsettled(&object(*kind, *code, name.as_ref()), *share_at_most)
        }
        Conclusion::Loss { kind, name, code, share } => {
            let object = object(*kind, *code, name.as_ref());
            format!("{} of the loss is {object}", sentence::share(share))
        }
        Conclusion::Fall { line, share } => {
            format!("{} of the fall is {}", sentence::share(share), riser(line))
        }
        Conclusion::SaturatedThread { name, busiest } => saturated_thread(name, *busiest),
        Conclusion::Cure { label, ratio, proven, .. } => cured(label, ratio.as_ref(), *proven),
        Conclusion::NothingHelps => "no variant tried helps".to_owned(),
        Conclusion::Undecided { label } => format!("whether {label} helps is undecided"),
        Conclusion::NoneShown { tried, undecided, unproven } => {
            none_shown(*tried, *undecided, *unproven)
        }
        Conclusion::ScalesFurther { label, speedup, peak, .. } => {
            format!("{label} {}", scales_to(speedup, *peak))
        }
    }
}

/// The first cause, as far as it is known.
fn unsettled(object: &str, share_at_most: Option<Ratio>) -> String {
    let most = match share_at_most {
        Some(most) => format!(", 0 to {:.0} %", most.0 * 100.0),
        None => "; measured once".to_owned(),
    };
    format!("the cause is not settled (first: {object}{most})")
}

/// `3.4× [2.8–4.2] with private caches`.
fn cured(label: &str, ratio: Option<&Estimate<Ratio>>, proven: bool) -> String {
    let factor = ratio.map(sentence::factor).unwrap_or_default();
    let open = if proven { "" } else { " (unproven)" };
    format!("{factor} with {label}{open}")
}

fn none_shown(tried: u32, undecided: u32, unproven: u32) -> String {
    match undecided {
        0 => format!("no variant is shown to help ({unproven} of {tried} not proven active)"),
        all if all == tried => format!("all {all} variants tried are undecided"),
        some => format!("no variant is shown to help ({some} of {tried} undecided)"),
    }
}

/// `scales 1.90× to 2 clients`.
fn scales_to(speedup: &Estimate<Ratio>, peak: Level) -> String {
    format!("scales {} to {}", sentence::rounded(speedup), counted(peak.clients, "client"))
}

fn rate(throughput: &Estimate<PerSecond>) -> String {
    sentence::rounded_rate(throughput)
}

/// ` [2–8]`, where the knee may lie at several levels.
fn range(knee: &Knee) -> String {
    let (low, high) = (knee.low.clients, knee.high.clients);
    if low == high { String::new() } else { format!(" [{low}–{high}]") }
}

fn at_bound(at: &AtBound) -> String {
    let functions: Vec<String> = at
        .functions
        .iter()
        .map(|one| format!("{} {}", one.name, sentence::percent(one.share)))
        .collect();
    let by =
        if functions.is_empty() { String::new() } else { format!(" ({})", functions.join(", ")) };
    match at.bound {
        Bound::Cores => format!("nothing is wrong: the cores are used up{by}"),
        Bound::Clients => {
            let busy = sentence::quantity(at.busy.value);
            let of = counted(at.level.cores, "core");
            let said = super::aside::undisturbed(at);
            format!("{said}, {busy} of {of} busy{by}")
        }
    }
}

/// The kind of a cause and its name.
fn object(kind: CauseKind, code: Option<CodeKind>, name: Option<&Name>) -> String {
    if let (Some(doing), Some(name)) = (code.and_then(doing), name) {
        return format!("{doing} in {name}");
    }
    let word = match kind {
        CauseKind::Lock => "one lock",
        CauseKind::KernelLock => "one kernel lock",
        CauseKind::Kernel => "kernel work",
        CauseKind::Function => "more CPU per operation",
        CauseKind::Device => "a device",
        CauseKind::Thread => "waiting for another thread",
        CauseKind::Scheduler => "the scheduler",
        CauseKind::Generator => "the load generator",
        CauseKind::Other => "one kind of wait",
    };
    match name {
        None => word.to_owned(),
        Some(name) if kind == CauseKind::Device => format!("{word} ({name})"),
        Some(name) if kind == CauseKind::Scheduler => name.to_string(),
        Some(name) if name.to_string().starts_with("kernel") => name.to_string(),
        Some(name) => format!("{word}, {name}"),
    }
}

/// What a function does that takes more CPU for it.
const fn doing(code: CodeKind) -> Option<&'static str> {
    match code {
        CodeKind::Other => None,
        CodeKind::Spin => Some("spinning"),
        CodeKind::Atomic => Some("atomic instructions"),
        CodeKind::Retry => Some("retries of atomic changes"),
        CodeKind::Memory => Some("memory accesses"),
    }
}

/// What makes throughput fall.
fn riser(line: &PriceLine) -> String {
    match line {
        PriceLine::Function { name, kernel: false } => format!("more CPU in {name}"),
        PriceLine::Function { name, .. } | PriceLine::Wait { name, .. } => name.to_string(),
        other => super::price::name(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::Cores;

    fn level(clients: u32) -> Level {
        Level { clients, cores: 2 }
    }

    fn said(conclusion: &Conclusion) -> String {
        clause(conclusion, false)
    }

    #[test]
    fn a_curve_ends_in_one_of_six_ways() {
        let (throughput, worst_throughput) =
            (Estimate::of(10_712.0, 10_600.0, 10_800.0), Estimate::of(4_604.0, 4_600.0, 4_608.0));
        let (best, worst) = (level(1), level(8));
        let knee = Knee { level: level(4), low: level(2), high: level(8), beyond_last: false };
        let never = Conclusion::NeverScales { best, throughput, worst, worst_throughput };
        assert_eq!(said(&never), "Does not scale: 8 clients do 4.6k/s, 1 does 10.7k/s");
        let on_cores = "Does not scale: 8 clients on 2 cores do 4.6k/s, 1 does 10.7k/s";
        assert_eq!(clause(&never, true), on_cores);
        let ratio = Some(Estimate::of(0.43, 0.40, 0.46));
        let falls = Conclusion::Falls { best, throughput, worst, worst_throughput, ratio };
        let wanted = "Best at 1 client (10.7k/s); 8 do 4.6k/s (0.43× [0.40–0.46])";
        assert_eq!(said(&falls), wanted);
        let stops = Conclusion::StopsScaling { knee, throughput };
        assert_eq!(said(&stops), "Stops scaling at 4 clients [2–8] (10.7k/s)");
        let rises = Conclusion::StillRises { level: worst, throughput };
        assert_eq!(said(&rises), "Still rises at 8 clients (10.7k/s): the knee lies beyond");
        let full = Conclusion::ScalesFully { level: worst, throughput };
        let wanted = "Scales as far as the cores reach, full at 8 clients (10.7k/s)";
        assert_eq!(said(&full), wanted);
        let single = Conclusion::SingleLevel { level: level(2) };
        assert_eq!(said(&single), "Measured at 2 clients only");
    }

    #[test]
    fn the_first_cause_is_named_as_far_as_it_is_settled() {
        let (kind, name) = (CauseKind::Lock, Some(Name::from("mutex in f")));
        let loss = Conclusion::Loss {
            kind,
            name: name.clone(),
            code: None,
            share: Estimate::of(0.78, 0.74, 0.82),
        };
        assert_eq!(said(&loss), "78 % [74–82] of the loss is one lock, mutex in f");
        let open = Conclusion::Unsettled {
            kind,
            name: name.clone(),
            code: None,
            share_at_most: Some(Ratio(0.4)),
        };
        let wanted = "the cause is not settled (first: one lock, mutex in f, 0 to 40 %)";
        assert_eq!(said(&open), wanted);
        let once = Conclusion::Unsettled { kind, name, code: None, share_at_most: None };
        let wanted = "the cause is not settled (first: one lock, mutex in f; measured once)";
        assert_eq!(said(&once), wanted);
        let device = Name::from("loop4");
        assert_eq!(object(CauseKind::Device, None, Some(&device)), "a device (loop4)");
        assert_eq!(object(CauseKind::Scheduler, None, None), "the scheduler");
        let spinning = object(CauseKind::Function, Some(CodeKind::Spin), Some(&"obtain".into()));
        assert_eq!(spinning, "spinning in obtain");
        let line = PriceLine::Function { name: Name::from("spin"), kernel: false };
        let fall = Conclusion::Fall { line, share: Estimate::of(0.5, 0.5, 0.5) };
        assert_eq!(said(&fall), "50 % of the fall is more CPU in spin");
        let none = Conclusion::NothingLost { cores: Cores(0.02), of: Cores(2.0) };
        assert_eq!(said(&none), "nothing to explain: 0.02 of 2 cores lost");
    }

    #[test]
    fn only_verdicts_say_that_nothing_helps() {
        assert_eq!(none_shown(2, 2, 0), "all 2 variants tried are undecided");
        assert_eq!(none_shown(2, 1, 0), "no variant is shown to help (1 of 2 undecided)");
        assert_eq!(none_shown(2, 0, 1), "no variant is shown to help (1 of 2 not proven active)");
        let label = "a".to_owned();
        assert_eq!(said(&Conclusion::Undecided { label }), "whether a helps is undecided");
        let ratio = Estimate::of(3.4, 2.8, 4.2);
        let wanted = "3.4× [2.8–4.2] with private caches";
        assert_eq!(cured("private caches", Some(&ratio), true), wanted);
        assert_eq!(cured("private caches", Some(&ratio), false), format!("{wanted} (unproven)"));
    }
}
