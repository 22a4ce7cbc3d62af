//! Plans the trials of a run, runs them, and writes the run directory.
//!
//! The only loop over trials is in [`run()`]; nothing here judges what was measured, beyond
//! deciding when enough was.
//!
//! * [`options`]: what the caller asks for.
//! * [`against`]: whether what an earlier run measured can be measured again.
//! * [`mod@plan`]: options and a recipe to a [`kneepoint_vocab::Plan`].
//! * [`order`]: the seeded random order of slices within blocks.
//! * [`run()`]: the whole experiment; [`resume`]: the rest of one that was cut off.
//! * [`mod@profile`]: one level of a system that runs already.
//! * [`mod@import`]: results of other tools as a run directory.
//! * [`store`]: writes the run directory; [`mod@open`]: reads it back.
//! * [`regular`]: reads files that somebody else may have made.

pub mod against;
mod clock;
mod disturbance;
mod earlier;
pub mod import;
pub mod open;
pub mod options;
pub mod order;
pub mod plan;
mod precision;
pub mod profile;
mod progress;
pub mod regular;
pub mod run;
mod schedule;
mod settle;
mod slice;
mod stop_rule;
pub mod store;
mod sums;
mod variants;
mod watchdog;

pub use import::import;
pub use open::open;
pub use options::RunOptions;
pub use plan::plan;
pub use profile::{Counted, ProfileOptions, Subject, profile};
pub use progress::{Progress, Silent};
pub use run::{require, resumable, resume, run};
pub use store::write_record;
