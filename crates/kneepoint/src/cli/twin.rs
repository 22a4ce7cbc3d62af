//! Arguments of `simulate` and `predict`.

use clap::Args;
use kneepoint_vocab::Ratio;
use std::path::PathBuf;

/// Arguments of `simulate`.
#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// The twin file: a machine and the programs of its threads (docs/twin.md)
    #[arg(value_name = "TWIN")]
    pub(crate) twin: PathBuf,
    /// Clients: numbers and ranges that double, e.g. `1,2,4` or `1..64`
    #[arg(long, default_value = "1", value_parser = parse_numbers)]
    pub(crate) clients: Numbers,
    /// Cores, in the same way [default: those of the file]
    #[arg(long, value_parser = parse_numbers)]
    pub(crate) cores: Option<Numbers>,
    /// Half-width of the 95 % interval of throughput to aim at
    #[arg(long, default_value = "1%", value_parser = super::parse_ratio)]
    pub(crate) precision: Ratio,
    /// Seed of all chance; the same seed gives the same numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Events at most, e.g. `5e9`
    #[arg(long, default_value = "1e9", value_parser = parse_events)]
    pub(crate) budget: u64,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
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
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Numbers of clients or cores, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Numbers(pub(crate) Vec<u32>);

/// Most threads or cores.
const MOST: u32 = 1 << 20;

/// `1,2,4` or `1..64`, which doubles from 1 on and ends with 64.
fn parse_numbers(text: &str) -> Result<Numbers, String> {
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(value) if (1..=MOST).contains(&value) => Ok(value),
        _ => Err("give numbers between 1 and 1048576, e.g. 1,2,4 or 1..64".to_owned()),
    };
    let mut all = Vec::new();
    for part in text.split(',') {
        if let Some((low, high)) = part.split_once("..") {
            let (mut value, high) = (number(low)?, number(high)?);
            while value < high {
                all.push(value);
                value *= 2;
            }
            all.push(high);
        } else {
            all.push(number(part)?);
        }
    }
    all.sort_unstable();
    all.dedup();
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
        for bad in ["", "0", "1,,2", "1..", "-1", "1e3", "2000000"] {
            assert!(read(bad).is_err(), "{bad} passed");
        }
    }

    #[test]
    fn events_may_be_written_shortly() {
        assert_eq!(parse_events("5e9"), Ok(5_000_000_000));
        for bad in ["", "0", "-1", "inf", "nan", "many"] {
            assert!(parse_events(bad).is_err(), "{bad} passed");
        }
    }
}
