//! The collector alone, as a run uses it, for `cargo xtask bench-probe`: attached once, taken off
//! between windows, directed by lines on its input when to open and close them.
//!
//! `open PIDS GENERATORS` (numbers with commas between, or `-`) is answered by `open`, `close` by
//! what the window cost and missed, as words `name=value`, with commas after each. With the
//! argument `attached` the programs are attached and no window opens, so that they return at once:
//! what the kernel takes to call them.

use kneepoint_probe::{Observation, Probe, ProbeOptions, Target};
use kneepoint_vocab::{Fact, Tier};
use std::io::{BufRead as _, Write as _};

fn main() -> anyhow::Result<()> {
    let attached_only = std::env::args().nth(1).is_some_and(|word| word == "attached");
    let options = ProbeOptions { tier: Some(Tier::Full), stacks: true, cores: 0 };
    let (mut probe, remarks) = Probe::attach(&options)?;
    probe.detach()?;
    let mut answers = std::io::stdout();
    writeln!(answers, "ready {remarks:?}")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["open", pids, generators] => {
                let target = Target {
                    pids: numbers(pids)?,
                    generators: numbers(generators)?,
                    ..Target::default()
                };
                probe.reattach()?;
                if !attached_only {
                    probe.open(&target)?;
                }
                writeln!(answers, "open")?;
            }
            ["close"] if attached_only => {
                probe.detach()?;
                writeln!(answers, "window=0")?;
            }
            ["close"] => {
                probe.freeze()?;
                probe.detach()?;
                writeln!(answers, "{}", words(&probe.collect()?))?;
            }
            _ => anyhow::bail!("`{line}` is neither `open PIDS GENERATORS` nor `close`"),
        }
    }
    Ok(())
}

fn numbers(list: &str) -> anyhow::Result<Vec<u32>> {
    let given = list.split(',').filter(|word| *word != "-");
    Ok(given.map(str::parse).collect::<Result<_, _>>()?)
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
