//! Where it stops scaling: throughput against clients and cores.

pub(crate) mod by_cores;
pub(crate) mod curve;
pub(crate) mod story;
pub(crate) mod superlinear;
pub(crate) mod treated;
