//! One file a command.

pub(crate) mod against;
pub(crate) mod calibrate;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod predict;
pub(crate) mod profile;
pub(crate) mod recipe;
pub(crate) mod recover;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod simulate;
pub(crate) mod variants;
