//! Arguments of `simulate`, `calibrate` and `predict`.

use clap::Args;
use kneepoint_model::twin::{Change, LockType};
use kneepoint_vocab::Ratio;
use std::path::PathBuf;

/// Arguments of `simulate`.
#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// The twin file: a machine and the programs of its threads (docs/twin.md)
    #[arg(value_name = "TWIN")]
    pub(crate) twin: PathBuf,
    /// Clients: numbers and ranges, which double, e.g. `1,2,4` or `1..64`, or go by steps:
    /// `1..64:1` is every number
    #[arg(long, default_value = "1", value_parser = parse_numbers)]
    pub(crate) clients: Numbers,
    /// Cores, in the same way [default: those of the file]
    #[arg(long, value_parser = parse_numbers)]
    pub(crate) cores: Option<Numbers>,
    /// The same in one word each: `clients=1..64`, `cores=1,2,4`
    #[arg(long, value_name = "clients|cores=NUMBERS", value_parser = parse_sweep)]
    pub(crate) sweep: Vec<Swept>,
    /// Half-width of the 95 % interval of throughput to aim at
    #[arg(long, default_value = "1%", value_parser = super::parse_ratio)]
    pub(crate) precision: Ratio,
    /// Seed of all chance; the same seed gives the same numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Events at most, e.g. `5e9`
    #[arg(long, default_value = "1e9", value_parser = parse_events)]
    pub(crate) budget: u64,
    /// Also write what was simulated as a run directory, for `report`, `compare` and `calibrate`
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `--sweep` varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Swept {
    Clients(Numbers),
    Cores(Numbers),
}

impl SimulateArgs {
    /// Clients, as the last word about them says.
    pub(crate) fn clients(&self) -> &Numbers {
        let swept = self.sweep.iter().rev().find_map(|it| match it {
            Swept::Clients(numbers) => Some(numbers),
            Swept::Cores(_) => None,
        });
        swept.unwrap_or(&self.clients)
    }

    /// Cores, likewise; those of the file where nothing is said.
    pub(crate) fn cores(&self) -> Option<&Numbers> {
        let swept = self.sweep.iter().rev().find_map(|it| match it {
            Swept::Cores(numbers) => Some(numbers),
            Swept::Clients(_) => None,
        });
        swept.or(self.cores.as_ref())
    }
}

/// `clients=1..64`.
fn parse_sweep(text: &str) -> Result<Swept, String> {
    match text.split_once('=') {
        Some(("clients", numbers)) => parse_numbers(numbers).map(Swept::Clients),
        Some(("cores", numbers)) => parse_numbers(numbers).map(Swept::Cores),
        _ => Err("give clients=NUMBERS or cores=NUMBERS, e.g. clients=1..64".to_owned()),
    }
}

/// Arguments of `calibrate`.
#[derive(Args, Debug)]
pub(crate) struct CalibrateArgs {
    /// The run directory
    pub(crate) directory: PathBuf,
}

/// Arguments of `predict`.
#[derive(Args, Debug)]
pub(crate) struct PredictArgs {
    /// The run directory
    pub(crate) directory: PathBuf,
    /// Clients: numbers and ranges that double, e.g. `32` or `16..128` [default: twice the most
    /// that were measured]
    #[arg(long, value_parser = parse_numbers)]
    pub(crate) clients: Option<Numbers>,
    /// Cores [default: those that were measured]
    #[arg(long, value_parser = parse_numbers)]
    pub(crate) cores: Option<Numbers>,
    /// What if the lock were not there; part of its name is enough
    #[arg(long, value_name = "LOCK")]
    pub(crate) without: Vec<String>,
    /// What if the lock were split, e.g. `pool=16`
    #[arg(long, value_name = "LOCK=PARTS", value_parser = parse_split)]
    pub(crate) split: Vec<(String, u32)>,
    /// What if the lock were of another kind, e.g. `pool=mcs`: test-and-set, ticket, mcs, fifo,
    /// futex, adaptive, flag
    #[arg(long, value_name = "LOCK=KIND", value_parser = parse_kind)]
    pub(crate) lock: Vec<(String, LockType)>,
    /// What if all cores were faster, e.g. `1.1`
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed)]
    pub(crate) speed: Option<f64>,
    /// With a variant that the run tried; part of its name is enough. One that takes the place of a
    /// lock: with `--without LOCK`, tried at one client (`run --try-at 1`). What it costs itself is
    /// known then, and what it brings to more clients is the twin's
    #[arg(long, value_name = "NAME")]
    pub(crate) variant: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl PredictArgs {
    /// The changes asked for.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let without = self.without.iter().cloned().map(Change::Without);
        let split = self.split.iter().map(|(lock, parts)| Change::Split(lock.clone(), *parts));
        let kinds = self.lock.iter().map(|(lock, kind)| Change::Kind(lock.clone(), *kind));
        let speed = self.speed.map(Change::Speed);
        // A lock that is gone cannot be changed any more: that comes last.
        split.chain(kinds).chain(without).chain(speed).collect()
    }
}

/// `pool=16`.
fn parse_split(text: &str) -> Result<(String, u32), String> {
    let parts = text.rsplit_once('=').and_then(|(lock, parts)| Some((lock, parts.parse().ok()?)));
    match parts {
        Some((lock, parts)) if !lock.is_empty() && (1..=1 << 16).contains(&parts) => {
            Ok((lock.to_owned(), parts))
        }
        _ => Err("give a lock and a number of parts to 65536, e.g. pool=16".to_owned()),
    }
}

