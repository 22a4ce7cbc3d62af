//! The command line, as plain structures: parsed here, acted on in [`crate::commands`].

mod compare;
mod profile;
mod report;
mod twin;

pub(crate) use compare::CompareArgs;
pub(crate) use profile::ProfileArgs;
pub(crate) use report::ReportArgs;
pub(crate) use twin::{CalibrateArgs, PredictArgs, SimulateArgs};

use clap::{Args, Parser, Subcommand, ValueEnum};
use kneepoint_lab::import::Format;
use kneepoint_rig::recipe::LevelSpec;
use kneepoint_vocab::{Nanos, Ratio, Tier};
use std::path::PathBuf;

/// A wrong command line that clap cannot see by itself.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// What clap found wrong, as one line: its first words and its tips, without the usage.
pub(crate) fn one_line(refusal: &clap::Error) -> String {
    let text = refusal.to_string();
    let reported = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more");
    let words: Vec<&str> =
        text.lines().take_while(reported).flat_map(str::split_whitespace).collect();
    let line = words.join(" ");
    format!("{}; try --help", line.strip_prefix("error: ").unwrap_or(&line))
}

/// Finds where a multi-threaded system stops scaling, why, and what cures it.
#[derive(Debug, Parser)]
#[command(name = "kneepoint", version, max_term_width = 90, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Print a man page (man, man-run, ...) or completions (complete-bash, ...), and exit
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    pub(crate) generate: Option<Generate>,
    /// Say nothing on standard error but what goes wrong: no progress, no remarks
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Say what each measurement gave as soon as it is done
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something went wrong; the message says what
  2  the command line is wrong
  3  a condition of `compare --fail-if` holds
  4  there is a report, and it says why it should not be relied on";

