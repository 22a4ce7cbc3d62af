//! What `kneepoint profile --pid` costs a server that is driven by hand, and whether it sees what a
//! run sees: windows with the collector, with the one that needs no privileges, and with nothing,
//! in turn while one generator runs.

use super::Level;
use super::generator::Hand;
use super::table::{agree, pooled, shown};
use anyhow::{Context, Result};
use kneepoint_rig::priority::raise_other;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Seconds until the generator has come to rest.
const FIRST: u32 = 5;
/// Seconds of a window.
const WINDOW: u32 = 10;
/// Seconds that it takes at most to attach.
const ATTACHED: f64 = 1.0;
/// Turns of the three in one run of the generator.
const TURNS: u32 = 3;
/// Reports of a second that reaches further than this into another window do not count.
const EDGE: f64 = 0.3;
/// Beside the windows: what it takes to attach and to report, each time.
const AROUND: u32 = 5;
/// Until a process that was started leads a session of its own.
const BEGINS: Duration = Duration::from_millis(30);

/// The least that may be left of the throughput, by tier.
const LEAST_FULL: f64 = 0.95;
const LEAST_FALLBACK: f64 = 0.98;

/// What watches in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watch {
    Nothing,
    Full,
    Fallback,
}

impl Watch {
    const ALL: [Self; 3] = [Self::Nothing, Self::Full, Self::Fallback];

    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Full => "full",
            Self::Fallback => "fallback",
        }
    }
}

/// What was seen at a level over all rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Profiled {
    /// Throughput while it watches over that with nothing, one figure a turn.
    ratios: BTreeMap<Watch, Vec<f64>>,
    /// The same from before it attaches until it has reported.
    whole: BTreeMap<Watch, Vec<f64>>,
    /// Cores that the server keeps busy, by a watch.
    cores: BTreeMap<Watch, Vec<f64>>,
}

/// From when to when a watch was there, in seconds since the generator began.
#[derive(Clone, Copy, Debug)]
struct Window {
    watch: Watch,
    from: f64,
    to: f64,
}

impl Window {
    /// Where it watches: it has attached, and does not report yet.
    fn watching(self) -> Self {
        let to = self.to.min(self.from + f64::from(WINDOW));
        Self { from: self.from + ATTACHED, to, ..self }
    }

    /// The mean rate of the seconds that lie within it.
    fn rate(&self, seconds: &[(f64, f64)]) -> Option<f64> {
        let within = |at: f64| at - 1.0 >= self.from - EDGE && at <= self.to + EDGE;
        let rates: Vec<f64> =
            seconds.iter().filter(|(at, _)| within(*at)).map(|(_, rate)| *rate).collect();
        #[allow(clippy::cast_precision_loss, reason = "a few seconds")]
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        (mean > 0.0).then_some(mean)
    }
}

impl Profiled {
    /// One run of the generator with all watches in turn; what it saw is added.
    pub(super) fn take(
        &mut self,
        hand: &Hand,
        program: &Path,
        server: u32,
        clients: u32,
    ) -> Result<()> {
        let seconds = FIRST + TURNS * 3 * (WINDOW + AROUND);
        let (seconds, windows) = hand.meanwhile(clients, seconds, |begun| {
            sleep(Duration::from_secs(u64::from(FIRST)));
            let mut windows = Vec::new();
            for turn in 0..TURNS {
                let mut order = Watch::ALL;
                order.rotate_left(turn as usize);
                for watch in order {
                    let from = begun.elapsed().as_secs_f64();
                    let busy = watched(program, server, watch)?;
                    let to = begun.elapsed().as_secs_f64();
                    windows.push((Window { watch, from, to }, busy));
                }
            }
            Ok(windows)
        })?;
        // What comes after the generator has ended saw a server without work.
        let ended = seconds.last().map_or(0.0, |(at, _)| *at);
        let within: Vec<_> = windows.into_iter().filter(|(it, _)| it.to <= ended).collect();
        for (window, busy) in &within {
            self.cores.entry(window.watch).or_default().extend(*busy);
        }
        let windows: Vec<Window> = within.into_iter().map(|(window, _)| window).collect();
        for turn in windows.chunks(Watch::ALL.len()) {
            let of = |watch| turn.iter().copied().find(|it| it.watch == watch);
            let Some(alone) = of(Watch::Nothing).and_then(|it| it.rate(&seconds)) else {
                continue;
            };
            for watch in [Watch::Full, Watch::Fallback] {
                let ratio = |it: Window| it.rate(&seconds).map(|with| with / alone);
                let watching = of(watch).and_then(|it| ratio(it.watching()));
                self.ratios.entry(watch).or_default().extend(watching);
                self.whole.entry(watch).or_default().extend(of(watch).and_then(ratio));
            }
        }
        Ok(())
    }
}

