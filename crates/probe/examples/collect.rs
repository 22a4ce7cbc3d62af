//! The collector alone, as a run uses it, for `cargo xtask bench-probe`: loaded once,
//! directed by lines on its input when to open and close them.
//!
//! `open PIDS GENERATORS MILLISECONDS` (numbers with commas between, or `-`) is answered by
//! `open`, `close` by what the window cost and missed, as words `name=value`, with commas after
//! each. Of so many milliseconds from `open` on the last are watched, as in a slice of a run:
//! all of them unless threads switch often. With the argument `whole` all of them are in any
//! case. With the argument `attached` the programs are attached and no window opens, so that
//! they return at once: what the kernel takes to call them.

use kneepoint_machine::windows::Windows as _;
use kneepoint_probe::proc::tasks;
use kneepoint_probe::{Observation, Probe, ProbeError, ProbeOptions, Switching, Target};
use kneepoint_vocab::{Fact, Tier};
use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

fn main() -> anyhow::Result<()> {
    let argument = std::env::args().nth(1);
    let attached_only = argument.as_deref() == Some("attached");
    let whole = argument.as_deref() == Some("whole");
    let options = ProbeOptions { tier: Some(Tier::Full), stacks: true, ..ProbeOptions::default() };
    let (mut probe, remarks) = Probe::attach(&options)?;
    let mut answers = std::io::stdout();
    writeln!(answers, "ready {remarks:?}")?;
    let mut watched = false;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["open", pids, generators, milliseconds] => {
                let target = Target {
                    pids: numbers(pids)?,
                    generators: numbers(generators)?,
                    ..Target::default()
                };
                let cell = Duration::from_millis(milliseconds.parse()?);
                if attached_only {
                    probe.reattach()?;
                }
                if whole {
                    probe.open(&target)?;
                }
                writeln!(answers, "open")?;
                watched = whole || !attached_only && watch(&mut probe, &target, cell)?;
            }
            ["close"] => {
                if whole {
                    probe.freeze()?;
                }
                if watched {
                    writeln!(answers, "{}", words(&probe.collect()?))?;
                } else {
                    probe.detach()?;
                    writeln!(answers, "window=0")?;
                }
            }
            _ => {
                anyhow::bail!("`{line}` is neither `open PIDS GENERATORS MILLISECONDS` nor `close`")
            }
        }
    }
    Ok(())
}

fn numbers(list: &str) -> anyhow::Result<Vec<u32>> {
    let given = list.split(',').filter(|word| *word != "-");
    Ok(given.map(str::parse).collect::<Result<_, _>>()?)
}

/// Watches so much of the time to come as a run would, by the switches at its beginning; whether
/// anybody was still there.
fn watch(probe: &mut Probe, target: &Target, cell: Duration) -> anyhow::Result<bool> {
    let begun = Instant::now();
    let switching = Switching::start();
    std::thread::sleep(switching.left().duration());
    let share = probe.share(switching.per_core(tasks::allowed_cpus().len())).0;
    let until = |part: f64| cell.mul_f64(part).saturating_sub(begun.elapsed());
    std::thread::sleep(until(1.0 - share));
    match probe.open(target) {
        Err(ProbeError::NoTarget(_)) => return Ok(false),
        opened => opened?,
    }
    std::thread::sleep(until(1.0));
    probe.freeze()?;
    Ok(true)
}

/// What the window cost and missed.
fn words(seen: &Observation) -> String {
    let mut words = vec![format!("window={}", seen.length.0)];
    let (mut switches, mut stacks) = (0, 0);
    for fact in &seen.facts {
        match fact {
            Fact::ThreadTime(time) => switches += time.switches,
            Fact::Stack(stack) => stacks += stack.count,
            Fact::Cost(cost) => {
                let (programs, reader) = (cost.programs.0, cost.reader.0);
                words.push(format!("programs={programs}, reader={reader}"));
                words.push(format!("runs={}", cost.program_runs));
            }
            Fact::Loss(loss) => {
                let of = loss.of.map_or_else(String::new, |of| format!("/{of}"));
                words.push(format!("{}={}{of}", loss.what.replace(' ', "-"), loss.count));
            }
            _ => {}
        }
    }
    words.push(format!("switches={switches}, stacks={stacks}"));
    words.join(", ")
}
