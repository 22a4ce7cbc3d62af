//! `overload`: stress-ng's classes of load, all at once, to see what breaks.
//!
//! A level is the number of workers of each class. What breaks is a finding, not an error: it is
//! reported by [`System::stability`]. Workers are small and write only below the scratch directory,
//! so that the machine survives.

mod kernel_log;

use super::command::by_rate;
use super::settings;
use super::{
    Configured, Configuring, Description, Drive, Need, Setup, SliceOutput, System, Texts, Workload,
};
use crate::ending::HUNG_AFTER;
use crate::environment::Variables;
use crate::process::{Process, Program, reported};
use crate::search_path::SearchPath;
use crate::shown;
use crate::undo::Undo;
use anyhow::{Context as _, anyhow, ensure};
use kernel_log::{KERNEL, KernelLog};
use kneepoint_vocab::{Failure, Nanos, Stability};
use serde::{Deserialize, Deserializer};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The workload's name.
pub const NAME: &str = "overload";
/// How long a class may take beyond its time until it counts as hung.
const TIMEOUT: Duration = HUNG_AFTER;
/// How long one is there that shows its environment.
const SHOWING: Nanos = Nanos::from_millis(1000);
/// Every class, and what keeps its workers small.
const CLASSES: [(&str, &[&str]); 8] = [
    ("cpu", &[]),
    ("vm", &["--vm-bytes", "4M"]),
    ("mmap", &["--mmap-bytes", "4M"]),
    ("hdd", &["--hdd-bytes", "2M"]),
    ("switch", &[]),
    ("futex", &[]),
    ("sock", &[]),
    ("fork", &["--fork-max", "2"]),
];
/// Classes where none are named.
const DEFAULT: [&str; 6] = ["cpu", "vm", "hdd", "switch", "sock", "fork"];

/// The workload `overload`.
#[derive(Clone, Copy, Debug)]
pub struct Overload;

type Class = (&'static str, &'static [&'static str]);

/// What the load is made of.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    #[serde(deserialize_with = "classes")]
    classes: Vec<Class>,
    /// What is set in stress-ng's environment.
    environment: Variables,
}

impl Default for Settings {
    fn default() -> Self {
        let default = |(name, _): &Class| DEFAULT.contains(name);
        let classes = CLASSES.into_iter().filter(default).collect();
        Self { classes, environment: Variables::default() }
    }
}

fn classes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Class>, D::Error> {
    settings::written(from, |text| {
        let mut chosen: Vec<Class> = Vec::new();
        for word in text.split_whitespace() {
            match CLASSES.into_iter().find(|(name, _)| *name == word) {
                Some(class) if chosen.contains(&class) => {
                    return Err(format!("lists {word} twice"));
                }
                Some(class) => chosen.push(class),
                None => {
                    let known = CLASSES.map(|(name, _)| name).join(", ");
                    return Err(format!(
                        "lists {word:?}, and no class is called so; there are: {known}"
                    ));
                }
            }
        }
        if chosen.is_empty() { Err("must name at least one".to_owned()) } else { Ok(chosen) }
    })
}

impl Workload for Overload {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "stress-ng's classes of load at once, watched for what breaks"
    }

    fn configure(&self, settings: &Texts) -> Configuring {
        Ok(Arc::new(settings::read::<Settings>(NAME, settings)?))
    }
}

impl Configured for Settings {
    fn needs(&self, path: &SearchPath) -> Vec<Need> {
        let mut needs = vec![Need::program("stress-ng", "stress-ng", path)];
        needs.extend(self.environment.needs(path.find("stress-ng").as_deref()));
        needs
    }

    fn fresh_each_slice(&self) -> bool {
        true
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let Self { classes, environment } = self.clone();
        let name = format!("{}-{}-overload", setup.variant, setup.start).replace(['/', '\0'], "-");
        let directory = setup.scratch.join(name);
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let undo = setup.undo.clone();
        Ok(Box::new(Stressed {
            loads: Vec::new(),
            classes,
            environment,
            directory,
            undo,
            log: None,
            seen: None,
        }))
    }
}

/// One start of a variant.
struct Stressed {
    loads: Vec<Load>,
    classes: Vec<Class>,
    environment: Variables,
    directory: PathBuf,
    undo: Undo,
    log: Option<KernelLog>,
    seen: Option<Stability>,
}

/// The workers of one class in one slice.
struct Load {
    class: &'static str,
    process: Process,
    metrics: PathBuf,
    /// When it was seen to have failed.
    failed: Option<Duration>,
}

impl Load {
    /// Whether it still runs.
    fn runs(&mut self) -> bool {
        match self.process.ended() {
            None => return true,
            Some(status) if status.success() => {}
            Some(_) => {
                self.failed.get_or_insert(self.process.begun().elapsed());
            }
        }
        false
    }

    /// Operations per second, or what broke.
    fn judge(&mut self) -> Result<f64, Failure> {
        let failure = |after: Duration, text: String| Failure {
            class: self.class.to_owned(),
            after: Nanos(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)),
            text,
        };
        let Some(status) = self.process.ended() else {
            let after = self.process.begun().elapsed();
            return Err(failure(after, format!("hung: it did not end within {TIMEOUT:?}")));
        };
        if !status.success() {
            let after = self.failed.unwrap_or_else(|| self.process.begun().elapsed());
            return Err(failure(after, format!("{}{}", reported(status), self.process.tail())));
        }
        let metrics = fs::read_to_string(&self.metrics).unwrap_or_default();
        Ok(rate(&metrics).unwrap_or(0.0))
    }
}

