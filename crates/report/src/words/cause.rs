//! What makes a cause one, in a line.

use super::counted;
use super::limits::saturated_thread;
use crate::number::sentence;
use crate::text;
use kneepoint_vocab::findings::{CauseEvidence, Charge, CodeShare, WaitEvidence};
use kneepoint_vocab::{CodeKind, Cores, Ratio, SourceLine, Unit};

/// `1.4 of 2 cores idle for it, 0.2 busy passing it on; 60k waits/s of 21.7 µs each`.
pub(crate) fn evidence(evidence: &CauseEvidence) -> String {
    let mut text = charge(&evidence.charge, &sentence::quantity(evidence.of));
    if let Some(served) = &evidence.served_by {
        text += &format!(
            "; the waits are for {}, and {}, which serves them",
            served.waits_for,
            saturated_thread(&served.name, served.busiest)
        );
    }
    if let Some(by) = &evidence.woken_by {
        let (name, share) = (text::disarm(&by.name), sentence::percent(by.share));
        let busy = sentence::percent(Ratio(by.busy.0));
        text += &if by.stops {
            format!(
                "; one thread, {name}, stops the clients (stop-the-world): it ends {share} of the \
                 waits and is busy {busy} of the time"
            )
        } else {
            format!(
                "; one thread, {name}, ends {share} of the waits and is busy {busy} of the time"
            )
        };
    }
    for device in &evidence.devices {
        let full = if device.full { "the full stage" } else { "not full" };
        text += &format!(
            "; {} is {full}: a request in flight {} of the time, {:.1} of them at once",
            device.name,
            sentence::percent(device.busy),
            device.in_flight.get()
        );
    }
    for worker in &evidence.workers {
        text += &format!("; {} works for it on {:.2} cores", worker.name, worker.cores.get());
    }
    text
}

/// `btree/btmutex.c:81`: the file with the folder that it lies in, and the line.
pub(crate) fn source_line(source: &SourceLine) -> String {
    let parts: Vec<&str> = source.file.rsplitn(3, '/').collect();
    let file = match parts.as_slice() {
        [file, folder, _] if !folder.is_empty() => format!("{folder}/{file}"),
        [file, ..] => (*file).to_owned(),
        [] => String::new(),
    };
    format!("{}:{}", text::disarm(&file), source.line)
}

fn charge(charge: &Charge, of: &str) -> String {
    let quantity = |cores: &Cores| sentence::quantity(*cores);
    match charge {
        Charge::Function { cpu, least, least_at, cores, code } => format!(
            "{} of CPU for one operation here, {} at {}; {} of {of} cores{}",
            sentence::duration(*cpu),
            sentence::duration(*least),
            least_at.map_or_else(String::new, |level| counted(level.clients, "client")),
            quantity(cores),
            code.as_ref().map_or_else(String::new, instructions)
        ),
        Charge::OtherFunctions { cores, stacks } => {
            let why =
                if *stacks { "no single function stands for" } else { "no stack tells apart" };
            format!("{} of {of} cores go to extra CPU that {why}", quantity(cores))
        }
        Charge::Wait { wait } => waited(wait, of),
        Charge::Scheduler { idle, confined: None } => format!(
            "{} of {of} cores idle while a thread was already woken for them",
            quantity(idle)
        ),
        Charge::Scheduler { idle, confined: Some(it) } => format!(
            "{} of {of} cores idle while a thread was ready that may not run on them: each may run \
             on {} of {} (affinity or cpuset)",
            quantity(idle),
            it.cpus,
            it.of
        ),
        Charge::FullGenerator { own, idle } => generator(*own, *idle, of),
    }
}

/// `; it spins: 83 % of it looks whether a word of memory has changed`.
fn instructions(code: &CodeShare) -> String {
    let share = sentence::percent(code.share);
    match code.kind {
        CodeKind::Other => String::new(),
        CodeKind::Spin => {
            format!("; it spins: {share} of it looks whether a word of memory has changed")
        }
        CodeKind::Atomic => {
            format!("; {share} of it at atomic instructions, for a cache line that others write")
        }
        CodeKind::Retry => format!(
            "; {share} of it in a loop that changes a word and begins again where another core \
             came between (compare-and-swap)"
        ),
        CodeKind::Memory => format!(
            "; {share} of it at memory accesses: a cache line that others write, or more data than \
             the caches hold"
        ),
    }
}

fn generator(own: Cores, idle: Cores, of: &str) -> String {
    let (used, unused) = (sentence::quantity(own), sentence::quantity(idle));
    match (own.get() > 0.0, idle.get() > 0.0) {
        (true, true) => format!(
            "the load generator itself uses {used} of {of} cores, {unused} idle for its next \
             request"
        ),
        (false, true) => format!("{unused} of {of} cores idle for the next request"),
        _ => format!("the load generator itself uses {used} of {of} cores"),
    }
}

