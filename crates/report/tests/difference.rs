//! Differences of stacks on the page: colours by change, words and numbers of both sides.

#![allow(dead_code, reason = "a part of the invented findings is used here")]

mod synthetic;

use kneepoint_report::html;
use kneepoint_vocab::Findings;

fn findings() -> Findings {
    synthetic::difference::beside(synthetic::findings())
}

#[test]
fn a_difference_says_what_takes_more_and_what_less() {
    let page = html::render(&findings());
    for words in [
        "Differences: on a core, 16 clients against 1 client",
        "Differences: waits for locks and devices, private page caches against the baseline",
        "Of CPU an operation takes 90.0 µs with 1 client and 136 µs with 16 clients.",
        "class=\"frame up3 in-kernel\"",
        "class=\"frame down2\"",
        "class=\"frame alike\"",
        "+50.0 µs per operation: 0",
        "more with 16 clients",
        "Greatest changes in numbers",
        "&lt;script&gt;",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("<script>").count(), 1, "the page's own");
    let plain = html::render(&synthetic::findings());
    assert!(!plain.contains("What changes, by stacks"));
}

/// Widths are means of both sides, so that children never pass their caller.
#[test]
fn widths_add_up() {
    let page = html::render(&findings());
    let widths: Vec<f64> = page
        .split("data-change=\"")
        .skip(1)
        .take(5)
        .map(|after| {
            let (_, width) = after.split_once(" width=\"").expect("a width");
            width.split('%').next().and_then(|width| width.parse().ok()).expect("a number")
        })
        .collect();
    // all, sqlite3_step, <script>, do_futex, idle, of a mean of 113 µs.
    let wanted = [100.0, 92.92, 69.47, 22.12, 7.08];
    assert!(widths.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() < 0.01));
}
