//! What watching costs, as throughput: loads run with nothing, with Kneepoint's collector, with
//! bpftrace's off-CPU script, with perf and with gdb, interleaved, as ratios of pairs with their
//! intervals.

mod loads;
mod observers;
mod undo;

use anyhow::{Context as _, Result, bail};
use kneepoint_stats::interval::mean_interval;
use loads::Load;
use observers::Observer;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use undo::Undo;

const FLAGS: &str = "--loads, --observers, --collector, --pairs, --seconds";

/// The collector as a run uses it; over whole cells, however often threads switch; and attached
/// without a window.
const OURS: [&str; 3] = ["kneepoint", "whole", "attached"];

/// What was asked for.
struct Options {
    loads: Vec<String>,
    observers: Vec<String>,
    /// Builds of the collector to compare: name and program.
    collectors: Vec<(String, PathBuf)>,
    pairs: u32,
    cell: Duration,
}

/// One measured cell: operations a second, and what the observer has to say about its own cost.
struct Cell {
    rate: f64,
    remark: String,
}

/// Runs the loads asked for under the observers asked for; prints a table.
///
/// # Errors
/// The collector cannot be built, or a load fails.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let mut options = parse(flags)?;
    let ours = |name: &String| OURS.contains(&name.as_str());
    if options.collectors.is_empty() && options.observers.iter().any(ours) {
        options.collectors.push(("kneepoint".to_owned(), build()?));
    }
    let undo = Rc::new(Undo::new()?);
    let mut observers = observers(&options, &undo)?;
    for name in &options.loads {
        let mut load = match loads::start(name, options.cell, &undo) {
            Ok(load) => load,
            Err(error) => {
                println!("SKIP {name}: {error:#}");
                continue;
            }
        };
        let rounds = rounds(load.as_mut(), &mut observers, options.pairs)?;
        print_load(name, &observers, &rounds);
    }
    Ok(())
}

fn parse(flags: &[&str]) -> Result<Options> {
    let words = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
    let mut options = Options {
        loads: words("pipe,pipe-one-cpu,block,mariadb"),
        observers: words("kneepoint,bpftrace,perf,gdb"),
        collectors: Vec::new(),
        pairs: 8,
        cell: Duration::from_secs(2),
    };
    for pair in flags.chunks(2) {
        match pair {
            ["--loads", list] => options.loads = words(list),
            ["--observers", list] => options.observers = words(list),
            ["--collector", given] => {
                let (name, file) = given.split_once('=').unwrap_or(("kneepoint", given));
                options.collectors.push((name.to_owned(), std::path::absolute(file)?));
            }
            ["--pairs", count] => {
                options.pairs = count.parse().context("--pairs wants a number")?
            }
            ["--seconds", seconds] => {
                let seconds = seconds.parse().context("--seconds wants a number")?;
                options.cell = Duration::try_from_secs_f64(seconds)?;
            }
            _ => bail!("unknown flag {}: bench-probe takes {FLAGS}", pair.join(" ")),
        }
    }
    Ok(options)
}

/// The collector alone, from its release build.
fn build() -> Result<PathBuf> {
    let status = Command::new(crate::cargo())
        .args(["build", "--release", "--quiet", "-p", "kneepoint-probe", "--example", "collect"])
        .current_dir(crate::root())
        .stdin(Stdio::null())
        .status()?;
    if !status.success() {
        bail!("the collector was not built");
    }
    Ok(crate::built("release/examples/collect"))
}

/// Those asked for that work here; a line for each that does not.
fn observers(options: &Options, undo: &Rc<Undo>) -> Result<Vec<(String, Box<dyn Observer>)>> {
    let mut found: Vec<(String, Box<dyn Observer>)> = Vec::new();
    for name in &options.observers {
        if OURS.contains(&name.as_str()) {
            let words = if name == "kneepoint" { &[][..] } else { &[name.as_str()] };
            for (build, file) in &options.collectors {
                let collector = observers::Kneepoint::start(file, words, options.cell, undo)?;
                let name = if words.is_empty() { build } else { name };
                found.push((name.clone(), Box::new(collector)));
            }
            continue;
        }
        match observers::other(name, undo) {
            Ok(observer) => found.push((name.clone(), observer)),
            Err(error) => println!("SKIP {name}: {error:#}"),
        }
    }
    Ok(found)
}

