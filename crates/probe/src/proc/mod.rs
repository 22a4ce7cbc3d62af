//! Readers of `/proc`: each file one room with a pure parser and a thin reader.

pub mod schedstat;
pub mod stat;
pub mod syscall;
pub mod tasks;
