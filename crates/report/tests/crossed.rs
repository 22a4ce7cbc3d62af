//! Two variants alone and together, in every format.

#![allow(dead_code, reason = "a part of the invented findings is used here")]

mod synthetic;

use kneepoint_report::{html, json, terminal, text};
use kneepoint_vocab::findings::{Cross, CrossFigures, Interaction};
use kneepoint_vocab::{Estimate, Findings, VariantId};

/// The invented findings with a 2×2 of this verdict.
fn crossed(verdict: Option<Interaction>) -> Findings {
    let mut findings = synthetic::findings();
    let figures = verdict.map(|verdict| CrossFigures {
        blocks: 12,
        base: Estimate::of(4600.0, 4500.0, 4700.0),
        one: Estimate::of(5520.0, 5400.0, 5640.0),
        other: Estimate::of(5980.0, 5900.0, 6060.0),
        both: Estimate::of(8740.0, 8600.0, 8880.0),
        alone: Estimate::of(1.2, 1.15, 1.25),
        other_alone: Estimate::of(1.3, 1.25, 1.35),
        together: Estimate::of(1.9, 1.8, 2.0),
        interaction: Estimate::of(1.22, 1.1, 1.35),
        verdict,
    });
    findings.crosses = vec![Cross {
        base: VariantId::new(VariantId::BASELINE),
        one: VariantId::new("jemalloc"),
        other: VariantId::new("no-memstatus"),
        both: VariantId::new("both"),
        figures,
    }];
    findings
}

#[test]
fn the_terminal_tells_what_two_do_together() {
    let screen = terminal::render(&crossed(Some(Interaction::More)), 80, false);
    let begin = screen.find("What they do together").expect("a 2×2");
    let lines: Vec<&str> = screen[begin..].lines().take(7).collect();
    let said = lines.join(" ");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "jemalloc in place of malloc with memory statistics off: together 1.90×",
        "alone 1.20× and 1.30×",
        "more than they add up to (1.56×), by 1.22× [1.10–1.35]",
        "neither 4.60k [4.50–4.70]",
        "12 blocks",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    for width in [40, 60, 80, 120] {
        let screen = terminal::render(&crossed(Some(Interaction::Less)), width, false);
        assert!(screen.lines().all(|line| text::columns(line) <= width), "{screen}");
    }
    assert!(!terminal::render(&synthetic::findings(), 80, false).contains("together"));
}

#[test]
fn the_page_has_the_four_cells() {
    let page = html::render(&crossed(Some(Interaction::Undecided)));
    for words in [
        "whether they add up (1.56×) cannot be told: 1.22× [1.10–1.35] of it.",
        "with jemalloc in place of malloc",
        "without memory statistics off",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!html::render(&synthetic::findings()).contains("class=\"crossed\""));
    let nothing = html::render(&crossed(None));
    assert!(nothing.contains("nothing is known of both together"));
}

#[test]
fn programs_read_it_too() {
    let printed = json::render(&crossed(Some(Interaction::AddUp)));
    let read: serde_json::Value = serde_json::from_str(&printed).expect("findings");
    assert_eq!(read["crosses"][0]["figures"]["verdict"], "add-up");
    assert_eq!(read["crosses"][0]["figures"]["interaction"]["low"], 1.1);
}
