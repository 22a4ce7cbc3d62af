//! Every format on realistic findings, as a person or a program reads it.

mod synthetic;

use kneepoint_report::{export, html, json, terminal, text};
use kneepoint_vocab::findings::{Bottleneck, Next, Undetermined, Verdict};
use kneepoint_vocab::{Cores, Estimate, Findings, Level, Proven, Ratio, VariantRole};

#[test]
fn eighty_columns() {
    let text = terminal::render(&synthetic::findings(), 80, false);
    insta::assert_snapshot!(text);
}

#[test]
fn eighty_columns_with_a_treated_curve() {
    let text = terminal::render(&synthetic::treated::beside(synthetic::findings()), 80, false);
    insta::assert_snapshot!(text);
}

/// The picture, its legend, its readings, the table and the words hold a treated curve; without
/// one none of it is there.
#[test]
fn a_treated_curve_is_drawn_named_read_and_tabled() {
    for plain in [synthetic::findings(), synthetic::server::server()] {
        let page = html::render(&plain);
        let (several, first) = (!plain.by_cores.is_empty(), plain.curve.points.len());
        assert!(!page.contains("class=\"beside"));
        let variants = |page: &str| page.matches("<th scope=\"col\">variant</th>").count();
        let rows = |page: &str| page.matches("<td>private page caches</td>").count();
        let before = (variants(&page), rows(&page));
        let page = html::render(&synthetic::treated::beside(plain));
        // Two widths of the picture and the legend.
        assert_eq!(page.matches("class=\"beside b0").count(), 3);
        assert_eq!(page.contains("class=\"beside b0 series s2\""), several);
        assert_eq!((variants(&page), rows(&page)), (before.0 + 1, before.1 + first));
        for words in [
            "It scales further than the baseline: 1.98× [1.91–2.05] of its speed-up.",
            "</svg>private page caches</li>",
            "private page caches: ",
            "its knee",
            "With private page caches: knee at 2 clients",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }
}

/// A row on every width, also where the name of the treatment has to go below or be cut.
#[test]
fn a_treated_curve_has_a_row_on_every_screen() {
    for plain in [synthetic::findings(), synthetic::server::server()] {
        for width in [40, 60, 80, 120] {
            let mut findings = synthetic::treated::beside(plain.clone());
            findings.treated[0].label = "a treatment with far more words than fit".to_owned();
            let screen = terminal::render(&findings, width, false);
            assert!(screen.lines().all(|line| text::columns(line) <= width), "{screen}");
            let rows = screen.lines().filter(|line| line.starts_with("treated "));
            assert_eq!(rows.count(), 1, "{screen}");
            let note = if width <= 60 { "rises to 1.98×" } else { "rises to 1.98× at 2: a t" };
            assert!(screen.contains(note), "{screen}");
        }
    }
    let mut findings = synthetic::treated::beside(synthetic::findings());
    findings.treated[0].speedup = kneepoint_vocab::Estimate::of(1.0, 1.0, 1.0);
    assert!(terminal::render(&findings, 80, false).contains("most at 1: private page caches"));
}

/// The story as programs read it.
fn headline(findings: &Findings) -> String {
    let printed: serde_json::Value =
        serde_json::from_str(&json::render(findings)).expect("findings");
    printed["headline"].as_str().expect("a headline").to_owned()
}

/// Causes are ranked at one level, and what was tried elsewhere is no cure of theirs.
#[test]
fn a_cure_says_where_it_was_tried_if_that_is_elsewhere() {
    let mut findings = synthetic::findings();
    let here = headline(&findings);
    let cured = "with private page caches";
    assert!(here.contains(cured) && !here.contains("caches at "), "{here}");
    findings.effects_at = Some(Level { clients: 1, ..findings.focus });
    let elsewhere = headline(&findings);
    assert!(elsewhere.contains("caches at 1 client"), "{elsewhere}");
    let page = html::render(&findings);
    let line = page.lines().find(|line| line.contains("Cured by")).expect("a cured cause");
    assert!(line.contains(" at 1 client"), "{line}");
}

/// On every window: within its lines and columns, the headline whole, then trust, both last; and
/// the more room there is, the more is reported.
#[test]
fn a_window_shows_what_matters_most() {
    let with_times = synthetic::findings();
    for findings in [with_times, synthetic::server::server(), synthetic::server::imported()] {
        let headline = headline(&findings);
        for width in [40, 60, 80, 132, 200] {
            let mut before = 0;
            for height in [24, 30, 40, 60] {
                let screen = terminal::Screen { width, height: Some(height), colour: false };
                let reported = terminal::fitted(&findings, screen);
                let lines: Vec<&str> = reported.lines().collect();
                assert!(lines.iter().all(|line| text::columns(line) <= width), "{reported}");
                assert!(lines.len() <= height || width == 40, "{width}x{height}:\n{reported}");
                assert!(lines.len() >= before, "{width}x{height}:\n{reported}");
                before = lines.len();
                let flat = lines.join(" ");
                let (headline, trust) =
                    (flat.find(&headline), flat.rfind("Trust: ").expect("trust"));
                assert!(headline.expect("a whole headline") < trust, "{reported}");
            }
        }
    }
}

#[test]
fn eighty_by_twenty_four() {
    let screen = terminal::Screen { width: 80, height: Some(22), colour: false };
    insta::assert_snapshot!(terminal::fitted(&synthetic::findings(), screen));
}

/// A law that should not be used is named with the reason, but neither drawn nor reported.
#[test]
fn a_useless_fit_is_not_drawn() {
    let mut findings = synthetic::findings();
    assert!(!findings.curve.fits[0].unfit.is_empty());
    let page = html::render(&findings);
    assert!(page.contains("do not use") && !page.contains("class=\"fit\""));
    assert!(!page.contains("USL fit /s") && !page.contains("fitted law"));
    findings.curve.fits[0].unfit.clear();
    let page = html::render(&findings);
    assert!(page.contains("class=\"fit\"") && page.contains("USL fit /s"));
}

/// What slow requests see is in the open, at every level.
#[test]
fn response_times_stand_in_the_open() {
    let findings = synthetic::findings();
    let page = html::render(&findings);
    let times = page.find("Response time</p>").expect("a table");
    let folded = page.find("The curve in numbers").expect("a fold");
    assert!(times < folded && page[times..folded].matches("<td>").count() == 15);
    let cures = page.find("id=\"cures\"").expect("cures");
    assert!(times < cures && cures < page.find("id=\"why\"").expect("causes"));
    assert!(page.find("class=\"strip\"").expect("tiles") > cures, "judging tiles come late");
}

#[test]
fn the_way_to_reproduce_has_the_seed() {
    let mut findings = synthetic::findings();
    let reported = |findings: &Findings, words: &str| html::render(findings).contains(words);
    findings.host.arguments = ["run", "--", "./a", "-t"].map(str::to_owned).to_vec();
    let seed = findings.protocol.seed;
    assert!(reported(&findings, &format!("kneepoint run --seed {seed} -- ./a -t<")));
    findings.host.arguments = ["run", "--seed", "5"].map(str::to_owned).to_vec();
    assert!(reported(&findings, "kneepoint run --seed 5<"));
}

/// Below 3 % of the machine the causes of the loss are not worth a word.
#[test]
fn a_small_loss_is_nothing_to_explain() {
    let mut findings = synthetic::findings();
    for cause in &mut findings.causes {
        cause.lost.value.0 *= 0.01;
    }
    let reported = terminal::render(&findings, 80, false);
    assert!(
        reported.contains("Nothing to explain: 0.0") && !reported.contains("of the loss   "),
        "{reported}"
    );
    assert!(reported.contains("\nCPU      ") && !reported.contains("\nWhy"), "{reported}");
}

/// The paired ratio is the cost, and more than 5 % is a reason to trust less.
#[test]
fn overhead_is_throughput() {
    let mut findings = synthetic::findings();
    findings.caveats.clear();
    let good = "Trust: good (A/A ±4.1 %, overhead 2.8 % [0.3–5.2])";
    assert!(terminal::render(&findings, 80, false).contains(good));
    findings.collector.on_off_active = Some(Estimate::of(0.9, 0.88, 0.92));
    let reported = terminal::render(&findings, 200, false);
    let dear =
        "Trust: limited (A/A ±4.1 %, overhead 10.0 % [8.0–12.0]): the collector takes more than";
    assert!(reported.contains(dear), "{reported}");
    for (low, high) in [(0.75, 1.02), (0.1, 6.0)] {
        findings.collector.on_off_active = Some(Estimate::of(0.9, low, high));
        let reported = terminal::render(&findings, 200, false);
        assert!(reported.contains("Trust: good"), "it may take nothing: {reported}");
        assert_eq!(reported.contains("overhead"), high < 2.0, "{reported}");
    }
    (findings.noise.pairs, findings.noise.floor) = (2, Ratio(1.27));
    let reported = terminal::render(&findings, 200, false);
    assert!(reported.contains("A/A of 2 pairs"), "two tell next to nothing: {reported}");
}

#[test]
fn what_a_lock_less_brings_is_not_determined_where_threads_give_up_their_cores() {
    let open = vec![Undetermined::Yields { part: Ratio(0.87) }];
    let next = Some(Next { open, ..Next::default() });
    let reported = terminal::render(&Findings { next, ..synthetic::findings() }, 80, false);
    let reason = "not determined: what a lock less brings: threads give up their cores";
    assert!(reported.contains(reason) && reported.contains("for 87 %"), "{reported}");
}

/// What did not help is part of the story, and the rows of the ledger are the whole machine.
#[test]
fn every_treatment_and_all_cores_are_on_the_screen() {
    for width in [40, 60, 80, 120] {
        for trustworthy in [true, false] {
            let mut findings = synthetic::findings();
            findings.trustworthy = trustworthy;
            let screen = terminal::render(&findings, width, false);
            let tried = findings
                .effects
                .iter()
                .filter(|effect| effect.role == VariantRole::Treatment)
                .count();
            let below = screen.lines().skip_while(|line| !line.starts_with("What helps")).skip(1);
            let rows = below.take_while(|line| line.starts_with("  "));
            // Narrow ones have a second line for the figures.
            assert_eq!(rows.filter(|line| !line.starts_with("    ")).count(), tried);
            let rows = screen.lines().skip_while(|line| !line.starts_with("Where 2 cores")).skip(1);
            let cores = rows.take_while(|line| line.starts_with("  ")).map(|line| {
                let number = line.split_whitespace().find_map(|word| word.parse::<f64>().ok());
                number.expect("cores of a row")
            });
            let sum: f64 = cores.sum();
            assert!((sum - 2.0).abs() < 0.035, "{sum} in {screen}");
        }
    }
}

#[test]
fn forty_columns() {
    insta::assert_snapshot!(terminal::render(&synthetic::findings(), 40, false));
}

#[test]
fn a_server_on_several_cores() {
    let text = terminal::render(&synthetic::server::server(), 80, false);
    insta::assert_snapshot!(text);
}

/// What limits the server is named beside the ledger, and the machine beside the threads.
#[test]
fn a_driven_system_shows_its_instruments() {
    let mut findings = synthetic::server::server();
    findings.effects.truncate(2);
    let screen = terminal::render(&findings, 80, false);
    for line in [
        "load    0.41 cores [0.39–0.44], shares the system's cores",
        "top     saturated: ib_log_writer (system) 0.96 of a core",
        "vmstat  r 4.1  b 0.3  cs 71.2k/s  us 61 sy 30 id 3 wa 0 st 1  (sum 95 %)",
        "counts  generator and server agree: Questions, worst 0.02 % in 84 trials",
        "2 cores   2.18k 3.98k 5.89k 6.12k 6.05k 5.93k  knee at 4 [4–8]",
    ] {
        assert!(screen.contains(line), "{line} in\n{screen}");
    }
    findings.instruments[0].tasks.remove(1);
    findings.generator.as_mut().expect("a generator").bottleneck =
        Some(Bottleneck::OwnCores { busy: Cores(0.95), of: 1 });
    let screen = terminal::render(&findings, 80, false);
    let busiest =
        "top     mariadbd 2.71 (16 threads), sysbench 0.41 (16 threads), ksoftirqd/0 0.02";
    assert!(screen.contains(busiest), "{screen}");
    let reason =
        "The load generator limits the throughput: it keeps 0.95 of the 1 core of its own busy";
    let words: Vec<&str> = screen.split_whitespace().collect();
    assert!(words.join(" ").contains(reason), "{screen}");
    let page = html::render(&findings);
    let alert = page.find("The load generator limits the throughput").expect("an alert");
    assert!(alert < page.find("id=\"where\"").expect("a first section"));
}

/// Instruments of a system whose clients live in it change nothing on the screen.
#[test]
fn clients_within_the_system_need_no_instruments() {
    let mut findings = synthetic::findings();
    let plain = terminal::render(&findings, 80, false);
    findings.instruments = synthetic::server::server().instruments;
    findings.instruments[0].level = findings.focus;
    assert_eq!(terminal::render(&findings, 80, false), plain);
    assert!(html::render(&findings).contains("Instruments at 2 clients"));
}

#[test]
fn curves_of_all_cores_as_csv() {
    let csv = export::csv::render(&synthetic::server::server());
    let cores = csv.lines().skip(1).map(|line| line.split(',').nth(1).expect("a field of cores"));
    assert_eq!(cores.collect::<Vec<_>>().join(""), "111111222222444444");
}

#[test]
fn peaks_and_instruments_are_tables() {
    let page = html::render(&synthetic::server::server());
    for words in [
        "Peak by cores",
        "2.99× [2.88–3.11]",
        "Instruments at 16 clients on 4 cores",
        "vmstat: the machine",
        "add up to 95 %",
        "saturated</b>",
        "19.4",
        "some thread stalled",
        "published protocol; precision of the peak ±3.0 %",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn a_knee_of_one_repetition_is_bare() {
    let mut findings = synthetic::findings();
    assert!(terminal::render(&findings, 80, false).contains("knee at 1 client ["));
    for point in &mut findings.curve.points {
        point.throughput.low = point.throughput.value;
        point.throughput.high = point.throughput.value;
    }
    let (reported, page) = (terminal::render(&findings, 80, false), html::render(&findings));
    assert!(
        reported.contains("knee at 1 client") && !reported.contains("knee at 1 client ["),
        "{reported}"
    );
    assert!(page.contains("Knee at 1 client. The curve"), "{page}");
}

#[test]
fn a_long_interval_leaves_room_before_its_verdict() {
    let mut findings = synthetic::findings();
    let tried = findings.effects.iter_mut().filter(|effect| effect.role == VariantRole::Treatment);
    for effect in tried {
        effect.ratio = Some(Estimate::of(0.924, 0.896, 0.952));
    }
    let reported = terminal::render(&findings, 80, false);
    assert!(
        reported.contains("[0.896–0.952] ") && !reported.contains("[0.896–0.952]w"),
        "{reported}"
    );
}

#[test]
fn an_unproven_variant_is_called_so_beside_its_verdict() {
    let mut findings = synthetic::findings();
    let shown =
        |findings: &Findings| (terminal::render(findings, 80, false), html::render(findings));
    let (screen, page) = shown(&findings);
    assert!(!screen.contains("unproven") && !page.contains("better; unproven"));
    findings.effects[0].proven = Proven::Unproven;
    let (screen, page) = shown(&findings);
    assert!(screen.contains("better; unproven"), "{screen}");
    assert!(page.contains("better; unproven"));
}

#[test]
fn one_level_has_no_knee() {
    let mut findings = synthetic::findings();
    findings.curve.points.truncate(1);
    let (reported, page) = (terminal::render(&findings, 80, false), html::render(&findings));
    assert!(reported.contains("knee not shown by one level"), "{reported}");
    assert!(!reported.contains("of its peak") && !reported.contains("falls to"), "{reported}");
    assert!(page.contains("Knee not shown by one level."), "{page}");
    assert!(!page.contains("class=\"knee-band\"") && !page.contains(">bound</text>"), "{page}");
}

#[test]
fn the_bound_is_not_named_across_a_treatment_s_name() {
    let mut findings = synthetic::findings();
    let names = |page: &str| page.matches(">bound</text>").count();
    let pictures = names(&html::render(&findings));
    let cure = findings.effects.iter().find(|effect| effect.verdict == Verdict::Better);
    let height = cure.and_then(|effect| effect.throughput).unwrap().value;
    for point in &mut findings.curve.points {
        point.ideal = height;
    }
    // On a wide page the name ends before the last level.
    assert_eq!((pictures, names(&html::render(&findings))), (2, 1));
}

#[test]
fn a_server_on_forty_columns() {
    insta::assert_snapshot!(terminal::render(&synthetic::server::server(), 40, false));
}

#[test]
fn imported_results() {
    let findings = synthetic::server::imported();
    insta::assert_snapshot!(terminal::render(&findings, 80, false));
    let page = html::render(&findings);
    for words in ["<h3>Collector", "id=\"why\"", "id=\"cures\"", "Instruments", ">none", "A/A"] {
        assert!(!page.contains(words), "{words}");
    }
    for words in ["pgbench output, a b.log", "precision of the peak ±3.1 %", "USL fit", "bound /s"]
    {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn colour_only_adds() {
    let findings = synthetic::findings();
    let mut bare = String::new();
    let coloured = terminal::render(&findings, 80, true);
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        bare.push_str(before);
        rest = after.split_once('m').expect("a colour sequence ends in m").1;
    }
    bare.push_str(rest);
    assert_eq!(bare, terminal::render(&findings, 80, false));
}

#[test]
fn same_findings_same_bytes() {
    let (one, other) = (synthetic::findings(), synthetic::findings());
    assert_eq!(html::render(&one), html::render(&other));
    assert_eq!(json::render(&one), json::render(&other));
}

#[test]
fn json_reads_back() {
    let findings = synthetic::findings();
    let mut read: Findings = serde_json::from_str(&json::render(&findings)).unwrap();
    // Reading a decimal may miss the last bit of a quotient, so figures are compared where the
    // decimal is exact, and all else as a whole.
    assert_eq!(read.curve.points[0], findings.curve.points[0]);
    read.curve.points.clone_from(&findings.curve.points);
    read.ledgers.clone_from(&findings.ledgers);
    read.effects.clone_from(&findings.effects);
    read.causes.clone_from(&findings.causes);
    assert_eq!(read, findings);
}

#[test]
fn curve_as_csv() {
    insta::assert_snapshot!(export::csv::render(&synthetic::findings()));
}

#[test]
fn stacks_as_folded_lines() {
    let findings = synthetic::findings();
    insta::assert_snapshot!(export::folded::off_cpu(&findings));
    let folded = export::folded::on_cpu(&findings);
    let total: u64 =
        folded.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    // The root itself holds 0.1 s that no named frame does.
    assert_eq!(total, 3_000_000 + 10_000 * 10 - 100_000);
}

#[test]
fn every_picture_has_its_numbers() {
    let page = html::render(&synthetic::findings());
    for line in [
        "The curve in numbers",
        "All levels in numbers",
        "Heaviest functions in numbers",
        "All variants in numbers",
    ] {
        assert!(page.contains(line), "{line}");
    }
    for words in ["4.05×", "[3.79–4.34]", "no effect (under 7 %)", "10.7k", "±4.1 %"] {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn distrust_is_said_first() {
    let mut findings = synthetic::findings();
    findings.trustworthy = false;
    findings.caveats[0].severity = kneepoint_vocab::findings::Severity::Serious;
    let page = html::render(&findings);
    let banner = page.find("Do not rely on the verdicts").expect("a banner");
    assert!(banner < page.find("id=\"where\"").expect("a first section"));
    assert!(terminal::render(&findings, 80, false).contains("caveat 1 of 3): The USL"));
}

#[test]
fn without_a_control_there_is_no_noise_floor() {
    let mut findings = synthetic::findings();
    findings.noise.pairs = 0;
    let page = html::render(&findings);
    assert!(page.contains("There was no A/A control") && !page.contains("class=\"noise\""));
    assert!(!terminal::render(&findings, 80, false).contains("A/A"));
}

#[test]
fn an_empty_run_leaves_no_empty_section() {
    let mut findings = synthetic::findings();
    findings.curve.points.clear();
    findings.ledgers.clear();
    findings.causes.clear();
    findings.effects.clear();
    findings.on_cpu = None;
    let page = html::render(&findings);
    assert!(page.contains("No slice of the sweep counts"));
    assert!(!page.contains("id=\"cures\"") && !page.contains("class=\"flame\""));
    let screen = terminal::render(&findings, 80, false);
    assert!(!screen.contains("What helps") && !screen.contains("Why"));
    assert!(screen.lines().all(|line| text::columns(line) <= 80));
}
