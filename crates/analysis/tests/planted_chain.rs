//! Who waits for whom: chains with a planted truth.

mod common;

use common::{Cell, empty, locked, polling, sweep};
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::{Cause, ChainLink, ChainNode, Charge, HolderState};
use kneepoint_vocab::units::Nanos;
use kneepoint_vocab::*;

/// The object of the lock in the slices of a start.
fn lock(trial: &TrialRecord) -> WaitKey {
    common::key(0x1000 + u64::from(trial.id.start) * 0x100)
}

fn ended(key: WaitKey, by: &[(&str, Option<ThreadRole>, u64)]) -> Fact {
    let by: Vec<EndedBy> = by
        .iter()
        .map(|(name, role, ended)| EndedBy {
            name: (*name).to_owned(),
            role: *role,
            ended: Nanos(*ended),
        })
        .collect();
    let (first, of) = (by[0].clone(), by.iter().map(|one| one.ended.0).sum());
    let EndedBy { name, role, ended } = first;
    Fact::Waker(Waker { key, tid: 7, name, role, ended, of: Nanos(of), by, behind: Vec::new() })
}

fn chain(record: &RunRecord) -> ChainNode {
    analyse(record).chain.expect("single waits were seen")
}

fn find(node: &ChainNode, wanted: impl Fn(&ChainLink) -> bool + Copy) -> &ChainNode {
    let found = node.next.iter().find(|next| wanted(&next.link));
    found.unwrap_or_else(|| panic!("{node:#?}"))
}

fn near(node: &ChainNode, threads: f64) {
    assert!((node.threads.0 - threads).abs() < 0.01, "{threads} threads: {node:#?}");
}

/// Whether no node stands for less than what hangs from it.
fn adds_up(node: &ChainNode) -> bool {
    let next: f64 = node.next.iter().map(|next| next.threads.0).sum();
    next <= node.threads.0 + 1e-9 && node.next.iter().all(adds_up)
}

#[test]
fn clients_that_hand_a_lock_to_each_other_end_in_what_its_holder_does() {
    let mut record = empty(&[1, 4], 4);
    sweep(&mut record, 5, locked);
    for trial in &mut record.trials {
        let key = lock(trial);
        trial.facts.push(ended(key, &[("client", Some(ThreadRole::Client), 8), ("", None, 2)]));
    }
    let first = chain(&record);
    assert_eq!(first.link, ChainLink::Clients { name: "client".to_owned() });
    near(&first, 4.0);
    near(find(&first, |link| *link == ChainLink::OnCore), 0.6);
    near(find(&first, |link| *link == ChainLink::Runnable), 0.1);
    let wait = find(&first, |link| matches!(link, ChainLink::Wait { .. }));
    near(wait, 3.3);
    let ChainLink::Wait { name, cause, .. } = &wait.link else { unreachable!() };
    assert_eq!(name.to_string(), "mutex in sqlite3BtreeEnter");
    assert_eq!(cause.as_deref(), Some(analyse(&record).causes[0].id.as_str()));
    near(find(wait, |link| *link == ChainLink::Outside), 0.66);
    let others = find(wait, |link| matches!(link, ChainLink::Clients { .. }));
    near(others, 2.64);
    let holder = |state| move |link: &ChainLink| *link == ChainLink::Holder { state };
    near(find(others, holder(HolderState::Running)), 2.64 * 0.9);
    near(find(others, holder(HolderState::Runnable)), 2.64 * 0.1);
    assert!(adds_up(&first));
}

#[test]
fn a_thread_that_answers_is_followed_to_its_device_and_not_to_its_idle_time() {
    let mut record = empty(&[1, 4], 4);
    let quiet = |clients| Cell { on_cpu: vec![(0, 1.0)], ..locked(clients) };
    sweep(&mut record, 5, quiet);
    for trial in &mut record.trials {
        for fact in &mut trial.facts {
            if let Fact::Wait(wait) = fact {
                wait.holders = Holders::default();
            }
        }
        let time = ThreadTime {
            role: Some(ThreadRole::Other),
            name: "office".to_owned(),
            threads: 1,
            existed: Nanos(1_000_000_000),
            running: Nanos(600_000_000),
            blocked: Nanos(400_000_000),
            ..ThreadTime::default()
        };
        let wait = |reason, blocked| {
            let key = WaitKey { reason, object: 0, object_name: None, syscall: 1 };
            Fact::Wait(Wait {
                role: ThreadRole::Other,
                name: "office".to_owned(),
                key,
                blocked: Nanos(blocked),
                count: 10,
                longest: Nanos(1000),
                idle_charged: Nanos(0),
                holders: Holders::default(),
            })
        };
        let key = lock(trial);
        trial.facts.extend([
            Fact::ThreadTime(time),
            wait(WaitReason::Device, 300_000_000),
            wait(WaitReason::Poll, 100_000_000),
            ended(key, &[("office", Some(ThreadRole::Other), 10)]),
        ]);
    }
    let first = chain(&record);
    let wait = find(&first, |link| matches!(link, ChainLink::Wait { .. }));
    let office = find(wait, |link| *link == ChainLink::Threads { name: "office".to_owned() });
    near(office, 3.3);
    near(find(office, |link| *link == ChainLink::OnCore), 2.2);
    let device = find(office, |link| matches!(link, ChainLink::Wait { .. }));
    near(device, 1.1);
    assert_eq!((office.next.len(), device.next.len()), (2, 0), "{office:#?}");
    assert!(adds_up(&first));
}

