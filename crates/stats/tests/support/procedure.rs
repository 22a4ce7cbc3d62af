//! The whole procedure on planted noise: looks, several treatments, launches, autocorrelation,
//! disturbed slices. Shared by the tests and by `cargo xtask error-rates`.

use kneepoint_stats::paired::Pair;
use kneepoint_stats::random::Generator;
use kneepoint_stats::verdict::{Answer, Moment, Rule, Verdict};

/// How the slices of a run scatter, and how the run is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// Standard deviation of a slice, log scale.
    pub(crate) slice: f64,
    /// Autocorrelation of a process's consecutive slices within a launch.
    pub(crate) memory: f64,
    /// Standard deviation of launches, log scale.
    pub(crate) launch: f64,
    /// Share of slices that something else disturbs, by 3 to 20 % of capacity.
    pub(crate) disturbed: f64,
    /// Blocks at the first and the last look.
    pub(crate) looks: (usize, usize),
    /// Blocks to a launch.
    pub(crate) blocks_per_launch: usize,
    /// Blocks that the budget allows.
    pub(crate) blocks: usize,
}

/// Smallest effect and precision of every case: the defaults of a plan.
pub(crate) const SMALLEST: f64 = 0.10;
pub(crate) const PRECISION: f64 = 0.05;

impl Case {
    pub(crate) fn launches(&self) -> usize {
        self.blocks.div_ceil(self.blocks_per_launch)
    }

    pub(crate) fn rule(&self, treatments: usize) -> Rule {
        Rule::new(self.looks, SMALLEST, PRECISION, treatments)
    }

    /// Pairs of each treatment with these log effects over `blocks` blocks; the base is the
    /// baseline and the control together, as in a run.
    pub(crate) fn pairs(
        &self,
        effects: &[f64],
        blocks: usize,
        generator: &mut Generator,
    ) -> Vec<Vec<Pair>> {
        let mut pairs = vec![Vec::new(); effects.len()];
        // Baseline, control, treatments: luck of the launch and state of the noise.
        let mut processes = vec![(0.0, 0.0); 2 + effects.len()];
        for block in 0..blocks {
            let start = block / self.blocks_per_launch;
            let fresh = block.is_multiple_of(self.blocks_per_launch);
            let slices: Vec<(f64, f64)> =
                processes.iter_mut().map(|process| self.slice(process, fresh, generator)).collect();
            let (one, two) = (slices[0], slices[1]);
            let weight = one.1 + two.1;
            let base = ((one.0 * one.1 + two.0 * two.1) / weight, weight / 2.0);
            for ((effect, own), of) in effects.iter().zip(&slices[2..]).zip(&mut pairs) {
                of.push(Pair {
                    start,
                    block,
                    base: base.0.exp(),
                    treated: (own.0 + effect).exp(),
                    weight: 2.0 / (1.0 / base.1 + 1.0 / own.1),
                });
            }
        }
        pairs
    }

    /// Log throughput and weight of a slice.
    fn slice(
        &self,
        process: &mut (f64, f64),
        fresh: bool,
        generator: &mut Generator,
    ) -> (f64, f64) {
        let (luck, state) = process;
        if fresh {
            *luck = self.launch * generator.normal();
            *state = generator.normal();
        } else {
            let rest = (1.0 - self.memory.powi(2)).sqrt();
            *state = self.memory * *state + rest * generator.normal();
        }
        let clean = *luck + self.slice * *state;
        if generator.uniform() >= self.disturbed {
            return (clean, 1.0);
        }
        let share = 0.03 + 0.17 * generator.uniform();
        (clean - share, 1.0 / (1.0 + (share / 0.05).powi(2)))
    }

    /// The answers of one run.
    pub(crate) fn run(
        &self,
        rule: &Rule,
        effects: &[f64],
        generator: &mut Generator,
    ) -> Vec<Answer> {
        let pairs = self.pairs(effects, self.blocks, generator);
        rule.answers(&pairs, Moment::End(self.blocks))
    }
}

