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
    /// Print one form for other tools instead of the summary, and write no page
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["json", "html"])]
    #[arg(value_parser = formats())]
    pub(crate) format: Option<Export>,
}

fn formats() -> impl clap::builder::TypedValueParser<Value = Export> {
    of_names(export::ALL.iter().map(|one| one.name).collect())
}

/// Those that a profile has.
pub(super) fn formats_of_profiles() -> impl clap::builder::TypedValueParser<Value = Export> {
    let of_profiles = export::ALL.iter().filter(|one| one.is_of_profiles());
    of_names(of_profiles.map(|one| one.name).collect())
}

fn of_names(names: Vec<&'static str>) -> impl clap::builder::TypedValueParser<Value = Export> {
    PossibleValuesParser::new(names).try_map(|name| {
        export::ALL.into_iter().find(|one| one.name == name).ok_or("no such format")
    })
}
