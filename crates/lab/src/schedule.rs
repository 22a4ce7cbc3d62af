//! The order of everything a run does, laid out before the first step.
//!
//! A run is a few rounds. Each round starts every variant anew (a start is one draw of the memory
//! layout), then interleaves: sweep blocks hold every level once, for the baseline and for each
//! treatment that the sweep measures, effect blocks every variant once, both in random order. Drift
//! of the machine so hits all levels and variants alike. Before all that, locks are counted once.

use crate::order::Order;
use kneepoint_vocab::{Level, LevelOrder, Nanos, Phase, Plan, VariantId};
use std::collections::BTreeSet;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Replace every variant's process by a new one.
    Start {
        /// Which start, from 0.
        start: u32,
    },
    /// Wait until the baseline is steady.
    WarmUp,
    /// Measure one slice.
    Slice(Planned),
    /// All slices of an effect block are done: is it enough?
    Look {
        /// Effect blocks done.
        blocks: u32,
    },
}

/// One slice as planned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Planned {
    pub(crate) phase: Phase,
    pub(crate) block: u32,
    pub(crate) position: u32,
    pub(crate) variant: VariantId,
    pub(crate) level: Level,
    pub(crate) start: u32,
}

/// Assumed cost of a round's new starts until the first ones are measured.
pub(crate) const START_ESTIMATE: Nanos = Nanos::from_millis(700);
/// Assumed cost of the warm-up.
pub(crate) const WARM_UP_ESTIMATE: Nanos = Nanos::from_millis(1_500);
/// Assumed cost of a slice beyond its ramp and window: starting and stopping clients, reading
/// the collector.
pub(crate) const SLICE_OVERHEAD_ESTIMATE: Nanos = Nanos::from_millis(60);
/// What the census takes beside its slice: to find locks, to look at them, to take probes off.
const CENSUS_ESTIMATE: Nanos = Nanos::from_millis(2_500);
/// The same where a load generator connects to a server and both have to agree at the end.
const SERVER_OVERHEAD_ESTIMATE: Nanos = Nanos::from_millis(300);

/// Whether the block of a slice is over before the `next` step; none where there is no step more.
pub(crate) fn block_has_ended(of: &Planned, next: Option<&Step>) -> bool {
    let block = |slice: &Planned| (slice.phase, slice.block, slice.start);
    match next {
        Some(Step::Slice(slice)) => block(slice) != block(of),
        _ => true,
    }
}

/// Every step of the plan, as if no look stopped it.
pub(crate) fn schedule(plan: &Plan) -> Vec<Step> {
    let mut order = Order::of(plan.seed);
    let per_start = plan.blocks_per_start.max(1);
    let (least, most) = plan.effect_blocks;
    let rounds = most.div_ceil(per_start).max(1);
    // The sweep belongs to the rounds that always happen.
    let sure_rounds = least.div_ceil(per_start).clamp(1, rounds);
    let mut steps = Vec::new();
    let (mut sweep_block, mut effect_block) = (0, 0);
    for start in 0..rounds {
        steps.push(Step::Start { start });
        if start == 0 {
            steps.push(Step::WarmUp);
            steps.extend(plan.census.then(|| census(plan)).flatten());
        }
        let sweep_until = (plan.sweep_blocks * (start + 1)).div_ceil(sure_rounds);
        while sweep_block < sweep_until.min(plan.sweep_blocks) {
            steps.extend(sweep(plan, &mut order, sweep_block, start));
            sweep_block += 1;
        }
        for _ in 0..per_start.min(most - effect_block) {
            steps.extend(effects(plan, &mut order, effect_block, start));
            effect_block += 1;
            steps.push(Step::Look { blocks: effect_block });
        }
    }
    steps
}

/// The slice in which locks are counted: of the baseline, with as few clients as the sweep has, on
/// as many cores as the focus.
fn census(plan: &Plan) -> Option<Step> {
    let here = plan.levels.iter().filter(|level| level.cores == plan.focus.cores);
    let level = *here.min_by_key(|level| level.clients)?;
    let variant = VariantId::new(VariantId::BASELINE);
    let phase = Phase::Census;
    Some(Step::Slice(Planned { phase, block: 0, position: 0, variant, level, start: 0 }))
}

