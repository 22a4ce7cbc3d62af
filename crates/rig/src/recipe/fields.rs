//! Fields that several parts of a recipe have: names, settings, levels, numbers.

use super::LevelSpec;
use super::error::Misfit;
use crate::environment;
use crate::workload::Configured;
use kneepoint_vocab::Ratio;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;
use toml::Spanned;

/// Settings as texts, and the system that they make.
pub(super) type Asked = (BTreeMap<String, String>, Arc<dyn Configured>);

/// Settings of a workload, each with its place.
pub(super) type SettingsText = BTreeMap<String, Spanned<Scalar>>;

/// Any value, so that what has the wrong type is refused at its own place and in the same words.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Scalar(toml::Value);

impl Scalar {
    pub(super) fn text(&self) -> String {
        match &self.0 {
            toml::Value::String(text) => text.clone(),
            // A table of variables is the same as `NAME=VALUE` words.
            toml::Value::Table(table) => {
                let pairs = table.iter().map(|(name, value)| (name, Self(value.clone()).text()));
                let words: Vec<String> = pairs.map(|(n, value)| format!("{n}={value}")).collect();
                environment::words_of(&words)
            }
            other => other.to_string(),
        }
    }
}

/// A name of plain letters, digits and dashes.
pub(super) fn identifier(name: &Spanned<String>) -> Result<String, Misfit> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let text = name.get_ref();
    if text.is_empty() || text.len() > 64 || !text.bytes().all(plain) {
        let problem = format!("names have 1 to 64 of a-z, 0-9 and '-' (found {text:?})");
        return Err(Misfit::at(name.span(), problem));
    }
    Ok(text.clone())
}

/// Text for people, of one line.
pub(super) fn one_line(text: &Spanned<String>) -> Result<String, Misfit> {
    let line = text.get_ref().trim();
    if line.is_empty() || line.chars().any(char::is_control) {
        return Err(Misfit::at(text.span(), "must be one line, and not an empty one"));
    }
    Ok(line.to_owned())
}

/// Levels, and the one of them in focus.
pub(super) fn levels_of(
    clients: &Spanned<Vec<Spanned<Scalar>>>,
    focus: &Spanned<Scalar>,
) -> Result<(Vec<LevelSpec>, LevelSpec), Misfit> {
    let levels = level_list(clients)?;
    let at = level(focus)?;
    if !levels.contains(&at) {
        let problem = format!("focus must be one of the levels in clients (found {at})");
        return Err(Misfit::at(focus.span(), problem));
    }
    Ok((levels, at))
}

/// One level or more.
pub(super) fn level_list(
    clients: &Spanned<Vec<Spanned<Scalar>>>,
) -> Result<Vec<LevelSpec>, Misfit> {
    let levels = clients.get_ref().iter().map(level).collect::<Result<Vec<_>, _>>()?;
    if levels.is_empty() {
        return Err(Misfit::at(clients.span(), "clients must hold at least one level"));
    }
    Ok(levels)
}

fn level(text: &Spanned<Scalar>) -> Result<LevelSpec, Misfit> {
    let parsed = text.get_ref().text().parse::<LevelSpec>();
    parsed.map_err(|error| Misfit::at(text.span(), error.to_string()))
}

/// A whole number of this range.
pub(super) fn count(
    name: &str,
    value: &Spanned<i64>,
    range: RangeInclusive<u32>,
) -> Result<u32, Misfit> {
    let found = *value.get_ref();
    match u32::try_from(found) {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(out_of_range(name, value, range.start(), range.end())),
    }
}

/// A share of 0.1 % to 50 %, where there is one.
pub(super) fn share(name: &str, value: Option<Spanned<f64>>) -> Result<Option<Ratio>, Misfit> {
    let Some(value) = value else { return Ok(None) };
    if (0.001..=0.5).contains(value.get_ref()) {
        return Ok(Some(Ratio(*value.get_ref())));
    }
    Err(out_of_range(name, &value, 0.001, 0.5))
}

fn out_of_range<T: Display>(
    name: &str,
    value: &Spanned<T>,
    least: impl Display,
    most: impl Display,
) -> Misfit {
    let problem = format!("{name} must be {least} to {most} (found {})", value.get_ref());
    Misfit::at(value.span(), problem)
}
