//! What a run directory holds, in the forms of other tools: tables, stacks, time lines, figures.

pub mod comparison;
pub mod csv;
mod epoch;
pub mod firefox;
pub mod folded;
pub mod openmetrics;
pub mod perfetto;
pub mod pprof;
mod slices;

use kneepoint_vocab::{Findings, Profile, Recording};

/// A form that a report can be printed in.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it holds, without an article.
    pub holds: &'static str,
    /// How names of such files end, where they are no text for a terminal.
    pub binary: Option<&'static str>,
    /// What it is made of.
    pub made: Made,
}

/// What a form is made of, and by which function. What that gives is empty where there is nothing
/// of the kind.
#[derive(Clone, Copy, Debug)]
pub enum Made {
    /// Of what was concluded.
    Concluded {
        /// From a run.
        run: fn(&Findings) -> String,
        /// From a profile, where that has such a thing.
        profile: Option<fn(&Profile) -> String>,
    },
    /// Of what was recorded, which runs and profiles have alike.
    Recorded(fn(&Recording) -> Vec<u8>),
}

impl Export {
    /// Whether a profile has it too.
    #[must_use]
    pub const fn is_of_profiles(&self) -> bool {
        matches!(self.made, Made::Recorded(_) | Made::Concluded { profile: Some(_), .. })
    }
}

/// All forms, in the order in which they are offered.
pub const ALL: [Export; 7] = [
    csv::CURVE,
    folded::ON_CPU,
    folded::WAITS,
    pprof::STACKS,
    firefox::STACKS,
    perfetto::SLICES,
    openmetrics::FIGURES,
];
