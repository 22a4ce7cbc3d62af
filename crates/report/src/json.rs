//! Findings as JSON: all of them, with every digit.

use crate::text;
use kneepoint_vocab::{Comparison, Findings, Profile};
use schemars::{JsonSchema, schema_for};

/// Renders findings as indented JSON with a final line feed.
///
/// Fields stand in the order of the Rust structures. A number that is not finite becomes
/// `null`, since JSON has no other word for it. Should serialising fail, which no findings of
/// the present structure can cause, the text is an object with the field `error`. Characters that
/// could steer a terminal are escaped.
#[must_use]
pub fn render(findings: &Findings) -> String {
    written(serde_json::to_string_pretty(findings))
}

/// Renders a comparison, as [`render`] does findings.
#[must_use]
pub fn comparison(comparison: &Comparison) -> String {
    written(serde_json::to_string_pretty(comparison))
}

/// Renders a profile, as [`render`] does findings.
#[must_use]
pub fn profile(profile: &Profile) -> String {
    written(serde_json::to_string_pretty(profile))
}

/// What [`render`] writes, as a JSON Schema: fields, their meaning and their units.
#[must_use]
pub fn schema() -> String {
    schema_of::<Findings>()
}

/// What [`comparison`] writes, as [`schema`] does for findings.
#[must_use]
pub fn comparison_schema() -> String {
    schema_of::<Comparison>()
}

/// What [`profile`] writes, as [`schema`] does for findings.
#[must_use]
pub fn profile_schema() -> String {
    schema_of::<Profile>()
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
