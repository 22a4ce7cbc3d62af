//! The variants of a recipe: those of the catalogue that it names, and stanzas of its own.

use super::error::Misfit;
use super::fields::{Scalar, SettingsText, identifier, one_line};
use crate::environment::ENVIRONMENT;
use crate::scheduling::Scheduling;
use crate::treatment::{self, Treatment};
use crate::workload::{Configured, Workload};
use kneepoint_vocab::VariantId;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Ids that the controls of every run have, and a word with a meaning of its own.
const TAKEN: [&str; 4] =
    [VariantId::BASELINE, VariantId::CONTROL, VariantId::UNPROBED, treatment::AUTO];

/// A `[[variant]]` stanza.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantText {
    id: Spanned<String>,
    label: Spanned<String>,
    over: Option<Spanned<String>>,
    set: Option<SettingsText>,
    environment: Option<Spanned<SettingsText>>,
    cpus: Option<Spanned<Scalar>>,
    nice: Option<Spanned<Scalar>>,
    policy: Option<Spanned<Scalar>>,
}

impl VariantText {
    /// Where and how its threads run.
    fn scheduling(&self) -> Result<Scheduling, Misfit> {
        let mut scheduling = Scheduling::default();
        for (key, text) in Scheduling::KEYS.into_iter().zip([&self.cpus, &self.nice, &self.policy])
        {
            let Some(text) = text else { continue };
            let set = scheduling.set(key, &text.get_ref().text());
            set.map_err(|problem| Misfit::at(text.span(), problem))?;
        }
        Ok(scheduling)
    }
}

/// The baseline that variants change.
#[derive(Clone, Copy)]
pub(super) struct Baseline<'a> {
    pub(super) workload: &'static dyn Workload,
    pub(super) settings: &'a BTreeMap<String, String>,
    pub(super) system: &'a dyn Configured,
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
    Baseline { workload, settings, .. }: Baseline<'_>,
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
    baseline: Baseline<'_>,
    stanza: &VariantText,
    chosen: &[Treatment],
) -> Result<Treatment, Misfit> {
    let id = identifier(&stanza.id)?;
    let refuse = |problem: String| Err(Misfit::at(stanza.id.span(), problem));
    if is_taken(&id) {
        return refuse(format!("{id} is a variant of Kneepoint's own: choose another id"));
    }
    if chosen.iter().any(|other| other.id == id) {
        return refuse(format!("two variants have the id {id}"));
    }
    let over = over(stanza, chosen)?;
    let none = SettingsText::new();
    let set = stanza.set.as_ref().unwrap_or(&none);
    let environment = stanza.environment.as_ref().map_or(&none, Spanned::get_ref);
    let scheduling = stanza.scheduling()?;
    if stanza.set.is_none() && environment.is_empty() && scheduling.is_empty() {
        let add = "add set, environment, cpus, nice or policy";
        return refuse(format!("variant {id} changes nothing: {add}"));
    }
    let texts = |texts: &SettingsText| {
        texts.iter().map(|(name, value)| (name.clone(), value.get_ref().text())).collect()
    };
    let variant = Treatment {
        id,
        label: one_line(&stanza.label)?,
        workload: baseline.workload.name().to_owned(),
        over,
        set: texts(set),
        environment: texts(environment),
        scheduling,
        expects: String::new(),
        shown_by: String::new(),
    };
    match misfit(baseline, &variant, chosen) {
        None => Ok(variant),
        Some((setting, problem)) => {
            let variables = || stanza.environment.as_ref().map(Spanned::span);
            let of = set.get(&setting).map(Spanned::span);
            let variables = if setting == ENVIRONMENT { variables() } else { None };
            Err(Misfit::at(of.or(variables).unwrap_or(stanza.id.span()), problem))
        }
    }
}

/// The setting in which a variant is none of this baseline, and why; the setting is empty where it
/// is no single one.
pub(super) fn misfit(
    Baseline { workload, settings, system }: Baseline<'_>,
    variant: &Treatment,
    chosen: &[Treatment],
) -> Option<(String, String)> {
    if let Some(name) =
        variant.set.keys().find(|name| workload.made_once().contains(&name.as_str()))
    {
        let problem = format!("{name} takes effect once a run, so no variant can change it");
        return Some((name.clone(), problem));
    }
    let changed = treatment::apply(variant, chosen, settings);
    let own = match workload.configure(&changed) {
        Ok(own) => own,
        Err(error) => return Some((error.setting.clone(), error.to_string())),
    };
    (own.clients() != system.clients()).then(|| {
        let problem = format!(
            "variant {} moves the clients into the system or out of it: make it another recipe",
            variant.id
        );
        (String::new(), problem)
    })
}

/// Whether an id is one of Kneepoint's own.
pub(super) fn is_taken(id: &str) -> bool {
    TAKEN.contains(&id) || treatment::named(id).is_some()
}

/// What a stanza adds to; none where that is the baseline.
fn over(stanza: &VariantText, chosen: &[Treatment]) -> Result<Option<String>, Misfit> {
    let Some(over) = &stanza.over else { return Ok(None) };
    let name = over.get_ref();
    if name == VariantId::BASELINE {
        return Ok(None);
    }
    if chosen.iter().any(|other| &other.id == name) {
        return Ok(Some(name.clone()));
    }
    let earlier = chosen.iter().map(|other| other.id.as_str());
    let known: Vec<&str> = std::iter::once(VariantId::BASELINE).chain(earlier).collect();
    let problem =
        format!("over must be one of those before it: {} (found {name:?})", known.join(", "));
    Err(Misfit::at(over.span(), problem))
}
