//! From the text of a recipe to a checked [`Recipe`]; every refusal knows its place in the text.

use super::error::Misfit;
use super::fields::{Asked, Scalar, SettingsText, count, identifier, levels_of, one_line, share};
use super::published::{self, PublishedText};
use super::variants::{self, VariantText};
use super::{Protocol, Recipe};
use crate::treatment::Treatment;
use crate::workload::{self, Workload};
use kneepoint_vocab::{Names, Nanos};
use serde::Deserialize;
use std::ops::RangeInclusive;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecipeText {
    name: Spanned<String>,
    summary: Spanned<String>,
    operation: Spanned<String>,
    #[serde(default)]
    treatments: Vec<Spanned<String>>,
    #[serde(default, rename = "variant")]
    variants: Vec<VariantText>,
    workload: WorkloadText,
    sweep: SweepText,
    names: Option<Spanned<Names>>,
    #[serde(default)]
    protocol: ProtocolText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadText {
    kind: Spanned<String>,
    #[serde(default)]
    settings: SettingsText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepText {
    clients: Spanned<Vec<Spanned<Scalar>>>,
    focus: Spanned<Scalar>,
    #[serde(default)]
    treatments: Vec<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProtocolText {
    slice_ms: Option<Spanned<i64>>,
    ramp_ms: Option<Spanned<i64>>,
    settle_s: Option<Spanned<i64>>,
    sweep_blocks: Option<Spanned<i64>>,
    // An array of two would take the first two of any number.
    effect_blocks: Option<Spanned<Vec<i64>>>,
    blocks_per_start: Option<Spanned<i64>>,
    precision: Option<Spanned<f64>>,
    smallest_effect: Option<Spanned<f64>>,
    budget_s: Option<Spanned<i64>>,
    published: Option<PublishedText>,
}

/// Reads and checks the text of a recipe.
pub(super) fn parse(text: &str) -> Result<Recipe, Misfit> {
    let raw: RecipeText = toml::from_str(text)?;
    let name = identifier(&raw.name)?;
    let workload = workload_of(&raw.workload)?;
    let with_changes =
        |changes: &SettingsText| settings_of(workload, &raw.workload.settings, changes);
    let (settings, baseline) = with_changes(&SettingsText::new())?;
    let (clients, focus) = levels_of(&raw.sweep.clients, &raw.sweep.focus)?;
    let base = variants::Baseline { workload, settings: &settings, system: &*baseline };
    let treatments = variants::all(base, &raw.treatments, &raw.variants)?;
    let published = raw.protocol.published.as_ref();
    Ok(Recipe {
        name,
        summary: one_line(&raw.summary)?,
        operation: one_line(&raw.operation)?,
        workload,
        settings,
        baseline,
        clients,
        focus,
        sweep_treatments: sweep_treatments_of(&treatments, &raw.sweep.treatments)?,
        treatments,
        names: raw.names.as_ref().map(names_of).transpose()?.unwrap_or_default(),
        follows: None,
        published: published.map(|raw| published::of(raw, focus, with_changes)).transpose()?,
        protocol: protocol_of(raw.protocol)?,
    })
}

/// Names that a recipe adds. An empty one would fit every function.
fn names_of(raw: &Spanned<Names>) -> Result<Names, Misfit> {
    let written = toml::Value::try_from(raw.get_ref());
    let written = written.map_err(|error| Misfit::at(raw.span(), error.to_string()))?;
    if has_empty(&written) {
        return Err(Misfit::at(raw.span(), "holds an empty name, which would fit every function"));
    }
    Ok(raw.get_ref().clone())
}

fn has_empty(value: &toml::Value) -> bool {
    match value {
        toml::Value::Array(items) => {
            items.iter().any(|item| item.as_str() == Some("") || has_empty(item))
        }
        toml::Value::Table(fields) => fields.values().any(has_empty),
        _ => false,
    }
}

fn workload_of(raw: &WorkloadText) -> Result<&'static dyn Workload, Misfit> {
    let kind = raw.kind.get_ref();
    workload::named(kind).ok_or_else(|| {
        let known: Vec<_> = workload::ALL.iter().map(|workload| workload.name()).collect();
        let problem = format!("no workload is named {kind:?}; there are: {}", known.join(", "));
        Misfit::at(raw.kind.span(), problem)
    })
}

fn settings_of(
    workload: &'static dyn Workload,
    raw: &SettingsText,
    changes: &SettingsText,
) -> Result<Asked, Misfit> {
    let all = raw.iter().chain(changes);
    let settings = all.map(|(key, value)| (key.clone(), value.get_ref().text())).collect();
    let system = workload.configure(&settings).map_err(|error| {
        let of = changes.get(&error.setting).or_else(|| raw.get(&error.setting));
        let span = of.map_or(0..0, Spanned::span);
        Misfit::at(span, error.to_string())
    })?;
    Ok((settings, system))
}

/// Those of `tried` that the sweep measures too, in the order of `tried`.
fn sweep_treatments_of(
    tried: &[Treatment],
    ids: &[Spanned<String>],
) -> Result<Vec<Treatment>, Misfit> {
    for (index, id) in ids.iter().enumerate() {
        let name = id.get_ref();
        if !tried.iter().any(|treatment| &treatment.id == name) {
            let known: Vec<_> = tried.iter().map(|treatment| treatment.id.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let problem = format!(
                "the sweep can measure the treatments that the recipe lists, {known} \
                 (found {name:?})"
            );
            return Err(Misfit::at(id.span(), problem));
        }
        if ids[..index].iter().any(|other| other.get_ref() == name) {
            return Err(Misfit::at(id.span(), format!("treatment {name} is listed twice")));
        }
    }
    let asked = |treatment: &&Treatment| ids.iter().any(|id| *id.get_ref() == treatment.id);
    Ok(tried.iter().filter(asked).cloned().collect())
}

fn protocol_of(raw: ProtocolText) -> Result<Protocol, Misfit> {
    const BLOCKS: RangeInclusive<u32> = 1..=10_000;
    let effect_blocks = raw.effect_blocks.map(|pair| {
        let span = pair.span();
        let [least, most] = pair.get_ref()[..] else {
            let found = pair.get_ref().len();
            let problem = format!("effect_blocks are [least, most] (found {found} numbers)");
            return Err(Misfit::at(span, problem));
        };
        let least = count("effect_blocks", &Spanned::new(span.clone(), least), BLOCKS)?;
        let most = count("effect_blocks", &Spanned::new(span.clone(), most), BLOCKS)?;
        if least > most {
            let problem = format!("effect_blocks are [least, most] (found [{least}, {most}])");
            return Err(Misfit::at(span, problem));
        }
        Ok((least, most))
    });
    let counted = |name, value: Option<Spanned<i64>>, range| {
        value.map(|value| count(name, &value, range)).transpose()
    };
    let millis = |value: Option<u32>| value.map(|value| Nanos::from_millis(u64::from(value)));
    let seconds = |value: Option<u32>| millis(value.map(|value| value * 1000));
    let budget = counted("budget_s", raw.budget_s, 1..=7 * 86_400)?;
    Ok(Protocol {
        slice: millis(counted("slice_ms", raw.slice_ms, 10..=3_600_000)?),
        ramp: millis(counted("ramp_ms", raw.ramp_ms, 0..=3_600_000)?),
        settle: seconds(counted("settle_s", raw.settle_s, 0..=3_600)?),
        sweep_blocks: counted("sweep_blocks", raw.sweep_blocks, BLOCKS)?,
        effect_blocks: effect_blocks.transpose()?,
        blocks_per_start: counted("blocks_per_start", raw.blocks_per_start, BLOCKS)?,
        precision: share("precision", raw.precision)?,
        smallest_effect: share("smallest_effect", raw.smallest_effect)?,
        budget: seconds(budget),
    })
}
