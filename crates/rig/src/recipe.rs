//! An experiment that a user can run as is: which workload, which levels, which treatments.
//!
//! `recipes/README.md` describes the format. A recipe is refused as a whole, with the line and
//! column of the first thing that is wrong, before anything is started.

mod against;
mod command_line;
mod cross;
mod error;
mod fields;
mod fitting;
pub mod level;
mod parse;
mod published;
mod variant_line;
mod variants;

pub use against::{AGAINST, Earlier};
pub use error::RecipeError;
pub use fitting::Fitting;
pub use level::LevelSpec;

use crate::scheduling::Scheduling;
use crate::search_path::SearchPath;
use crate::treatment::{self, Treatment};
use crate::workload::{Configured, Need, Workload};
use kneepoint_vocab::{LevelOrder, Names, Nanos, Ratio, VariantId, VariantPlan, VariantRole};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Name and text of each recipe that is part of Kneepoint.
const BUILT_IN: &[(&str, &str)] = &[
    ("block-read-512", include_str!("../../../recipes/block-read-512.toml")),
    ("file-random-write", include_str!("../../../recipes/file-random-write.toml")),
    ("mariadb-oltp-ro", include_str!("../../../recipes/mariadb-oltp-ro.toml")),
    ("mariadb-point-select", include_str!("../../../recipes/mariadb-point-select.toml")),
    ("mariadb-temp-tables", include_str!("../../../recipes/mariadb-temp-tables.toml")),
    ("mariadb-update", include_str!("../../../recipes/mariadb-update.toml")),
    ("overload-stability", include_str!("../../../recipes/overload-stability.toml")),
    ("postgres-select", include_str!("../../../recipes/postgres-select.toml")),
    ("postgres-tpcb", include_str!("../../../recipes/postgres-tpcb.toml")),
    ("redis", include_str!("../../../recipes/redis.toml")),
    ("sqlite-shared-cache", include_str!("../../../recipes/sqlite-shared-cache.toml")),
    ("supersmack-select-key", include_str!("../../../recipes/supersmack-select-key.toml")),
    ("supersmack-update-select", include_str!("../../../recipes/supersmack-update-select.toml")),
];

/// A checked recipe.
#[derive(Clone)]
pub struct Recipe {
    /// Its name: 1 to 64 of `a-z`, `0-9`, `-`.
    pub name: String,
    /// One line for people.
    pub summary: String,
    /// What one operation is, in the plural.
    pub operation: String,
    /// What is brought up and driven.
    pub workload: &'static dyn Workload,
    /// The baseline's settings of the workload, as written; defaults are not filled in.
    pub settings: BTreeMap<String, String>,
    /// The baseline as these settings make it.
    pub baseline: Arc<dyn Configured>,
    /// Levels of the sweep, as written.
    pub clients: Vec<LevelSpec>,
    /// The level at which treatments are tried; one of `clients`.
    pub focus: LevelSpec,
    /// Variants to try: those of the catalogue that it names, then its own, in the order written;
    /// one that adds to another comes after it.
    pub treatments: Vec<Treatment>,
    /// Those of them that the sweep measures at every level, in the order of `treatments`.
    pub sweep_treatments: Vec<Treatment>,
    /// What it adds to the names of functions that stand before a lock.
    pub names: Names,
    /// What the recipe asks of the protocol.
    pub protocol: Protocol,
    /// The published protocol that it follows in place of its own.
    pub follows: Option<Published>,
    /// The protocol of the document that the recipe comes from; [`Self::as_published`] takes it.
    published: Option<Published>,
}

