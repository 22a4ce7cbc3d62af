//! What a stack says: which frame names a lock, and which stand between.

pub(crate) mod kernel_locks;
pub(crate) mod names;
pub(crate) mod naming;
pub(crate) mod stacks;
