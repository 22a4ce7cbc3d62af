//! What `kneepoint profile --pid` costs a server that is driven by hand, and whether it sees what a
//! run sees: while one generator runs, windows with the collector and with the one that needs no
//! privileges alternate, and each stands between two with nothing. A server's rate drifts by more
//! than what is asked for, so a window is held against the mean of its two neighbours.

use super::Level;
use super::generator::{Hand, Second};
use super::table::{agree, pooled, shown};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Seconds until the generator has come to rest.
const FIRST: u32 = 5;
/// Seconds of a window in which something watches: what `profile` takes by itself.
const WATCHED: u32 = 10;
/// Seconds of one in which nothing does. A server's rate drifts within seconds, so that many short
/// ones beside the others tell more than a few long ones in the same time.
const ALONE: u32 = 4;
/// Seconds that it takes at most to attach.
const ATTACHED: f64 = 1.0;
/// Seconds of a run of the generator.
const RUN: u32 = 200;
/// Reports of a second that reaches further than this into another window do not count.
const EDGE: f64 = 0.3;
/// Beside a window: what it takes at most to attach and to report.
const AROUND: u32 = 5;
/// A window that the hypervisor took more than this share of the seconds from does not count.
const MOST_STOLEN: f64 = 0.5;

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
    /// In this order, so that neither is always the later one.
    const TURN: [Self; 4] = [Self::Full, Self::Fallback, Self::Fallback, Self::Full];

    /// The tier of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Full, Self::Fallback].into_iter().find(|watch| watch.words() == name)
    }

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
    /// Throughput while it watches over that with nothing on both sides, one figure a window.
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
        let to = self.to.min(self.from + f64::from(WATCHED));
        Self { from: self.from + ATTACHED, to, ..self }
    }

    /// The mean rate of the seconds that lie within it, where enough of them were left alone.
    fn rate(self, seconds: &[Second]) -> Option<f64> {
        let within = |it: &&Second| it.at - 1.0 >= self.from - EDGE && it.at <= self.to + EDGE;
        let (alone, stolen): (Vec<&Second>, _) =
            seconds.iter().filter(within).partition(|it| it.left_alone);
        let stolen: Vec<&Second> = stolen;
        #[allow(clippy::cast_precision_loss, reason = "a few seconds")]
        let (counted, lost) = (alone.len() as f64, stolen.len() as f64);
        let enough = counted > 0.0 && lost <= MOST_STOLEN * (counted + lost);
        let mean = alone.iter().map(|it| it.rate).sum::<f64>() / counted;
        (enough && mean > 0.0).then_some(mean)
    }
}

impl Profiled {
    /// One run of the generator with all watches in turn; what it saw is added.
    pub(super) fn take(
        &mut self,
        hand: &Hand,
        program: &Path,
        server: u32,
        (clients, tiers): (u32, &[Watch]),
    ) -> Result<()> {
        let (seconds, windows) = hand.meanwhile(clients, RUN, |begun| {
            sleep(Duration::from_secs(u64::from(FIRST)));
            alternating(program, server, tiers, begun)
        })?;
        // What comes after the generator has ended saw a server without work.
        let ended = seconds.last().map_or(0.0, |it| it.at);
        let within: Vec<_> = windows.into_iter().filter(|(it, _)| it.to <= ended).collect();
        // A run repeats what the hypervisor disturbed; the light tier's clock stands still then.
        for (window, busy) in within.iter().filter(|(it, _)| it.rate(&seconds).is_some()) {
            self.cores.entry(window.watch).or_default().extend(*busy);
        }
        let windows: Vec<Window> = within.into_iter().map(|(window, _)| window).collect();
        self.compare(&windows, &seconds);
        Ok(())
    }

    /// Holds each window in which something watched against its neighbours.
    fn compare(&mut self, windows: &[Window], seconds: &[Second]) {
        for three in windows.windows(3) {
            let [before, with, after] = three else { continue };
            let sides = [before, after].map(|it| it.rate(seconds));
            let ([Some(before), Some(after)], false) = (sides, with.watch == Watch::Nothing) else {
                continue;
            };
            let alone = (before * after).sqrt();
            let ratio = |it: Window| it.rate(seconds).map(|rate| rate / alone);
            self.ratios.entry(with.watch).or_default().extend(ratio(with.watching()));
            self.whole.entry(with.watch).or_default().extend(ratio(*with));
        }
    }
}