/// How a published measurement was taken: one configuration, long slices, no treatments.
#[derive(Clone, Debug)]
pub struct Published {
    /// Warm-up at the focus level.
    pub warm_up: Nanos,
    /// Length of the measured window of a slice.
    pub slice: Nanos,
    /// Discarded lead-in of a slice.
    pub ramp: Nanos,
    /// How often every level is measured.
    pub repetitions: u32,
    /// Levels, as written.
    pub clients: Vec<LevelSpec>,
    /// The level of the warm-up, and that at which causes are ranked.
    pub focus: LevelSpec,
    /// The order of the levels in each repetition.
    pub order: LevelOrder,
    /// Settings of the workload; those that the document does not name are the recipe's.
    pub settings: BTreeMap<String, String>,
    /// The system as these settings make it.
    pub system: Arc<dyn Configured>,
}

/// What a recipe asks of the protocol; where it is silent, the planner decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Protocol {
    /// Length of the measured window of a slice.
    pub slice: Option<Nanos>,
    /// Discarded lead-in of a slice.
    pub ramp: Option<Nanos>,
    /// The most that clients are given to settle, where they can tell.
    pub settle: Option<Nanos>,
    /// Sweep blocks.
    pub sweep_blocks: Option<u32>,
    /// Least and most effect blocks.
    pub effect_blocks: Option<(u32, u32)>,
    /// Effect blocks after which a start is replaced.
    pub blocks_per_start: Option<u32>,
    /// Half-width of an effect's 95 % interval at which it may stop: 0.001 to 0.5.
    pub precision: Option<Ratio>,
    /// Smallest effect that matters: 0.001 to 0.5.
    pub smallest_effect: Option<Ratio>,
    /// Wall-clock budget of a run.
    pub budget: Option<Nanos>,
}

/// One variant that a recipe asks for, and the settings that make it.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// Its entry in the plan.
    pub plan: VariantPlan,
    /// Settings of the workload in this variant.
    pub settings: BTreeMap<String, String>,
    /// Where and how its threads run.
    pub scheduling: Scheduling,
}

/// One line of `kneepoint list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The recipe's name.
    pub name: String,
    /// Its one line.
    pub summary: String,
    /// What the machine must have for it; empty where it runs anywhere.
    pub needs: Vec<Need>,
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recipe")
            .field("name", &self.name)
            .field("workload", &self.workload.name())
            .field("settings", &self.settings)
            .field("clients", &self.clients)
            .field("focus", &self.focus)
            .field("protocol", &self.protocol)
            .finish_non_exhaustive()
    }
}

