//! The settings of a command, read and checked as a whole.

use super::NAME;
use super::beginning::Beginning;
use super::counting::{Counter, Counting};
use super::figure::Pattern;
use super::line::Line;
use crate::environment::Variables;
use crate::workload::SettingError;
use crate::workload::settings::{Reader, written};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long a server may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a command may take beyond its window, and a hook altogether.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Where the count is in what its program prints, unless that is said.
const ANY_NUMBER: &str = "([0-9]+)";

/// Checked settings.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) run: Line,
    pub(super) setup: Option<Line>,
    pub(super) prepare: Option<Line>,
    pub(super) start: Option<Line>,
    pub(super) ready: Option<Line>,
    pub(super) conclude: Option<Line>,
    pub(super) ready_within: Duration,
    pub(super) timeout: Duration,
    pub(super) until_stopped: bool,
    pub(super) directory: Option<PathBuf>,
    pub(super) environment: Variables,
    pub(super) counting: Counting,
    /// What its runs have shown, of all its starts.
    pub(super) beginning: Beginning,
}

impl Settings {
    /// All its commands.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Line> {
        let hooks = [&self.setup, &self.prepare, &self.start, &self.ready, &self.conclude];
        let hooks = hooks.into_iter().flatten();
        std::iter::once(&self.run).chain(hooks).chain(self.counter().map(|counter| &counter.line))
    }

    /// Where the recipe wants programs to be looked for, in the form of `PATH`, if it says so.
    pub(super) fn path(&self) -> Option<&str> {
        self.environment.get("PATH")
    }

    /// What counts beside the command, if that is how operations are counted.
    pub(super) fn counter(&self) -> Option<&Counter> {
        match &self.counting {
            Counting::Counter(counter) => Some(counter),
            _ => None,
        }
    }

    /// Reads them.
    ///
    /// # Errors
    /// The first that makes no sense.
    pub(super) fn parse(raw: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let mut reader = Reader::new(NAME, raw);
        reader.unknown = "no setting is named".to_owned();
        let texts: Texts = reader.part()?;
        reader.finish()?;
        let Some(run) = texts.line("run", texts.run.as_ref())? else {
            return refuse("run", "run = \"...\" must name the command to measure".to_owned());
        };
        let settings = Self {
            run,
            setup: texts.hook("setup", &texts.setup, &["{seconds}", "{directory}", "{port}"])?,
            prepare: texts.hook("prepare", &texts.prepare, &["{seconds}"])?,
            start: texts.hook("start", &texts.start, &["{seconds}"])?,
            ready: texts.hook("ready", &texts.ready, &["{seconds}"])?,
            conclude: texts.hook("conclude", &texts.conclude, &["{seconds}"])?,
            counting: texts.counting()?,
            beginning: Beginning::default(),
            ready_within: texts.ready_within_s.unwrap_or(READY_WITHIN),
            timeout: texts.patience_s.unwrap_or(TIMEOUT),
            until_stopped: texts.until == Until::Stopped || texts.counter.is_some(),
            directory: texts.directory,
            environment: texts.environment,
        };
        settings.fits()?;
        Ok(settings)
    }

    /// Whether the settings fit each other.
    fn fits(&self) -> Result<(), SettingError> {
        if self.ready.is_some() && self.start.is_none() {
            return refuse("ready", "ready asks the server that `start` starts: add it".to_owned());
        }
        if self.until_stopped && self.counting.needs_the_end() {
            let problem = "work needs runs that end by themselves: leave out `until`".to_owned();
            return refuse("until", problem);
        }
        if let Some(directory) = self.directory.as_ref().filter(|path| !path.is_dir()) {
            let problem = format!("directory {} is not there", directory.display());
            return refuse("directory", problem);
        }
        Ok(())
    }
}

/// When a run of the command is over.
#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Until {
    /// Once it has ended by itself.
    #[default]
    Ended,
    /// When it is told to.
    Stopped,
}

/// The settings as they are written, each in itself well-formed.
#[derive(Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Texts {
    run: Option<String>,
    #[serde(deserialize_with = "yes_or_no")]
    shell: bool,
    setup: Option<String>,
    prepare: Option<String>,
    start: Option<String>,
    ready: Option<String>,
    #[serde(deserialize_with = "seconds")]
    ready_within_s: Option<Duration>,
    conclude: Option<String>,
    directory: Option<PathBuf>,
    environment: Variables,
    throughput: Option<Pattern>,
    operations: Option<Pattern>,
    elapsed: Option<Pattern>,
    #[serde(deserialize_with = "pointer")]
    json: Option<String>,
    #[serde(deserialize_with = "work")]
    work: Option<f64>,
    counter: Option<String>,
    counter_pattern: Option<Pattern>,
    until: Until,
    #[serde(deserialize_with = "seconds")]
    patience_s: Option<Duration>,
}

impl Texts {
    fn line(&self, key: &str, text: Option<&String>) -> Result<Option<Line>, SettingError> {
        let Some(text) = text else { return Ok(None) };
        Line::parse(text, self.shell).map(Some).or_else(|why| refuse(key, format!("{key} {why}")))
    }

    /// A command that runs outside slices: without those placeholders that mean nothing there.
    fn hook(
        &self,
        key: &str,
        text: &Option<String>,
        meaningless: &[&str],
    ) -> Result<Option<Line>, SettingError> {
        let line = self.line(key, text.as_ref())?;
        let odd = line.as_ref().and_then(|line| meaningless.iter().find(|name| line.has(name)));
        match odd {
            Some(name) => refuse(key, format!("{key} has no {name}: there is none yet")),
            None => Ok(line),
        }
    }

