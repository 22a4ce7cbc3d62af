//! Causes and flame graphs of the synthetic findings.

use super::about;
use kneepoint_vocab::findings::{
    Cause, CauseEvidence, CauseKind, Charge, FlameNode, HolderState, Name, WaitEvidence, WaitWork,
};
use kneepoint_vocab::{CauseKey, Cores, Level, PerSecond, Ratio, Seconds, SourceLine, VariantId};

/// A name as C++ gives them.
pub(super) const LONG: &str = "std::_Rb_tree<std::pair<std::basic_string<char, \
 std::char_traits<char>, \
     std::allocator<char> >, \
     unsigned long>, std::pair<std::pair<std::basic_string<char> const, unsigned long> const, \
     std::shared_ptr<storage::engine::detail::PageHandle<4096ul> > > >::_M_emplace_hint_unique";

fn node(name: &str, weight: f64, children: Vec<FlameNode>) -> FlameNode {
    FlameNode { kernel: false, name: name.to_owned(), weight: Seconds(weight), children }
}

fn chain(names: &[&str], weight: f64, leaves: Vec<FlameNode>) -> Vec<FlameNode> {
    names.iter().rev().fold(leaves, |below, name| vec![node(name, weight, below)])
}

/// Where the cores were.
pub(super) fn on_cpu() -> FlameNode {
    let futex = node(
        "__x64_sys_futex",
        0.9,
        vec![node(
            "do_futex",
            0.86,
            vec![
                node(
                    "futex_wait",
                    0.5,
                    vec![node("schedule", 0.44, vec![node("__schedule", 0.42, Vec::new())])],
                ),
                node(
                    "futex_wake",
                    0.34,
                    vec![node("wake_up_q", 0.28, vec![node("try_to_wake_up", 0.26, Vec::new())])],
                ),
            ],
        )],
    );
    let lock = node(
        "pthreadMutexEnter",
        1.1,
        vec![node("pthread_mutex_lock", 1.08, vec![node("__lll_lock_wait", 0.95, vec![futex])])],
    );
    let execute = node(
        "sqlite3VdbeExec",
        1.35,
        vec![
            node(
                "sqlite3BtreeTableMoveto",
                0.42,
                vec![node("moveToRoot", 0.2, vec![node("btreePageFromDbPage", 0.06, Vec::new())])],
            ),
            node("sqlite3BtreeNext", 0.2, Vec::new()),
            node("sqlite3VdbeSerialGet", 0.11, Vec::new()),
            node(
                LONG,
                0.09,
                vec![node(
                    "operator new(unsigned long)",
                    0.05,
                    vec![node("malloc", 0.045, Vec::new())],
                )],
            ),
        ],
    );
    let step = node(
        "sqlite3_step",
        2.7,
        vec![
            node("sqlite3VdbeEnter", 1.16, vec![node("sqlite3BtreeEnter", 1.14, vec![lock])]),
            execute,
            node("sqlite3VdbeHalt", 0.14, vec![node("sqlite3BtreeLeaveAll", 0.1, Vec::new())]),
        ],
    );
    let work = chain(
        &["clone3", "start_thread", "client_main", "transaction"],
        3.0,
        vec![
            step,
            node("sqlite3_bind_int64", 0.12, Vec::new()),
            node("sqlite3_reset", 0.1, Vec::new()),
        ],
    );
    node("all", 3.1, work)
}

fn waiting() -> FlameNode {
    let enter = chain(
        &[
            "sqlite3VdbeEnter",
            "sqlite3BtreeEnter",
            "pthreadMutexEnter",
            "pthread_mutex_lock",
            "__lll_lock_wait",
        ],
        4.1,
        Vec::new(),
    );
    let schema = chain(
        &[
            "sqlite3LockAndPrepare",
            "sqlite3BtreeEnterAll",
            "sqlite3BtreeEnter",
            "pthreadMutexEnter",
            "pthread_mutex_lock",
        ],
        0.7,
        Vec::new(),
    );
    let step = node("sqlite3_step", 4.2, enter);
    let prepare = node("sqlite3_prepare_v2", 0.72, schema);
    node(
        "all",
        4.95,
        chain(&["clone3", "start_thread", "client_main", "transaction"], 4.93, vec![step, prepare]),
    )
}

