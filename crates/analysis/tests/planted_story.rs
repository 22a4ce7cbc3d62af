//! All that is said of one planted lock.

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::Findings;

/// As JSON on one line, with three digits: the last bits differ between machines.
fn brief(what: &impl serde::Serialize) -> String {
    fn rounded(value: serde_json::Value) -> serde_json::Value {
        match value {
            serde_json::Value::Number(number) if number.is_f64() => {
                let text = number.as_f64().map(|number| format!("{number:.2e}"));
                text.and_then(|text| text.parse::<f64>().ok()).into()
            }
            serde_json::Value::Array(items) => items.into_iter().map(rounded).collect(),
            serde_json::Value::Object(fields) => {
                fields.into_iter().map(|(name, field)| (name, rounded(field))).collect()
            }
            other => other,
        }
    }
    serde_json::to_value(what).map(rounded).expect("JSON").to_string()
}

fn story(findings: &Findings) -> String {
    let mut lines: Vec<String> = findings.conclusions.iter().map(brief).collect();
    for ledger in &findings.ledgers {
        lines.push(format!("{} clients, {} cores", ledger.level.clients, ledger.level.cores));
        for line in &ledger.core.lines {
            let cause = line.cause.as_deref().unwrap_or("-");
            lines.push(format!(
                "  {:.3} cores {} ({cause})",
                line.cores.value.0,
                brief(&line.name)
            ));
        }
        for line in &ledger.thread.lines {
            let cause = line.cause.as_deref().unwrap_or("-");
            let micros = line.per_operation.value.0 * 1e6;
            lines.push(format!("  {micros:.1} µs {} ({cause})", brief(&line.name)));
        }
    }
    for cause in &findings.causes {
        let follows = cause.follows_from.as_deref().unwrap_or("-");
        let share = cause.share.value.0;
        lines.push(format!("{} {:.2} {} ({follows})", cause.id, share, cause.name));
        lines.push(format!("  {}", brief(&cause.evidence)));
        lines.push(format!("  {}", cause.path.join(" < ")));
    }
    lines.extend(findings.caveats.iter().map(brief));
    lines.join("\n")
}

#[test]
fn the_whole_story_of_a_planted_lock() {
    let mut record = empty(&[1, 2, 8], 2);
    sweep(&mut record, 6, locked);
    insta::assert_snapshot!(story(&analyse(&record)));
}
