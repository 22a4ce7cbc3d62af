//! What an operation costs, why a curve falls, and what limits each level.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::*;
use kneepoint_analysis::analyse;
use kneepoint_vocab::findings::price::{Fall, LevelPrice, PriceLine, Step};
use kneepoint_vocab::findings::{CauseKind, Conclusion, Shape};
use kneepoint_vocab::*;

/// A server with a generator that takes 0.3 ms of every operation, the most of all lines but the
/// useful one. At 8 clients an operation costs 2 ms of the machine where it cost 1 ms: 0.8 ms idle
/// for a lock, 0.1 ms of futex calls that the lock brings, 0.1 ms of spinning.
fn served(clients: u32) -> Cell {
    let one = Cell { kernel: 0.2, generator: 0.3, system: 0.5, ..Cell::default() };
    match clients {
        1 => Cell { idle_uncharged: 1.0, ..one },
        2 => Cell {
            throughput: 2000.0,
            kernel: 0.4,
            generator: 0.6,
            system: 1.0,
            idle_uncharged: 0.0,
            ..one
        },
        _ => Cell {
            system: 0.7,
            idle_lock: 0.8,
            idle_uncharged: 0.0,
            blocked: f64::from(clients) - 0.7,
            on_cpu: vec![(0, 0.5), (1, 0.1), (4, 0.1)],
            waits: 9000.0,
            ..one
        },
    }
}

fn falling() -> RunRecord {
    let mut record = empty(&[1, 2, 8], 2);
    record.plan.clients = Clients::Apart;
    sweep(&mut record, 5, served);
    record
}

fn near(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 0.03 * 1e-3, "{found} instead of {wanted}");
}

fn named(line: &PriceLine) -> String {
    match line {
        PriceLine::Wait { name, .. } | PriceLine::Function { name, .. } => name.to_string(),
        _ => String::new(),
    }
}

fn fall(findings: &Findings) -> &Fall {
    findings.price.as_ref().unwrap().fall.as_ref().unwrap()
}

fn step(findings: &Findings, line: &PriceLine) -> Option<Step> {
    fall(findings).steps.iter().find(|step| &step.line == line).cloned()
}

fn level_of(findings: &Findings, clients: u32) -> LevelPrice {
    let levels = &findings.price.as_ref().unwrap().levels;
    levels.iter().find(|one| one.level.clients == clients).unwrap().clone()
}

#[test]
fn a_lock_makes_it_fall_and_a_generator_that_costs_the_same_does_not() {
    let findings = analyse(&falling());
    let fall = fall(&findings);
    assert_eq!((fall.from.clients, fall.to.clients), (2, 8));
    near(fall.rise.value.0, 1e-3);
    assert!(fall.rise.low.0 > 0.9e-3 && fall.rise.low < fall.rise.value, "{:?}", fall.rise);
    let lock = &fall.steps[0];
    assert_eq!(named(&lock.line), "mutex in sqlite3BtreeEnter", "{:#?}", fall.steps);
    near(lock.rise.value.0, 0.9e-3);
    near(lock.idle.0, 0.8e-3);
    let share = lock.share.unwrap();
    assert!((share.value.0 - 0.9).abs() < 0.02 && share.low.0 > 0.8, "{share:?}");
    let first =
        findings.causes.iter().find(|cause| cause.name.to_string() == named(&lock.line)).unwrap();
    assert_eq!(lock.cause.as_ref(), Some(&first.id));
    let spin = &fall.steps[1];
    assert_eq!(named(&spin.line), "spin", "{:#?}", fall.steps);
    near(spin.rise.value.0, 0.1e-3);
    let generator = step(&findings, &PriceLine::Generator);
    assert!(generator.is_none_or(|step| step.rise.value.0.abs() < 0.01e-3));
    let part = |line: &PriceLine| {
        let parts = level_of(&findings, 8).parts;
        parts.iter().find(|part| &part.line == line).unwrap().price.value.0
    };
    near(part(&PriceLine::Generator), 0.3e-3);
    near(part(&PriceLine::Useful), 0.5e-3);
}

#[test]
fn prices_are_the_sum_of_their_parts_and_rises_of_their_steps() {
    let findings = analyse(&falling());
    let price = findings.price.as_ref().unwrap();
    let lines = |level: &LevelPrice| -> Vec<PriceLine> {
        level.parts.iter().map(|part| part.line.clone()).collect()
    };
    for level in &price.levels {
        assert_eq!(lines(level), lines(&price.levels[0]));
        let sum: f64 = level.parts.iter().map(|part| part.price.value.0).sum();
        assert!((sum / level.price.value.0 - 1.0).abs() < 1e-9, "{sum} of {:?}", level.price);
    }
    let fall = fall(&findings);
    let sum: f64 = fall.steps.iter().map(|step| step.rise.value.0).sum();
    assert!((sum / fall.rise.value.0 - 1.0).abs() < 1e-9, "{sum} of {:?}", fall.rise);
    let shares = fall.steps.iter().filter_map(|step| step.share);
    assert!((shares.map(|share| share.value.0).sum::<f64>() - 1.0).abs() < 1e-9);
    let (from, to) = (level_of(&findings, 2).price.value.0, level_of(&findings, 8).price.value.0);
    assert!((to - from - fall.rise.value.0).abs() < 1e-12);
    assert!((price.last_over_best.value.0 - to / from).abs() < 1e-9);
}