/// Clients that wait for one lock, whose holder waits for another one in `behind` of ten parts of
/// these waits.
fn nested(behind: u64) -> Vec<Cause> {
    let mut record = empty(&[1, 4], 4);
    sweep(&mut record, 5, locked);
    let inner = StackId(u32::try_from(record.stacks.len()).expect("a few stacks"));
    let frames = ["__lll_lock_wait", "pthread_mutex_lock", "post", "main"].map(|function| Frame {
        function: function.to_owned(),
        module: if function == "post" { "app" } else { "libc.so.6" }.to_owned(),
    });
    let stack = StackRecord { id: inner, frames: frames.to_vec(), ..record.stacks[0].clone() };
    record.stacks.push(stack);
    for trial in &mut record.trials {
        // As the collector writes it down; that it is a lock is judged later.
        let reason = WaitReason::Futex { operation: 128, timed: false };
        let key = WaitKey { reason, ..common::key(0x9_0000 + u64::from(trial.id.start) * 0x100) };
        let role = ThreadRole::Client;
        let mut of_outer = ended(lock(trial), &[("client", Some(role), 10)]);
        if let Fact::Waker(waker) = &mut of_outer {
            waker.behind = vec![Behind { key: key.clone(), blocked: Nanos(behind) }];
        }
        let blocked = Nanos(50_000_000);
        trial.facts.extend([
            of_outer,
            Fact::Stack(StackWeight {
                kind: StackKind::OffCpu,
                stack: inner,
                wait: Some(key.clone()),
                role: None,
                weight: blocked,
                count: 10,
            }),
            Fact::Wait(Wait {
                role,
                name: "client".to_owned(),
                key,
                blocked,
                count: 10,
                longest: Nanos(1000),
                idle_charged: Nanos(0),
                holders: Holders::default(),
            }),
        ]);
    }
    analyse(&record).causes
}

#[test]
fn who_waits_for_an_outer_lock_waits_for_the_inner_one() {
    let lost = |causes: &[Cause], name: &str| {
        let cause = causes.iter().find(|cause| cause.name.to_string().contains(name));
        cause.map_or(0.0, |cause| cause.lost.value.0)
    };
    let (apart, within) = (nested(0), nested(8));
    let (outer, inner) = ("sqlite3BtreeEnter", "post");
    let idle = lost(&apart, outer);
    assert!(idle > 1.0 && lost(&apart, inner) < 0.1, "{apart:#?}");
    assert!((lost(&within, outer) + lost(&within, inner) - idle).abs() < 0.1, "{within:#?}");
    assert!(within[0].name.to_string().contains(inner), "{within:#?}");
    assert!(apart.iter().all(|cause| cause.follows_from.is_none()), "{apart:#?}");
    assert_eq!(within[1].follows_from.as_ref(), Some(&within[0].id));
    let wait = |cause: &Cause| match &cause.evidence.charge {
        Charge::Wait { wait } => *wait,
        other => panic!("{other:?}"),
    };
    assert!((wait(&within[1]).behind.unwrap().0 - 0.8).abs() < 1e-9, "{:?}", wait(&within[1]));
    assert!(wait(&within[0]).from_outer.unwrap().0 > 0.9, "{:?}", wait(&within[0]));
    assert_eq!((wait(&apart[0]).behind, wait(&apart[0]).from_outer), (None, None));
}

#[test]
fn a_record_without_single_waits_has_no_chain() {
    let mut record = empty(&[1, 4], 4);
    sweep(&mut record, 5, locked);
    for fact in record.trials.iter_mut().flat_map(|trial| &mut trial.facts) {
        if let Fact::Tier { tier } = fact {
            *tier = Tier::Fallback;
        }
    }
    assert_eq!(analyse(&record).chain, None);
}

#[test]
fn a_lock_that_is_polled_for_is_ended_by_the_system_and_a_request_by_nobody_in_it() {
    let mut record = polling();
    for trial in &mut record.trials {
        let key = trial.facts.iter().find_map(|fact| match fact {
            Fact::Wait(wait) => Some(wait.key.clone()),
            _ => None,
        });
        let Some(key) = key else { continue };
        trial.facts.push(ended(key, &[("client", Some(ThreadRole::Client), 6), ("", None, 4)]));
    }
    let first = chain(&record);
    let lock = find(&first, |link| matches!(link, ChainLink::Wait { .. }));
    let request = find(&first, |link| *link == ChainLink::Request);
    assert!((lock.threads.0 / request.threads.0 - 2.0).abs() < 0.01, "{first:#?}");
    assert_eq!((lock.next.len(), request.next.len()), (1, 0), "{first:#?}");
    assert!(matches!(lock.next[0].link, ChainLink::Clients { .. }), "{first:#?}");
}