/// Operations per second by stress-ng's own count and clock.
fn rate(metrics: &str) -> Option<f64> {
    let prefix = "bogo-ops-per-second-real-time:";
    let line = metrics.lines().find_map(|line| line.trim().strip_prefix(prefix))?;
    line.trim().parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0)
}

impl Stressed {
    fn load(&self, (class, bounds): Class, drive: &Drive) -> anyhow::Result<Load> {
        let directory = self.directory.display().to_string();
        let metrics = self.directory.join(format!("{class}.yaml"));
        let _ = fs::remove_file(&metrics);
        let seconds = Duration::from_nanos(drive.lasts.0).as_secs() + 1;
        let mut arguments = vec![
            format!("--{class}"),
            drive.clients.to_string(),
            "--timeout".to_owned(),
            format!("{seconds}s"),
            "--verify".to_owned(),
            "--metrics-brief".to_owned(),
            "--temp-path".to_owned(),
            directory,
            "--yaml".to_owned(),
            metrics.display().to_string(),
        ];
        arguments.extend(bounds.iter().map(|bound| (*bound).to_owned()));
        let mut program = Program::new(class, "stress-ng", arguments, &self.directory);
        program.environment = self.environment.for_program();
        program.cpus.clone_from(&drive.cpus.system);
        // It would be Kneepoint that starves the kernel's threads, not the load.
        program.raised = false;
        let process = program.spawn(&self.undo)?;
        Ok(Load { class, process, metrics, failed: None })
    }
}

impl System for Stressed {
    fn pids(&self) -> Vec<u32> {
        self.loads.iter().map(|load| load.process.pid()).collect()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        let names: Vec<_> = self.classes.iter().map(|(name, _)| *name).collect();
        let mut reported = vec![("classes".to_owned(), names.join(" "))];
        reported.extend(self.environment.reported());
        let mut proofs = Vec::new();
        if let (Some(class), Some(_)) = (self.classes.first(), self.environment.reported()) {
            let mut load = self.load(*class, &Drive::new(1, SHOWING))?;
            let launcher = self.undo.server();
            proofs =
                shown::once_begun("stress-ng", &mut load.process, &launcher, &self.environment);
        }
        Ok((proofs, reported))
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        ensure!(self.loads.is_empty(), "{NAME}: the load is already running");
        ensure!(drive.clients > 0, "{NAME}: there must be at least one worker");
        self.seen = None;
        self.log = KernelLog::from_now();
        let loads: anyhow::Result<Vec<Load>> =
            self.classes.iter().map(|class| self.load(*class, drive)).collect();
        self.loads = loads?;
        Ok(Vec::new())
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        // All are looked at, so that each failure has its own time.
        let running = self.loads.iter_mut().map(Load::runs).filter(|runs| *runs).count();
        Ok(running > 0)
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        ensure!(!self.loads.is_empty(), "{NAME}: no load is running");
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        ensure!(!self.loads.is_empty(), "{NAME}: no load is running");
        let begun = self.loads.first().map_or_else(Instant::now, |load| load.process.begun());
        let deadline = Instant::now() + TIMEOUT;
        while self.working()? && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let wall = begun.elapsed();
        let mut stability = Stability::default();
        let mut total = 0.0;
        for mut load in std::mem::take(&mut self.loads) {
            stability.classes.push(load.class.to_owned());
            match load.judge() {
                Ok(rate) => total += rate,
                Err(failure) => stability.failures.push(failure),
            }
        }
        if let Some(mut log) = self.log.take() {
            stability.kernel_log = true;
            stability.classes.push(KERNEL.to_owned());
            stability.failures.extend(log.complaints());
        }
        let reasons: Vec<_> = stability.failures.iter().map(|f| f.text.clone()).collect();
        let counted = by_rate(total, wall);
        let (operations, counted_over) = counted
            .map_err(|_| anyhow!("{NAME}: no class did anything: {}", reasons.join("; ")))?;
        self.seen = Some(stability);
        Ok(SliceOutput {
            operations,
            counted_over,
            per_client: Vec::new(),
            latency: None,
            counts: None,
        })
    }

    fn stability(&mut self) -> Option<Stability> {
        self.seen.take()
    }

    fn stop(mut self: Box<Self>) -> anyhow::Result<()> {
        self.loads.clear();
        Ok(())
    }
}

impl Drop for Stressed {
    fn drop(&mut self) {
        self.loads.clear();
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!("{}: {error}", self.directory.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn its_metrics_are_read_and_nonsense_is_not() {
        let text = "metrics:\n    - stressor: cpu\n      bogo-ops: 118\n      \
                    bogo-ops-per-second-real-time: 109.985841\n";
        assert_eq!(rate(text), Some(109.985_841));
        assert_eq!(rate(""), None);
        assert_eq!(rate("bogo-ops-per-second-real-time: inf"), None);
    }

    #[test]
    fn classes_are_checked() {
        let of = |text: &str| BTreeMap::from([("classes".to_owned(), text.to_owned())]);
        let classes = |texts: &BTreeMap<String, String>| {
            settings::read::<Settings>(NAME, texts).map(|own| own.classes)
        };
        assert_eq!(classes(&BTreeMap::new()).unwrap().len(), 6);
        assert_eq!(classes(&of("cpu vm")).unwrap().len(), 2);
        for (text, reported) in [("", "at least one"), ("cpu cpu", "twice"), ("gpu", "no class is")]
        {
            assert!(classes(&of(text)).unwrap_err().problem.contains(reported), "{text}");
        }
    }
}
