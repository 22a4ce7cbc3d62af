//! `kneepoint doctor`: what this machine can measure, and how to get the rest.

use crate::cli::DoctorArgs;
use crate::{OK, print};
use anyhow::Result;
use kneepoint_probe::Capability;

pub(crate) fn doctor(args: &DoctorArgs) -> Result<u8> {
    let capabilities = kneepoint_probe::capabilities();
    if args.json {
        print::out(&format!("{}\n", serde_json::to_string_pretty(&capabilities)?))?;
        return Ok(OK);
    }
    print::out(&capabilities.iter().map(lines).collect::<String>())?;
    Ok(OK)
}

/// One line for what is there; a second one for what lacking it costs and how to get it.
fn lines(capability: &Capability) -> String {
    let mark = if capability.available { "yes" } else { "no " };
    let mut text = format!("{mark}  {:<18} {}\n", capability.name, capability.detail);
    if !capability.available {
        text.push_str(&format!(
            "{:23}without it: {}\n{:23}to get it: {}\n",
            "", capability.cost_of_lacking, "", capability.how_to_get
        ));
    }
    text
}
