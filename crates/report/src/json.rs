//! Findings as JSON: all of them, with every digit, and the sentences of the other formats.

use crate::text;
use crate::words;
use kneepoint_vocab::findings::Cause;
use kneepoint_vocab::{Comparison, Findings, Profile};
use schemars::{JsonSchema, schema_for};
use serde::Serialize;

/// Findings, and what people read of them.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Findings")]
struct FindingsDocument<'a> {
    #[serde(flatten)]
    findings: &'a Findings,
    /// The conclusions in one sentence.
    headline: String,
    /// The caveats in one sentence each, in their order.
    caveat_sentences: Vec<String>,
    /// The evidence of the causes in one line each, in their order.
    evidence_lines: Vec<String>,
}

/// A profile, and what people read of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Profile")]
struct ProfileDocument<'a> {
    #[serde(flatten)]
    profile: &'a Profile,
    /// The story in one or two sentences.
    headline: String,
    /// The caveats in one sentence each, in their order.
    caveat_sentences: Vec<String>,
    /// The evidence of the causes in one line each, in their order.
    evidence_lines: Vec<String>,
}

/// A comparison, and what people read of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Comparison")]
struct ComparisonDocument<'a> {
    #[serde(flatten)]
    comparison: &'a Comparison,
    /// The caveats in one sentence each, in their order.
    caveat_sentences: Vec<String>,
}

/// Renders findings as indented JSON with a final line feed.
///
/// Fields stand in the order of the Rust structures. A number that is not finite becomes
/// `null`, since JSON has no other word for it. Should serialising fail, which no findings of
/// the present structure can cause, the text is an object with the field `error`. Characters that
/// could steer a terminal are escaped.
#[must_use]
pub fn render(findings: &Findings) -> String {
    written(serde_json::to_string_pretty(&FindingsDocument {
        findings,
        headline: words::headline(findings),
        caveat_sentences: findings
            .caveats
            .iter()
            .map(|one| words::caveat::of_run(&one.reason))
            .collect(),
        evidence_lines: lines(findings.causes.iter()),
    }))
}

/// Renders a comparison, as [`render`] does findings.
#[must_use]
pub fn comparison(comparison: &Comparison) -> String {
    let caveat_sentences = comparison.caveats.iter().map(words::comparison::caveat).collect();
    let document = ComparisonDocument { comparison, caveat_sentences };
    written(serde_json::to_string_pretty(&document))
}

/// Renders a profile, as [`render`] does findings.
#[must_use]
pub fn profile(profile: &Profile) -> String {
    written(serde_json::to_string_pretty(&ProfileDocument {
        profile,
        headline: words::profile::headline(profile),
        caveat_sentences: profile
            .caveats
            .iter()
            .map(|one| words::caveat::of_profile(&one.reason))
            .collect(),
        evidence_lines: lines(profile.causes.iter().map(|one| &one.cause)),
    }))
}

/// What [`render`] writes, as a JSON Schema: fields, their meaning and their units.
#[must_use]
pub fn schema() -> String {
    schema_of::<FindingsDocument<'_>>()
}

/// What [`comparison`] writes, as [`schema`] does for findings.
#[must_use]
pub fn comparison_schema() -> String {
    schema_of::<ComparisonDocument<'_>>()
}

/// What [`profile`] writes, as [`schema`] does for findings.
#[must_use]
pub fn profile_schema() -> String {
    schema_of::<ProfileDocument<'_>>()
}

fn lines<'a>(causes: impl Iterator<Item = &'a Cause>) -> Vec<String> {
    causes.map(|cause| words::evidence(&cause.evidence)).collect()
}

fn schema_of<T: JsonSchema>() -> String {
    written(serde_json::to_string_pretty(&schema_for!(T)))
}

fn written(text: serde_json::Result<String>) -> String {
    let mut text =
        text.unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }).to_string());
    text.push('\n');
    text::inert_json(&text).into_owned()
}
