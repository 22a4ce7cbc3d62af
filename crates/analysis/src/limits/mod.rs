//! Whether one part is full: the load generator, a thread, a device.

pub(crate) mod calls;
pub(crate) mod devices;
pub(crate) mod generator;
pub(crate) mod instruments;
pub(crate) mod saturation;
