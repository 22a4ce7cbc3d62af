//! What the JSON holds is published: a schema that every printed document fits, and the README's
//! example for jq.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{FIXTURES, Sandbox, fixture};
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The schema that a reference leads to, or the schema itself.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"].as_str().and_then(|text| text.strip_prefix('#'));
    reference.map_or(schema, |pointer| {
        root.pointer(pointer).unwrap_or_else(|| panic!("{pointer} leads nowhere"))
    })
}

/// Why `value` does not fit; nothing where it does.
fn misfit(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let schema = resolved(root, schema);
    for word in ["anyOf", "oneOf"] {
        if let Some(ways) = schema[word].as_array() {
            let misfits: Vec<_> = ways.iter().map(|way| misfit(root, way, value, at)).collect();
            if misfits.iter().all(Option::is_some) {
                return Some(format!("{at}: none of {misfits:?}"));
            }
        }
    }
    if let Some(one) = schema.get("const").filter(|one| *one != value) {
        return Some(format!("{at}: {value} is not {one}"));
    }
    if let Some(all) = schema["enum"].as_array().filter(|all| !all.contains(value)) {
        return Some(format!("{at}: {value} is none of {all:?}"));
    }
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|word| is_a(value, word)) {
        return Some(format!("{at}: {value} is none of {types:?}"));
    }
    parts(root, schema, value, at)
}

fn is_a(value: &Value, word: &str) -> bool {
    match word {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("a type {other}"),
    }
}

/// Fields and items: all that must be there, and nothing that is not described.
fn parts(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let (Some(fields), Some(described)) = (value.as_object(), schema["properties"].as_object()) {
        let needed = schema["required"].as_array().into_iter().flatten();
        if let Some(missing) =
            needed.flat_map(Value::as_str).find(|name| !fields.contains_key(*name))
        {
            return Some(format!("{at}: no {missing}"));
        }
        return fields.iter().find_map(|(name, field)| match described.get(name) {
            Some(part) => misfit(root, part, field, &format!("{at}.{name}")),
            None => Some(format!("{at}.{name} is not described")),
        });
    }
    let items = value.as_array()?;
    let prefix = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().enumerate().find_map(|(index, item)| {
        let part = prefix.get(index).or_else(|| schema.get("items"))?;
        misfit(root, part, item, &format!("{at}[{index}]"))
    })
}

fn printed(arguments: &[&str]) -> Value {
    let ran = Sandbox::new().run(arguments);
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    ran.json()
}

fn reported(name: &str) -> String {
    let record = kneepoint_lab::open(&fixture(name)).unwrap();
    kneepoint_report::json::render(&kneepoint_analysis::analyse(&record))
}

#[test]
fn findings_are_as_the_schema_says() {
    let schema = printed(&["--generate", "schema-findings"]);
    for name in FIXTURES {
        let findings: Value = serde_json::from_str(&reported(name)).unwrap();
        assert_eq!(misfit(&schema, &schema, &findings, name), None);
    }
    let mut wrong: Value = serde_json::from_str(&reported("fallback")).unwrap();
    wrong["focus"]["clients"] = "two".into();
    assert!(misfit(&schema, &schema, &wrong, "wrong").is_some(), "the check finds what is wrong");
}

#[test]
fn a_comparison_is_as_the_schema_says() {
    let schema = printed(&["--generate", "schema-comparison"]);
    let runs = ["sqlite-shared-cache", "fallback"].map(|name| fixture(name).display().to_string());
    let comparison = printed(&["compare", &runs[0], &runs[1], "--json"]);
    assert_eq!(misfit(&schema, &schema, &comparison, "comparison"), None);
}

/// The README's line for jq, on a recorded run.
#[test]
fn the_example_for_jq_names_the_causes() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, example) = readme.split_once("jq -r '").unwrap();
    let filter = example.split('\'').next().unwrap();
    let mut jq = Command::new("jq");
    jq.args(["-r", filter]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut jq) = jq.spawn() else {
        println!("SKIP the_example_for_jq_names_the_causes: jq is not installed");
        return;
    };
    let mut input = jq.stdin.take().unwrap();
    let findings = reported("sqlite-shared-cache");
    let writing = std::thread::spawn(move || input.write_all(findings.as_bytes()));
    let output = jq.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.contains(" % lock sqlite3BtreeEnter kneepoint"), "{text}");
}
