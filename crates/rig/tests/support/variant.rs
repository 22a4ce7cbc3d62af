//! Setting a variant up in a test: its settings, what it needs, where it lives. Test crates include
//! this file by `#[path]`.

#![allow(dead_code, reason = "no test that includes it needs all of it")]

use kneepoint_rig::scheduling::Scheduling;
use kneepoint_rig::undo::Undo;
use kneepoint_rig::{SearchPath, Setup, Workload};
use kneepoint_vocab::VariantId;
use std::collections::BTreeMap;
use std::path::Path;

/// The executable that serves as Kneepoint.
pub(crate) const SERVER: &str = env!("CARGO_BIN_EXE_rig-test-server");

/// The settings of all tests, then those of this one.
pub(crate) fn settings(all: &[(&str, &str)], own: &[(&str, &str)]) -> BTreeMap<String, String> {
    let texts = all.iter().chain(own);
    texts.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A variant for up to four clients.
pub(crate) fn setup(scratch: &Path, settings: BTreeMap<String, String>) -> Setup {
    Setup {
        server: SERVER.into(),
        scratch: scratch.to_owned(),
        variant: VariantId::new("test"),
        settings,
        scheduling: Scheduling::default(),
        start: 0,
        max_clients: 4,
        seed: 7,
        undo: Undo::begin(scratch, Path::new(SERVER)),
    }
}

/// Says that a test was left out, where those who sum tests up look for it.
pub(crate) fn skip(test: &str, reason: &str) {
    println!("SKIP {test}: {reason}");
}

/// Whether the machine has what these settings need; prints why where it has not.
pub(crate) fn can(
    test: &str,
    workload: &dyn Workload,
    settings: &BTreeMap<String, String>,
) -> bool {
    let needs = workload.needs(settings, &SearchPath::own());
    let lacking: Vec<_> = needs.iter().filter(|need| !need.here).map(|need| &need.what).collect();
    if !lacking.is_empty() {
        skip(test, &format!("no {lacking:?} here"));
    }
    lacking.is_empty()
}
