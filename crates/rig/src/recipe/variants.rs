//! The variants of a recipe: those of the catalogue that it names, and stanzas of its own.

use super::error::Misfit;
use super::parse::{SettingsText, identifier, one_line};
use crate::treatment::{self, Treatment};
use crate::workload::Workload;
use kneepoint_vocab::ArmId;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Ids that the controls of every run have.
const TAKEN: [&str; 3] = [ArmId::BASELINE, ArmId::CONTROL, ArmId::UNPROBED];

/// A `[[variant]]` stanza.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantText {
    id: Spanned<String>,
    label: Spanned<String>,
    over: Option<Spanned<String>>,
    set: SettingsText,
}

/// The baseline that variants change.
#[derive(Clone, Copy)]
pub(super) struct Baseline<'a> {
    pub(super) workload: &'static dyn Workload,
    pub(super) settings: &'a BTreeMap<String, String>,
}

/// Those of the catalogue with these ids, then those of the stanzas.
pub(super) fn all(
    baseline: Baseline<'_>,
    ids: &[Spanned<String>],
    stanzas: &[VariantText],
) -> Result<Vec<Treatment>, Misfit> {
    let mut chosen = Vec::new();
    for id in ids {
        chosen.push(of_catalogue(baseline, id, &chosen)?);
    }
    for stanza in stanzas {
        chosen.push(own(baseline, stanza, &chosen)?);
    }
    Ok(chosen)
}

fn of_catalogue(
    Baseline { workload, settings }: Baseline<'_>,
    id: &Spanned<String>,
    chosen: &[Treatment],
) -> Result<Treatment, Misfit> {
    let refuse = |problem: String| Err(Misfit::at(id.span(), problem));
    let Some(treatment) = treatment::named(id.get_ref()) else {
        let known: Vec<_> =
            treatment::for_workload(workload.name()).map(|t| t.id.as_str()).collect();
        let known = known.join(", ");
        return refuse(format!("no treatment is named {:?}; there are: {known}", id.get_ref()));
    };
    if treatment.workload != workload.name() {
        let (id, its, ours) = (&treatment.id, &treatment.workload, workload.name());
        return refuse(format!("treatment {id} is for the workload {its}, not for {ours}"));
    }
    if chosen.iter().any(|other| other.id == treatment.id) {
        return refuse(format!("treatment {} is listed twice", treatment.id));
    }
    if let Some(over) = &treatment.over
        && !chosen.iter().any(|other| &other.id == over)
    {
        return refuse(format!("treatment {} adds to {over}: list {over} before it", treatment.id));
    }
    if let Err(error) = workload.check(&treatment::apply(treatment, chosen, settings)) {
        return refuse(format!("treatment {} does not fit this recipe: {error}", treatment.id));
    }
    Ok(treatment.clone())
}

/// The variant of a stanza that stands behind those that are `chosen`.
fn own(
    Baseline { workload, settings }: Baseline<'_>,
    stanza: &VariantText,
    chosen: &[Treatment],
) -> Result<Treatment, Misfit> {
    let id = identifier(&stanza.id)?;
    let refuse = |problem: String| Err(Misfit::at(stanza.id.span(), problem));
    if TAKEN.contains(&id.as_str()) || treatment::named(&id).is_some() {
        return refuse(format!("{id} is a variant of Kneepoint's own: choose another id"));
    }
    if chosen.iter().any(|other| other.id == id) {
        return refuse(format!("two variants have the id {id}"));
    }
    let over = over(stanza, chosen)?;
    if let Some((name, value)) =
        stanza.set.iter().find(|(name, _)| workload.made_once().contains(&name.as_str()))
    {
        let problem = format!("{name} takes effect once a run, so no variant can change it");
        return Err(Misfit::at(value.span(), problem));
    }
    let set = stanza.set.iter();
    let variant = Treatment {
        id,
        label: one_line(&stanza.label)?,
        workload: workload.name().to_owned(),
        over,
        set: set.map(|(name, value)| (name.clone(), value.get_ref().text())).collect(),
        expects: String::new(),
        shown_by: String::new(),
    };
    let changed = treatment::apply(&variant, chosen, settings);
    if let Err(error) = workload.check(&changed) {
        let span = stanza.set.get(&error.setting).map_or(stanza.id.span(), Spanned::span);
        return Err(Misfit::at(span, error.to_string()));
    }
    if workload.clients(&changed) != workload.clients(settings) {
        return refuse(format!(
            "variant {} moves the clients into the system or out of it: make it another recipe",
            variant.id
        ));
    }
    Ok(variant)
}

/// What a stanza adds to; none where that is the baseline.
fn over(stanza: &VariantText, chosen: &[Treatment]) -> Result<Option<String>, Misfit> {
    let Some(over) = &stanza.over else { return Ok(None) };
    let name = over.get_ref();
    if name == ArmId::BASELINE {
        return Ok(None);
    }
    if chosen.iter().any(|other| &other.id == name) {
        return Ok(Some(name.clone()));
    }
    let earlier = chosen.iter().map(|other| other.id.as_str());
    let known: Vec<&str> = std::iter::once(ArmId::BASELINE).chain(earlier).collect();
    let problem =
        format!("over must be one of those before it: {} (found {name:?})", known.join(", "));
    Err(Misfit::at(over.span(), problem))
}
