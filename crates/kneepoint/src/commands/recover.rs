//! `kneepoint recover`: what a killed Kneepoint may have left, removed.

use crate::{OK, print};
use anyhow::Result;

pub(crate) fn recover() -> Result<u8> {
    let removed = kneepoint_rig::scratch::recover()?;
    if removed.is_empty() {
        print::out("nothing was left behind\n")?;
    }
    for path in removed {
        print::out(&format!("removed {}\n", path.display()))?;
    }
    Ok(OK)
}
