//! `[protocol.published]`: how the document that a recipe comes from took its figures.

use super::error::Misfit;
use super::fields::{Asked, Scalar, SettingsText, count, level_list, levels_of};
use super::{LevelSpec, Published};
use kneepoint_vocab::{LevelOrder, Nanos};
use serde::Deserialize;
use std::ops::RangeInclusive;
use toml::Spanned;

/// Longest warm-up, slice and lead-in: a day.
const DAY: u32 = 86_400;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedText {
    warm_up_s: Option<Spanned<i64>>,
    slice_s: Spanned<i64>,
    ramp_ms: Option<Spanned<i64>>,
    repetitions: Option<Spanned<i64>>,
    clients: Spanned<Vec<Spanned<Scalar>>>,
    focus: Option<Spanned<Scalar>>,
    order: Option<Spanned<Scalar>>,
    #[serde(default)]
    settings: SettingsText,
}

/// Checks it; `focus` is that of the sweep, `with_changes` the recipe's settings with changes.
pub(super) fn of(
    raw: &PublishedText,
    focus: LevelSpec,
    with_changes: impl Fn(&SettingsText) -> Result<Asked, Misfit>,
) -> Result<Published, Misfit> {
    let counted = |name, value: &Option<Spanned<i64>>, range: RangeInclusive<u32>, default: u32| {
        match value {
            Some(value) => count(name, value, range),
            None => Ok(default),
        }
    };
    let warm_up = counted("warm_up_s", &raw.warm_up_s, 0..=DAY, 0)?;
    let ramp = counted("ramp_ms", &raw.ramp_ms, 0..=1000 * DAY, 0)?;
    let (clients, focus) = match &raw.focus {
        Some(own) => levels_of(&raw.clients, own)?,
        None => (level_list(&raw.clients)?, focus),
    };
    let (settings, system) = with_changes(&raw.settings)?;
    Ok(Published {
        warm_up: Nanos::from_millis(1000 * u64::from(warm_up)),
        slice: Nanos::from_millis(1000 * u64::from(count("slice_s", &raw.slice_s, 1..=DAY)?)),
        ramp: Nanos::from_millis(u64::from(ramp)),
        repetitions: counted("repetitions", &raw.repetitions, 1..=1000, 1)?,
        clients,
        focus,
        order: raw.order.as_ref().map_or(Ok(LevelOrder::Ascending), order)?,
        settings,
        system,
    })
}

fn order(raw: &Spanned<Scalar>) -> Result<LevelOrder, Misfit> {
    match raw.get_ref().text().as_str() {
        "ascending" => Ok(LevelOrder::Ascending),
        "random" => Ok(LevelOrder::Random),
        other => {
            let problem = format!("order must be ascending or random (found {other:?})");
            Err(Misfit::at(raw.span(), problem))
        }
    }
}
