//! `kneepoint recover`: what a killed Kneepoint may have left, removed.

use crate::cli::RecoverArgs;
use crate::{OK, print};
use anyhow::Result;
use serde_json::json;

pub(crate) fn recover(args: &RecoverArgs) -> Result<u8> {
    let removed = kneepoint_rig::scratch::recover()?;
    if args.json {
        let text = serde_json::to_string_pretty(&json!({ "removed": removed }))?;
        print::out(&format!("{text}\n"))?;
        return Ok(OK);
    }
    if removed.is_empty() {
        print::out("nothing was left behind\n")?;
    }
    for path in removed {
        print::out(&format!("removed {}\n", path.display()))?;
    }
    Ok(OK)
}
