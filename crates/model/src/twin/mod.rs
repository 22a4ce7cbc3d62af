//! The twin file: a machine and the programs of its threads, in TOML that a person can read.
//!
//! [`Twin::parse`] reads one; mistakes are named with line and column. [`Twin::compile`] makes it
//! ready to simulate for a level. `docs/twin.md` describes the format.

mod change;
mod compile;
mod contended;
mod file;
mod place;
mod quantity;

pub use change::{Change, ChangeError};
pub use compile::{Estimated, Wanted};
pub use contended::Contended;
pub use file::{
    Bus, Channel, Class, Clients, Cores, Count, Crowding, Device, Lock, LockType, Preference,
    Priority, QueueKind, Scheduler, Semaphore, Source, Step, Twin, WakeTo,
};
pub use place::TwinError;
pub use quantity::{Length, Origin, Quantity};

impl Twin {
    /// Reads a twin file.
    ///
    /// # Errors
    /// The first mistake, with its line and column.
    pub fn parse(text: &str) -> Result<Self, TwinError> {
        let read: Result<Self, _> = toml::from_str(text);
        let mut twin = read.map_err(|error| {
            TwinError::at(text, error.span(), error.message().trim().replace('\n', " "))
        })?;
        twin.text = text.to_owned();
        // A twin that compiles for one level does for all: names and numbers are checked there.
        twin.compile(Wanted::default())?;
        Ok(twin)
    }
}