/// `pool=mcs`.
fn parse_kind(text: &str) -> Result<(String, LockType), String> {
    let known = [
        ("test-and-set", LockType::TestAndSet),
        ("ticket", LockType::Ticket),
        ("mcs", LockType::Mcs),
        ("fifo", LockType::Fifo),
        ("futex", LockType::Futex),
        ("adaptive", LockType::Adaptive),
        ("flag", LockType::Flag),
    ];
    let asked = text.rsplit_once('=').filter(|(lock, _)| !lock.is_empty());
    let found = asked.and_then(|(lock, kind)| {
        let (_, kind) = known.iter().find(|(name, _)| *name == kind)?;
        Some((lock.to_owned(), *kind))
    });
    let names = known.map(|(name, _)| name).join(", ");
    found.ok_or_else(|| format!("give a lock and its kind, e.g. pool=mcs; kinds are {names}"))
}

/// `1.1`.
fn parse_speed(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(factor) if (0.1..=100.0).contains(&factor) => Ok(factor),
        _ => Err("give a factor between 0.1 and 100, e.g. 1.1".to_owned()),
    }
}

/// Numbers of clients or cores, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers(pub(crate) Vec<u32>);

/// Most threads or cores.
const MOST: u32 = 1 << 20;

/// Most numbers of one list.
const MOST_NUMBERS: usize = 1 << 16;

/// `1,2,4`; `1..64`, which doubles from 1 on and ends with 64; or `1..64:1`, which goes by ones.
fn parse_numbers(text: &str) -> Result<Numbers, String> {
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(value) if (1..=MOST).contains(&value) => Ok(value),
        _ => Err("give numbers between 1 and 1048576, e.g. 1,2,4 or 1..64".to_owned()),
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        let Some((low, rest)) = part.split_once("..") else {
            all.push(number(part)?);
            continue;
        };
        let (high, step) = match rest.split_once(':') {
            Some((high, step)) => (high, Some(number(step)?)),
            None => (rest, None),
        };
        let (mut value, high) = (number(low)?, number(high)?);
        while value < high && all.len() < MOST_NUMBERS {
            all.push(value);
            value = step.map_or(value * 2, |step| value + step);
        }
        all.push(high);
    }
    all.sort_unstable();
    all.dedup();
    if all.len() > MOST_NUMBERS {
        return Err(format!("give at most {MOST_NUMBERS} numbers, or a greater step"));
    }
    Ok(Numbers(all))
}

/// `1000000` or `1e9`.
fn parse_events(text: &str) -> Result<u64, String> {
    match text.trim().parse::<f64>() {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        Ok(value) if (1.0..=1e18).contains(&value) => Ok(value as u64),
        _ => Err("give a number of events between 1 and 1e18, e.g. 5e9".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_lists_and_doubling_ranges() {
        let read = |text: &str| parse_numbers(text).map(|numbers| numbers.0);
        assert_eq!(read("4,1,2"), Ok(vec![1, 2, 4]));
        assert_eq!(read("1..12"), Ok(vec![1, 2, 4, 8, 12]));
        assert_eq!(read("3,1..4"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(read("7..7"), Ok(vec![7]));
        assert_eq!(read("1..1048576").map(|all| all.len()), Ok(21));
        assert_eq!(read("1..64:1").map(|all| all.len()), Ok(64));
        assert_eq!(read("2..11:4"), Ok(vec![2, 6, 10, 11]));
        let bad = ["", "0", "1,,2", "1..", "-1", "1e3", "2000000", "1..8:0", "1..1048576:1"];
        for bad in bad {
            assert!(read(bad).is_err(), "{bad} passed");
        }
    }

    #[test]
    fn a_sweep_names_what_it_varies() {
        let numbers = |all: &[u32]| Numbers(all.to_vec());
        assert_eq!(parse_sweep("clients=1..4"), Ok(Swept::Clients(numbers(&[1, 2, 4]))));
        assert_eq!(parse_sweep("cores=3"), Ok(Swept::Cores(numbers(&[3]))));
        for bad in ["", "clients", "threads=1..4", "clients=0"] {
            assert!(parse_sweep(bad).is_err(), "{bad} passed");
        }
    }

    #[test]
    fn changes_name_a_lock_and_what_becomes_of_it() {
        assert_eq!(parse_split("a=b=16"), Ok(("a=b".to_owned(), 16)));
        assert_eq!(parse_kind("pool=mcs"), Ok(("pool".to_owned(), LockType::Mcs)));
        for bad in ["", "pool", "=4", "pool=", "pool=0", "pool=mutex"] {
            assert!(parse_split(bad).is_err() && parse_kind(bad).is_err(), "{bad} passed");
        }
        assert!(parse_speed("1.1").is_ok() && parse_speed("0").is_err());
    }

    #[test]
    fn events_may_be_written_shortly() {
        assert_eq!(parse_events("5e9"), Ok(5_000_000_000));
        for bad in ["", "0", "-1", "inf", "nan", "many"] {
            assert!(parse_events(bad).is_err(), "{bad} passed");
        }
    }
}