/// Windows with nothing and with something in turn until the generator is about to end; the busy
/// cores that were seen in each.
fn alternating(
    program: &Path,
    server: u32,
    tiers: &[Watch],
    begun: Instant,
) -> Result<Vec<(Window, Option<f64>)>> {
    let mut windows = Vec::new();
    let mut take = |watch| -> Result<()> {
        let from = begun.elapsed().as_secs_f64();
        let busy = watched(program, server, watch)?;
        windows.push((Window { watch, from, to: begun.elapsed().as_secs_f64() }, busy));
        Ok(())
    };
    take(Watch::Nothing)?;
    let last = Duration::from_secs(u64::from(RUN - WATCHED - ALONE - AROUND));
    for watch in Watch::TURN.into_iter().filter(|it| tiers.contains(it)).cycle() {
        if begun.elapsed() > last {
            break;
        }
        take(watch)?;
        take(Watch::Nothing)?;
    }
    Ok(windows)
}

/// Watches a window; the busy cores that were seen.
fn watched(program: &Path, server: u32, watch: Watch) -> Result<Option<f64>> {
    if watch == Watch::Nothing {
        sleep(Duration::from_secs(u64::from(ALONE)));
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    // A session of its own: server and generator have everybody's priority, and so has this.
    let child = Command::new("setsid")
        .arg(program)
        .args(["profile", "--json", "--pid", &server.to_string()])
        .args(["--seconds", &WATCHED.to_string(), "--tier", watch.words()])
        .arg("--out")
        .arg(folder.path().join("profile"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("setsid")?;
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
            if !level.profiled.cores.contains_key(&watch) {
                continue;
            }
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

    fn second(at: f64, rate: f64) -> Second {
        Second { at, rate, left_alone: true }
    }

    #[test]
    fn seconds_count_for_the_window_that_they_lie_in() {
        let mut seconds: Vec<Second> = [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0), (4.0, 40.0)]
            .map(|it| second(it.0, it.1))
            .into();
        let window = |from, to| Window { watch: Watch::Full, from, to };
        assert_eq!(window(1.0, 3.0).rate(&seconds), Some(25.0));
        assert_eq!(window(1.2, 3.2).rate(&seconds), Some(25.0), "nearly");
        assert_eq!(window(3.5, 4.0).rate(&seconds), None);
        seconds[1].left_alone = false;
        assert_eq!(window(1.0, 3.0).rate(&seconds), Some(30.0), "what was stolen does not count");
        assert_eq!(window(1.0, 2.0).rate(&seconds), None, "all of it was");
    }

    #[test]
    fn a_window_is_held_against_both_neighbours() {
        let watches =
            [Watch::Nothing, Watch::Full, Watch::Nothing, Watch::Fallback, Watch::Nothing];
        let windows: Vec<Window> = (0..5_u32)
            .zip(watches)
            .map(|(at, watch)| (f64::from(at) * 10.0, watch))
            .map(|(from, watch)| Window { watch, from, to: from + 10.0 })
            .collect();
        // The server's rate doubles with each window; what watches takes a tenth.
        let rate = |second: u32| {
            let place = (second - 1) / 10;
            let left = if place % 2 == 1 { 0.9 } else { 1.0 };
            100.0 * left * f64::from(1 << place)
        };
        let mut seconds: Vec<Second> = (1..=50).map(|at| second(f64::from(at), rate(at))).collect();
        let mut seen = Profiled::default();
        seen.compare(&windows, &seconds);
        for watch in [Watch::Full, Watch::Fallback] {
            let [ratio] = seen.ratios[&watch][..] else { panic!("one window each") };
            assert!((ratio - 0.9).abs() < 1e-9, "{ratio}");
            assert_eq!(seen.whole[&watch].len(), 1);
        }
        seconds.truncate(40);
        let mut seen = Profiled::default();
        seen.compare(&windows, &seconds);
        assert!(!seen.ratios.contains_key(&Watch::Fallback), "it has one neighbour only");
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