/// What `--generate` prints.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Generate {
    /// The man page
    Man,
    /// That of `kneepoint run`
    ManRun,
    /// That of `kneepoint report`
    ManReport,
    /// That of `kneepoint compare`
    ManCompare,
    /// That of `kneepoint profile`
    ManProfile,
    /// That of `kneepoint import`
    ManImport,
    /// That of `kneepoint predict`
    ManPredict,
    /// That of `kneepoint calibrate`
    ManCalibrate,
    /// That of `kneepoint simulate`
    ManSimulate,
    /// That of `kneepoint list`
    ManList,
    /// That of `kneepoint doctor`
    ManDoctor,
    /// That of `kneepoint recover`
    ManRecover,
    /// The JSON Schema of `run --json` and `report --json`
    SchemaFindings,
    /// That of `profile --json`
    SchemaProfile,
    /// That of `compare --json`
    SchemaComparison,
    /// Completions for bash
    CompleteBash,
    /// Completions for zsh
    CompleteZsh,
    /// Completions for fish
    CompleteFish,
    /// Completions for elvish
    CompleteElvish,
    /// Completions for `PowerShell`
    CompletePowershell,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an experiment: sweep, account, diagnose, try the cures, report
    Run(Box<RunArgs>),
    /// Watch a running process: where its cores and its threads' time go
    Profile(ProfileArgs),
    /// Make the report of a run directory again, the same to the byte
    Report(ReportArgs),
    /// Compare runs of one experiment: versions, machines, kernels, dates
    Compare(CompareArgs),
    /// Make a report of what another tool has measured: sysbench, pgbench, fio, or a CSV table
    Import(ImportArgs),
    /// Forecast levels and changes that a run did not measure, with intervals
    Predict(PredictArgs),
    /// Make a twin file of a run: a machine that does what the system did
    Calibrate(CalibrateArgs),
    /// Simulate a machine of cores, threads and locks, described by a twin file
    Simulate(SimulateArgs),
    /// List recipes, treatments and collectors, and whether they can run here
    List(ListArgs),
    /// Say what this machine can measure, and how to get the rest
    Doctor(DoctorArgs),
    /// Remove what a killed Kneepoint may have left behind
    Recover(RecoverArgs),
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Recipe: a name from `kneepoint list`, or a TOML file [default: sqlite-shared-cache]
    #[arg(conflicts_with = "command")]
    pub(crate) recipe: Option<String>,
    /// A command to measure instead, with {clients} where their number goes; {seconds} is how
    /// long it has to run
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Where the command's throughput is
    #[command(flatten)]
    pub(crate) counting: CountingArgs,
    /// Try a variant beside the baseline, `NAME: CHANGES`, or `auto`; may be given again
    ///
    /// The name of one that `kneepoint list --variants` shows is enough. `auto` stands for up to
    /// four of those that fit the recipe and that this machine has everything for, `auto:DIR` for
    /// those that relieve causes which an earlier run or profile in DIR found.
    ///
    /// CHANGES are words as for a shell: `over=NAME` for another variant that it adds to,
    /// `VARIABLE=VALUE` for the system's environment, `set.KEY=VALUE` for a setting of the recipe's
    /// workload, `cpus=0-3`, `nice=5` and `policy=batch` (other, idle, fifo:N, rr:N) for where and
    /// how its threads run, then another command in place of the one behind `--`:
    ///
    /// --variant 'patched: ./bench-new -t {clients}'
    /// --variant 'jemalloc: LD_PRELOAD=libjemalloc.so.2'
    /// --variant 'one arena: GLIBC_TUNABLES=glibc.malloc.arena_max=1'
    /// --variant 'small: set.rows=2000'
    /// --variant 'one core: cpus=0'
    #[arg(long, value_name = "VARIANT", verbatim_doc_comment)]
    pub(crate) variant: Vec<String>,
    /// Try two of the variants together too, and tell whether they add up; may be given again
    #[arg(long, value_name = "A,B")]
    pub(crate) cross: Vec<String>,
    /// Measure again what the run in DIR measured, as a variant in the same random blocks; refused
    /// where its program is gone or was built anew
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<PathBuf>,
    /// Client levels, e.g. `1,2,1C,4C`; C stands for the number of cores
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) levels: Option<Vec<LevelSpec>>,
    /// The level at which variants are tried, one of the sweep's [default: the recipe's, 2C for a
    /// command]
    #[arg(long, value_name = "CLIENTS")]
    pub(crate) try_at: Option<LevelSpec>,
    /// Give the system these numbers of cores in turn, e.g. `1,2,4`: the second axis
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cores: Option<Vec<u32>>,
    /// Keep so many cores for the load generator alone, 0 for none; where absent, a quarter of
    /// four or more
    #[arg(long, value_name = "N")]
    pub(crate) generator_cores: Option<u32>,
    /// Measure as Kneepoint does (default), or as the document did that the recipe comes from
    /// (published)
    #[arg(long, value_name = "PROTOCOL", default_value = "default", hide_default_value = true)]
    #[arg(hide_possible_values = true)]
    pub(crate) protocol: ProtocolArg,
    /// Go on until small effects and the peak of the curve are known to this half-width, e.g. `5%`
    /// [default: 5% and 8%]
    #[arg(long, value_parser = parse_ratio)]
    pub(crate) precision: Option<Ratio>,
    /// Trust the result although the collector takes up to so much of the throughput, e.g. `30%`
    /// [default: 15%]
    #[arg(long, value_name = "SHARE", value_parser = parse_ratio)]
    pub(crate) allow_overhead: Option<Ratio>,
    /// Measure no longer than this, e.g. `80s` or `5m`
    #[arg(long, value_parser = parse_duration)]
    pub(crate) budget: Option<Nanos>,
    /// Seed of the random order; the same seed gives the same plan
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub(crate) seed: Option<u64>,
    /// Collect with eBPF (full) or from /proc (fallback) only, instead of the best available
    #[arg(long, value_name = "TIER", hide_possible_values = true)]
    pub(crate) tier: Option<TierArg>,
    /// Run directory to make [default: kneepoint-runs/DATE-TIME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with a run that was cut off or interrupted, in its own directory
    #[arg(long, value_name = "DIR", conflicts_with_all = NOT_WITH_RESUME)]
    pub(crate) resume: Option<PathBuf>,
    /// Print the plan and how long it takes, and run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the findings as JSON instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a run that goes on has from its beginning.
const NOT_WITH_RESUME: [&str; 15] = [
    "recipe",
    "command",
    "variant",
    "cross",
    "against",
    "levels",
    "try_at",
    "cores",
    "generator_cores",
    "precision",
    "allow_overhead",
    "budget",
    "seed",
    "out",
    "dry_run",
];

/// A protocol, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtocolArg {
    /// Short slices in random blocks, with treatments
    Default,
    /// That of the recipe's source: long slices, the baseline alone
    Published,
}

/// Where a command's throughput is; where nothing is said, by the known form of its output.
#[derive(Args, Debug, Default)]
#[group(multiple = false)]
pub(crate) struct CountingArgs {
    /// The command prints operations per second: the one group of this pattern
    #[arg(long, value_name = "REGEX", requires = "command")]
    pub(crate) throughput: Option<String>,
    /// The command prints operations per second: in JSON, there, e.g. `/result/rate`
    #[arg(long, value_name = "POINTER", requires = "command")]
    pub(crate) json_pointer: Option<String>,
    /// The command prints how many operations it did: the one group of this pattern
    #[arg(long, value_name = "REGEX", requires = "command")]
    pub(crate) operations: Option<String>,
    /// A run of the command does so many operations
    #[arg(long, value_name = "N", requires = "command")]
    pub(crate) work: Option<String>,
}

