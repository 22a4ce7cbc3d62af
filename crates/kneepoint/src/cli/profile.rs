//! Arguments of `profile`.

use super::report::formats_of_profiles;
use super::{TierArg, parse_duration};
use clap::Args;
use kneepoint_probe::calls::Wanted;
use kneepoint_report::export::Export;
use kneepoint_vocab::Nanos;
use std::path::PathBuf;

/// Arguments of `profile`.
#[derive(Args, Debug)]
pub(crate) struct ProfileArgs {
    /// Processes to watch with all that descends from them, e.g. `4242` or `17,18`
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = ["cgroup", "container", "command"])]
    pub(crate) pid: Vec<u32>,
    /// A control group to watch, e.g. `system.slice/mariadb.service`
    #[arg(long, value_name = "PATH", conflicts_with_all = ["container", "command"])]
    pub(crate) cgroup: Option<PathBuf>,
    /// A container to watch, by its name or the begin of its id: of Docker, Podman, containerd,
    /// Kubernetes (`POD/CONTAINER`), CRI-O, LXC or systemd-nspawn
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) container: Option<String>,
    /// A command to start and watch; it ends with the profile if not before
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// How long to watch, e.g. `5` or `2m`
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = parse_duration)]
    pub(crate) seconds: Nanos,
    /// A command line that prints a count that only grows, e.g. of transactions: what is reported
    /// of a second is then reported of an operation as well
    #[arg(long, value_name = "CMD")]
    pub(crate) rate: Option<String>,
    /// Take the calls of a function for operations: PROGRAM:FUNCTION, e.g.
    /// `mysqld:dispatch_command`, or passes of a probe that the program was written with:
    /// `usdt:PROVIDER:NAME`. Each call costs its thread a microsecond or two
    #[arg(long, value_name = "WHAT", value_parser = operation, conflicts_with = "rate")]
    pub(crate) operation: Option<Wanted>,
    /// Collect with eBPF (full) or from /proc (fallback) only, instead of the best available
    #[arg(long, value_name = "TIER", hide_possible_values = true)]
    pub(crate) tier: Option<TierArg>,
    /// Run directory to make [default: kneepoint-runs/DATE-TIME]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Print one form for other tools instead of the summary
    #[arg(long, value_name = "FORMAT", conflicts_with = "json")]
    #[arg(value_parser = formats_of_profiles())]
    pub(crate) format: Option<Export>,
}

fn operation(text: &str) -> Result<Wanted, String> {
    Wanted::parse(text).map_err(|why| why.to_string())
}
