//! From a recipe and the caller's wishes to a complete design.

use crate::options::RunOptions;
use crate::schedule::{Step, estimate, schedule};
use anyhow::{Result, ensure};
use kneepoint_rig::recipe::level::resolve_all;
use kneepoint_rig::recipe::{LevelSpec, Published};
use kneepoint_vocab::{
    Clients, Level, LevelOrder, Nanos, Plan, ProtocolName, Ratio, VariantId, VariantRole,
};

/// Window of a slice where the recipe names none.
const SLICE: Nanos = Nanos::from_millis(500);
/// Lead-in of a slice where the recipe names none.
const RAMP: Nanos = Nanos::from_millis(100);
/// The most that clients are given to settle where the recipe names nothing and they can tell.
const SETTLE: Nanos = Nanos::from_millis(3_000);
/// Sweep blocks where the recipe names none.
const SWEEP_BLOCKS: u32 = 6;
/// Least and most effect blocks where the recipe names none. A variant that is decided early leaves
/// its slices to the others, so the most is what the last undecided variant may get.
const EFFECT_BLOCKS: (u32, u32) = (6, 18);
/// Effect blocks to a start. A start is one draw of the memory layout, and effects are judged by
/// how they hold across starts: as many starts as blocks give the narrowest honest interval.
const BLOCKS_PER_START: u32 = 1;
/// Half-width of an effect's interval at which it may stop.
const PRECISION: Ratio = Ratio(0.05);
/// Half-width of the interval at the peak, as a share of it, at which the sweep needs no further
/// blocks.
const SWEEP_PRECISION: Ratio = Ratio(0.08);
/// Effects smaller than this are 'no effect'.
const SMALLEST_EFFECT: Ratio = Ratio(0.10);
/// Wall-clock budget of measuring.
const BUDGET: Nanos = Nanos::from_millis(84_000);
/// With a smaller budget locks are not counted: that would be too much of it.
const CENSUS_FROM: Nanos = Nanos::from_millis(20_000);
/// A slice with more CPU of other processes is disturbed.
const OTHERS_LIMIT: Ratio = Ratio(0.03);
/// A slice with more steal is disturbed.
const STEAL_LIMIT: Ratio = Ratio(0.01);

/// The design of a run on a machine with `cores` cores.
///
/// # Errors
/// Where no level is asked for, or more cores than there are; or a published protocol in a budget
/// that ends before its first slice.
pub fn plan(options: &RunOptions, cores: u32) -> Result<Plan> {
    let recipe = &options.recipe;
    let protocol = &recipe.protocol;
    let clients_are = recipe.baseline.clients();
    let kept = generator_cores(options, clients_are, cores);
    let axis = cores_axis(options, cores, kept)?;
    let levels = levels(options.levels.as_ref().unwrap_or(&recipe.clients), &axis);
    ensure!(!levels.is_empty(), "no level to measure: give at least one with --levels");
    let cores = axis.last().copied().unwrap_or(cores);
    let budget = options.budget.or(protocol.budget).unwrap_or(BUDGET);
    let own = Plan {
        recipe: recipe.name.clone(),
        summary: recipe.summary.clone(),
        operation: recipe.operation.clone(),
        clients: clients_are,
        generator_cores: kept,
        protocol: ProtocolName::Default,
        level_order: LevelOrder::Random,
        warm_up: None,
        census: budget >= CENSUS_FROM,
        seed: options.seed.unwrap_or_else(fresh_seed),
        focus: match options.try_at {
            Some(wanted) => wanted_focus(&levels, wanted.resolve(cores), cores)?,
            None => focus(&levels, recipe.focus.resolve(cores), cores),
        },
        levels,
        variants: recipe.variants().into_iter().map(|variant| variant.plan).collect(),
        sweep_variants: recipe.sweep_treatments.iter().map(|one| VariantId::new(&one.id)).collect(),
        slice: protocol.slice.unwrap_or(SLICE),
        ramp: protocol.ramp.unwrap_or(RAMP),
        settle: match recipe.baseline.tells_progress() {
            true => protocol.settle.unwrap_or(SETTLE),
            false => Nanos(0),
        },
        sweep_blocks: protocol.sweep_blocks.unwrap_or(SWEEP_BLOCKS),
        effect_blocks: protocol.effect_blocks.unwrap_or(EFFECT_BLOCKS),
        blocks_per_start: protocol.blocks_per_start.unwrap_or(BLOCKS_PER_START),
        precision: options.precision.or(protocol.precision).unwrap_or(PRECISION),
        smallest_effect: protocol.smallest_effect.unwrap_or(SMALLEST_EFFECT),
        allowed_overhead: options.allowed_overhead,
        sweep_precision: Some(options.precision.unwrap_or(SWEEP_PRECISION)),
        budget,
        others_limit: OTHERS_LIMIT,
        steal_limit: STEAL_LIMIT,
        names: recipe.names.clone(),
    };
    match &recipe.follows {
        Some(published) => as_published(options, own, published, &axis),
        None => Ok(own),
    }
}

