//! Which processes, threads and cores a window is about: as the seam to the machine has it.

pub use kneepoint_machine::windows::Target;
