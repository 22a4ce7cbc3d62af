//! Findings in the forms that people and programs read. One file a format.
//!
//! Everything here is a pure function of [`kneepoint_vocab::Findings`], or of a
//! [`kneepoint_vocab::Recording`] where another tool wants what was recorded: no clock, no file, no
//! randomness; the same findings give the same bytes.
//!
//! * [`html`]: one self-contained page, for reading and for handing on.
//! * [`terminal`]: one screen of text at the end of a run.
//! * [`json`]: everything, for programs.
//! * [`export`]: forms of other tools: tables, stacks, time lines, figures.
//!
//! Names in findings come from binaries, recipes and kernels, so they are hostile until
//! [`text`] has disarmed them.

pub mod export;
pub mod html;
pub mod json;
pub mod number;
pub(crate) mod series;
pub mod terminal;
pub mod text;
pub(crate) mod words;
