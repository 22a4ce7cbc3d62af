//! What helps, and against which cause.

pub(crate) mod crosses;
pub(crate) mod cures;
pub(crate) mod effects;
pub(crate) mod reliefs;