/// The level at which the caller wants variants tried.
fn wanted_focus(levels: &[Level], clients: u32, cores: u32) -> Result<Level> {
    let wanted = Level { clients, cores };
    let here = levels.iter().filter(|level| level.cores == cores);
    let all: Vec<String> = here.map(|level| level.clients.to_string()).collect();
    ensure!(
        levels.contains(&wanted),
        "--try-at {clients} is no level of the sweep: it has {} clients",
        all.join(", ")
    );
    Ok(wanted)
}

/// The level that was asked for or, since one that the sweep leaves out would have no ledger, the
/// next lower one on as many cores; where there is none, the lowest.
fn focus(levels: &[Level], clients: u32, cores: u32) -> Level {
    let here = || levels.iter().filter(|level| level.cores == cores);
    let below = here().filter(|level| level.clients <= clients).max_by_key(|level| level.clients);
    let lowest = || here().min_by_key(|level| level.clients);
    below.or_else(lowest).copied().unwrap_or(Level { clients, cores })
}

/// The same system, measured as it was by those who published it: the baseline alone, every level
/// for a long slice.
fn as_published(
    options: &RunOptions,
    own: Plan,
    published: &Published,
    axis: &[u32],
) -> Result<Plan> {
    let levels = levels(options.levels.as_ref().unwrap_or(&published.clients), axis);
    let cores = own.focus.cores;
    let clients = published.focus.resolve(cores);
    let mut plan = Plan {
        protocol: ProtocolName::Published,
        level_order: published.order,
        warm_up: Some(published.warm_up),
        census: false,
        focus: focus(&levels, clients, cores),
        levels,
        variants: own
            .variants
            .into_iter()
            .filter(|variant| variant.role == VariantRole::Baseline)
            .collect(),
        slice: published.slice,
        ramp: published.ramp,
        settle: Nanos(0),
        sweep_precision: None,
        sweep_blocks: published.repetitions,
        effect_blocks: (0, 0),
        blocks_per_start: 1,
        ..own
    };
    let until_first: Nanos = schedule(&plan)
        .iter()
        .take_while(
            |step| !matches!(step, Step::Slice(slice) if slice.block > 0 || slice.position > 0),
        )
        .map(|step| estimate(&plan, step))
        .sum();
    let whole = duration(&plan);
    plan.budget = options.budget.unwrap_or(whole + whole + UNFORESEEN);
    ensure!(
        plan.budget >= until_first,
        "the budget ends before the first slice of the published protocol does: give at least \
         {:.0} s, or {:.0} s for all of it",
        until_first.seconds().0.ceil(),
        whole.seconds().0.ceil()
    );
    Ok(plan)
}

/// Beyond twice its length, a run without a budget of its own has stopped getting on.
const UNFORESEEN: Nanos = Nanos::from_millis(120_000);

/// Fewest cores of which a load generator gets some of its own by itself: with fewer it would
/// take a third or a half of the machine from what is measured.
const CORES_TO_SPARE: u32 = 4;

/// Cores that only the load generator uses: so many as were asked for, else a quarter of those of
/// a machine that can spare them, as far as the system is not to have them. A published protocol
/// says itself where its generator ran.
fn generator_cores(options: &RunOptions, clients: Clients, cores: u32) -> u32 {
    let by_rule = || {
        let apart = clients == Clients::Apart && options.recipe.follows.is_none();
        let spared = if apart && cores >= CORES_TO_SPARE { cores / 4 } else { 0 };
        let asked = options.cores.iter().flatten().max().copied().unwrap_or(0);
        spared.min(cores.saturating_sub(asked))
    };
    options.generator_cores.unwrap_or_else(by_rule)
}

/// Numbers of cores to measure on, ascending: those asked for, else all that the generator leaves.
fn cores_axis(options: &RunOptions, cores: u32, kept: u32) -> Result<Vec<u32>> {
    ensure!(
        kept < cores,
        "the load generator cannot have {kept} of {cores} cores: leave the system at least one"
    );
    let left = cores - kept;
    let mut axis = options.cores.clone().unwrap_or_else(|| vec![left]);
    axis.sort_unstable();
    axis.dedup();
    for asked in &axis {
        ensure!(
            (1..=left).contains(asked),
            "the system cannot have {asked} cores: this machine gives it 1 to {left}"
        );
    }
    Ok(axis)
}

/// Every number of clients on every number of cores, ascending.
fn levels(clients: &[LevelSpec], axis: &[u32]) -> Vec<Level> {
    let on = |&cores: &u32| {
        resolve_all(clients, cores).into_iter().map(move |clients| Level { clients, cores })
    };
    let mut levels: Vec<Level> = axis.iter().flat_map(on).collect();
    levels.sort_unstable();
    levels
}

/// Wall time that the plan is expected to take, were no look to stop it.
#[must_use]
pub fn duration(plan: &Plan) -> Nanos {
    schedule(plan).iter().map(|step| estimate(plan, step)).sum()
}

