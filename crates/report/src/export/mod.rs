//! Single tables of the findings for other tools.

pub mod comparison;
pub mod csv;
pub mod folded;
