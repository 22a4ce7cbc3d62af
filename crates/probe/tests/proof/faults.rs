//! Faults planted in a copy of the programs: each has to be found, or the comparison is blind
//! there.

use super::host::{Host, compiler_is_there, sources};
use super::search;
use std::path::Path;

/// What a fault does, its file, and the text that becomes another; it stands there once.
struct Fault(&'static str, &'static str, &'static str, &'static str);

/// A fault has to show within so many events.
const EVENTS: u64 = 400_000;

const FAULTS: [Fault; 27] = [
    Fault(
        "a wait ends when the thread runs again",
        "account.h",
        "end = t->wake_ts ? t->wake_ts : now, blocked",
        "end = now, blocked",
    ),
    Fault(
        "the idle part of a stretch is not scaled",
        "account.h",
        "return (part * ((core->stretch_idle << 16) / length)) >> 16;",
        "return part;",
    ),
    Fault("wake-ups are not noted", "threads.bpf.c", "t->wake_ts = now;", ""),
    Fault("wake-ups are lost", "threads.bpf.c", "if (t->state != BLK)", "if (1)"),
    Fault(
        "threads are counted from before the window",
        "account.h",
        "born > c->window ? born : c->window",
        "born",
    ),
    Fault(
        "cores are counted from their first event",
        "account.h",
        "core->ts = c->window;",
        "core->ts = bpf_ktime_get_ns();",
    ),
    Fault(
        "idling at the window's edge is no stretch",
        "account.h",
        "core->stretch_begin = c->window;",
        "core->stretch_begin = 0;",
    ),
    Fault(
        "who is preempted counts as woken",
        "account.h",
        "t->preempted = 1;",
        "t->preempted = 0;",
    ),
    Fault(
        "other processes end a stretch",
        "account.h",
        "next == C_IDLE && !core->stretch_begin",
        "next == C_IDLE",
    ),
    Fault(
        "what others ran in a stretch is idle",
        "account.h",
        "if (class == C_IDLE)\n\t\tcore->stretch_idle += d;",
        "core->stretch_idle += d;",
    ),
    Fault(
        "a wait is charged beyond its wake-up",
        "account.h",
        "to_wait = idle_overlap(core, t->block_start, woken, now);",
        "to_wait = idle_overlap(core, t->block_start, now, now);",
    ),
    Fault(
        "idle beside runnable threads is nobody's",
        "account.h",
        "core->idle_scheduler += to_scheduler;",
        "",
    ),
    Fault(
        "cores that no window is about are charged",
        "account.h",
        "!core->stretch_begin || !core->watched",
        "!core->stretch_begin",
    ),
    Fault(
        "waits of threads that end are lost",
        "account.h",
        "flush_parts(t);\n\tcopy_comm(k.comm",
        "copy_comm(k.comm",
    ),
    Fault(
        "waits move to the thread's new name",
        "account.h",
        "flush_parts(t);\n\t\tcopy_comm",
        "copy_comm",
    ),
    Fault("the latest wait is the longest", "account.h", "if (blocked > part->sum.longest)", ""),
    Fault(
        "a wait of which no end was seen lasts on",
        "account.h",
        "finish_wait(t, t->ts, 0);",
        "finish_wait(t, now, 0);",
    ),
    Fault(
        "the numbers of dead processes stay",
        "account.h",
        "bpf_map_delete_elem(&targets, &tgid);",
        "",
    ),
    Fault(
        "cores remember processes that have gone",
        "account.h",
        "(u64)(c->targets_changed & 0xfffffff) << 35",
        "0ULL",
    ),
    Fault(
        "an entry of the last window counts",
        "maps.h",
        "if (t && t->owner == owner)\n\t\treturn t;\n\treturn find_elsewhere",
        "if (t && (u32)t->owner == tid)\n\t\treturn t;\n\treturn find_elsewhere",
    ),
    Fault(
        "the expected wait is the last one",
        "account.h",
        "t->expected - t->expected / 4 + blocked / 4",
        "blocked",
    ),
    Fault(
        "a missed wake-up loses the wait's time",
        "account.h",
        "count(N_MISSED_WAKE);\n\t\tt->blocked += d;",
        "count(N_MISSED_WAKE);",
    ),
    Fault("any poll is one for its first descriptor", "reason.h", "g->si == 1", "g->si >= 1"),
    Fault(
        "the owner of a lock is read elsewhere",
        "reason.h",
        "word : word + 8",
        "word : word + 4",
    ),
    Fault("an owner is read with flags", "reason.h", "owner &= FUTEX_TID;", ""),
    Fault("a call has another number", "reason.h", "case 61: case 247:", "case 61: case 246:"),
    Fault("a missed end of a lock leaves it held", "threads.bpf.c", "depth - 2;", "depth - 1;"),
];

/// A copy of the sources with the fault in it.
fn planted(fault: &Fault) -> tempfile::TempDir {
    let Fault(what, file, from, to) = fault;
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(sources()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "c" || kind == "h") {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let path = folder.path().join(Path::new(file));
    let text = std::fs::read_to_string(&path).unwrap();
    let places = text.matches(from).count();
    assert_eq!(places, 1, "`{what}` no longer applies to {file}: {places} times `{from}`");
    std::fs::write(&path, text.replace(from, to)).unwrap();
    folder
}

/// The events given until the fault shows; none where it does not.
fn found(number: usize) -> Option<u64> {
    let folder = planted(&FAULTS[number]);
    let mut host = Host::of(folder.path(), "-O0");
    search(&mut host, 100 + number as u64, EVENTS).err().map(|(reported, _)| reported)
}

#[test]
#[allow(clippy::print_stdout, reason = "how soon each fault shows")]
fn every_planted_fault_is_found() {
    if !compiler_is_there("planted faults of the accounting") {
        return;
    }
    let all: Vec<Option<u64>> = std::thread::scope(|scope| {
        let every = |first: usize| (first..FAULTS.len()).step_by(2).map(|n| (n, found(n)));
        let odd = scope.spawn(move || every(1).collect::<Vec<_>>());
        let mut all: Vec<_> = every(0).collect();
        all.extend(odd.join().unwrap());
        all.sort_unstable();
        all.into_iter().map(|(_, reported)| reported).collect()
    });
    for (Fault(what, ..), reported) in FAULTS.iter().zip(&all) {
        println!("{what}: {reported:?} events");
    }
    let missed = FAULTS.iter().zip(&all).filter(|(_, reported)| reported.is_none());
    let missed: Vec<_> = missed.map(|(Fault(what, ..), _)| what).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}