#[test]
fn a_generator_that_gets_dearer_makes_it_fall() {
    let mut record = empty(&[1, 2, 8], 2);
    record.plan.clients = Clients::Apart;
    sweep(&mut record, 5, |clients| match clients {
        8 => Cell { generator: 0.9, idle_lock: 0.2, ..served(8) },
        _ => served(clients),
    });
    let findings = analyse(&record);
    let generator = step(&findings, &PriceLine::Generator).unwrap();
    near(generator.rise.value.0, 0.6e-3);
    assert_eq!(fall(&findings).steps[0], generator);
    assert!((generator.share.unwrap().value.0 - 0.6).abs() < 0.02);
}

/// A lock that waits at the best level already is lost most to; what comes on top of it is another.
#[test]
fn the_headline_names_what_makes_it_fall_where_that_is_another() {
    let mut record = empty(&[1, 2, 8], 2);
    let two = Cell {
        throughput: 1600.0,
        system: 0.8,
        idle_lock: 1.2,
        idle_uncharged: 0.0,
        blocked: 1.2,
        waits: 9000.0,
        on_cpu: vec![(0, 0.8)],
        ..Cell::default()
    };
    sweep(&mut record, 5, |clients| match clients {
        1 => Cell { throughput: 1500.0, system: 0.75, idle_uncharged: 1.25, ..Cell::default() },
        2 => two.clone(),
        _ => Cell {
            throughput: 1000.0,
            system: 0.9,
            idle_lock: 1.1,
            blocked: 7.1,
            on_cpu: vec![(0, 0.5), (4, 0.4)],
            ..two.clone()
        },
    });
    let findings = analyse(&record);
    // Of 0.75 ms that an operation costs more, 0.40 spins and 0.35 idles for the lock.
    assert_eq!(findings.causes[0].name.to_string(), "mutex in sqlite3BtreeEnter");
    let first = &fall(&findings).steps[0];
    assert_eq!(named(&first.line), "spin", "{:#?}", fall(&findings).steps);
    assert!((first.share.unwrap().value.0 - 0.40 / 0.75).abs() < 0.03, "{first:?}");
    let falls =
        |one: &Conclusion| matches!(one, Conclusion::Fall { line, .. } if named(line) == "spin");
    assert!(concludes(&findings, falls), "{:?}", findings.conclusions);
}

/// At the level that the causes are of both rankings of its limits are one.
#[test]
fn limits_of_the_story_s_level_are_its_causes() {
    let findings = analyse(&falling());
    let limits = level_of(&findings, findings.focus.clients).limits;
    assert_eq!(limits.len(), findings.causes.len(), "{limits:#?}");
    for (limit, cause) in limits.iter().zip(&findings.causes) {
        let named = named(&limit.line);
        assert!(named.is_empty() || named == cause.name.to_string(), "{limit:?}");
        assert_eq!(limit.share, cause.share);
    }
}

/// Four permits of 1 ms each: nothing waits for one at 4 clients, and four do at 8. The price of
/// an operation does not rise, for nothing falls; yet the level has its causes.
#[test]
fn every_level_has_its_own_limits() {
    let mut record = empty(&[1, 2, 4, 8], 4);
    sweep(&mut record, 5, |clients| {
        let served = f64::from(clients.min(4));
        let idle = 2.0 - 0.01 * served;
        let waiting = f64::from(clients) - served;
        Cell {
            throughput: 1000.0 * served,
            system: 0.01 * served,
            idle_lock: if clients > 4 { idle } else { 0.0 },
            idle_uncharged: if clients > 4 { 0.0 } else { idle },
            blocked: waiting,
            waits: 1000.0 * waiting,
            ..Cell::default()
        }
    });
    let findings = analyse(&record);
    assert_eq!(findings.curve.shape, Shape::Flat);
    assert!(findings.price.as_ref().unwrap().fall.is_none());
    assert!(level_of(&findings, 4).limits.is_empty(), "{:#?}", level_of(&findings, 4).limits);
    let limit = level_of(&findings, 8).limits[0].clone();
    assert!(matches!(limit.line, PriceLine::Wait { kind: CauseKind::Lock, .. }), "{limit:?}");
    assert_eq!(findings.focus.clients, 8);
}

#[test]
fn a_price_is_flat_where_the_cores_are_used_up() {
    let mut record = empty(&[1, 2, 8, 32], 2);
    sweep(&mut record, 5, scaling);
    let findings = analyse(&record);
    let price = findings.price.as_ref().unwrap();
    assert!(findings.at_bound.is_some() && price.fall.is_none());
    assert!((price.last_over_best.value.0 - 1.0).abs() < 0.02, "{:?}", price.last_over_best);
    assert!(price.levels.iter().all(|level| level.limits.is_empty()));
}

#[test]
fn without_facts_there_is_no_price() {
    let mut record = falling();
    record.trials.iter_mut().for_each(|trial| trial.facts.clear());
    assert_eq!(analyse(&record).price, None);
}
