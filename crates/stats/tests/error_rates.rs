//! The whole procedure keeps what it promises, by simulation; `cargo xtask error-rates` does the
//! same with more runs.

#[path = "support/procedure.rs"]
mod procedure;

use kneepoint_stats::random::Generator;
use kneepoint_stats::verdict::{Answer, Moment, Verdict};
use procedure::{Case, PRECISION, SMALLEST, cases, rates};

/// Noise of 100 runs: 2.2 % around 5 %.
#[test]
fn error_rates_of_the_whole_procedure_are_kept() {
    for (seed, (name, case)) in (0..).zip(cases()) {
        let found = rates(&case, 100, seed);
        println!("{name:<34} {} launches  {found:?}", case.launches());
        assert!(found.false_claims <= 0.11, "{name}: {found:?}");
        assert!(found.coverage >= 0.92, "{name}: {found:?}");
        assert!(found.false_none <= 0.14, "{name}: {found:?}");
        let enough = case.launches() >= 4 && case.slice < 0.1;
        assert!(!enough || found.power > 0.9 && found.found_none > 0.4, "{name}: {found:?}");
    }
}

fn case() -> Case {
    Case {
        slice: 0.08,
        memory: 0.0,
        launch: 0.03,
        disturbed: 0.0,
        looks: (6, 18),
        blocks_per_launch: 1,
        blocks: 18,
    }
}

/// The interval shown decides: an undecided one holds 1, any other verdict is what it says.
#[test]
fn verdict_and_interval_never_disagree() {
    let mut generator = Generator::new(3);
    let rule = case().rule(3);
    for run in 0..300 {
        let case = Case { blocks: 2 + run % 17, blocks_per_launch: 1 + run % 4, ..case() };
        for one in case.run(&rule, &[0.0, 0.15, 0.6], &mut generator) {
            let Some(ratio) = one.ratio() else { continue };
            let inside = ratio.low >= 1.0 - SMALLEST && ratio.high <= 1.0 + SMALLEST;
            match one.verdict {
                Verdict::Better => assert!(ratio.low > 1.0, "{one:?}"),
                Verdict::Worse => assert!(ratio.high < 1.0, "{one:?}"),
                Verdict::NoEffect => assert!(inside && ratio.holds(1.0), "{one:?}"),
                Verdict::Undecided => assert!(ratio.holds(1.0), "{one:?}"),
            }
        }
    }
}

/// A difference that is small and sure is a difference: a slow-down of 5 % is not called none.
#[test]
fn a_small_effect_that_is_sure_is_found() {
    let mut generator = Generator::new(8);
    let case = Case { slice: 0.01, launch: 0.0, ..case() };
    let rule = case.rule(10);
    let effects: Vec<f64> = (0..10).map(|at| if at == 0 { -0.05 } else { 0.0 }).collect();
    let (mut found, mut claimed) = (0, 0);
    for _ in 0..100 {
        let answers = case.run(&rule, &effects, &mut generator);
        assert_ne!(answers[0].verdict, Verdict::NoEffect, "{:?}", answers[0]);
        found += usize::from(answers[0].verdict == Verdict::Worse);
        let differs = |one: &&Answer| matches!(one.verdict, Verdict::Better | Verdict::Worse);
        claimed += answers[1..].iter().filter(differs).count();
    }
    assert!(found >= 95, "{found} of 100");
    assert!(claimed <= 15, "{claimed} of 900 are alike");
}

/// What a look makes final is what every later look says, whatever comes after it.
#[test]
fn a_final_answer_stays() {
    let mut generator = Generator::new(4);
    let rule = case().rule(3);
    for _ in 0..60 {
        let pairs = case().pairs(&[0.0, 0.1, 0.4], 18, &mut generator);
        let mut before = rule.answers(&pairs, Moment::Look(6));
        for done in 7..=18 {
            let now = rule.answers(&pairs, Moment::Look(done));
            let end = rule.answers(&pairs, Moment::End(done));
            for (at, one) in before.iter().enumerate().filter(|(_, one)| one.is_final()) {
                assert_eq!((&now[at], &end[at]), (one, one));
            }
            before = now;
        }
    }
}

#[test]
fn nothing_is_decided_before_the_first_look_or_without_pairs() {
    let mut generator = Generator::new(5);
    let rule = case().rule(2);
    let pairs = case().pairs(&[0.6, 0.6], 5, &mut generator);
    assert!(rule.answers(&pairs, Moment::Look(5)).iter().all(|one| !one.is_final()));
    assert!(rule.answers(&pairs, Moment::End(5)).iter().all(|one| one.is_final()));
    let none = rule.answers(&[Vec::new(), pairs[0].clone()], Moment::End(5));
    assert_eq!((none[0].verdict, none[0].ratio()), (Verdict::Undecided, None));
    assert!(rule.further(&none[0]) > 0.0);
}

/// A look may end the run with a small effect only where it is known as narrowly as was asked.
#[test]
fn a_small_effect_is_measured_to_the_precision() {
    let mut generator = Generator::new(6);
    let case = Case { slice: 0.04, launch: 0.0, ..case() };
    let rule = case.rule(1);
    let mut seen = 0;
    for _ in 0..100 {
        let pairs = case.pairs(&[0.12], 18, &mut generator);
        for one in rule.answers(&pairs, Moment::Look(12)) {
            let Some(ratio) = one.ratio().filter(|_| one.verdict == Verdict::Better) else {
                continue;
            };
            seen += 1;
            let large = ratio.low > 1.0 + SMALLEST;
            assert!(large || ratio.half_width() <= PRECISION * ratio.value, "{one:?}");
        }
    }
    assert!(seen > 20, "{seen}");
}

/// The time said to be needed, against the time that more blocks of the same noise take.
#[test]
fn the_time_still_needed_is_right_within_a_factor_of_two() {
    let mut generator = Generator::new(7);
    let mut factors = Vec::new();
    for (effect, slice, blocks) in
        [(0.0, 0.12, 8), (0.0, 0.2, 10), (0.04, 0.1, 8), (0.15, 0.25, 8), (0.3, 0.4, 10)]
    {
        let case = Case { slice, launch: 0.0, looks: (6, 400), ..case() };
        let rule = case.rule(1);
        let mut of_case = Vec::new();
        for _ in 0..60 {
            let pairs = case.pairs(&[effect], 400, &mut generator);
            let at = |blocks| rule.answers(&pairs, Moment::End(blocks))[0];
            let now = at(blocks);
            if now.verdict != Verdict::Undecided {
                continue;
            }
            let said = rule.further(&now);
            let true_end = (blocks + 1..=400).find(|done| at(*done).verdict != Verdict::Undecided);
            of_case.push(true_end.map_or(400.0, |end| (end - blocks) as f64) / said);
        }
        of_case.sort_by(f64::total_cmp);
        println!(
            "{effect} {slice} {blocks}: {} undecided, median {:?}",
            of_case.len(),
            of_case.get(of_case.len() / 2)
        );
        factors.extend(of_case);
    }
    factors.sort_by(f64::total_cmp);
    let median = factors[factors.len() / 2];
    assert!((0.5..=2.0).contains(&median), "{median} over {}", factors.len());
}
