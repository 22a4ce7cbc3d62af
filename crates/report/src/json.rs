//! Findings as JSON: all of them, with every digit.

use crate::text;
use kneepoint_vocab::Findings;

/// Renders findings as indented JSON with a final line feed.
///
/// Fields stand in the order of the Rust structures. A number that is not finite becomes
/// `null`, since JSON has no other word for it. Should serialising fail, which no findings of
/// the present structure can cause, the text is an object with the field `error`. Characters that
/// could steer a terminal are escaped.
#[must_use]
pub fn render(findings: &Findings) -> String {
    let mut text = serde_json::to_string_pretty(findings)
        .unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }).to_string());
    text.push('\n');
    text::inert_json(&text).into_owned()
}
