//! Recorded runs still say what they said: findings, terminal and page of each fixture.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{FIXTURES, fixture};
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::price::PriceLine;
use serde_json::Value;

fn findings(name: &str) -> Findings {
    kneepoint_analysis::analyse(&kneepoint_lab::open(&fixture(name)).unwrap())
}

/// Numbers with six significant digits: the last bits differ between machines.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = format!("{:.5e}", number.as_f64().unwrap());
            text.parse::<f64>().unwrap().into()
        }
        Value::Array(items) => items.into_iter().map(rounded).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, field)| (name, rounded(field))).collect()
        }
        other => other,
    }
}

/// The findings without flame graphs, which hold one line a function.
fn without_stacks(mut value: Value) -> Value {
    value["on_cpu"] = value["on_cpu"]["name"].take();
    for difference in value["differences"].as_array_mut().into_iter().flatten() {
        difference["root"] = difference["root"]["name"].take();
    }
    for cause in value["causes"].as_array_mut().unwrap() {
        cause["stacks"] = cause["stacks"]["name"].take();
        cause["waker_stacks"] = cause["waker_stacks"]["name"].take();
    }
    value
}

fn check(name: &str) {
    let findings = findings(name);
    let json: Value = serde_json::from_str(&kneepoint_report::json::render(&findings)).unwrap();
    assert_page_tells_all(&findings, &json);
    insta::assert_json_snapshot!(format!("{name}-findings"), without_stacks(rounded(json)));
    let terminal = kneepoint_report::terminal::render(&findings, 80, false);
    insta::assert_snapshot!(format!("{name}-terminal"), terminal);
}

/// The page holds the headline, every cause, every effect and every caveat. Markup stands between
/// words, so only the text is compared.
fn assert_page_tells_all(findings: &Findings, json: &Value) {
    let page = text_of(&kneepoint_report::html::render(findings));
    let causes: Vec<String> = findings.causes.iter().map(|cause| cause.name.to_string()).collect();
    let causes = causes.iter().map(String::as_str);
    let effects = findings.effects.iter().map(|effect| effect.label.as_str());
    let caveats = json["caveat_sentences"].as_array().unwrap().iter().filter_map(Value::as_str);
    let headline = json["headline"].as_str();
    for reported in headline.into_iter().chain(causes).chain(effects).chain(caveats) {
        assert!(page.contains(&squeezed(reported)), "{reported:?} is not on the page");
    }
}

/// The text of a page, without white space.
fn text_of(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        rest = tag.split_once('>').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&#60;", "<")];
    let plain = entities.iter().fold(text, |text, (name, sign)| text.replace(name, sign));
    squeezed(&plain.replace("&#62;", ">").replace("&#34;", "\"").replace("&amp;", "&"))
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|sign| !sign.is_whitespace() && *sign != '\u{ad}').collect()
}

#[test]
fn a_run_with_the_full_collector() {
    check("sqlite-shared-cache");
}

#[test]
fn a_run_that_was_cut_off() {
    let record = kneepoint_lab::open(&fixture("cut-off")).unwrap();
    assert!(record.end.is_none());
    assert_eq!(record.torn.len(), 2, "{:?}", record.torn);
    check("cut-off");
}

#[test]
fn a_run_without_privileges() {
    check("fallback");
}

/// A treatment at every level: its curve is a row of the summary, and the headline tells of it.
#[test]
fn a_run_with_the_curve_of_a_treatment() {
    check("treated-curve");
    let findings = findings("treated-curve");
    assert_eq!(findings.treated.len(), 1);
    let json: Value = serde_json::from_str(&kneepoint_report::json::render(&findings)).unwrap();
    let headline = json["headline"].as_str().unwrap();
    assert!(headline.contains("which scales"), "{headline}");
}

/// Transactions wait for one row: the lock is first in what makes it fall, and the load generator,
/// which takes much of both levels, is not.
#[test]
fn a_row_lock_makes_a_server_fall() {
    check("postgres-tpcb");
    let findings = findings("postgres-tpcb");
    let fall = findings.price.as_ref().and_then(|price| price.fall.as_ref()).unwrap();
    let PriceLine::Wait { name, .. } = &fall.steps[0].line else {
        panic!("{:#?}", fall.steps[0]);
    };
    assert!(name.to_string().contains("XactLockTableWait"), "{name}");
    assert!(fall.steps[0].share.unwrap().low.0 > 0.3, "{:#?}", fall.steps[0]);
    let generator = fall.steps.iter().find(|step| step.line == PriceLine::Generator).unwrap();
    assert!(generator.rise.value < fall.steps[0].rise.value);
}

/// Far below what a checkout would mind.
#[test]
fn fixtures_are_small_and_hold_no_page() {
    for name in FIXTURES {
        let files = std::fs::read_dir(fixture(name)).unwrap().map(Result::unwrap);
        let mut bytes = 0;
        for file in files {
            assert_ne!(file.file_name(), "report.html", "{name}");
            bytes += file.metadata().unwrap().len();
        }
        assert!(bytes <= 200_000, "{name} has {bytes} bytes");
    }
}

/// Two analyses of one run give the same bytes.
#[test]
fn nothing_depends_on_when_it_is_asked() {
    let (one, other) = (findings("sqlite-shared-cache"), findings("sqlite-shared-cache"));
    assert_eq!(kneepoint_report::html::render(&one), kneepoint_report::html::render(&other));
    assert_eq!(kneepoint_report::json::render(&one), kneepoint_report::json::render(&other));
}
