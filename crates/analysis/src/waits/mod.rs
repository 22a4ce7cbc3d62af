//! Which waits are one, and whose CPU a wait's is.

pub(crate) mod census;
pub(crate) mod classify;
pub(crate) mod counted;
pub(crate) mod groups;
mod held;
pub(crate) mod helpers;
pub(crate) mod herd;
mod node;
mod objects;
mod outside;
mod parking;
pub(crate) mod pools;
mod processes;
pub(crate) mod requests;
pub(crate) mod runtimes;
pub(crate) mod seen;
pub(crate) mod serial;
mod tasks;
mod union;
mod unsampled;
pub(crate) mod wait_work;