/// What many runs of one case came to, as shares.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    /// Runs that call any treatment without effect better or worse.
    pub(crate) false_claims: f64,
    /// Treatments of 1.3 that are called better.
    pub(crate) power: f64,
    /// Treatments of exactly the smallest effect that are said to have none.
    pub(crate) false_none: f64,
    /// Treatments without effect that are said to have none.
    pub(crate) found_none: f64,
    /// Intervals shown that hold the truth, over all of these treatments.
    pub(crate) coverage: f64,
}

/// Runs with four treatments without effect, and as many with effects.
pub(crate) fn rates(case: &Case, runs: u32, seed: u64) -> Rates {
    let mut generator = Generator::new(seed);
    let rule = case.rule(4);
    let null = [0.0; 4];
    let real = [1.3_f64.ln(), 1.3_f64.ln(), (1.0 + SMALLEST).ln(), (1.0 - SMALLEST).ln()];
    let mut counts = [0.0; 5];
    for _ in 0..runs {
        let of_null = case.run(&rule, &null, &mut generator);
        let of_real = case.run(&rule, &real, &mut generator);
        let is = |answers: &[Answer], wanted: &[Verdict]| {
            answers.iter().filter(|answer| wanted.contains(&answer.verdict)).count() as f64
        };
        counts[0] += is(&of_null, &[Verdict::Better, Verdict::Worse]).min(1.0);
        counts[1] += is(&of_real[..2], &[Verdict::Better]) / 2.0;
        counts[2] += is(&of_real[2..], &[Verdict::NoEffect]) / 2.0;
        counts[3] += is(&of_null, &[Verdict::NoEffect]) / 4.0;
        let held = of_null
            .iter()
            .zip(null)
            .chain(of_real.iter().zip(real))
            .filter(|(one, truth)| one.ratio().is_some_and(|ratio| ratio.holds(truth.exp())));
        counts[4] += held.count() as f64 / 8.0;
    }
    let [false_claims, power, false_none, found_none, coverage] =
        counts.map(|count| count / f64::from(runs));
    Rates { false_claims, power, false_none, found_none, coverage }
}

/// The cases of the table: name and case.
pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    let plain = Case {
        slice: 0.05,
        memory: 0.0,
        launch: 0.0,
        disturbed: 0.0,
        looks: (6, 18),
        blocks_per_launch: 1,
        blocks: 18,
    };
    let server = Case { blocks_per_launch: 4, memory: 0.5, launch: 0.03, ..plain };
    vec![
        ("18 launches", plain),
        ("18 launches that differ", Case { launch: 0.05, ..plain }),
        ("18 launches, disturbed", Case { launch: 0.05, disturbed: 0.2, ..plain }),
        ("18 launches, loud", Case { slice: 0.15, launch: 0.05, ..plain }),
        ("10 launches, cut by the budget", Case { launch: 0.03, blocks: 10, ..plain }),
        ("6 launches of 4", Case { looks: (6, 24), blocks: 24, ..server }),
        (
            "8 launches of 3, memory 0.7",
            Case { looks: (6, 24), blocks: 24, blocks_per_launch: 3, memory: 0.7, ..server },
        ),
        ("5 launches of 4, disturbed", Case { disturbed: 0.2, ..server }),
        ("4 launches of 4", Case { blocks: 16, ..server }),
        ("3 launches of 4", Case { blocks: 12, ..server }),
        ("3 launches of 4, memory 0.7", Case { blocks: 12, memory: 0.7, ..server }),
        ("2 launches of 4", Case { blocks: 8, ..server }),
        ("2 launches of 4, memory 0.7", Case { blocks: 8, memory: 0.7, ..server }),
        ("1 launch of 4", Case { blocks: 4, ..server }),
        (
            "1 launch of 12, memory 0.7",
            Case { blocks: 12, blocks_per_launch: 12, memory: 0.7, ..server },
        ),
        ("2 pairs", Case { blocks: 2, looks: (2, 3), launch: 0.03, ..plain }),
        ("3 launches that differ much", Case { blocks: 12, launch: 0.06, ..server }),
    ]
}
