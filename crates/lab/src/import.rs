//! Results of other tools as a run directory: what was measured elsewhere gets the same curve,
//! knee and laws. There are no facts in it, hence no causes.

mod csv;
mod read;

use crate::store::{Store, StoreError};
use kneepoint_vocab::{
    Clients, Disposition, Host, Interference, Level, LevelOrder, Nanos, Phase, Plan, ProtocolName,
    Ratio, RunEnd, SCHEMA, StoppedBy, TrialId, TrialRecord, VariantId, VariantPlan, VariantRole,
    Window,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Whose output a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text report of sysbench.
    Sysbench,
    /// The text report of pgbench.
    Pgbench,
    /// The JSON report of fio.
    Fio,
    /// A table with the columns `clients,throughput` and more.
    Csv,
}

impl Format {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sysbench => "sysbench",
            Self::Pgbench => "pgbench",
            Self::Fio => "fio",
            Self::Csv => "CSV",
        }
    }

    /// What its throughput counts.
    fn operation(self) -> &'static str {
        match self {
            Self::Sysbench | Self::Pgbench => "transactions",
            Self::Fio => "requests",
            Self::Csv => "operations",
        }
    }
}

/// What to import, and how to call it.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The files, in the order in which they were measured.
    pub files: Vec<PathBuf>,
    /// Their format; guessed for each where absent.
    pub format: Option<Format>,
    /// Cores that the system had, where a file does not say.
    pub cores: Option<u32>,
    /// What one operation is, in the plural.
    pub operation: Option<String>,
    /// The run directory to make.
    pub directory: PathBuf,
    /// Whether it may get a number where there is one of this name.
    pub numbered: bool,
    /// Kneepoint's version, the time and the arguments, for the record.
    pub kneepoint: String,
    /// See `kneepoint`.
    pub begun: String,
    /// See `kneepoint`.
    pub arguments: Vec<String>,
}

/// Why results cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be used.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// A place in a file makes no sense.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        problem: String,
    },
    /// The run directory cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One result: a level and what was measured there.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    line: usize,
    clients: u32,
    cores: Option<u32>,
    block: Option<u32>,
    operations: u64,
    counted_over: Nanos,
    latency: Option<kneepoint_vocab::Latency>,
}

/// Reads all files, then writes the run directory, and returns where it lies.
///
/// # Errors
/// The first thing that is wrong with a file; nothing is written then. Or the directory cannot
/// be written.
pub fn import(options: &ImportOptions) -> Result<PathBuf, ImportError> {
    let mut trials = Vec::new();
    let mut blocks: BTreeMap<Level, u32> = BTreeMap::new();
    let mut formats = Vec::new();
    for path in &options.files {
        let (format, rows) = read::read(path, options.format)?;
        formats.push(format);
        for row in rows {
            trials.push(trial(options, path, &row, &mut blocks, trials.last())?);
        }
    }
    let plan = plan(options, &trials, &formats);
    let elapsed = trials.last().map_or(Nanos(0), |last| last.window.begin + last.window.length);
    let create = if options.numbered { Store::create_beside } else { Store::create };
    let mut store = create(&options.directory, &host(options, &plan, &formats), &plan)?;
    for trial in &trials {
        store.trial(trial, &[])?;
    }
    let stopped_by = StoppedBy::Imported;
    store.end(&RunEnd { elapsed, stopped_by, steady: false, remarks: Vec::new() })?;
    Ok(store.directory().to_owned())
}

/// Most clients and cores of an imported level.
const MOST: u32 = 1_000_000;

