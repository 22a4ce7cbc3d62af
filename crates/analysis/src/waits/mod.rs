//! Which waits are one, and whose CPU a wait's is.

pub(crate) mod groups;
pub(crate) mod requests;
pub(crate) mod wait_work;
