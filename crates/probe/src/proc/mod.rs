//! What the files of `/proc` say of threads: those that the rig reads too, and the call that a
//! thread is in.

pub mod syscall;

pub use kneepoint_machine::proc::{schedstat, stat, tasks};