/// A seed that differs between runs. Short, because people type it.
fn fresh_seed() -> u64 {
    let since_epoch = std::time::SystemTime::now()
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::from(since_epoch.subsec_nanos()) ^ (since_epoch.as_secs() & 0xffff_ffff)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use kneepoint_rig::recipe::Recipe;
    use kneepoint_vocab::VariantPlan;

    /// Two levels, four variants.
    pub(crate) fn small_plan() -> Plan {
        let variant = |id: &str, role| VariantPlan {
            id: VariantId::new(id),
            role,
            label: id.to_owned(),
            over: VariantId::new(VariantId::BASELINE),
            changes: Vec::new(),
        };
        Plan {
            recipe: "small".into(),
            summary: "for tests".into(),
            operation: "operations".into(),
            clients: Clients::Inside,
            generator_cores: 0,
            protocol: ProtocolName::Default,
            level_order: LevelOrder::Random,
            warm_up: None,
            census: false,
            seed: 1,
            levels: vec![Level { clients: 1, cores: 2 }, Level { clients: 4, cores: 2 }],
            focus: Level { clients: 4, cores: 2 },
            variants: vec![
                variant(VariantId::BASELINE, VariantRole::Baseline),
                variant(VariantId::CONTROL, VariantRole::Control),
                variant(VariantId::UNPROBED, VariantRole::Unprobed),
                variant("other", VariantRole::Treatment),
            ],
            sweep_variants: Vec::new(),
            slice: SLICE,
            ramp: RAMP,
            settle: Nanos(0),
            sweep_blocks: 4,
            effect_blocks: (4, 6),
            blocks_per_start: 2,
            precision: PRECISION,
            smallest_effect: SMALLEST_EFFECT,
            allowed_overhead: None,
            sweep_precision: None,
            budget: BUDGET,
            others_limit: OTHERS_LIMIT,
            steal_limit: STEAL_LIMIT,
            names: kneepoint_vocab::Names::default(),
        }
    }

    fn options(recipe: &str) -> RunOptions {
        RunOptions {
            recipe: Recipe::named(recipe).unwrap(),
            levels: None,
            try_at: None,
            cores: None,
            generator_cores: None,
            seed: Some(1),
            precision: None,
            allowed_overhead: None,
            budget: None,
            tier: None,
            directory: "nowhere".into(),
            numbered: false,
            server: "nobody".into(),
        }
    }

    #[test]
    fn a_generator_gets_a_quarter_of_a_machine_that_can_spare_it() {
        let server = options("mariadb-oltp-ro");
        let kept = |options: &RunOptions, cores| {
            let plan = plan(options, cores).unwrap();
            (plan.generator_cores, plan.focus.cores)
        };
        let found = [1, 2, 3, 4, 7, 8, 16].map(|cores| kept(&server, cores));
        assert_eq!(found, [(0, 1), (0, 2), (0, 3), (1, 3), (1, 6), (2, 6), (4, 12)]);
        // Where the clients live in the system there is nobody to give cores to.
        assert_eq!(kept(&options("sqlite-shared-cache"), 16), (0, 16));
        for (asked, expected) in [(0, (0, 8)), (3, (3, 5))] {
            assert_eq!(
                kept(&RunOptions { generator_cores: Some(asked), ..options("postgres-select") }, 8),
                expected
            );
        }
        let axis = |cores: &[u32]| RunOptions {
            cores: Some(cores.to_vec()),
            ..options("postgres-select")
        };
        assert_eq!(kept(&axis(&[1, 8]), 8), (0, 8));
        assert_eq!(kept(&axis(&[7]), 8), (1, 7));
        assert_eq!(kept(&axis(&[2, 4]), 8), (2, 4));
    }

    #[test]
    fn only_what_tells_its_progress_is_given_time_to_settle() {
        let settle = |recipe: &str| plan(&options(recipe), 2).unwrap().settle;
        assert_eq!(settle("mariadb-oltp-ro"), Nanos::from_millis(3000));
        assert_eq!(settle("sqlite-shared-cache"), Nanos(0));
    }

    #[test]
    fn variants_are_tried_where_the_caller_wants_if_that_is_a_level() {
        let at = |clients| RunOptions {
            try_at: Some(LevelSpec::Clients(clients)),
            ..options("sqlite-shared-cache")
        };
        assert_eq!(plan(&at(1), 2).unwrap().focus, Level { clients: 1, cores: 2 });
        let refused = plan(&at(7), 2).unwrap_err().to_string();
        assert!(
            refused.starts_with("--try-at 7 is no level of the sweep: it has 1, 2"),
            "{refused}"
        );
    }

    #[test]
    fn the_focus_is_a_level_that_is_measured() {
        let level = |clients, cores| Level { clients, cores };
        let levels = [level(1, 1), level(4, 1), level(1, 2), level(3, 2), level(8, 2)];
        assert_eq!(focus(&levels, 3, 2), level(3, 2));
        assert_eq!(focus(&levels, 4, 2), level(3, 2));
        assert_eq!(focus(&levels, 4, 1), level(4, 1));
        assert_eq!(focus(&levels[3..], 2, 2), level(3, 2), "none is lower");
    }
}