fn waited(wait: &WaitEvidence, of: &str) -> String {
    let mut text = format!("{} of {of} cores idle for it", sentence::quantity(wait.idle));
    if let Some(work) = &wait.work {
        let how = if work.spins { "spinning for it" } else { "passing it on" };
        text += &format!(", {} busy {how}", sentence::quantity(work.cores));
    }
    if let Some(rate) = wait.rate {
        let (rate, mean) = (sentence::quantity(rate), sentence::duration(wait.mean));
        text += &format!("; {rate} waits/s of {mean} each");
    }
    if let Some((state, share)) = wait.holder {
        text += &format!("; holder {} in {}", state.as_str(), sentence::percent(share));
    }
    if wait.polls {
        text += "; they sleep for a time of their own and look again (polling)";
    }
    if let Some(share) = wait.convoy {
        text += &format!(
            "; {} of the time nobody has it: whoever gets it next has to wake first (a convoy)",
            sentence::percent(share)
        );
    }
    if let Some(share) = wait.after_wake {
        text += &format!(
            "; {} of those who wait for the lock were just woken from a condition: while others \
             hold it, or all for one that goes on (a thundering herd)",
            sentence::percent(share)
        );
    }
    if let Some(share) = wait.herd {
        text += &format!(
            "; threads that it lets go make {} of the waits for its lock: more are woken than can \
             go on (a thundering herd)",
            sentence::percent(share)
        );
    }
    if let Some(share) = wait.behind {
        text += &format!(
            "; in {} of these waits its holder waited for another lock, which they are charged to",
            sentence::percent(share)
        );
    }
    if let Some(share) = wait.from_outer {
        text += &format!(
            "; {} of it are waits for other locks, whose holders waited for this one",
            sentence::percent(share)
        );
    }
    if let Some(cores) = wait.library {
        text +=
            &format!("; the kernel is busy for its library on {} cores", sentence::quantity(cores));
    }
    if wait.objects > 1 {
        text += &format!("; {} objects", wait.objects);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::findings::{
        Confined, DeviceStage, DeviceWorker, HolderState, Name, ServedBy, WaitWork, WokenBy,
    };
    use kneepoint_vocab::{Count, Level, PerSecond, Seconds, WaitReason};

    fn said(charge: Charge) -> String {
        let (devices, workers) = (Vec::new(), Vec::new());
        evidence(&CauseEvidence {
            of: Cores(2.0),
            charge,
            served_by: None,
            woken_by: None,
            devices,
            workers,
        })
    }

    #[test]
    fn a_wait_says_what_idles_and_what_works_for_it() {
        let wait = |work, objects| {
            let wait = WaitEvidence {
                idle: Cores(1.4),
                work,
                rate: Some(PerSecond(60_000.0)),
                mean: Seconds(21.7e-6),
                holder: Some((HolderState::Running, Ratio(0.9))),
                polls: objects > 2,
                convoy: (objects > 2).then_some(Ratio(0.27)),
                after_wake: (objects > 2).then_some(Ratio(0.71)),
                herd: (objects > 3).then_some(Ratio(0.64)),
                behind: (objects > 4).then_some(Ratio(0.83)),
                from_outer: (objects > 5).then_some(Ratio(0.42)),
                library: (objects > 6).then_some(Cores(0.3)),
                objects,
            };
            Charge::Wait { wait }
        };
        let passing = WaitWork { cores: Cores(0.2), spins: false };
        assert_eq!(
            said(wait(Some(passing), 1)),
            "1.4 of 2 cores idle for it, 0.2 busy passing it on; 60k waits/s of 21.7 µs each; \
             holder running in 90 %"
        );
        let spinning = WaitWork { cores: Cores(1.0), spins: true };
        let text = said(wait(Some(spinning), 2));
        assert!(text.contains(", 1 busy spinning for it;") && text.ends_with("; 2 objects"));
        let convoy = "; 27 % of the time nobody has it: whoever gets it next has to wake first";
        let herd = "; 71 % of those who wait for the lock were just woken from a condition";
        let both = said(wait(None, 3));
        assert!(both.contains(convoy) && both.contains(herd) && both.contains("(polling)"));
        assert!(!text.contains("convoy") && !text.contains("herd"));
        let own = "threads that it lets go make 64 % of the waits for its lock";
        assert!(said(wait(None, 4)).contains(own) && !both.contains(own));
        let (outer, inner) = ("in 83 % of these waits its holder waited", "42 % of it are waits");
        assert!(!said(wait(None, 4)).contains(outer) && said(wait(None, 5)).contains(outer));
        assert!(!said(wait(None, 5)).contains(inner) && said(wait(None, 6)).contains(inner));
        let library = "the kernel is busy for its library on 0.3 cores";
        assert!(!said(wait(None, 6)).contains(library) && said(wait(None, 7)).contains(library));
    }

    #[test]
    fn extra_cpu_is_held_against_where_it_is_least() {
        let function = |code| {
            said(Charge::Function {
                cpu: Seconds(900e-6),
                least: Seconds(300e-6),
                least_at: Some(Level { clients: 1, cores: 2 }),
                cores: Cores(0.6),
                code,
            })
        };
        let wanted = "900 µs of CPU for one operation here, 300 µs at 1 client; 0.6 of 2 cores";
        assert_eq!(function(None), wanted);
        let doing = |kind| function(Some(CodeShare { kind, share: Ratio(0.83) }));
        let spins = "; it spins: 83 % of it looks whether a word of memory has changed";
        assert_eq!(doing(CodeKind::Spin), format!("{wanted}{spins}"));
        assert!(doing(CodeKind::Atomic).contains("; 83 % of it at atomic instructions"));
        assert!(doing(CodeKind::Retry).contains("; 83 % of it in a loop that changes a word"));
        assert!(doing(CodeKind::Memory).contains("; 83 % of it at memory accesses"));
        let others = |stacks| said(Charge::OtherFunctions { cores: Cores(0.55), stacks });
        let wanted = "0.55 of 2 cores go to extra CPU that no single function stands for";
        assert_eq!(others(true), wanted);
        assert!(others(false).ends_with("no stack tells apart"));
    }

    #[test]
    fn a_source_line_is_short_enough_to_read() {
        let at = |file: &str| {
            let (function, module) = ("f".to_owned(), "m".to_owned());
            source_line(&SourceLine { function, module, file: file.to_owned(), line: 81 })
        };
        assert_eq!(at("/build/sqlite/src/btmutex.c"), "src/btmutex.c:81");
        assert_eq!(at("main.c"), "main.c:81");
        assert_eq!(at("/main.c"), "main.c:81");
        assert_eq!(at("./a/main.c"), "a/main.c:81");
    }

    #[test]
    fn a_generator_says_what_of_it_is_lost() {
        let full = |own, idle| said(Charge::FullGenerator { own: Cores(own), idle: Cores(idle) });
        let uses = "the load generator itself uses 0.97 of 2 cores";
        assert_eq!(full(0.97, 0.7), format!("{uses}, 0.7 idle for its next request"));
        assert_eq!(full(0.97, 0.0), uses);
        assert_eq!(full(0.0, 0.7), "0.7 of 2 cores idle for the next request");
        let idle = Cores(0.1);
        let woken = said(Charge::Scheduler { idle, confined: None });
        assert_eq!(woken, "0.1 of 2 cores idle while a thread was already woken for them");
        let confined = Some(Confined { cpus: 1, of: 2 });
        let woken = said(Charge::Scheduler { idle, confined });
        assert!(woken.ends_with("each may run on 1 of 2 (affinity or cpuset)"), "{woken}");
    }

    #[test]
    fn whoever_serves_the_waits_is_named_behind_them() {
        let all = CauseEvidence {
            of: Cores(2.0),
            charge: Charge::Scheduler { idle: Cores(1.0), confined: None },
            served_by: Some(ServedBy {
                waits_for: Name::Wait(WaitReason::Device),
                name: "kworker loop0".to_owned(),
                busiest: Cores(0.98),
            }),
            woken_by: Some(WokenBy {
                name: "office".to_owned(),
                share: Ratio(0.97),
                busy: Cores(0.64),
                stops: false,
            }),
            devices: vec![DeviceStage {
                name: "loop4".to_owned(),
                full: true,
                busy: Ratio(0.97),
                in_flight: Count(9.0),
            }],
            workers: vec![DeviceWorker { name: "kworker loop4".to_owned(), cores: Cores(0.4) }],
        };
        let text = evidence(&all);
        let of_nothing_else =
            CauseEvidence { served_by: None, devices: Vec::new(), workers: Vec::new(), ..all };
        for part in [
            "; the waits are for a device, and kworker loop0 is saturated (98 % of a core), which \
             serves them",
            "; one thread, office, ends 97 % of the waits and is busy 64 % of the time",
            "; loop4 is the full stage: a request in flight 97 % of the time, 9.0 of them at once",
            "; kworker loop4 works for it on 0.40 cores",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let stops =
            WokenBy { name: "tend".to_owned(), share: Ratio(0.93), busy: Cores(0.4), stops: true };
        assert_eq!(
            evidence(&CauseEvidence { woken_by: Some(stops), ..of_nothing_else }),
            "1 of 2 cores idle while a thread was already woken for them; one thread, tend, stops \
             the clients (stop-the-world): it ends 93 % of the waits and is busy 40 % of the time"
        );
    }
}