/// A collector tier, as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum TierArg {
    /// eBPF: every switch and wake-up
    Full,
    /// /proc only: no privileges needed
    Fallback,
}

impl From<TierArg> for Tier {
    fn from(tier: TierArg) -> Self {
        match tier {
            TierArg::Full => Self::Full,
            TierArg::Fallback => Self::Fallback,
        }
    }
}

/// Arguments of `import`.
#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// Files, in the order in which they were measured
    #[arg(required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// What wrote them; guessed where absent. CSV has the columns `clients,throughput` (or
    /// `threads,tps`) and may have `cores`, `block`, `seconds`
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<FormatArg>,
    /// Cores that the system had
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) cores: Option<u32>,
    /// What throughput counts, in the plural
    #[arg(long, value_name = "WORD")]
    pub(crate) operation: Option<String>,
    /// Run directory to make [default: kneepoint-runs/DATE-TIME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print the findings as JSON instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}

/// A format, as typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FormatArg {
    /// The text report of sysbench
    Sysbench,
    /// The text report of pgbench
    Pgbench,
    /// fio --output-format=json
    Fio,
    /// A table
    Csv,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Sysbench => Self::Sysbench,
            FormatArg::Pgbench => Self::Pgbench,
            FormatArg::Fio => Self::Fio,
            FormatArg::Csv => Self::Csv,
        }
    }
}

/// Arguments of `list`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// List the variants that fit a recipe instead, and what each needs
    #[arg(long)]
    pub(crate) variants: bool,
    /// That recipe: a name or a TOML file; where absent, a command of your own
    #[arg(requires = "variants")]
    pub(crate) recipe: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `recover`.
#[derive(Args, Debug)]
pub(crate) struct RecoverArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `5%` or `0.05`, greater than 0 and at most 100 %.
pub(crate) fn parse_ratio(text: &str) -> Result<Ratio, String> {
    let (digits, scale) = match text.trim().strip_suffix('%') {
        Some(digits) => (digits, 100.0),
        None => (text, 1.0),
    };
    match digits.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value / scale <= 1.0 => Ok(Ratio(value / scale)),
        _ => Err("give a percentage between 0 and 100, e.g. 5%".to_owned()),
    }
}

/// `80s`, `5m`, `1h` or bare seconds; at most a week.
fn parse_duration(text: &str) -> Result<Nanos, String> {
    const WEEK: f64 = 604_800.0;
    let text = text.trim();
    let (digits, scale) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1.0),
        Some((at, 'm')) => (&text[..at], 60.0),
        Some((at, 'h')) => (&text[..at], 3600.0),
        _ => (text, 1.0),
    };
    match digits.parse::<f64>().map(|value| value * scale) {
        Ok(seconds) if (1.0..=WEEK).contains(&seconds) => {
            u64::try_from(std::time::Duration::from_secs_f64(seconds).as_millis())
                .map(Nanos::from_millis)
                .map_err(|error| error.to_string())
        }
        _ => Err("give a length of time from 1s to 168h, e.g. 80s or 5m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_refusal_is_one_line_with_the_tip() {
        let refused = |arguments: &[&str]| one_line(&Cli::try_parse_from(arguments).unwrap_err());
        let tip = refused(&["kneepoint", "run", "--level", "1"]);
        assert!(tip.starts_with("unexpected argument '--level' found") && tip.contains("--levels"));
        let values = refused(&["kneepoint", "run", "--tier", "x"]);
        assert!(values.contains("[possible values: full, fallback]"), "{values}");
        assert!(!tip.contains('\n') && !tip.contains("Usage") && tip.ends_with("; try --help"));
    }

    #[test]
    fn durations_need_a_sane_length() {
        assert_eq!(parse_duration("80s"), Ok(Nanos::from_millis(80_000)));
        assert_eq!(parse_duration("1.5m"), Ok(Nanos::from_millis(90_000)));
        assert_eq!(parse_duration("30"), Ok(Nanos::from_millis(30_000)));
        for bad in ["", "0", "-5s", "s", "nan", "inf", "1e9h", "5 parsecs", "µ"] {
            assert!(parse_duration(bad).is_err(), "{bad} passed");
        }
    }

    #[test]
    fn ratios_need_to_be_percentages() {
        assert_eq!(parse_ratio("5%"), Ok(Ratio(0.05)));
        assert_eq!(parse_ratio("0.05"), Ok(Ratio(0.05)));
        for bad in ["", "0", "-1%", "101%", "nan", "%", "five"] {
            assert!(parse_ratio(bad).is_err(), "{bad} passed");
        }
    }
}
