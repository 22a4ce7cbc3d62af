//! `kneepoint profile`: one level of a system that runs already.

use super::{report, run};
use crate::cli::{ProfileArgs, UsageError};
use crate::progress::Bar;
use crate::{print, signals};
use anyhow::{Context as _, Result};
use kneepoint_lab::{Counted, ProfileOptions, Subject};

pub(crate) fn profile(args: &ProfileArgs) -> Result<u8> {
    let subject = subject(args)?;
    let begun = jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string();
    let host = kneepoint_probe::host(env!("CARGO_PKG_VERSION"), &begun, run::arguments());
    let options = ProfileOptions {
        subject,
        length: args.seconds,
        counted: counted(args),
        tier: args.tier.map(Into::into),
        directory: args.out.clone().unwrap_or_else(|| run::default_directory(&begun)),
        numbered: args.out.is_none(),
        server: std::env::current_exe().context("finding Kneepoint's own executable")?,
    };
    let stop = signals::stop_on_signals()?;
    let mut bar = Bar::new("operations");
    let outcome = kneepoint_lab::profile(&options, &host, &mut bar, &stop)?;
    bar.finish();
    if outcome.interrupted {
        print::note("kneepoint: stopped: the report tells what was seen until then");
    }
    let record = kneepoint_lab::open(&outcome.directory)
        .with_context(|| format!("what was seen lies in {}", outcome.directory.display()))?;
    if let Some(format) = &args.format {
        return report::finish_profile_as(format, &record, &outcome.directory);
    }
    let profile = kneepoint_analysis::profile::profile(&record);
    report::finish_profile(&profile, &outcome.directory, args.json)
}

fn counted(args: &ProfileArgs) -> Option<Counted> {
    let rate = args.rate.clone().map(Counted::Rate);
    rate.or_else(|| args.operation.clone().map(Counted::Calls))
}

fn subject(args: &ProfileArgs) -> Result<Subject> {
    if let Some(name) = &args.container {
        return Ok(Subject::Container(name.clone()));
    }
    if let Some(path) = &args.cgroup {
        return Ok(Subject::Cgroup(path.clone()));
    }
    match (args.pid.is_empty(), args.command.is_empty()) {
        (false, _) => {
            let mut pids = args.pid.clone();
            pids.sort_unstable();
            pids.dedup();
            Ok(Subject::Pids(pids))
        }
        (true, false) => Ok(Subject::Command(args.command.clone())),
        (true, true) => {
            let why =
                "say whom to watch: --pid PID, --container NAME, --cgroup PATH, or -- COMMAND";
            Err(UsageError(why.to_owned()).into())
        }
    }
}