/// One block: each of the sweep's variants at each level; where levels ascend, variants alternate.
fn sweep(plan: &Plan, order: &mut Order, block: u32, start: u32) -> Vec<Step> {
    let baseline = VariantId::new(VariantId::BASELINE);
    let variants: Vec<&VariantId> =
        std::iter::once(&baseline).chain(&plan.sweep_variants).collect();
    let cells = plan.levels.len() * variants.len();
    let indices = match plan.level_order {
        LevelOrder::Random => order.next(cells),
        LevelOrder::Ascending => (0..cells).collect(),
    };
    (0..)
        .zip(indices)
        .map(|(position, index)| {
            Step::Slice(Planned {
                phase: Phase::Sweep,
                block,
                position,
                variant: variants[index % variants.len()].clone(),
                level: plan.levels[index / variants.len()],
                start,
            })
        })
        .collect()
}

/// A further block of the sweep, of the levels that decide alone.
pub(crate) fn further(plan: &Plan, levels: &[Level], block: u32, start: u32) -> Vec<Step> {
    let deciding = Plan { levels: levels.to_vec(), ..plan.clone() };
    let mut order = Order::of(plan.seed.wrapping_add(u64::from(block)));
    sweep(&deciding, &mut order, block, start)
}

fn effects(plan: &Plan, order: &mut Order, block: u32, start: u32) -> Vec<Step> {
    (0..)
        .zip(order.next(plan.variants.len()))
        .map(|(position, index)| {
            Step::Slice(Planned {
                phase: Phase::Effects,
                block,
                position,
                variant: plan.variants[index].id.clone(),
                level: plan.focus,
                start,
            })
        })
        .collect()
}

/// Whether a step still has to be taken once some variants are left out of the effect blocks.
pub(crate) fn needed(step: &Step, left_out: &BTreeSet<VariantId>) -> bool {
    match step {
        Step::Slice(slice) => slice.phase != Phase::Effects || !left_out.contains(&slice.variant),
        _ => true,
    }
}

/// What all of these steps are expected to take without the variants left out.
pub(crate) fn outlook(plan: &Plan, steps: &[Step], left_out: &BTreeSet<VariantId>) -> Nanos {
    steps.iter().filter(|step| needed(step, left_out)).map(|step| estimate(plan, step)).sum()
}

/// What a step is expected to take.
pub(crate) fn estimate(plan: &Plan, step: &Step) -> Nanos {
    match step {
        Step::Start { .. } => START_ESTIMATE,
        Step::WarmUp if plan.settle > Nanos(0) && plan.warm_up.is_none() => slice(plan),
        Step::WarmUp => plan.warm_up.unwrap_or(WARM_UP_ESTIMATE),
        Step::Slice(planned) if planned.phase == Phase::Census => slice(plan) + CENSUS_ESTIMATE,
        Step::Slice(_) => slice(plan),
        Step::Look { .. } => Nanos(0),
    }
}

