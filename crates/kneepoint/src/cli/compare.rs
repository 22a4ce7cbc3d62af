//! Arguments of `compare`.

use clap::Args;
use kneepoint_analysis::compare::condition::Condition;
use kneepoint_report::terminal::comparison::no_condition;
use std::path::PathBuf;

/// Arguments of `compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Run directories; each is compared with the first
    #[arg(required = true, value_name = "DIR")]
    pub(crate) directories: Vec<PathBuf>,
    /// Exit with 3 where this holds for sure, e.g. `throughput < -5%` at the peak or at any level,
    /// `throughput@peak < -5%`, `throughput@8 < -5%` at 8 clients; may be given several times
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    #[arg(allow_hyphen_values = true)]
    pub(crate) fail_if: Vec<Condition>,
    /// Write a page with the curves in one picture, too
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print Markdown, for a pull request
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn condition(text: &str) -> Result<Condition, &'static str> {
    Condition::parse(text).map_err(no_condition)
}
