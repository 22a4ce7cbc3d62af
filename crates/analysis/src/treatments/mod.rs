//! What helps, and against which cause.

pub(crate) mod cures;
pub(crate) mod effects;
