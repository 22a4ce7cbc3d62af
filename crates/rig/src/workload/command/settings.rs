//! The settings of a command, read and checked as a whole.

use super::counter::Counter;
use super::counting::Counting;
use super::figure::Pattern;
use super::line::Line;
use crate::environment::Variables;
use crate::treatment::ENVIRONMENT;
use crate::workload::SettingError;
use kneepoint_vocab::Clients;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const KEYS: [&str; 19] = [
    "run",
    "shell",
    "setup",
    "prepare",
    "start",
    "ready",
    "ready_within_s",
    "conclude",
    "directory",
    "environment",
    "throughput",
    "operations",
    "elapsed",
    "json",
    "work",
    "counter",
    "counter_pattern",
    "until",
    "patience_s",
];
/// How long a server may take until it is ready.
const READY_WITHIN: f64 = 10.0;
/// How long a command may take beyond its window, and a hook altogether.
const TIMEOUT: f64 = 600.0;
/// The ways of counting; they exclude each other.
const COUNTING: [&str; 5] = ["throughput", "operations", "json", "work", "counter"];
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
}

impl Settings {
    /// Where the clients live: in the command, or beside the server that it drives.
    pub(super) fn clients(&self) -> Clients {
        if self.start.is_some() { Clients::Apart } else { Clients::Inside }
    }

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
        if let Some(unknown) = raw.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let known = KEYS.join(", ");
            return refuse(unknown, format!("no setting is named {unknown:?}; there are: {known}"));
        }
        let reader = Reader { raw, shell: yes_or_no(raw, "shell")? };
        let Some(run) = reader.line("run")? else {
            return refuse("run", "run = \"...\" must name the command to measure".to_owned());
        };
        let settings = Self {
            run,
            setup: reader.hook("setup", &["{seconds}", "{directory}", "{port}"])?,
            prepare: reader.hook("prepare", &["{seconds}"])?,
            start: reader.hook("start", &["{seconds}"])?,
            ready: reader.hook("ready", &["{seconds}"])?,
            conclude: reader.hook("conclude", &["{seconds}"])?,
            ready_within: reader.seconds("ready_within_s", READY_WITHIN)?,
            timeout: reader.seconds("patience_s", TIMEOUT)?,
            until_stopped: reader.until()? || raw.contains_key("counter"),
            directory: raw.get("directory").map(PathBuf::from),
            environment: reader.environment()?,
            counting: reader.counting()?,
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

struct Reader<'a> {
    raw: &'a BTreeMap<String, String>,
    shell: bool,
}

impl Reader<'_> {
    fn line(&self, key: &str) -> Result<Option<Line>, SettingError> {
        let Some(text) = self.raw.get(key) else { return Ok(None) };
        Line::parse(text, self.shell).map(Some).or_else(|why| refuse(key, format!("{key} {why}")))
    }

    /// A command that runs outside slices: without those placeholders that mean nothing there.
    fn hook(&self, key: &str, meaningless: &[&str]) -> Result<Option<Line>, SettingError> {
        let line = self.line(key)?;
        let odd = line.as_ref().and_then(|line| meaningless.iter().find(|name| line.has(name)));
        match odd {
            Some(name) => refuse(key, format!("{key} has no {name}: there is none yet")),
            None => Ok(line),
        }
    }

    fn seconds(&self, key: &str, default: f64) -> Result<Duration, SettingError> {
        let Some(text) = self.raw.get(key) else { return Ok(Duration::from_secs_f64(default)) };
        match text.parse::<f64>() {
            Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => {
                Ok(Duration::from_secs_f64(seconds))
            }
            _ => refuse(key, format!("{key} must be 0.01 to 86400 seconds (found {text})")),
        }
    }

    fn until(&self) -> Result<bool, SettingError> {
        match self.raw.get("until").map(String::as_str) {
            None | Some("ended") => Ok(false),
            Some("stopped") => Ok(true),
            Some(found) => {
                let problem = format!("until must be ended or stopped (found {found:?})");
                refuse("until", problem)
            }
        }
    }

    fn environment(&self) -> Result<Variables, SettingError> {
        let Some(text) = self.raw.get(ENVIRONMENT) else { return Ok(Variables::default()) };
        let read = Variables::parse(text);
        read.or_else(|wrong| refuse(ENVIRONMENT, format!("{ENVIRONMENT} {wrong} (found {text:?})")))
    }

    fn counting(&self) -> Result<Counting, SettingError> {
        let given: Vec<&str> =
            COUNTING.into_iter().filter(|key| self.raw.contains_key(*key)).collect();
        if let [first, second, ..] = given[..] {
            return refuse(second, format!("{first} and {second} exclude each other: keep one"));
        }
        let elapsed = self.pattern("elapsed")?;
        if elapsed.is_some() && given != ["operations"] {
            return refuse("elapsed", "elapsed goes with `operations` only".to_owned());
        }
        let pattern = self.pattern("counter_pattern")?;
        if let Some(line) = self.hook("counter", &["{seconds}"])? {
            let any = || Pattern::parse(ANY_NUMBER);
            let pattern = pattern.map_or_else(any, Ok);
            return match pattern {
                Ok(pattern) => Ok(Counting::Counter(Counter { line, pattern })),
                Err(why) => refuse("counter_pattern", format!("counter_pattern {why}")),
            };
        }
        if pattern.is_some() {
            let problem = "counter_pattern finds the number that `counter` prints: add it";
            return refuse("counter_pattern", problem.to_owned());
        }
        if let Some(count) = self.pattern("operations")? {
            return Ok(Counting::Operations { count, elapsed });
        }
        if let Some(pattern) = self.pattern("throughput")? {
            return Ok(Counting::Throughput(pattern));
        }
        if let Some(pointer) = self.raw.get("json") {
            if !pointer.starts_with('/') {
                let problem = format!("json is a pointer such as /jobs/0/rate (found {pointer:?})");
                return refuse("json", problem);
            }
            return Ok(Counting::Json(pointer.clone()));
        }
        match self.raw.get("work") {
            None => Ok(Counting::Automatic),
            Some(text) => match text.replace('_', "").parse::<f64>() {
                Ok(work) if (1.0..=1e15).contains(&work) => Ok(Counting::Work(work)),
                _ => refuse("work", format!("work is a number of operations (found {text:?})")),
            },
        }
    }

    fn pattern(&self, key: &str) -> Result<Option<Pattern>, SettingError> {
        let Some(text) = self.raw.get(key) else { return Ok(None) };
        Pattern::parse(text).map(Some).or_else(|why| refuse(key, format!("{key} {why}")))
    }
}

fn yes_or_no(raw: &BTreeMap<String, String>, key: &str) -> Result<bool, SettingError> {
    match raw.get(key).map(String::as_str) {
        None | Some("no") => Ok(false),
        Some("yes") => Ok(true),
        Some(found) => refuse(key, format!("{key} must be yes or no (found {found:?})")),
    }
}

fn refuse<T>(setting: &str, problem: String) -> Result<T, SettingError> {
    Err(SettingError { setting: setting.to_owned(), problem })
}

#[cfg(test)]
mod tests {
    use super::*;

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
