//! Which waits are one, and whose CPU a wait's is.

pub(crate) mod classify;
pub(crate) mod groups;
mod node;
mod objects;
mod processes;
pub(crate) mod requests;
mod seen;
pub(crate) mod wait_work;
