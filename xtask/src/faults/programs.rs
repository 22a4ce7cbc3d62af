//! Programs that misbehave, and what may be believed of what they print.

/// One, for `sh`.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) script: &'static str,
    /// Operations per second that it claims in a way that can be understood.
    pub(super) says: Option<f64>,
}

const fn silent(name: &'static str, script: &'static str) -> Program {
    Program { name, script, says: None }
}

const fn telling(name: &'static str, script: &'static str, says: f64) -> Program {
    Program { name, script, says: Some(says) }
}

pub(super) const PROGRAMS: [Program; 26] = [
    silent("dies", "sleep 0.05; exit 3"),
    silent("is killed", "sleep 0.05; kill -KILL $$"),
    silent("hangs", "sleep 600"),
    silent("ignores TERM", "trap '' TERM INT HUP; while :; do sleep 600; done"),
    telling("floods", "timeout 0.3 yes flood; echo '5 ops/s'", 5.0),
    telling("floods messages", "timeout 0.3 yes flood >&2; echo '5 ops/s'", 5.0),
    silent("says nothing", "sleep 0.1"),
    silent("says nan", "sleep 0.1; echo 'nan ops/s'"),
    silent("says too much", "sleep 0.1; echo '1e400 ops/s'"),
    silent("says two things", "sleep 0.1; echo '5 ops/s'; echo '6 ops/s'"),
    silent("says another thing", "sleep 0.1; echo '600 MB/s'"),
    silent("says less than nothing", "sleep 0.1; echo '-5 ops/s'"),
    silent("dies and claims", "echo '5 ops/s'; exit 1"),
    silent("is no text", "sleep 0.1; head -c 4096 /dev/urandom"),
    silent("steers", "sleep 0.1; printf '\\033]0;x\\007\\033[2J\\r\\342\\200\\256' >&2; exit 1"),
    telling(
        "forks away",
        "setsid sleep 604 & (setsid sh -c 'sleep 605 &' &); sleep 0.1; echo '5 ops/s'",
        5.0,
    ),
    telling("leaves its environment", "setsid env -i sleep 606 & sleep 0.1; echo '5 ops/s'", 5.0),
    silent("is stopped", "sleep 0.05; kill -STOP $$; sleep 600"),
    telling(
        "forks much",
        "for i in 1 2 3 4 5 6 7 8 9; do sleep 607 & sleep 607 & sleep 607 & done; echo '5 ops/s'",
        5.0,
    ),
    silent("closes everything", "exec >&- 2>&- <&-; sleep 0.1"),
    telling(
        "daemonises",
        "redis-server --port 0 --daemonize yes --dir $TMPDIR --save '' >&2; echo '5 ops/s'",
        5.0,
    ),
    silent("is killed for memory", "ulimit -v 40000; head -c 400000000 /dev/zero | tail -n 1"),
    telling("leaves a file", "touch kept; sleep 0.1; echo '5 ops/s'", 5.0),
    silent("kills its group", "sleep 0.05; kill -KILL 0"),
    silent("kills its parent", "sleep 0.05; kill -TERM $PPID; sleep 600"),
    silent("fills the disk", "yes > filled; sleep 0.1"),
];