/// What a slice is expected to take. Clients that can tell have mostly settled after a third of
/// the time that they are given.
fn slice(plan: &Plan) -> Nanos {
    let settling = Nanos(plan.settle.0.saturating_sub(plan.ramp.0) / 3);
    let overhead = match plan.settle {
        Nanos(0) => SLICE_OVERHEAD_ESTIMATE,
        _ => SERVER_OVERHEAD_ESTIMATE,
    };
    plan.ramp + settling + plan.slice + overhead
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::small_plan;
    use proptest::prelude::*;

    fn slices(steps: &[Step], phase: Phase) -> Vec<&Planned> {
        steps
            .iter()
            .filter_map(|step| match step {
                Step::Slice(planned) if planned.phase == phase => Some(planned),
                _ => None,
            })
            .collect()
    }

    proptest! {
        #[test]
        fn every_block_holds_every_level_and_variant_once(
            seed: u64, sweeps in 1_u32..9, least in 1_u32..9, more in 0_u32..9, per in 1_u32..5,
            treated: bool,
        ) {
            let mut plan = small_plan();
            plan.seed = seed;
            plan.sweep_variants = if treated { vec![VariantId::new("other")] } else { vec![] };
            plan.sweep_blocks = sweeps;
            plan.effect_blocks = (least, least + more);
            plan.blocks_per_start = per;
            let steps = schedule(&plan);
            let sweep = slices(&steps, Phase::Sweep);
            let baseline = VariantId::new(VariantId::BASELINE);
            let variants = [&[baseline], &plan.sweep_variants[..]].concat();
            prop_assert_eq!(sweep.len(), sweeps as usize * plan.levels.len() * variants.len());
            let each = |block| variants.iter().map(move |variant| (block, variant));
            for (block, variant) in (0..sweeps).flat_map(each) {
                let of_it = sweep.iter().filter(|s| s.block == block && s.variant == *variant);
                let mut levels: Vec<_> = of_it.map(|s| s.level).collect();
                levels.sort_unstable();
                prop_assert_eq!(&levels, &plan.levels);
            }
            for block in 0..sweeps {
                let places = sweep.iter().filter(|s| s.block == block).map(|s| s.position);
                let all = u32::try_from(plan.levels.len() * variants.len()).unwrap();
                prop_assert!(places.eq(0..all));
            }
            let effects = slices(&steps, Phase::Effects);
            prop_assert_eq!(effects.len(), (least + more) as usize * plan.variants.len());
            let looks = steps.iter().filter(|s| matches!(s, Step::Look { .. })).count();
            prop_assert_eq!(looks, (least + more) as usize);
            // The sweep is whole by the time the first stop is allowed.
            let first_stop = steps.iter().position(|s| *s == Step::Look { blocks: least });
            let last_sweep = steps.iter().rposition(
                |s| matches!(s, Step::Slice(p) if p.phase == Phase::Sweep));
            prop_assert!(last_sweep < first_stop);
        }
    }

    #[test]
    fn what_is_put_back_comes_after_the_last_slice_of_its_block() {
        let plan = small_plan();
        let steps = schedule(&plan);
        for (index, step) in steps.iter().enumerate() {
            let Step::Slice(planned) = step else { continue };
            let ends = (index + 1..=steps.len())
                .find(|next| block_has_ended(planned, steps.get(*next)))
                .unwrap();
            let same = |one: &&Planned| {
                (one.phase, one.block, one.start) == (planned.phase, planned.block, planned.start)
            };
            let of_it =
                |steps: &[Step], phase| slices(steps, phase).into_iter().filter(same).count();
            assert_eq!(of_it(&steps[ends..], planned.phase), 0, "all of the block are before it");
            assert_eq!(of_it(&steps[index..ends], planned.phase), ends - index, "and no other");
        }
    }

    #[test]
    fn published_levels_come_in_their_own_order_and_nothing_else_does() {
        let mut plan = small_plan();
        plan.level_order = LevelOrder::Ascending;
        plan.warm_up = Some(Nanos::from_millis(9000));
        plan.sweep_blocks = 3;
        plan.effect_blocks = (0, 0);
        let steps = schedule(&plan);
        let levels: Vec<Level> =
            slices(&steps, Phase::Sweep).iter().map(|planned| planned.level).collect();
        assert_eq!(levels, plan.levels.repeat(3));
        assert_eq!(steps.len(), 2 + 6, "a start, a warm-up, and the slices");
        let slice = plan.ramp + plan.slice + SLICE_OVERHEAD_ESTIMATE;
        let whole = START_ESTIMATE.0 + Nanos::from_millis(9000).0 + 6 * slice.0;
        assert_eq!(outlook(&plan, &steps, &BTreeSet::new()), Nanos(whole));
    }

    #[test]
    fn variants_of_the_sweep_are_mixed_with_the_baseline_and_cost_their_time() {
        let mut plan = small_plan();
        let alone = outlook(&plan, &schedule(&plan), &BTreeSet::new());
        plan.sweep_variants = vec![VariantId::new("other")];
        let steps = schedule(&plan);
        let slice = plan.ramp + plan.slice + SLICE_OVERHEAD_ESTIMATE;
        let more = u64::from(plan.sweep_blocks) * 2 * slice.0;
        assert_eq!(outlook(&plan, &steps, &BTreeSet::new()), Nanos(alone.0 + more));
        // Each place of a block goes to both variants in the long run: neither always comes first.
        plan.sweep_blocks = 200;
        let steps = schedule(&plan);
        let firsts = slices(&steps, Phase::Sweep).into_iter().filter(|s| s.position == 0);
        let baseline = firsts.filter(|s| s.variant.0 == VariantId::BASELINE).count();
        assert!((70..=130).contains(&baseline), "{baseline} of 200");
        // Ascending, both variants are measured at a level before the next one.
        plan.level_order = LevelOrder::Ascending;
        plan.sweep_blocks = 1;
        let steps = schedule(&plan);
        let order = slices(&steps, Phase::Sweep).into_iter();
        let order: Vec<_> = order.map(|s| (s.level.clients, s.variant.0.as_str())).collect();
        assert_eq!(order, [(1, "baseline"), (1, "other"), (4, "baseline"), (4, "other")]);
    }

    #[test]
    fn locks_are_counted_once_before_the_sweep_with_the_fewest_clients() {
        let mut plan = small_plan();
        let without = schedule(&plan);
        plan.census = true;
        let steps = schedule(&plan);
        let at = steps.iter().position(|step| *step == Step::WarmUp).unwrap() + 1;
        let Step::Slice(census) = &steps[at] else { panic!("{:?}", steps[at]) };
        assert_eq!((census.phase, census.level), (Phase::Census, plan.levels[0]));
        assert_eq!(census.variant.0, VariantId::BASELINE);
        assert_eq!(slices(&steps, Phase::Census).len(), 1);
        let rest: Vec<Step> = [&steps[..at], &steps[at + 1..]].concat();
        assert_eq!(rest, without, "the random order of all else is the same");
    }

    #[test]
    fn a_slice_that_settles_is_expected_to_take_longer() {
        let mut plan = small_plan();
        let step = Step::WarmUp;
        assert_eq!(estimate(&plan, &step), WARM_UP_ESTIMATE);
        (plan.ramp, plan.settle) = (Nanos::from_millis(400), Nanos::from_millis(3400));
        let expected = plan.slice + Nanos::from_millis(1400) + SERVER_OVERHEAD_ESTIMATE;
        assert_eq!(estimate(&plan, &step), expected);
    }

    #[test]
    fn variants_left_out_leave_the_effect_blocks_only() {
        let plan = small_plan();
        let steps = schedule(&plan);
        let (_, most) = plan.effect_blocks;
        let all = outlook(&plan, &steps, &BTreeSet::new());
        let slice = plan.ramp + plan.slice + SLICE_OVERHEAD_ESTIMATE;
        for variant in ["other", VariantId::BASELINE] {
            let left_out = BTreeSet::from([VariantId::new(variant)]);
            let fewer = outlook(&plan, &steps, &left_out);
            assert_eq!(all.0 - fewer.0, u64::from(most) * slice.0, "{variant}");
            assert!(
                steps
                    .iter()
                    .filter(|step| !needed(step, &left_out))
                    .all(|step| matches!(step, Step::Slice(p)
                    if p.phase == Phase::Effects && p.variant.0 == variant))
            );
        }
    }

    #[test]
    fn a_slice_names_the_start_that_serves_it() {
        let mut current = None;
        for step in schedule(&small_plan()) {
            match step {
                Step::Start { start } => current = Some(start),
                Step::Slice(planned) => assert_eq!(Some(planned.start), current),
                Step::WarmUp | Step::Look { .. } => {}
            }
        }
    }
}
