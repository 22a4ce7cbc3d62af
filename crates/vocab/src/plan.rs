//! What a run is going to do, decided before the first trial and stored as `plan.toml`.

use crate::names::Names;
use crate::units::{Nanos, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One point of the sweep.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Level {
    /// Closed-loop clients in flight.
    pub clients: u32,
    /// Cores that the system under test may use.
    pub cores: u32,
}

/// Name of a variant, unique within a run, e.g. `baseline` or `private-cache`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct VariantId(pub String);

impl VariantId {
    /// The variant that every sweep measures and treatments are compared with.
    pub const BASELINE: &'static str = "baseline";
    /// A second start of the baseline: the A/A control.
    pub const CONTROL: &'static str = "control";
    /// The baseline with the collector detached: shows the probe effect.
    pub const UNPROBED: &'static str = "unprobed";

    /// A variant of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

impl std::fmt::Display for VariantId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a variant is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VariantRole {
    /// The system as the recipe gives it.
    Baseline,
    /// A/A control: the baseline again, another start.
    Control,
    /// The baseline with the collector detached.
    Unprobed,
    /// One factor changed.
    Treatment,
}

/// One version of the system under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariantPlan {
    /// Its name.
    pub id: VariantId,
    /// What it is for.
    pub role: VariantRole,
    /// One line for people, e.g. `private page caches`.
    pub label: String,
    /// The variant that it is compared with: the baseline, or another treatment that it adds to.
    pub over: VariantId,
    /// What it changes against `over`, as `setting = value` lines.
    pub changes: Vec<String>,
}

/// Where the closed-loop clients live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Clients {
    /// They are threads of the system under test: its client threads run the operations.
    #[default]
    Inside,
    /// In a load generator of its own. The system's client threads serve them one to one, and
    /// waiting for the next request is idleness, no cause.
    Apart,
}

/// The order of the levels within a sweep block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LevelOrder {
    /// Random in each block, so that drift hits all levels alike.
    #[default]
    Random,
    /// Ascending, as published measurements usually were.
    Ascending,
}

/// Which protocol a plan follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProtocolName {
    /// Kneepoint's own: short slices, interleaved in random blocks.
    #[default]
    Default,
    /// That of the document which the recipe comes from.
    Published,
    /// Results of other tools: nothing was measured by Kneepoint.
    Imported,
    /// One level of a system that ran already; see [`Plan::is_counted`].
    Profile,
}

/// The whole design of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The recipe's name, e.g. `sqlite-shared-cache`.
    pub recipe: String,
    /// The recipe's one line for people.
    pub summary: String,
    /// What one operation is, in the plural, e.g. `transactions`.
    pub operation: String,
    /// Where the clients live.
    #[serde(default)]
    pub clients: Clients,
    /// Cores that only the load generator uses; 0 where it shares those of the system.
    #[serde(default)]
    pub generator_cores: u32,
    /// Which protocol this is.
    #[serde(default)]
    pub protocol: ProtocolName,
    /// The order of the levels within a sweep block.
    #[serde(default)]
    pub level_order: LevelOrder,
    /// Warm-up of this length at the focus level, in place of waiting for the change-point test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<Nanos>,
    /// Whether locks are counted before the sweep, at its fewest clients.
    #[serde(default)]
    pub census: bool,
    /// Seed of every random choice in the run and in its analysis.
    pub seed: u64,
    /// Levels in ascending order.
    pub levels: Vec<Level>,
    /// The level at which treatments are tried.
    pub focus: Level,
    /// Baseline first, then controls and treatments.
    #[serde(rename = "arms")]
    pub variants: Vec<VariantPlan>,
    /// Treatments that the sweep measures beside the baseline, at every level.
    #[serde(rename = "sweep_arms", default, skip_serializing_if = "Vec::is_empty")]
    pub sweep_variants: Vec<VariantId>,
    /// Length of the measured window of a slice.
    pub slice: Nanos,
    /// Discarded lead-in of each slice: threads start, caches refill. The least of it, where
    /// `settle` is longer.
    pub ramp: Nanos,
    /// The most that a slice's clients are given to settle, where they tell their count at any
    /// instant; 0 where they do not, and where a published protocol says how long.
    #[serde(default)]
    pub settle: Nanos,
    /// Sweep blocks; each holds every level once for the baseline and for each of `sweep_variants`,
    /// in random order.
    pub sweep_blocks: u32,
    /// Least and most effect blocks; each holds every variant once, in random order.
    pub effect_blocks: (u32, u32),
    /// Effect blocks after which a start is replaced by a new one.
    pub blocks_per_start: u32,
    /// Half-width of the 95 % interval of a small effect at which it may stop. Large ones, and
    /// none, may stop as soon as they are known for sure.
    pub precision: Ratio,
    /// Half-width of the interval of the throughput at the peak, as a share of it, at which the
    /// sweep needs no further blocks; absent where it is as long as planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_precision: Option<Ratio>,
    /// Smallest effect that matters: below it the verdict is 'no effect'.
    pub smallest_effect: Ratio,
    /// The part of the throughput that the collector may take before the result is not to be
    /// trusted, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_overhead: Option<Ratio>,
    /// Wall-clock budget of the whole run.
    pub budget: Nanos,
    /// CPU of other processes above this share of capacity disturbs a slice.
    #[serde(rename = "foreign_limit")]
    pub others_limit: Ratio,
    /// Steal above this share of capacity disturbs a slice.
    pub steal_limit: Ratio,
    /// What the recipe adds to the names of functions that stand before a lock.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub names: Names,
}

