//! `kneepoint list`: recipes, treatments and collectors, and whether they can run here.

use crate::cli::ListArgs;
use crate::{OK, print};
use anyhow::Result;
use kneepoint_probe::{Probe, ProbeOptions};
use kneepoint_rig::Need;
use kneepoint_rig::recipe::{self, Listing};
use kneepoint_rig::treatment::{self, Treatment};
use kneepoint_vocab::Tier;
use serde::Serialize;
use serde_json::json;

pub(crate) fn list(args: &ListArgs) -> Result<u8> {
    if args.variants {
        return super::variants::list(args);
    }
    let recipes = recipe::all()?;
    let collectors = collectors();
    let text = if args.json {
        format!("{}\n", serde_json::to_string_pretty(&as_json(&recipes, &collectors))?)
    } else {
        as_text(&recipes, &collectors)
    };
    print::out(&text)?;
    Ok(OK)
}

/// One collector tier.
#[derive(Serialize)]
struct Collector {
    tier: &'static str,
    sees: &'static str,
    /// Why it cannot be used here; absent where it can.
    lacking: Option<String>,
}

/// The tiers, the better one really attached and taken off again.
fn collectors() -> Vec<Collector> {
    let options = ProbeOptions { tier: Some(Tier::Full), stacks: false, ..ProbeOptions::default() };
    vec![
        Collector {
            tier: "full",
            sees: "every switch and wake-up, by eBPF",
            lacking: Probe::attach(&options).err().map(|error| error.to_string()),
        },
        Collector { tier: "fallback", sees: "thread states read from /proc", lacking: None },
    ]
}

/// Where descriptions begin.
const COLUMN: usize = 25;

fn as_text(recipes: &[Listing], collectors: &[Collector]) -> String {
    let mut text = String::from("recipes (kneepoint run RECIPE)\n");
    for recipe in recipes {
        let needs = needs(recipe);
        let head = format!("  {:<22} ", recipe.name);
        text.push_str(&print::hanging(&head, COLUMN, &format!("{}; {needs}", recipe.summary)));
    }
    text.push_str("\ntreatments (a recipe names those it tries)\n");
    for treatment in treatment::all() {
        let head = format!("  {:<22} ", treatment.id);
        text.push_str(&print::hanging(&head, COLUMN, &describe(treatment)));
    }
    text.push_str("\ncollectors (the best available is used; `kneepoint doctor` tells more)\n");
    for collector in collectors {
        let here = match &collector.lacking {
            None => "here".to_owned(),
            Some(lacking) => format!("not here: {lacking}"),
        };
        let head = format!("  {:<22} ", collector.tier);
        text.push_str(&print::hanging(&head, COLUMN, &format!("{}; {here}", collector.sees)));
    }
    text
}

/// Whether a recipe can run here, or the one command after which it can.
fn needs(recipe: &Listing) -> String {
    let lacking: Vec<_> = recipe.needs.iter().filter(|need| !need.here).collect();
    if recipe.needs.is_empty() {
        return "runs anywhere".to_owned();
    }
    if lacking.is_empty() {
        let what: Vec<_> = recipe.needs.iter().map(|need| need.what.as_str()).collect();
        return format!("needs {}: here", what.join(", "));
    }
    let what: Vec<_> = lacking.iter().map(|need| need.what.as_str()).collect();
    match Need::install_line(&recipe.needs) {
        Some(line) => format!("lacks {}: {line}", what.join(", ")),
        None => format!("lacks {}", what.join(", ")),
    }
}

fn describe(treatment: &Treatment) -> String {
    match &treatment.over {
        Some(over) => format!("{} (over {over})", treatment.label),
        None => treatment.label.clone(),
    }
}

fn as_json(recipes: &[Listing], collectors: &[Collector]) -> serde_json::Value {
    let recipes: Vec<_> = recipes
        .iter()
        .map(|r| json!({ "name": r.name, "summary": r.summary, "needs": r.needs }))
        .collect();
    let treatments: Vec<_> = treatment::all()
        .iter()
        .map(|t| {
            json!({
                "id": t.id, "label": t.label, "workload": t.workload, "over": t.over,
                "set": t.set, "expects": t.expects, "proof": t.shown_by,
            })
        })
        .collect();
    json!({ "recipes": recipes, "treatments": treatments, "collectors": collectors })
}