/// Cells by round; in each the one with nothing first in the list. The order within a round turns,
/// so that a drift of the machine falls on all alike.
fn rounds(
    load: &mut dyn Load,
    observers: &mut [(String, Box<dyn Observer>)],
    pairs: u32,
) -> Result<Vec<Vec<Cell>>> {
    let cells = observers.len() + 1;
    let mut rounds = Vec::new();
    for round in 0..pairs as usize {
        let mut found: Vec<Option<Cell>> = (0..cells).map(|_| None).collect();
        for step in 0..cells {
            let forth = (step + round / 2) % cells;
            let which = if round % 2 == 0 { forth } else { cells - 1 - forth };
            found[which] = Some(match which.checked_sub(1) {
                Some(index) => load.cell(Some(observers[index].1.as_mut()))?,
                None => load.cell(None)?,
            });
        }
        rounds.push(found.into_iter().flatten().collect());
    }
    Ok(rounds)
}

fn print_load(name: &str, observers: &[(String, Box<dyn Observer>)], rounds: &[Vec<Cell>]) {
    let rates = |which: usize| rounds.iter().map(move |round| round[which].rate);
    let mut alone: Vec<f64> = rates(0).collect();
    alone.sort_by(f64::total_cmp);
    let middle = alone.get(alone.len() / 2).copied().unwrap_or(f64::NAN);
    println!("{name}: {middle:.0}/s with nothing, {} pairs", rounds.len());
    for (index, (observer, _)) in observers.iter().enumerate() {
        let ratios: Vec<f64> = rates(index + 1).zip(rates(0)).map(|(on, off)| on / off).collect();
        let remark = rounds.last().map_or("", |round| &round[index + 1].remark);
        println!("  {observer:<12} {}  {remark}", interval(&ratios));
    }
}

/// The geometric mean of the ratios with Student's interval of their logarithms.
fn interval(ratios: &[f64]) -> String {
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    match mean_interval(&logs, 0.95) {
        Ok(mean) => {
            let ratio = mean.map(f64::exp);
            format!("{:.3} [{:.3}-{:.3}]", ratio.value, ratio.low, ratio.high)
        }
        Err(_) => format!("{ratios:.3?} no interval"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn flags_choose_what_is_run() {
        let options =
            parse(&["--loads", "pipe,block", "--pairs", "6", "--collector", "old=/tmp/x"]).unwrap();
        assert_eq!((options.loads.len(), options.pairs), (2, 6));
        assert_eq!(options.collectors, [("old".to_owned(), PathBuf::from("/tmp/x"))]);
        assert!(parse(&["--fast"]).is_err());
    }

    #[test]
    fn the_interval_is_of_the_logarithms() {
        // Logarithms -0.04, -0.02 and 0: mean -0.02, half-width 4.303 x 0.02 / sqrt(3).
        let ratios = [(-0.04_f64).exp(), (-0.02_f64).exp(), 1.0];
        assert_eq!(interval(&ratios), "0.980 [0.933-1.030]");
    }

    struct Noted(Rc<RefCell<Vec<bool>>>);
    impl Load for Noted {
        fn cell(&mut self, observer: Option<&mut dyn Observer>) -> Result<Cell> {
            self.0.borrow_mut().push(observer.is_some());
            Ok(Cell { rate: 1.0, remark: String::new() })
        }
    }
    struct Nobody;
    impl Observer for Nobody {
        fn begin(&mut self, _: &[u32], _: &[u32]) -> Result<()> {
            Ok(())
        }
        fn end(&mut self) -> Result<String> {
            Ok(String::new())
        }
    }

    #[test]
    fn each_round_has_each_once_and_no_place_is_always_the_first() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut observers: Vec<(String, Box<dyn Observer>)> =
            vec![("nobody".to_owned(), Box::new(Nobody))];
        let found = rounds(&mut Noted(Rc::clone(&order)), &mut observers, 4).unwrap();
        assert!(found.iter().all(|round| round.len() == 2));
        let order = order.borrow();
        assert!(order.chunks(2).all(|pair| pair[0] != pair[1]), "{order:?}");
        assert_eq!(order.chunks(2).filter(|pair| pair[0]).count(), 2, "{order:?}");
    }
}
