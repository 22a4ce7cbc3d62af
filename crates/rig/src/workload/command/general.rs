//! Operations per second in lines of no generator in particular: `950 req/s`, `tps: 1.2e3`.

use super::figure::number;
use super::unknown;
use regex_lite::{Captures, Regex};

/// A number as programs print it, good or bad.
const NUMBER: &str = r"([-+]?(?:[0-9](?:[0-9.,]*[0-9])?(?:e[-+]?[0-9]+)?|nan|inf))";
/// What a rate counts and for which time, such as `req/s` or `IOPS`.
const RATE: &str = concat!(
    r"(?:(?:ops?|operations?|reqs?|requests?|transactions?|txns?|queries|iterations?|iters?|",
    r"events?|msgs?|messages?|calls?|commands?|tasks?|jobs?|lookups?|reads?|writes?|inserts?|",
    r"updates?)\s*(?:/\s*s(?:ec(?:onds?)?)?|per\s+sec(?:ond)?)|qps|tps|rps|iops)",
);

/// The same of anything that is counted in the plural; of a text that has no [`RATE`].
const ANY_RATE: &str = r"([a-z]{3,}s)\s*(?:/\s*s(?:ec(?:onds?)?)?|per\s+sec(?:ond)?)";
/// What is no operation, however many there are of it in a second: amounts, what went wrong, what
/// the machine did; by a part of the word.
const NO_OPERATIONS: [&str; 14] = [
    "byte",
    "bit",
    "error",
    "fail",
    "miss",
    "timeout",
    "retries",
    "drop",
    "abort",
    "fault",
    "switch",
    "interrupt",
    "cycle",
    "instruction",
];

/// A prefix of a unit, and what comes behind it.
const AFTER: &str = r"\s*([kmg]?)(.{0,3})";

/// One figure: what stands there, and operations per second.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    text: String,
    rate: f64,
}

/// The one figure of a text; none where there is none.
///
/// # Errors
/// There are different ones, or one that is no throughput.
pub(super) fn rate(printed: &str) -> Result<Option<f64>, String> {
    let behind = Regex::new(&format!(r"(?i)(?:^|[^\w.,+-]){NUMBER}\s*([kmg]?)\s*{RATE}\b"));
    let before = Regex::new(&format!(
        r"(?i)(?:^|[^\w])(?:throughput|{RATE})\s*(?:\([^)]*\))?\s*[:=]\s*{NUMBER}{AFTER}"
    ));
    let alone = Regex::new(&format!(r"(?i)^\s*(?:throughput|{RATE})\s+{NUMBER}()\s*$"));
    let (Ok(behind), Ok(before), Ok(alone)) = (behind, before, alone) else {
        return Err("the patterns of figures are no regular expressions".to_owned());
    };
    let mut found: Vec<Figure> = Vec::new();
    for line in printed.split(['\n', '\r']) {
        for captures in behind.captures_iter(line) {
            take(&mut found, &captures)?;
        }
        // Without a sign between the two they are a pair only where nothing else is there.
        for captures in alone.captures_iter(line) {
            take(&mut found, &captures)?;
        }
        // A unit that is not known may be one of bytes or of time.
        for captures in before.captures_iter(line).filter(|captures| bare(captures)) {
            take(&mut found, &captures)?;
        }
    }
    if found.is_empty() {
        take_others(&mut found, printed)?;
    }
    // Limits that are off, and what the program did not do, are printed as rates of nothing.
    if found.iter().any(|figure| figure.rate > 0.0) {
        found.retain(|figure| figure.rate > 0.0);
    }
    match &found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.rate)),
        [one, other, ..] => Err(format!(
            "it printed different figures, {:?} and {:?}; say with `throughput` (--throughput) \
             which counts, e.g. {}",
            one.text,
            other.text,
            unknown::option_for(printed, &one.text)
        )),
    }
}

/// Adds figures such as `12 records/s`, whatever it is that is counted.
fn take_others(found: &mut Vec<Figure>, printed: &str) -> Result<(), String> {
    let Ok(any) = Regex::new(&format!(r"(?i)(?:^|[^\w.,+-]){NUMBER}()\s+{ANY_RATE}\b")) else {
        return Err("the patterns of figures are no regular expressions".to_owned());
    };
    for captures in printed.split(['\n', '\r']).flat_map(|line| any.captures_iter(line)) {
        let counted = captures.get(3).map_or("", |word| word.as_str()).to_ascii_lowercase();
        if !NO_OPERATIONS.iter().any(|word| counted.contains(word)) {
            take(found, &captures)?;
        }
    }
    Ok(())
}

