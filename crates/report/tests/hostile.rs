//! Names come from binaries and recipes: whatever they hold, they are read, never obeyed.

mod synthetic;

use kneepoint_report::{html, terminal, text};
use kneepoint_vocab::findings::{
    Bottleneck, CaveatReason, Conclusion, CoreName, DeviceWorker, FlameNode, Name, ServedBy,
    ThreadName, Unfit,
};
use kneepoint_vocab::{Cores, Estimate, Findings, Level};
use proptest::prelude::*;

/// Puts a name into every place that holds one.
fn named(name: &str) -> Findings {
    let mut findings = synthetic::treated::beside(synthetic::server::server());
    let put = || name.to_owned();
    for words in [
        &mut findings.recipe,
        &mut findings.summary,
        &mut findings.operation,
        &mut findings.host.kernel,
        &mut findings.host.cpu,
        &mut findings.host.distribution,
    ] {
        *words = put();
    }
    findings.protocol.stopped_by = put().into();
    for level in &mut findings.instruments {
        level.tasks.iter_mut().for_each(|task| task.name = put());
        level.devices.iter_mut().for_each(|device| device.name = put());
        for pressure in &mut level.pressure {
            (pressure.resource, pressure.scope) = (put(), put());
        }
    }
    findings.generator.iter_mut().for_each(|one| {
        let (busiest, idle, of) = (Cores(0.97), Cores(0.7), Cores(2.0));
        one.bottleneck = Some(Bottleneck::Thread { name: put(), busiest, idle, of });
    });
    findings.conclusions.push(Conclusion::Undecided { label: put() });
    findings.counts.iter_mut().for_each(|one| one.counter = put());
    findings.host.arguments.push(put());
    findings.host.notes.push((put(), put()));
    findings.curve.fits = synthetic::findings().curve.fits;
    findings.curve.fits[0].law = put();
    findings.curve.fits[0].parameters[0].name = put();
    findings.curve.fits[0].unfit = vec![Unfit::Said(put())];
    findings.by_cores[2].curve.fits = findings.curve.fits.clone();
    for ledger in &mut findings.ledgers {
        ledger.core.lines[1].name = CoreName::Wait { name: Name::from(name) };
        ledger.thread.lines[0].name = ThreadName::Wait { name: Name::from(name) };
    }
    for cause in &mut findings.causes {
        cause.name = Name::from(name);
        cause.evidence.served_by =
            Some(ServedBy { waits_for: Name::from(name), name: put(), busiest: Cores(0.98) });
        cause.evidence.workers.push(DeviceWorker { name: put(), cores: Cores(0.4) });
        cause.path.push(put());
        cause.stacks.iter_mut().chain(&mut cause.waker_stacks).for_each(|root| rename(root, name));
    }
    findings.on_cpu.iter_mut().for_each(|root| rename(root, name));
    for effect in &mut findings.effects {
        effect.label = put();
        effect.changes.push(put());
        for proof in &mut effect.proofs {
            (proof.what, proof.expected, proof.found) = (put(), put(), put());
        }
    }
    findings.treated.iter_mut().for_each(|one| one.label = put());
    findings.collector.losses.push((put(), 3));
    findings.caveats[0].reason = CaveatReason::Remark { text: put() };
    findings
}

fn rename(node: &mut FlameNode, name: &str) {
    node.name = name.to_owned();
    node.children.iter_mut().for_each(|child| rename(child, name));
}

/// Names of the elements of a page, and its attributes that could act.
fn acting(page: &str) -> (usize, usize, usize) {
    let handlers = page.matches(" onerror=").count() + page.matches(" onload=").count();
    (page.matches("<script").count(), page.matches("<img").count(), handlers)
}

#[test]
fn markup_in_a_name_stays_text() {
    let name = "</code></style></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&";
    let page = html::render(&named(name));
    let (scripts, images, _) = acting(&page);
    assert_eq!((scripts, images), (1, 0));
    assert!(!page.contains(name));
    assert!(page.contains("&lt;/code&gt;&lt;/style&gt;") || page.contains("&#60;/code&#62;"));
}

#[test]
fn the_source_of_imported_results_stays_text() {
    let mut findings = synthetic::server::imported();
    findings.host.notes[0].1 = "</dd><script>alert(1)</script>\u{1b}[2J".to_owned();
    let page = html::render(&findings);
    assert_eq!(acting(&page).0, 1);
    assert!(page.contains("from &lt;/dd&gt;") || page.contains("from &#60;/dd&#62;"));
    let screen = terminal::render(&findings, 80, false);
    assert!(screen.contains("imported from </dd>") && !screen.contains('\u{1b}'));
}

#[test]
fn control_characters_reach_neither_terminal_nor_page() {
    let findings = named("a\u{1b}[2J\u{9b}31m\u{202e}b\u{0}\r\nc\u{7f}");
    let page = html::render(&findings);
    assert!(!page.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{0}', '\u{7f}', '\r']));
    let screen = terminal::render(&findings, 80, false);
    assert!(!screen.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{0}', '\u{7f}', '\r']));
}

#[test]
fn a_very_deep_stack_is_drawn() {
    let mut findings = synthetic::findings();
    let mut root = findings.on_cpu.take().unwrap();
    for _ in 0..2000 {
        root = FlameNode {
            kernel: false,
            name: "again".to_owned(),
            weight: root.weight,
            children: vec![root],
        };
    }
    findings.on_cpu = Some(root);
    assert!(html::render(&findings).contains("class=\"flame\""));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_name_passes_unescaped(name in "[<>\"'&a-z\\PC]{3,40}") {
        prop_assume!(name.contains(['<', '>', '"']));
        let page = html::render(&named(&name));
        let calm = html::render(&named("calm"));
        prop_assert_eq!(acting(&page), acting(&calm));
        prop_assert_eq!(page.matches('<').count(), calm.matches('<').count());
        prop_assert_eq!(page.matches('>').count(), calm.matches('>').count());
    }

    #[test]
    fn no_terminal_line_is_too_wide(
        name in ".{0,120}",
        width in 1usize..200,
        value in any::<f64>(),
        low in any::<f64>(),
        levels in 0u32..40,
        colour in any::<bool>(),
        several in any::<bool>(),
    ) {
        let mut findings = named(&name);
        let point = findings.curve.points[0].clone();
        if several {
            findings.by_cores[1].over_fewest = Estimate::of(value, low, value);
            findings.by_cores[0].curve.points.clear();
        } else {
            findings.by_cores.clear();
        }
        findings.instruments[0].tasks[0].busiest = kneepoint_vocab::Cores(value);
        findings.curve.points = (1..=levels)
            .map(|clients| {
                let mut point = point.clone();
                point.level = Level { clients, cores: 2 };
                point.throughput = Estimate::of(value, low, value);
                point
            })
            .collect();
        if several && levels > 0 {
            findings.by_cores[0].curve.points.clone_from(&findings.curve.points);
        }
        findings.treated[0].curve.points.clone_from(&findings.curve.points);
        findings.treated[0].speedup = Estimate::of(value, low, value);
        findings.effects[0].ratio = Some(Estimate::of(value, low, value));
        findings.causes[0].share = Estimate::of(low, value, value);
        findings.ledgers[1].core.lines[0].cores = Estimate::of(value, low, low);
        let screen = terminal::render(&findings, width, colour);
        if !colour {
            for line in screen.lines() {
                prop_assert!(text::columns(line) <= width, "{width}: {line:?}");
            }
        }
        prop_assert!(html::render(&findings).contains("</html>"));
    }
}
