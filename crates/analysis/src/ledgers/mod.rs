//! Where the cores and the threads of each level went.

pub(crate) mod accounts;
pub(crate) mod balance;
pub(crate) mod behind;
pub(crate) mod charging;
pub(crate) mod core_ledger;
pub(crate) mod polled;
pub(crate) mod resample;
pub(crate) mod row;
pub(crate) mod slices;
pub(crate) mod thread_ledger;
