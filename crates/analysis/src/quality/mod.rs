//! How far the run can be relied on.

pub(crate) mod caveats;
pub(crate) mod collector;
pub(crate) mod counts;
pub(crate) mod environment;
pub(crate) mod measured;
pub(crate) mod nameless;
pub(crate) mod protocol;
pub(crate) mod stability;
pub(crate) mod stalls;
pub(crate) mod steadiness;
