//! What Kneepoint and its SQLite child say to each other: one JSON line each way, in turn.

use super::settings::Settings;
use crate::workload::SliceOutput;
use kneepoint_vocab::Proof;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What the child is to bring up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Blueprint {
    /// The variant's settings.
    pub(super) settings: Settings,
    /// The file of a database that lives in one.
    pub(super) file: PathBuf,
    /// The directory of the run: removed by an orphaned child if that leaves it empty.
    pub(super) scratch: PathBuf,
    /// Connections to open.
    pub(super) clients: u32,
    /// Which start of the variant; other starts draw other ids.
    pub(super) start: u32,
    /// Seed of rows and ids.
    pub(super) seed: u64,
}

/// From Kneepoint to the child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(super) enum Request {
    /// Bring the database up. The first request, and only the first.
    Start(Blueprint),
    /// Prove the variant.
    Describe,
    /// Start clients.
    Begin {
        /// How many.
        clients: u32,
    },
    /// Open the counting window.
    Mark,
    /// Close the counting window and end the clients.
    Finish,
    /// Remove all files and end.
    Stop,
}

/// From the child to Kneepoint, one for each request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub(super) enum Reply {
    /// The database is up and warm.
    Ready,
    /// Evidence, and what SQLite tells of itself.
    Described {
        /// One proof a factor.
        proofs: Vec<Proof>,
        /// `name, value` pairs.
        settings: Vec<(String, String)>,
    },
    /// All clients run.
    Begun {
        /// Their kernel thread ids, in client order.
        threads: Vec<u32>,
    },
    /// The window is open.
    Marked,
    /// The window is closed, and the clients have ended.
    Finished(SliceOutput),
    /// All files are removed; the child is about to end.
    Stopped,
    /// The request could not be met. The child goes on, unless it was the first.
    Failed {
        /// Why, on one line.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::super::settings::{Allocator, Cache, Database};
    use super::*;
    use kneepoint_vocab::{Latency, Nanos};
    use proptest::prelude::*;

    fn settings() -> impl Strategy<Value = Settings> {
        let bits = any::<[bool; 5]>();
        (bits, any::<u32>(), any::<u32>()).prop_map(|(bits, mmap, rows)| Settings {
            database: if bits[0] { Database::Memory } else { Database::File },
            cache: if bits[1] { Cache::Shared } else { Cache::Private },
            connection_mutex: bits[2],
            memstatus: bits[3],
            allocator: if bits[4] { Allocator::Libc } else { Allocator::Mimalloc },
            mmap,
            rows,
        })
    }

    fn request() -> impl Strategy<Value = Request> {
        let blueprint = (settings(), "\\PC{0,20}", any::<(u32, u32, u64)>());
        prop_oneof![
            blueprint.prop_map(|(settings, path, (clients, start, seed))| {
                let (file, scratch) = (PathBuf::from(&path).join("x\n"), PathBuf::from(path));
                Request::Start(Blueprint { settings, file, scratch, clients, start, seed })
            }),
            any::<u32>().prop_map(|clients| Request::Begin { clients }),
            Just(Request::Describe),
            Just(Request::Mark),
            Just(Request::Finish),
            Just(Request::Stop),
        ]
    }

    fn reply() -> impl Strategy<Value = Reply> {
        let output = (any::<[u64; 7]>(), prop::collection::vec(any::<u64>(), 0..5), any::<bool>());
        let output = output.prop_map(|(n, per_client, timed)| SliceOutput {
            counts: None,
            operations: n[0],
            counted_over: Nanos(n[1]),
            per_client,
            latency: timed.then_some(Latency {
                mean: Nanos(n[2]),
                p50: Nanos(n[3]),
                p95: Some(Nanos(n[4])),
                p99: Nanos(n[5]),
                longest: Some(Nanos(n[6])),
            }),
        });
        let proof = ("\\PC{0,9}", ".{0,9}", any::<bool>()).prop_map(|(what, found, active)| {
            Proof { what, expected: "\n\"".to_owned(), found, active }
        });
        let pairs = prop::collection::vec((".{0,9}", ".{0,9}"), 0..4);
        prop_oneof![
            output.prop_map(Reply::Finished),
            (prop::collection::vec(proof, 0..4), pairs)
                .prop_map(|(proofs, settings)| Reply::Described { proofs, settings }),
            prop::collection::vec(any::<u32>(), 0..9).prop_map(|threads| Reply::Begun { threads }),
            "(?s).{0,30}".prop_map(|reason| Reply::Failed { reason }),
            Just(Reply::Ready),
            Just(Reply::Marked),
            Just(Reply::Stopped),
        ]
    }

    proptest! {
        #[test]
        fn requests_survive_the_pipe_as_one_line(request in request()) {
            let line = serde_json::to_string(&request).unwrap();
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }

        #[test]
        fn replies_survive_the_pipe_as_one_line(reply in reply()) {
            let line = serde_json::to_string(&reply).unwrap();
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Reply>(&line).unwrap(), reply);
        }

        #[test]
        fn no_line_makes_it_panic(line in ".{0,80}") {
            let _ = serde_json::from_str::<Request>(&line);
        }
    }
}