/// Adds a figure, unless one of the same value is there.
fn take(found: &mut Vec<Figure>, captures: &Captures<'_>) -> Result<(), String> {
    let part = |index| captures.get(index).map_or("", |part| part.as_str());
    let text = part(0).trim_matches(|c: char| c.is_whitespace() || ":=(,;|".contains(c)).to_owned();
    let rate =
        number(&format!("{}{}", part(1), part(2))).map_err(|why| format!("{why} ({text})"))?;
    #[allow(clippy::float_cmp, reason = "the same digits make the same number")]
    if found.iter().all(|other| other.rate != rate) {
        found.push(Figure { text, rate });
    }
    Ok(())
}

/// Whether a number stands without a unit.
fn bare(captures: &Captures<'_>) -> bool {
    let after = captures.get(3).map_or("", |part| part.as_str());
    let joined = after.starts_with(|c: char| c.is_ascii_alphanumeric() || "/%.".contains(c));
    let unit =
        after.trim_start().starts_with(|c: char| c.is_ascii_alphabetic() || "/%".contains(c));
    !(joined || unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ways_of_writing_a_rate_are_understood() {
        for (printed, expected) in [
            ("950 req/s", 950.0),
            ("rate: 950.5 reqs/sec (mean)", 950.5),
            ("1200 qps", 1200.0),
            ("did 1200 tps.", 1200.0),
            ("5k IOPS", 5000.0),
            ("12 rps", 12.0),
            ("4 msgs/sec", 4.0),
            ("+1200 ops/s", 1200.0),
            ("14783.5 records/s", 14783.5),
            ("3 frames per second, 12 ops/s", 12.0),
            ("1.2e3 ops/s", 1200.0),
            ("2.5 Mops/s", 2.5e6),
            ("5 Kops/s", 5000.0),
            ("1 G ops/s", 1e9),
            ("Throughput: 1200", 1200.0),
            ("throughput = 1,200.5\n", 1200.5),
            ("Throughput: 1200 ops/s", 1200.0),
            ("throughput: 3K", 3000.0),
            ("Requests/sec: 77", 77.0),
            ("tps (overall): 8", 8.0),
            ("requests/s 1354337.5\n", 1_354_337.5),
            ("  Throughput  12", 12.0),
            ("100 queries per second", 100.0),
            ("progress\r50 ops/s\r50 ops/s\n", 50.0),
            ("0 ops/s", 0.0),
            ("Read rate: 0 ops/second\nreadrandom : 2.2 micros/op 446382 ops/sec", 446_382.0),
        ] {
            assert_eq!(rate(printed), Ok(Some(expected)), "{printed}");
        }
    }

    #[test]
    fn what_is_no_rate_of_operations_is_left_alone() {
        for printed in [
            "",
            "600 MB/s",
            "600 megabytes/s",
            "0 errors/s",
            "12.5 context-switches/s",
            "Throughput: 600 MB/s",
            "throughput: 12 ms",
            "throughput: 12ms",
            "Throughput: 600 GiB/s",
            "1200 ops",
            "took 3.1 s",
            "p99 5 ms",
            "v1.2 tpsx",
            "ops/s 12 13",
            "max ops/s 12",
        ] {
            assert_eq!(rate(printed), Ok(None), "{printed}");
        }
    }

    #[test]
    fn bad_and_contradictory_figures_are_refused() {
        for printed in ["nan ops/s", "inf ops/s", "1e400 ops/s", "-5 ops/s", "tps: nan"] {
            assert!(rate(printed).is_err(), "{printed}");
        }
        let reported = rate("read 950 req/s\nwrite 1200 req/s").unwrap_err();
        assert!(reported.contains("\"950 req/s\" and \"1200 req/s\""), "{reported}");
        assert!(reported.contains("--throughput 'read ([0-9.,]+)'"), "{reported}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = rate(&text);
            let _ = rate(&format!("throughput: {text} ops/s"));
        }
    }
}