/// Two variants of one base, and both together: with the base they are the cells of a 2×2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crossing<'a> {
    /// The one whose changes `both` adds to.
    pub one: &'a VariantPlan,
    /// The other one.
    pub other: &'a VariantPlan,
    /// The changes of both.
    pub both: &'a VariantPlan,
}

impl Crossing<'_> {
    /// The three variants.
    #[must_use]
    pub fn cells(&self) -> [&VariantId; 3] {
        [&self.one.id, &self.other.id, &self.both.id]
    }
}

impl Plan {
    /// What `operation` is where nothing was counted: operations of slices are then the
    /// nanoseconds of their windows, so that what is reported of an operation is reported of time.
    pub const UNCOUNTED: &'static str = "nanoseconds";

    /// Whether operations were counted. Only a profile may be without.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.protocol != ProtocolName::Profile || self.operation != Self::UNCOUNTED
    }

    /// The variant of this name.
    #[must_use]
    pub fn variant(&self, id: &VariantId) -> Option<&VariantPlan> {
        self.variants.iter().find(|variant| &variant.id == id)
    }

    /// All of 2×2: a variant that adds to another just what a third one changes in the base of that
    /// other.
    #[must_use]
    pub fn crossings(&self) -> Vec<Crossing<'_>> {
        let treatments =
            || self.variants.iter().filter(|variant| variant.role == VariantRole::Treatment);
        let found = treatments().filter_map(|both| {
            let one = treatments().find(|one| one.id == both.over)?;
            let other = treatments().find(|other| {
                let is_apart = other.id != one.id && other.id != both.id;
                is_apart && other.over == one.over && other.changes == both.changes
            })?;
            let differ = !both.changes.is_empty() && one.changes != both.changes;
            differ.then_some(Crossing { one, other, both })
        });
        found.collect()
    }

    /// The variants whose slices `variant` is compared with: the one that it adds to and, where
    /// that is the baseline, the A/A control too, which is the same system started once more. The
    /// control itself is compared with the baseline alone.
    #[must_use]
    pub fn bases(&self, variant: &VariantPlan) -> Vec<&VariantId> {
        let wanted = |other: &&VariantPlan| {
            let is_control =
                other.role == VariantRole::Control && variant.over.0 == VariantId::BASELINE;
            other.id == variant.over || (is_control && variant.role != VariantRole::Control)
        };
        self.variants.iter().filter(wanted).map(|variant| &variant.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(variants: Vec<VariantPlan>) -> Plan {
        let level = Level { clients: 2, cores: 2 };
        Plan {
            recipe: String::new(),
            summary: String::new(),
            operation: String::new(),
            clients: Clients::Inside,
            generator_cores: 0,
            protocol: ProtocolName::Default,
            level_order: LevelOrder::Random,
            warm_up: None,
            census: false,
            seed: 1,
            levels: vec![level],
            focus: level,
            variants,
            slice: Nanos(1),
            ramp: Nanos(0),
            settle: Nanos(0),
            sweep_variants: Vec::new(),
            sweep_blocks: 1,
            effect_blocks: (1, 1),
            blocks_per_start: 1,
            precision: Ratio(0.05),
            smallest_effect: Ratio(0.05),
            allowed_overhead: None,
            sweep_precision: None,
            budget: Nanos(1),
            others_limit: Ratio(0.03),
            steal_limit: Ratio(0.01),
            names: Names::default(),
        }
    }

    fn variant(id: &str, role: VariantRole, over: &str) -> VariantPlan {
        let label = String::new();
        VariantPlan {
            id: VariantId::new(id),
            role,
            label,
            over: VariantId::new(over),
            changes: Vec::new(),
        }
    }

    #[test]
    fn the_control_stands_beside_the_baseline_for_all_but_itself() {
        let base = VariantId::BASELINE;
        let variants = vec![
            variant(base, VariantRole::Baseline, base),
            variant("control", VariantRole::Control, base),
            variant("unprobed", VariantRole::Unprobed, base),
            variant("cure", VariantRole::Treatment, base),
            variant("more", VariantRole::Treatment, "cure"),
        ];
        let plan = plan_of(variants);
        let bases = |index: usize| -> Vec<&str> {
            plan.bases(&plan.variants[index]).into_iter().map(|id| id.0.as_str()).collect()
        };
        assert_eq!(bases(1), [base]);
        assert_eq!(bases(2), [base, "control"]);
        assert_eq!(bases(3), [base, "control"]);
        assert_eq!(bases(4), ["cure"]);
    }

    #[test]
    fn variants_that_change_the_same_over_two_bases_are_crossed() {
        let changing = |id: &str, over: &str, changes: &[&str]| VariantPlan {
            changes: changes.iter().map(|change| (*change).to_owned()).collect(),
            ..variant(id, VariantRole::Treatment, over)
        };
        let base = VariantId::BASELINE;
        let crossed = |variants: Vec<VariantPlan>| {
            let plan = plan_of(variants);
            let all = plan.crossings();
            all.iter().map(|one| one.cells().map(|id| id.0.clone()).join(" ")).collect::<Vec<_>>()
        };
        let cells = vec![
            variant(base, VariantRole::Baseline, base),
            changing("a", base, &["x = 1"]),
            changing("b", base, &["y = 2"]),
            changing("ab", "a", &["y = 2"]),
        ];
        assert_eq!(crossed(cells.clone()), ["a b ab"]);
        for (at, other) in [
            (2, changing("b", base, &["y = 3"])),
            (2, changing("b", "a", &["y = 2"])),
            (3, changing("ab", base, &["y = 2"])),
            (1, changing("a", base, &["y = 2"])),
        ] {
            let mut cells = cells.clone();
            cells[at] = other;
            assert_eq!(crossed(cells.clone()), [""; 0], "{cells:?}");
        }
    }
}
