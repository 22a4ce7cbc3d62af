//! `kneepoint recover`: what a killed Kneepoint may have left, removed.

use crate::cli::RecoverArgs;
use crate::{OK, print};
use anyhow::Result;
use kneepoint_rig::recovery::Recovered;
use serde_json::json;

pub(crate) fn recover(args: &RecoverArgs) -> Result<u8> {
    let Recovered { removed, ended } = kneepoint_rig::recovery::recover()?;
    if args.json {
        let text = serde_json::to_string_pretty(&json!({ "removed": removed, "ended": ended }))?;
        print::out(&format!("{text}\n"))?;
        return Ok(OK);
    }
    if removed.is_empty() && ended.is_empty() {
        print::out("nothing was left behind\n")?;
    }
    for (process, name) in ended {
        print::out(&format!("ended process {process}, {}\n", print::inert(&name)))?;
    }
    for path in removed {
        print::out(&format!("removed {}\n", path.display()))?;
    }
    Ok(OK)
}
