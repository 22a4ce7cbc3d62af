//! What changes the machine: systems under test, their treatments, scratch space and priority.
//!
//! Everything here can be undone, and is undone by a guard: dropping a [`System`] ends the
//! processes it started and removes their files, dropping a [`scratch::Scratch`] removes the
//! directory. Where Kneepoint dies without running its guards, its guardian puts everything back;
//! [`recovery::recover`] does when both were killed.
//!
//! * [`recipe`]: an experiment as a TOML file, checked down to line and column.
//! * [`treatment`]: the catalogue of single changes that may cure a system.
//! * [`workload`]: what can be brought up and driven by closed-loop clients.
//! * [`scratch`]: a memory-backed directory that goes away; [`recovery`]: what killed runs left.
//! * [`output`]: what load generators print at their end.
//! * [`process`]: a program under a guard; `launch`: what it is before it begins; `group`:
//!   all that descends from it; `ending`: how it ends.
//! * [`SearchPath`]: where programs are looked for.
//! * [`undo`]: what has to be put back, also where Kneepoint is killed.
//! * `devices`: loop and zram devices and mounts.
//! * [`environment`]: the variables that a process runs with, and what is kept from it.
//! * `elf`, `library`: what programs and libraries are, and where the loader finds these.
//! * `shown`: proofs that are read back from any running process.
//! * [`placement`]: which CPUs a process may use; [`scheduling`]: how a variant's threads run.
//! * [`rights`]: what of root's rights a process of Kneepoint's own keeps.
//! * [`priority`]: a session and a scheduling group for the system under test.
//!
//! It never observes: throughput is counted by the workload's own clients, everything else is
//! seen by the probe.

#![deny(unsafe_code)]

mod cargo_run;
mod devices;
mod elf;
mod ending;
pub mod environment;
mod group;
#[cfg(test)]
#[path = "../tests/support/journal.rs"]
mod journal;
mod launch;
mod library;
mod need;
pub mod output;
pub mod placement;
pub mod priority;
pub mod process;
pub mod recipe;
pub mod recovery;
pub mod rights;
pub mod scheduling;
pub mod scratch;
#[cfg(test)]
#[path = "../tests/support/script.rs"]
mod script;
mod search_path;
mod serving;
mod shown;
pub mod treatment;
pub mod undo;
pub mod workload;

pub use recipe::{LevelSpec, Recipe, RecipeError};
pub use search_path::SearchPath;
pub use treatment::Treatment;
pub use workload::{
    Configured, CpuSets, Description, Drive, Need, Setup, SliceOutput, System, Tally, Workload,
    serve,
};