fn waking() -> FlameNode {
    let leave = chain(
        &["sqlite3BtreeLeaveAll", "pthreadMutexLeave", "pthread_mutex_unlock", "__lll_lock_wake"],
        4.4,
        Vec::new(),
    );
    node(
        "all",
        4.95,
        chain(
            &["clone3", "start_thread", "client_main", "transaction", "sqlite3_step"],
            4.6,
            vec![node("sqlite3VdbeHalt", 4.4, leave)],
        ),
    )
}

/// Two big ones and two small.
pub(super) fn causes() -> Vec<Cause> {
    vec![lock(), kernel(), scheduler(), function()]
}

fn lock() -> Cause {
    let mutex = WaitEvidence {
        idle: Cores(0.88),
        work: Some(WaitWork { cores: Cores(0.24), spins: false }),
        rate: Some(PerSecond(61_200.0)),
        mean: Seconds(22.4e-6),
        holder: Some((HolderState::Running, Ratio(0.71))),
        polls: false,
        convoy: None,
        after_wake: None,
        herd: None,
        behind: None,
        from_outer: None,
        library: None,
        objects: 2,
    };
    Cause {
        source: Some(SourceLine {
            function: "sqlite3BtreeEnter".to_owned(),
            module: "sqlite-server".to_owned(),
            file: "/build/sqlite/src/btree<mutex>.c".to_owned(),
            line: 64,
        }),
        path: ["sqlite3BtreeEnter", "sqlite3VdbeEnter", "sqlite3_step", "transaction"]
            .map(str::to_owned)
            .to_vec(),
        share: about(0.784, 0.05),
        lost: about(1.122, 0.05),
        waits: Some(about(61_200.0, 0.03)),
        wait_mean: Some(Seconds(22.4e-6)),
        wait_longest: Some(Seconds(11.3e-3)),
        wait_per_operation: Some(about(248.0e-6, 0.04)),
        holders: vec![
            (HolderState::Running, Ratio(0.71)),
            (HolderState::Runnable, Ratio(0.18)),
            (HolderState::Blocked, Ratio(0.04)),
            (HolderState::Unknown, Ratio(0.07)),
        ],
        stacks: Some(waiting()),
        waker_stacks: Some(waking()),
        stacks_complete: Some(Ratio(0.991)),
        cured_by: Some(VariantId::new("private-cache")),
        ..plain(
            "lock-1",
            CauseKind::Lock,
            "mutex in sqlite3BtreeEnter",
            Charge::Wait { wait: mutex },
        )
    }
}

fn kernel() -> Cause {
    Cause {
        share: about(0.167, 0.09),
        lost: about(0.239, 0.09),
        follows_from: Some("lock-1".to_owned()),
        ..plain(
            "kernel-1",
            CauseKind::Kernel,
            "kernel: futex",
            Charge::Function {
                cpu: Seconds(72e-6),
                least: Seconds(0.0),
                least_at: Some(Level { clients: 1, cores: 2 }),
                cores: Cores(0.239),
                code: None,
            },
        )
    }
}

fn scheduler() -> Cause {
    Cause {
        share: about(0.042, 0.2),
        lost: about(0.06, 0.2),
        follows_from: Some("lock-1".to_owned()),
        ..plain(
            "scheduler-1",
            CauseKind::Scheduler,
            "wake-up latency",
            Charge::Scheduler { idle: Cores(0.06), confined: None },
        )
    }
}

fn function() -> Cause {
    Cause {
        share: about(0.007, 0.6),
        lost: about(0.01, 0.6),
        ..plain(
            "function-1",
            CauseKind::Function,
            LONG,
            Charge::OtherFunctions { cores: Cores(0.01), stacks: true },
        )
    }
}

fn plain(id: &str, kind: CauseKind, name: &str, charge: Charge) -> Cause {
    Cause {
        id: id.to_owned(),
        key: CauseKey::new(kind, name, ""),
        kind,
        name: Name::from(name),
        source: None,
        path: Vec::new(),
        share: about(0.0, 0.0),
        lost: about(0.0, 0.0),
        waits: None,
        wait_mean: None,
        wait_longest: None,
        wait_per_operation: None,
        holders: Vec::new(),
        stacks: None,
        waker_stacks: None,
        stacks_complete: None,
        cured_by: None,
        evidence: CauseEvidence {
            of: Cores(2.0),
            charge,
            served_by: None,
            woken_by: None,
            devices: Vec::new(),
            workers: Vec::new(),
        },
        follows_from: None,
    }
}
