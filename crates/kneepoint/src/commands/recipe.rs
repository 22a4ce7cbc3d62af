//! The recipe that a command line names.

use anyhow::Result;
use kneepoint_rig::recipe::Recipe;
use std::path::Path;

/// A built-in recipe by its name, or a file by anything that looks like a path.
pub(crate) fn asked_for(name: &str) -> Result<Recipe> {
    if name.ends_with(".toml") || name.contains('/') {
        return Ok(Recipe::load(Path::new(name))?);
    }
    Ok(Recipe::named(name)?)
}
