//! What to say of an output in which no throughput is found: its numbers, and what to write.

use regex_lite::Regex;

/// Most lines that are quoted, and most characters of each.
const LINES: usize = 3;
const CHARACTERS: usize = 60;
/// Most characters of a pattern around its number.
const AROUND: usize = 20;

/// Why such an output is no result, and the ways out, on one line.
pub(super) fn refusal(texts: &[&str]) -> String {
    let lines = texts.iter().flat_map(|text| text.split(['\n', '\r']));
    let mut lines: Vec<&str> =
        lines.map(str::trim).filter(|line| line.bytes().any(|b| b.is_ascii_digit())).collect();
    // Those that look like a rate come first.
    let words = ["/s", "per sec", "rate", "throughput", "ops"];
    lines.sort_by_key(|line| {
        let low = line.to_lowercase();
        !words.iter().any(|word| low.contains(word))
    });
    lines.truncate(LINES);
    let work = "if each run does a fixed amount of work, as `make` does, say how many operations \
                that is, e.g. --work 1";
    let Some(first) = lines.first() else {
        return format!("it printed no operations per second, nor any other number; {work}");
    };
    let quoted: Vec<String> = lines.iter().map(|line| format!("{:?}", clipped(line))).collect();
    format!(
        "it printed no operations per second that are known as such, but {}; say with \
         `throughput` which number they are, e.g. {}; {work}",
        quoted.join(", "),
        option_for(first, first)
    )
}

/// The option whose pattern finds the first number of `passage`, a part of a line of `text`.
pub(super) fn option_for(text: &str, passage: &str) -> String {
    let line = text.split(['\n', '\r']).find(|line| line.contains(passage)).unwrap_or(passage);
    let within = line.find(passage).unwrap_or(0);
    let digits = |from: &str| from.find(|c: char| c.is_ascii_digit());
    let begin = within + digits(&line[within..]).unwrap_or(0);
    let end = line[begin..].find(|c: char| !(c.is_ascii_digit() || ".,".contains(c)));
    let (before, after) = (&line[..begin], end.map_or("", |end| &line[begin + end..]));
    // Quotes would end the shell's, and other digits may be others in the next run.
    let odd = |c: char| c == '\'' || c.is_ascii_digit() || c.is_control();
    let before = before.rsplit(odd).next().unwrap_or_default().trim_start();
    let skip = before.chars().count().saturating_sub(AROUND);
    let before: String = before.chars().skip(skip).collect();
    let after: String = after.split(odd).next().unwrap_or_default().chars().take(AROUND).collect();
    let number = "([0-9.,]+)";
    let pattern = if before.trim().is_empty() {
        format!("{number}{}", regex_lite::escape(after.trim_end()))
    } else {
        format!("{}{number}", regex_lite::escape(&before))
    };
    debug_assert!(Regex::new(&pattern).is_ok(), "{pattern}");
    format!("--throughput '{pattern}'")
}

fn clipped(line: &str) -> String {
    let short: String = line.chars().filter(|c| !c.is_control()).take(CHARACTERS).collect();
    if short.len() < line.len() { short + "..." } else { short }
}

#[cfg(test)]
mod tests {
    use super::super::figure::Pattern;
    use super::*;

    #[test]
    fn numbers_are_shown_with_the_pattern_that_finds_them() {
        let reported = refusal(&["took 3 s\ndone: 1,250 things a tick, rate 7\n", ""]);
        assert!(
            reported.contains("\"done: 1,250 things a tick, rate 7\", \"took 3 s\""),
            "{reported}"
        );
        assert!(reported.contains("--throughput 'done: ([0-9.,]+)'"), "{reported}");
        assert!(reported.contains("--work 1") && !reported.contains('\n'), "{reported}");
        assert!(refusal(&["ok\n", "fine"]).contains("nor any other number"));
    }

    #[test]
    fn a_proposed_pattern_finds_its_number() {
        for (line, number) in [
            ("done: 1,250 things", 1250.0),
            ("950 (things) a tick", 950.0),
            ("a.b [x] = 12.5", 12.5),
            ("it's 7 of them", 7.0),
        ] {
            let option = option_for(line, line);
            let pattern = option.trim_start_matches("--throughput '").trim_end_matches('\'');
            assert_eq!(Pattern::parse(pattern).unwrap().find(&[line]), Ok(number), "{option}");
        }
    }
}
