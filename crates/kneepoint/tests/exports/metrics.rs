//! Reads the text format of OpenMetrics 1.0 and refuses what breaks its rules.

use std::collections::BTreeSet;

/// One family as its head says.
#[derive(Default)]
struct Family {
    name: String,
    kind: String,
    unit: String,
}

/// The names of all families, or what is wrong with the text.
pub(crate) fn parse(text: &str) -> Result<BTreeSet<String>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("does not end with # EOF")?;
    let mut names = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut family = Family::default();
    for line in body.lines() {
        match line.strip_prefix("# ") {
            Some(head) => {
                let mut words = head.splitn(3, ' ');
                let mut word = || words.next().ok_or(format!("too short: {line}"));
                let (what, name, rest) = (word()?, word()?, word()?);
                if what == "TYPE" {
                    if !names.insert(name.to_owned()) {
                        return Err(format!("{name} comes twice"));
                    }
                    if !["gauge", "info"].contains(&rest) || !is_name(name) {
                        return Err(format!("no such type or name: {line}"));
                    }
                    let (name, kind) = (name.to_owned(), rest.to_owned());
                    family = Family { name, kind, unit: String::new() };
                } else if name != family.name || !["UNIT", "HELP"].contains(&what) {
                    return Err(format!("head of another family: {line}"));
                } else if what == "UNIT" {
                    if !name.ends_with(&format!("_{rest}")) || family.kind == "info" {
                        return Err(format!("{name} does not end with its unit {rest}"));
                    }
                    family.unit = rest.to_owned();
                }
            }
            None => sample(line, &family, &mut seen)?,
        }
    }
    Ok(names)
}

fn sample(line: &str, family: &Family, seen: &mut BTreeSet<String>) -> Result<(), String> {
    let end = line.find(['{', ' ']).ok_or(format!("no value: {line}"))?;
    let (name, rest) = line.split_at(end);
    let wanted = if family.kind == "info" { "_info" } else { "" };
    if name.strip_prefix(&family.name) != Some(wanted) {
        return Err(format!("of no family or another one: {line}"));
    }
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest).ok_or(format!("labels: {line}"))?,
        None => (Vec::new(), rest),
    };
    let distinct: BTreeSet<&String> = labels.iter().map(|(name, _)| name).collect();
    if distinct.len() != labels.len() || !labels.iter().all(|(name, _)| is_name(name)) {
        return Err(format!("names of labels: {line}"));
    }
    let value = value.strip_prefix(' ').ok_or(format!("no value: {line}"))?;
    let number: f64 = value.parse().map_err(|_| format!("no number: {line}"))?;
    if family.kind == "info" && (number - 1.0).abs() > 0.0 {
        return Err(format!("not 1: {line}"));
    }
    let mut labels = labels;
    labels.sort();
    if !seen.insert(format!("{name}{labels:?}")) {
        return Err(format!("comes twice: {line}"));
    }
    Ok(())
}

/// Labels behind an open brace, and what follows the closing one.
fn labels(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at + 1,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    escaped @ ('\\' | '"') => value.push(escaped),
                    _ => return None,
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
        rest = &after[end..];
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        rest = rest.strip_prefix(',')?;
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|one: char| one.is_ascii_alphabetic() || one == '_')
        && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
}

#[test]
fn what_breaks_the_rules_is_refused() {
    let good = "# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# HELP a_seconds x\n\
                a_seconds{b=\"c \\\"d\\\"\"} 1.5\n# EOF\n";
    assert!(parse(good).is_ok(), "{:?}", parse(good));
    for (what, with) in [
        ("# EOF\n", ""),
        ("UNIT a_seconds seconds", "UNIT a_seconds bytes"),
        ("a_seconds{", "b_seconds{"),
        ("1.5", "fast"),
        ("\\\"d", "\\d"),
        ("1.5\n", "1.5\na_seconds{b=\"c \\\"d\\\"\"} 2\n"),
        ("# HELP", "# TYPE a_seconds gauge\n# HELP"),
    ] {
        let bad = good.replace(what, with);
        assert!(bad != good && parse(&bad).is_err(), "{bad}");
    }
}
