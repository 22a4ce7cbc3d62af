//! Prices for the invented run: a lock makes an operation 2.3 times as dear at 2 clients.

#![allow(dead_code, reason = "not every test file tells of prices")]

use super::{about, level};
use kneepoint_vocab::findings::price::{
    Fall, LevelPrice, Limit, Price, PriceLine, PricePart, Step,
};
use kneepoint_vocab::findings::{CauseKind, Name};
use kneepoint_vocab::{Estimate, Findings, Seconds};

const MICRO: f64 = 1e-6;

fn lines() -> [(PriceLine, f64, f64, f64); 6] {
    let lock =
        PriceLine::Wait { kind: CauseKind::Lock, name: Name::from("mutex in sqlite3BtreeEnter") };
    let cells = PriceLine::Function { name: Name::from("btreeParseCellPtr"), kernel: false };
    // At 1 client and at 2, and the part of the rise that idles.
    [
        (lock, 0.0, 310.0, 239.0),
        (cells, 0.0, 19.0, 0.0),
        (PriceLine::Generator, 40.0, 44.0, 0.0),
        (PriceLine::Kneepoint, 0.0, 1.0, 0.0),
        (PriceLine::Unused, 93.0, 0.0, -93.0),
        (PriceLine::Useful, 54.0, 60.0, 0.0),
    ]
}

fn priced(clients: u32, at: impl Fn(&(PriceLine, f64, f64, f64)) -> f64) -> LevelPrice {
    let lines = lines();
    let limits = [Limit {
        line: lines[0].0.clone(),
        price: about(250.0 * MICRO, 0.1),
        share: Estimate::of(0.81, 0.7, 0.9),
    }];
    LevelPrice {
        level: level(clients),
        price: about(lines.iter().map(&at).sum::<f64>() * MICRO, 0.03),
        parts: lines
            .iter()
            .map(|line| PricePart { line: line.0.clone(), price: about(at(line) * MICRO, 0.05) })
            .collect(),
        limits: if clients == 1 { Vec::new() } else { limits.to_vec() },
    }
}

/// The run with the prices of two of its levels.
pub(crate) fn falling(mut findings: Findings) -> Findings {
    let steps = lines().into_iter().map(|(line, before, after, idle)| Step {
        cause: matches!(line, PriceLine::Wait { .. }).then(|| "lock-1".to_owned()),
        rise: about((after - before) * MICRO, 0.08),
        idle: Seconds(idle * MICRO),
        share: (after > before).then(|| about((after - before) / 340.0, 0.05)),
        line,
    });
    let mut steps: Vec<Step> = steps.collect();
    steps.sort_by(|a, b| b.rise.value.0.total_cmp(&a.rise.value.0));
    findings.price = Some(Price {
        levels: vec![priced(1, |line| line.1), priced(2, |line| line.2)],
        best: level(1),
        last_over_best: Estimate::of(2.32, 2.2, 2.5),
        fall: Some(Fall { from: level(1), to: level(2), rise: about(247.0 * MICRO, 0.06), steps }),
    });
    findings
}