/// Watches a window; the busy cores that were seen.
fn watched(program: &Path, server: u32, watch: Watch) -> Result<Option<f64>> {
    if watch == Watch::Nothing {
        sleep(Duration::from_secs(u64::from(WINDOW)));
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    // The server has been raised above all else; what is started from a terminal beside one that
    // has not gets its share as this does.
    let child = Command::new("setsid")
        .arg(program)
        .args(["profile", "--json", "--pid", &server.to_string()])
        .args(["--seconds", &WINDOW.to_string(), "--tier", watch.words()])
        .arg("--out")
        .arg(folder.path().join("profile"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("setsid")?;
    sleep(BEGINS);
    raise_other(child.id());
    let output = child.wait_with_output()?;
    let found: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("profile: {}: {}", output.status, said.trim())
    })?;
    Ok(found["busy"]["value"].as_f64())
}

/// The table as text, and whether the cores agree and no watch surely costs more than it may.
pub(super) fn table(name: &str, levels: &BTreeMap<u32, Level>) -> (String, bool) {
    let mut text = format!(
        "{name}, profile --pid: throughput with/without, cores\n\
         {:>7}  {:<9} {:<20} {:<20} {:<18} {:<18} good\n",
        "clients", "tier", "while it watches", "attach to report", "busy", "by a run"
    );
    let mut all = true;
    for (clients, level) in levels {
        for (watch, least) in [(Watch::Full, LEAST_FULL), (Watch::Fallback, LEAST_FALLBACK)] {
            let of = |all: &BTreeMap<Watch, Vec<f64>>| {
                pooled(all.get(&watch).map_or(&[], Vec::as_slice))
            };
            let (ratio, cores) = (of(&level.profiled.ratios), of(&level.profiled.cores));
            let whole = of(&level.profiled.whole);
            let run = pooled(&level.cores);
            let dear = ratio.2 < least;
            let good = !dear && agree(cores, run);
            all &= good;
            let _ = writeln!(
                text,
                "{clients:>7}  {:<9} {:<20} {:<20} {:<18} {:<18} {}",
                watch.words(),
                shown(ratio, 3),
                shown(whole, 3),
                shown(cores, 2),
                shown(run, 2),
                if good { "yes" } else { "no" }
            );
        }
    }
    (text, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_count_for_the_window_that_they_lie_in() {
        let seconds: Vec<(f64, f64)> =
            [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0), (4.0, 40.0)].into_iter().collect();
        let window = |from, to| Window { watch: Watch::Full, from, to };
        assert_eq!(window(1.0, 3.0).rate(&seconds), Some(25.0));
        assert_eq!(window(1.2, 3.2).rate(&seconds), Some(25.0), "nearly");
        assert_eq!(window(3.5, 4.0).rate(&seconds), None);
    }

    #[test]
    fn it_watches_after_it_has_attached_and_until_it_reports() {
        let window = |to| Window { watch: Watch::Full, from: 3.0, to }.watching();
        let edges = |to| format!("{} {}", window(to).from, window(to).to);
        assert_eq!(edges(14.0), "4 13");
        assert_eq!(edges(9.0), "4 9", "it ended early");
    }

    #[test]
    fn the_table_has_a_line_for_each_tier() {
        let figures = |value| vec![value, value * 1.01];
        let mut level = Level { cores: figures(1.52), ..Level::default() };
        for watch in [Watch::Full, Watch::Fallback] {
            level.profiled.ratios.insert(watch, figures(0.97));
            level.profiled.whole.insert(watch, figures(0.95));
            level.profiled.cores.insert(watch, figures(1.5));
        }
        let of = |level: &Level| table("x", &BTreeMap::from([(8, level.clone())]));
        let (text, good) = of(&level);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("0.975 [") && text.contains("1.51 ["), "{text}");
        assert!(good, "{text}");
        level.profiled.ratios.insert(Watch::Fallback, vec![0.851, 0.85, 0.849]);
        assert!(!of(&level).1, "it surely costs too much");
        level.profiled.ratios.insert(Watch::Fallback, figures(0.97));
        level.cores = vec![1.91, 1.9, 1.89];
        level.profiled.cores.insert(Watch::Full, vec![1.501, 1.5, 1.499]);
        assert!(!of(&level).1, "a run saw other cores busy");
    }
}
