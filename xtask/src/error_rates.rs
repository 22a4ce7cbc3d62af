//! Error rates of the whole procedure by simulation: the table of `docs/method.md`.

#[path = "../../crates/stats/tests/support/procedure.rs"]
mod procedure;

use anyhow::{Context, Result, bail};

/// Runs of each case.
const RUNS: u32 = 2000;
/// Most false claims; the noise of 2,000 runs is 0.5 % around 5 %.
const MOST: f64 = 0.06;

/// Prints a row for each case.
///
/// # Errors
/// Where a case claims a difference that is none too often.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let runs = match flags {
        [] => RUNS,
        ["--runs", count] => count.parse().context("--runs wants a number")?,
        _ => bail!("error-rates takes --runs N"),
    };
    println!(
        "| noise and layout | starts | false claims | 1.3\u{d7} found better | none found | \
         smallest effect called none | coverage |\n|---|---|---|---|---|---|---|"
    );
    let mut over = 0;
    for (seed, (name, case)) in (0..).zip(procedure::cases()) {
        let found = procedure::rates(&case, runs, seed);
        let [claims, power, none, wrong, coverage] =
            [found.false_claims, found.power, found.found_none, found.false_none, found.coverage]
                .map(|share| format!("{:.1} %", 100.0 * share));
        let starts = case.launches();
        println!("| {name} | {starts} | {claims} | {power} | {none} | {wrong} | {coverage} |");
        over += u32::from(found.false_claims > MOST);
    }
    if over == 0 { Ok(()) } else { bail!("{over} cases claim too much") }
}
