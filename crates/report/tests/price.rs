//! Why throughput falls, in every format.

#![allow(dead_code, reason = "a part of the invented findings is used here")]

mod synthetic;

use kneepoint_report::{html, json, terminal, text};
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{AtBound, Bound, BusyFunction, Name};
use kneepoint_vocab::{Cores, Estimate, Ratio};

fn falling() -> Findings {
    synthetic::price::falling(synthetic::findings())
}

#[test]
fn the_waterfall_leads_from_the_best_price_to_the_worst() {
    let screen = terminal::render(&falling(), 80, false);
    let begin = screen.find("Why it falls").expect("a waterfall");
    let end = begin + screen[begin..].find("Where 2 cores go").expect("the ledger behind it");
    insta::assert_snapshot!(&screen[begin..end]);
}

/// Rows fit every width, and the two prices stay whatever is left out between them.
#[test]
fn it_fits_every_screen() {
    for width in [40, 60, 80, 132] {
        for height in [Some(24), Some(40), None] {
            let shown = terminal::Screen { width, height, colour: false };
            let screen = terminal::fitted(&falling(), shown);
            assert!(screen.lines().all(|line| text::columns(line) <= width), "{screen}");
            assert!(height.is_none_or(|most| screen.lines().count() <= most || width == 40));
            if screen.contains("Why it falls") {
                assert!(screen.contains("187 µs") && screen.contains("434 µs"), "{screen}");
                assert!(screen.contains("+310 µs"), "{screen}");
            }
        }
    }
    assert!(!terminal::render(&synthetic::findings(), 80, false).contains("Why it falls"));
}

/// Curve, waterfall and cures come first; the cores' picture gives way to them.
#[test]
fn the_page_tells_why_before_what_cures() {
    let page = html::render(&falling());
    let place = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words} is missing"));
    let (why, cures) = (place("<b>Why it falls</b>"), place("id=\"cures\""));
    assert!(place("<b>Throughput</b>") < why && why < cures);
    assert!(cures < place("<b>Where the cores go</b>"));
    for words in [
        "an operation costs 187 µs of the machine at 1 client, 434 µs at 2",
        "href=\"#cause-1\"",
        "idle 239 µs, CPU 71 µs",
        "The best level, 1 client, gives what its bound allows.",
        "The load generator takes 40.0 µs of it at 1 client, 44.0 µs at 2",
        "an operation costs at most 390 µs there",
        "The price of an operation at each level",
        "What keeps each level below its bound",
        "mutex in sqlite3BtreeEnter 81 % [70–90]",
    ] {
        assert!(page.contains(words), "{words} is missing");
    }
    let plain = html::render(&synthetic::findings());
    assert!(!plain.contains("Why it falls"));
    assert!(plain.find("<b>Where the cores go</b>") < plain.find("id=\"cures\""));
}

#[test]
fn names_from_outside_are_inert_in_it() {
    let mut findings = falling();
    let fall = findings.price.as_mut().and_then(|price| price.fall.as_mut()).expect("a fall");
    fall.steps[0].line = kneepoint_vocab::findings::price::PriceLine::Function {
        name: Name::from("<script>alert(1)</script>\u{1b}[31m"),
        kernel: false,
    };
    let page = html::render(&findings);
    assert!(!page.contains("<script>alert"));
    assert!(!terminal::render(&findings, 80, false).contains('\u{1b}'));
}

#[test]
fn a_flat_price_is_nothing_wrong() {
    let mut findings = falling();
    findings.causes.clear();
    findings.at_bound = Some(AtBound {
        waits: None,
        level: findings.focus,
        bound: Bound::Cores,
        busy: Estimate::of(1.97, 1.96, 1.98),
        of: Cores(2.0),
        functions: vec![BusyFunction { name: Name::from("parse"), share: Ratio(0.62) }],
    });
    let price = findings.price.as_mut().expect("a price");
    price.fall = None;
    price.last_over_best = Estimate::of(1.01, 0.98, 1.04);
    let flat = "the price is flat: an operation costs as much at 2 clients as at 1, the best level \
                (1.01× [0.98–1.04])";
    let page = html::render(&findings);
    assert!(page.contains(&format!("Nothing is wrong: 1.97 of 2 cores are used up, and {flat}")));
    assert!(page.contains("The CPU goes to parse 62 %."));
    let screen = terminal::render(&findings, 80, false);
    let words: Vec<&str> = screen.split_whitespace().collect();
    assert!(words.join(" ").contains(flat), "{screen}");
    assert!(screen.contains("parse 62 %"), "{screen}");
    let price = findings.price.as_mut().expect("a price");
    price.last_over_best = Estimate::of(1.1, 0.7, 1.5);
    let page = html::render(&findings);
    assert!(!page.contains("the price is flat") && page.contains("is not shown (1.1× [0.7–1.5])"));
}

#[test]
fn programs_read_it() {
    let value: serde_json::Value =
        serde_json::from_str(&json::render(&falling())).expect("findings");
    let fall = &value["price"]["fall"];
    assert_eq!(fall["steps"][0]["line"]["part"], "wait");
    assert_eq!(fall["steps"][0]["line"]["kind"], "lock");
    assert_eq!(value["price"]["levels"][1]["parts"][0]["line"], fall["steps"][0]["line"]);
}
