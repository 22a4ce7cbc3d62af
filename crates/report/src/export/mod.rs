//! Single tables of the findings for other tools.

pub mod csv;
pub mod folded;