    /// The one way of counting: they exclude each other.
    fn counting(&self) -> Result<Counting, SettingError> {
        let ways = [
            ("throughput", self.throughput.is_some()),
            ("operations", self.operations.is_some()),
            ("json", self.json.is_some()),
            ("work", self.work.is_some()),
            ("counter", self.counter.is_some()),
        ];
        let mut given = ways.into_iter().filter(|(_, given)| *given).map(|(name, _)| name);
        if let (Some(first), Some(second)) = (given.next(), given.next()) {
            return refuse(second, format!("{first} and {second} exclude each other: keep one"));
        }
        if self.elapsed.is_some() && self.operations.is_none() {
            return refuse("elapsed", "elapsed goes with `operations` only".to_owned());
        }
        if self.counter_pattern.is_some() && self.counter.is_none() {
            let problem = "counter_pattern finds the number that `counter` prints: add it";
            return refuse("counter_pattern", problem.to_owned());
        }
        if let Some(line) = self.hook("counter", &self.counter, &["{seconds}"])? {
            let any = || Pattern::parse(ANY_NUMBER);
            let pattern = self.counter_pattern.clone().map_or_else(any, Ok);
            let pattern = pattern.or_else(|why| refuse("counter_pattern", why))?;
            return Ok(Counting::Counter(Counter { line, pattern }));
        }
        let Self { operations, elapsed, throughput, json, work, .. } = self.clone();
        Ok(match (operations, throughput, json, work) {
            (Some(count), ..) => Counting::Operations { count, elapsed },
            (_, Some(pattern), ..) => Counting::Throughput(pattern),
            (_, _, Some(pointer), _) => Counting::Json(pointer),
            (.., Some(work)) => Counting::Work(work),
            (None, None, None, None) => Counting::Automatic,
        })
    }
}

fn yes_or_no<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    written(from, |text| match text {
        "no" => Ok(false),
        "yes" => Ok(true),
        _ => Err("must be yes or no".to_owned()),
    })
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    written(from, |text| match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => {
            Ok(Some(Duration::from_secs_f64(seconds)))
        }
        _ => Err("must be 0.01 to 86400 seconds".to_owned()),
    })
}

fn pointer<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    written(from, |text| match text.starts_with('/') {
        true => Ok(Some(text.to_owned())),
        false => Err("is a pointer such as /jobs/0/rate".to_owned()),
    })
}

fn work<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    written(from, |text| match text.replace('_', "").parse::<f64>() {
        Ok(work) if (1.0..=1e15).contains(&work) => Ok(Some(work)),
        _ => Err("is a number of operations".to_owned()),
    })
}

fn refuse<T>(setting: &str, problem: String) -> Result<T, SettingError> {
    Err(SettingError { setting: setting.to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Configured as _;
    use kneepoint_vocab::Clients;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Settings::parse(&pairs.iter().map(owned).collect()).map_err(|error| error.problem)
    }

    #[test]
    fn a_server_makes_the_clients_live_apart() {
        assert_eq!(parse(&[("run", "a")]).unwrap().clients(), Clients::Inside);
        let served = parse(&[("run", "a"), ("start", "b"), ("ready", "c")]).unwrap();
        assert_eq!((served.clients(), served.lines().count()), (Clients::Apart, 3));
    }

    #[test]
    fn what_makes_no_sense_is_reported() {
        let cases: [(&[(&str, &str)], &str); 20] = [
            (&[], "must name the command"),
            (&[("run", "a"), ("rum", "b")], "no setting is named \"rum\""),
            (&[("run", "")], "run must name a program"),
            (&[("run", "a"), ("shell", "bash")], "yes or no"),
            (&[("run", "a"), ("setup", "b {directory}")], "setup has no {directory}"),
            (&[("run", "a"), ("start", "b {seconds}")], "start has no {seconds}"),
            (&[("run", "a"), ("ready", "b")], "add it"),
            (&[("run", "a"), ("patience_s", "0")], "0.01 to 86400"),
            (&[("run", "a"), ("until", "dawn")], "ended or stopped"),
            (&[("run", "a"), ("until", "stopped"), ("work", "5")], "leave out"),
            (&[("run", "a"), ("work", "5"), ("json", "/a")], "exclude each other"),
            (&[("run", "a"), ("elapsed", "(1)")], "with `operations` only"),
            (&[("run", "a"), ("throughput", "[0-9]+")], "throughput needs one group"),
            (&[("run", "a"), ("json", "a.b")], "pointer such as"),
            (&[("run", "a"), ("work", "0")], "number of operations"),
            (&[("run", "a"), ("counter_pattern", "(1)")], "add it"),
            (&[("run", "a"), ("counter", "b"), ("counter_pattern", "1")], "needs one group"),
            (&[("run", "a"), ("counter", "b"), ("work", "5")], "exclude each other"),
            (&[("run", "a"), ("environment", "A")], "NAME=VALUE"),
            (&[("run", "a"), ("directory", "/nonexistent/x")], "is not there"),
        ];
        for (pairs, reported) in cases {
            let problem = parse(pairs).unwrap_err();
            assert!(problem.contains(reported), "{pairs:?}: {problem}");
        }
    }
}
