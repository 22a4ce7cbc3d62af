//! Single tables of the findings for other tools.

pub mod comparison;
pub mod csv;
pub mod folded;

use kneepoint_vocab::{Findings, Profile};

/// A form that a report can be printed in.
#[derive(Clone, Copy, Debug)]
pub struct Export {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it holds, without an article.
    pub holds: &'static str,
    /// Of a run. Empty where the run holds nothing of the kind.
    pub run: fn(&Findings) -> String,
    /// Of a profile, where that has such a thing; empty as for a run.
    pub profile: Option<fn(&Profile) -> String>,
}

/// All forms, in the order in which they are offered.
pub const ALL: [Export; 3] = [csv::CURVE, folded::ON_CPU, folded::WAITS];
