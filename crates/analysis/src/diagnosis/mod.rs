//! What the lost throughput is charged to, with the evidence.

pub(crate) mod at_bound;
pub(crate) mod causes;
pub(crate) mod chain;
mod confined;
pub(crate) mod difference;
pub(crate) mod evidence;
pub(crate) mod flame;
pub(crate) mod losses;