fn trial(
    options: &ImportOptions,
    path: &Path,
    row: &Row,
    blocks: &mut BTreeMap<Level, u32>,
    before: Option<&TrialRecord>,
) -> Result<TrialRecord, ImportError> {
    let refuse = |problem: &str| {
        Err(ImportError::Line { path: path.to_owned(), line: row.line, problem: problem.into() })
    };
    if !(1..=MOST).contains(&row.clients) {
        return refuse(&format!("clients must be 1 to {MOST} (found {})", row.clients));
    }
    let Some(cores) = row.cores.or(options.cores) else {
        return refuse("it does not say how many cores the system had: give --cores N");
    };
    if row.operations == 0 || row.counted_over.0 == 0 {
        return refuse("nothing was completed in it: there is no throughput");
    }
    let level = Level { clients: row.clients, cores };
    let next = blocks.entry(level).or_default();
    let block = row.block.unwrap_or(*next);
    *next = (*next).max(block) + 1;
    let begin = before.map_or(Nanos(0), |last| last.window.begin + last.window.length);
    if begin.0.checked_add(row.counted_over.0).is_none() {
        return refuse("the results cover more than five centuries: check the seconds");
    }
    Ok(TrialRecord {
        machine: kneepoint_vocab::MachineName::default(),
        id: TrialId {
            phase: Phase::Sweep,
            block,
            position: 0,
            attempt: 0,
            variant: VariantId::new(VariantId::BASELINE),
            start: 0,
            level,
        },
        window: Window { begin, length: row.counted_over },
        operations: row.operations,
        counted_over: row.counted_over,
        per_client: Vec::new(),
        latency: row.latency,
        counts: None,
        stability: None,
        settling: None,
        interference: Interference::default(),
        disposition: Disposition::Kept,
        facts: Vec::new(),
    })
}

fn plan(options: &ImportOptions, trials: &[TrialRecord], formats: &[Format]) -> Plan {
    let mut best: BTreeMap<Level, f64> = BTreeMap::new();
    for trial in trials {
        let most = best.entry(trial.id.level).or_default();
        *most = most.max(trial.throughput().0);
    }
    let levels: Vec<Level> = best.keys().copied().collect();
    let peak = best.iter().max_by(|one, other| one.1.total_cmp(other.1));
    let first = formats.first().copied().unwrap_or(Format::Csv);
    let mut lengths: Vec<Nanos> = trials.iter().map(|trial| trial.window.length).collect();
    lengths.sort_unstable();
    let files = match options.files.len() {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    Plan {
        recipe: "imported".to_owned(),
        summary: format!("results of {} from {files}", names(formats)),
        operation: options.operation.clone().unwrap_or_else(|| first.operation().to_owned()),
        clients: Clients::Apart,
        generator_cores: 0,
        sweep_variants: Vec::new(),
        protocol: ProtocolName::Imported,
        level_order: LevelOrder::Ascending,
        warm_up: None,
        census: false,
        seed: 1,
        focus: peak.map_or(Level { clients: 1, cores: 1 }, |(level, _)| *level),
        levels,
        variants: vec![VariantPlan {
            id: VariantId::new(VariantId::BASELINE),
            role: VariantRole::Baseline,
            label: "as it was measured".to_owned(),
            over: VariantId::new(VariantId::BASELINE),
            changes: Vec::new(),
        }],
        slice: lengths.get(lengths.len() / 2).copied().unwrap_or_default(),
        ramp: Nanos(0),
        settle: Nanos(0),
        sweep_blocks: trials.iter().map(|trial| trial.id.block + 1).max().unwrap_or(0),
        effect_blocks: (0, 0),
        blocks_per_start: 1,
        precision: Ratio(0.05),
        smallest_effect: Ratio(0.10),
        allowed_overhead: None,
        sweep_precision: None,
        budget: Nanos(0),
        others_limit: Ratio(1.0),
        steal_limit: Ratio(1.0),
        names: kneepoint_vocab::Names::default(),
    }
}

/// Each format once, in the order of the files.
fn names(formats: &[Format]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for format in formats {
        if !names.contains(&format.name()) {
            names.push(format.name());
        }
    }
    names.join(", ")
}

/// The machine that measured is not known: only how many cores it had.
fn host(options: &ImportOptions, plan: &Plan, formats: &[Format]) -> Host {
    let unknown = || "not known".to_owned();
    let source = |(path, format): (&PathBuf, &Format)| {
        Host::imported(format.name(), path.display().to_string())
    };
    Host {
        machine: kneepoint_vocab::MachineName::default(),
        schema: SCHEMA,
        kneepoint: options.kneepoint.clone(),
        begun: options.begun.clone(),
        arguments: options.arguments.clone(),
        cores: plan.levels.iter().map(|level| level.cores).max().unwrap_or(1),
        cpu: unknown(),
        memory: 0,
        kernel: unknown(),
        distribution: unknown(),
        notes: options.files.iter().zip(formats).map(source).collect(),
    }
}

#[cfg(test)]
mod tests;