impl Recipe {
    /// The built-in recipe of this name.
    ///
    /// # Errors
    /// There is none; the message lists those that there are.
    pub fn named(name: &str) -> Result<Self, RecipeError> {
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = BUILT_IN.iter().map(|(known, _)| *known).collect();
            return Err(RecipeError::Unknown { name: name.to_owned(), known: known.join(", ") });
        };
        Self::parse(&format!("recipes/{name}.toml"), text)
    }

    /// The recipe in a file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or says something that makes no sense.
    pub fn load(path: &Path) -> Result<Self, RecipeError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| RecipeError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// The recipe in `text`; `origin` is what error messages call it.
    ///
    /// # Errors
    /// It is not TOML, or says something that makes no sense.
    pub fn parse(origin: &str, text: &str) -> Result<Self, RecipeError> {
        parse::parse(text).map_err(|misfit| misfit.within(origin, text))
    }

    /// The recipe as its document measured: with the document's settings, without treatments.
    ///
    /// # Errors
    /// The recipe tells no such protocol; the message lists those that do.
    pub fn as_published(mut self) -> Result<Self, RecipeError> {
        let Some(published) = self.published.clone() else {
            let with = |(name, _): &&(&str, &str)| {
                Self::named(name).is_ok_and(|recipe| recipe.published.is_some())
            };
            let having: Vec<_> = BUILT_IN.iter().filter(with).map(|(name, _)| *name).collect();
            return Err(RecipeError::NotPublished { name: self.name, having: having.join(", ") });
        };
        self.settings.clone_from(&published.settings);
        self.baseline = published.system.clone();
        self.treatments.clear();
        self.sweep_treatments.clear();
        self.follows = Some(published);
        Ok(self)
    }

    /// What the machine must have for all variants; each thing once.
    #[must_use]
    pub fn needs(&self) -> Vec<Need> {
        self.needs_in(&SearchPath::own())
    }

    /// The same where programs are looked for in `path`.
    #[must_use]
    pub fn needs_in(&self, path: &SearchPath) -> Vec<Need> {
        let mut needs: Vec<Need> = Vec::new();
        for need in
            self.variants().iter().flat_map(|variant| self.workload.needs(&variant.settings, path))
        {
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
        needs
    }

    /// Leaves out treatments that the machine has not everything for, and those that add to them.
    /// Returns a line for each: which, and what is lacking.
    pub fn leave_out_lacking(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let path = SearchPath::own();
        let mut kept: Vec<Treatment> = Vec::new();
        for treatment in &self.treatments {
            let over = treatment.over.as_ref();
            let base_is_out = over.is_some_and(|over| kept.iter().all(|one| &one.id != over));
            let needs = self.workload.needs(&self.settings_of(treatment), &path);
            let scheduling = self.scheduling_of(treatment).lacking();
            let needed = needs.iter().filter(|need| !need.here).map(|need| need.what.as_str());
            let lacking: Vec<&str> = needed.chain(scheduling.as_deref()).collect();
            if lacking.is_empty() && !base_is_out {
                kept.push(treatment.clone());
                continue;
            }
            let why = match Need::install_line(&needs) {
                _ if lacking.is_empty() => "what it adds to is left out".to_owned(),
                Some(line) => format!("lacks {}; {line}", lacking.join(", ")),
                None => format!("lacks {}", lacking.join(", ")),
            };
            lines.push(format!("treatment {} is left out: {why}", treatment.id));
        }
        self.sweep_treatments.retain(|one| kept.iter().any(|other| other.id == one.id));
        self.treatments = kept;
        lines
    }

    /// The settings of one of its variants.
    #[must_use]
    pub fn settings_of(&self, treatment: &Treatment) -> BTreeMap<String, String> {
        treatment::apply(treatment, &self.treatments, &self.settings)
    }

    /// Where and how the threads of one of its variants run.
    #[must_use]
    pub fn scheduling_of(&self, treatment: &Treatment) -> Scheduling {
        treatment::scheduling(treatment, &self.treatments)
    }

    /// All variants of the recipe: the baseline, the A/A control, the baseline without collector,
    /// then the treatments in order.
    #[must_use]
    pub fn variants(&self) -> Vec<Variant> {
        let same = |id: &str, role, label: &str| Variant {
            plan: VariantPlan {
                id: VariantId::new(id),
                role,
                label: label.to_owned(),
                over: VariantId::new(VariantId::BASELINE),
                changes: Vec::new(),
            },
            settings: self.settings.clone(),
            scheduling: Scheduling::default(),
        };
        let mut variants = vec![
            same(VariantId::BASELINE, VariantRole::Baseline, "as the recipe gives it"),
            same(VariantId::CONTROL, VariantRole::Control, "the baseline again (A/A)"),
            same(VariantId::UNPROBED, VariantRole::Unprobed, "the baseline without collector"),
        ];
        variants.extend(self.treatments.iter().map(|treatment| Variant {
            plan: treatment.variant_plan(),
            settings: self.settings_of(treatment),
            scheduling: self.scheduling_of(treatment),
        }));
        variants
    }
}

/// The built-in recipes, in alphabetical order.
///
/// # Errors
/// One of them is malformed; a test sees to it that none is.
pub fn all() -> Result<Vec<Listing>, RecipeError> {
    BUILT_IN
        .iter()
        .map(|(name, _)| {
            let recipe = Recipe::named(name)?;
            let needs = recipe.needs();
            Ok(Listing { name: recipe.name, summary: recipe.summary, needs })
        })
        .collect()
}
