//! Whatever befalls the tables of a run: it opens or says why not, and what opens is reported.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{copy_run, fixture};
use kneepoint_report::export::Made;
use proptest::prelude::*;
use proptest::sample::Index;
use std::fs;
use std::path::Path;

/// One damage to one file.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    Cut(Index),
    Lose(Index, u8),
    Repeat(Index, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = any::<Index>;
    prop_oneof![
        4 => (place(), any::<u8>()).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        // A digit for a digit keeps the line readable and makes its number absurd.
        4 => (place(), b'0'..=b'9').prop_map(|(at, digit)| Damage::Flip(at, digit)),
        1 => place().prop_map(Damage::Cut),
        2 => (place(), any::<u8>()).prop_map(|(at, length)| Damage::Lose(at, length)),
        2 => (place(), any::<u8>()).prop_map(|(at, length)| Damage::Repeat(at, length)),
    ]
}

fn apply(damage: &Damage, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    let range = |at: &Index, span: u8| {
        let begin = at.index(length);
        begin..(begin + usize::from(span)).min(length)
    };
    match damage {
        Damage::Flip(at, to) => {
            let start = at.index(length);
            let digit = |byte: &u8| !to.is_ascii_digit() || byte.is_ascii_digit();
            if let Some(place) = bytes[start..].iter().position(digit) {
                bytes[start + place] = *to;
            }
        }
        Damage::Cut(at) => bytes.truncate(at.index(length)),
        Damage::Lose(at, span) => drop(bytes.drain(range(at, *span))),
        Damage::Repeat(at, span) => {
            let range = range(at, *span);
            let again = bytes[range.clone()].to_vec();
            bytes.splice(range.end..range.end, again);
        }
    }
}

fn report_if_it_opens(directory: &Path) {
    let Ok(record) = kneepoint_lab::open(directory) else { return };
    let findings = kneepoint_analysis::analyse(&record);
    for width in [60, 80, 120] {
        let text = kneepoint_report::terminal::render(&findings, width, width == 80);
        assert!(text.ends_with('\n'));
    }
    assert!(kneepoint_report::html::render(&findings).ends_with("</html>\n"));
    let json = kneepoint_report::json::render(&findings);
    serde_json::from_str::<serde_json::Value>(&json).unwrap();
    let recording = kneepoint_analysis::recording::recording(&record);
    for format in kneepoint_report::export::ALL {
        match format.made {
            Made::Concluded { run, .. } => {
                let text = run(&findings);
                assert!(text.is_empty() || text.ends_with('\n'), "{}", format.name);
            }
            Made::Recorded(render) => drop(render(&recording)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_makes_a_report_panic(
        name in prop_oneof![
            3 => Just("trials.jsonl"), 1 => Just("stacks.jsonl"), 1 => Just("arms.jsonl"),
            1 => Just("host.json"), 1 => Just("plan.toml"), 1 => Just("end.json")
        ],
        run in prop_oneof![3 => Just("cut-off"), 1 => Just("fallback")],
        damages in prop::collection::vec(damage(), 1..12),
    ) {
        let home = tempfile::tempdir().unwrap();
        copy_run(&fixture(run), home.path());
        let path = home.path().join(name);
        // A run that was cut off has no end: then it gets one that is none.
        let mut bytes = fs::read(&path).unwrap_or_else(|_| b"{\"elapsed\": 12}".to_vec());
        for damage in &damages {
            apply(damage, &mut bytes);
        }
        fs::write(&path, &bytes).unwrap();
        report_if_it_opens(home.path());
    }
}
