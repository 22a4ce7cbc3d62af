//! Arguments of `report`.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use kneepoint_report::export::{self, Export};
use std::path::PathBuf;

/// Arguments of `report`.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    /// The run directory
    pub(crate) directory: PathBuf,
    /// Write the page here instead of into the run directory
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print the findings as JSON instead of the summary, and write no page
    #[arg(long)]
    pub(crate) json: bool,
    /// Print one table for other tools instead of the summary, and write no page
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "html"])]
    #[arg(value_parser = formats())]
    pub(crate) format: Option<Export>,
}

fn formats() -> impl clap::builder::TypedValueParser<Value = Export> {
    PossibleValuesParser::new(export::ALL.map(|one| one.name)).try_map(|name| {
        export::ALL.into_iter().find(|one| one.name == name).ok_or("no such format")
    })
}
