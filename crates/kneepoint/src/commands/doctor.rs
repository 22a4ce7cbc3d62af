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
    let names = capabilities.iter().map(|capability| capability.name.chars().count());
    let column = MARK + names.max().unwrap_or(0) + 2;
    print::out(
        &capabilities.iter().map(|capability| lines(capability, column)).collect::<String>(),
    )?;
    Ok(OK)
}

/// Columns of `yes  ` and `no   `.
const MARK: usize = 5;

/// What is there; below it, where it is not, what that costs and how to get it.
fn lines(capability: &Capability, column: usize) -> String {
    let mark = if capability.available { "yes" } else { "no" };
    let name = column - MARK;
    let head = format!("{mark:<MARK$}{:<name$}", capability.name);
    let mut text = print::hanging(&head, column, &capability.detail);
    if !capability.available {
        let remedies = [
            ("without it: ", &capability.cost_of_lacking),
            ("to get it: ", &capability.how_to_get),
        ];
        for (word, remedy) in remedies.into_iter().filter(|(_, remedy)| !remedy.is_empty()) {
            text.push_str(&print::hanging(&format!("{:MARK$}{word}", ""), 2 * MARK, remedy));
        }
    }
    text
}
