//! Recipes: the built-in ones are whole, and what is wrong with one is reported with its place.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use kneepoint_rig::recipe::level::resolve_all;
use kneepoint_rig::{Need, Recipe, SearchPath, recipe};
use kneepoint_vocab::{LevelOrder, Nanos, Ratio, VariantId, VariantRole};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

const WHOLE: &str = r#"name = "mine"
summary = "one line"
operation = "transactions"
treatments = ["sqlite-private-cache", "sqlite-mmap"]

[workload]
kind = "sqlite-oltp"

[workload.settings]
cache = "shared"
rows = 5000

[sweep]
clients = [1, "2", "2C"]
focus = "2"

[protocol]
slice_ms = 500
ramp_ms = 100
sweep_blocks = 4
effect_blocks = [6, 24]
blocks_per_start = 3
precision = 0.05
smallest_effect = 0.07
budget_s = 90
settle_s = 4
"#;

/// The message for [`WHOLE`] with one passage replaced by another.
fn refusal(passage: &str, replacement: &str) -> String {
    assert_eq!(WHOLE.matches(passage).count(), 1, "{passage:?} must occur once");
    let text = WHOLE.replace(passage, replacement);
    Recipe::parse("recipes/x.toml", &text).unwrap_err().to_string()
}

#[test]
fn each_built_in_recipe_is_whole() {
    let listed = recipe::all().unwrap();
    assert!(!listed.is_empty());
    for listing in listed {
        let recipe = Recipe::named(&listing.name).unwrap();
        assert_eq!(recipe.name, listing.name);
        let file = format!("{}/../../recipes/{}.toml", env!("CARGO_MANIFEST_DIR"), listing.name);
        let loaded = Recipe::load(Path::new(&file)).unwrap();
        assert_eq!(format!("{loaded:?}"), format!("{recipe:?}"));
        for cores in [1, 2, 3, 64, 4096] {
            let levels = resolve_all(&recipe.clients, cores);
            assert!(levels.contains(&recipe.focus.resolve(cores)), "{levels:?}");
        }
        let published = recipe.clone().as_published().ok();
        let variants = published.iter().flat_map(Recipe::variants).chain(recipe.variants());
        for variant in variants {
            recipe.workload.check(&variant.settings).unwrap();
        }
    }
}

#[test]
fn a_treatment_is_left_out_where_it_lacks_something_and_reported() {
    for listing in kneepoint_rig::recipe::all().unwrap() {
        let mut recipe = Recipe::named(&listing.name).unwrap();
        let tried: Vec<String> = recipe.treatments.iter().map(|one| one.id.clone()).collect();
        let lines = recipe.leave_out_lacking();
        assert_eq!(lines.len() + recipe.treatments.len(), tried.len(), "{lines:?}");
        let kept = |id: &str| recipe.treatments.iter().any(|one| one.id == id);
        for id in tried {
            let reported =
                lines.iter().any(|line| line.contains(&format!("treatment {id} is left")));
            assert_ne!(kept(&id), reported, "{id}: {lines:?}");
        }
        for treatment in &recipe.treatments {
            let settings = recipe.settings_of(treatment);
            let needs = recipe.workload.needs(&settings, &SearchPath::own());
            assert!(needs.iter().all(|need| need.here), "{}: {needs:?}", treatment.id);
        }
    }
}

#[test]
fn a_machine_without_programs_is_shown_what_to_install_for_every_recipe() {
    let nowhere = SearchPath::of("".as_ref());
    for listing in kneepoint_rig::recipe::all().unwrap() {
        let recipe = Recipe::named(&listing.name).unwrap();
        let needs = recipe.needs_in(&nowhere);
        if recipe.workload.name() == "sqlite-oltp" {
            // It drives Kneepoint itself.
            assert_eq!(needs, []);
            continue;
        }
        assert!(needs.iter().any(|need| !need.here), "{}: {needs:?}", recipe.name);
        // No package brings a right or a device.
        let rights = ["root", "loop devices", "zram devices"];
        let programs = needs.iter().filter(|need| !rights.contains(&need.what.as_str()));
        for need in programs.filter(|need| !need.here) {
            assert_ne!(need.package, "", "{}: {need:?}", recipe.name);
        }
        let line = Need::install_line(&needs).unwrap();
        assert!(line.starts_with("apt-get install "), "{}: {line}", recipe.name);
    }
}

#[test]
fn everything_that_is_written_is_read() {
    let recipe = Recipe::parse("x.toml", WHOLE).unwrap();
    assert_eq!((recipe.name.as_str(), recipe.summary.as_str()), ("mine", "one line"));
    assert_eq!(
        (recipe.operation.as_str(), recipe.workload.name()),
        ("transactions", "sqlite-oltp")
    );
    assert_eq!(recipe.settings["rows"], "5000");
    assert_eq!(resolve_all(&recipe.clients, 8), [1, 2, 16]);
    let expected = recipe::Protocol {
        slice: Some(Nanos::from_millis(500)),
        ramp: Some(Nanos::from_millis(100)),
        settle: Some(Nanos::from_millis(4000)),
        sweep_blocks: Some(4),
        effect_blocks: Some((6, 24)),
        blocks_per_start: Some(3),
        precision: Some(Ratio(0.05)),
        smallest_effect: Some(Ratio(0.07)),
        budget: Some(Nanos::from_millis(90_000)),
    };
    assert_eq!(recipe.protocol, expected);
}

#[test]
fn the_example_in_the_readme_is_a_recipe() {
    let readme = include_str!("../../../recipes/README.md");
    let example = readme.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    let recipe = Recipe::parse("README.md", example.unwrap()).unwrap();
    assert_eq!(recipe.protocol.effect_blocks, Some((6, 24)));
    assert_eq!(recipe.sweep_treatments.len(), 1);
}

#[test]
fn the_readme_tells_of_each_setting_and_treatment_key() {
    let readme = include_str!("../../../recipes/README.md");
    let settings = &Recipe::named("sqlite-shared-cache").unwrap().settings;
    for name in settings.keys().map(String::as_str).chain(["over", "set", "expects", "shown_by"]) {
        assert!(readme.contains(&format!("\n| `{name}` |")), "{name}");
    }
}

#[test]
fn variants_are_the_baseline_its_controls_and_the_treatments() {
    let variants = Recipe::parse("x.toml", WHOLE).unwrap().variants();
    let names: Vec<_> = variants.iter().map(|variant| variant.plan.id.0.as_str()).collect();
    let expected = ["baseline", "control", "unprobed", "sqlite-private-cache", "sqlite-mmap"];
    assert_eq!(names, expected);
    assert!(variants[..3].iter().all(|variant| variant.plan.changes.is_empty()));
    assert!(variants[..3].iter().all(|variant| variant.settings == variants[0].settings));
    let [private, mmap] = &variants[3..] else { panic!("two treatments") };
    assert_eq!(private.plan.role, VariantRole::Treatment);
    assert_eq!(private.plan.over, VariantId::new(VariantId::BASELINE));
    assert_eq!(private.plan.changes, ["cache = private", "database = file"]);
    assert_eq!(mmap.plan.over, private.plan.id);
    assert_eq!(mmap.plan.changes, ["mmap = 256MiB"]);
    assert_eq!(mmap.settings["database"], "file");
    assert_eq!(mmap.settings["rows"], "5000");
}

#[test]
fn treatments_of_the_sweep_are_some_of_those_tried() {
    let swept = |list: &str| {
        let line = format!("focus = \"2\"\ntreatments = {list}");
        Recipe::parse("x.toml", &WHOLE.replace("focus = \"2\"", &line))
    };
    let names = |recipe: &Recipe| -> Vec<String> {
        recipe.sweep_treatments.iter().map(|one| one.id.clone()).collect()
    };
    assert!(Recipe::parse("x.toml", WHOLE).unwrap().sweep_treatments.is_empty());
    assert_eq!(names(&swept("[\"sqlite-mmap\"]").unwrap()), ["sqlite-mmap"]);
    let both = swept("[\"sqlite-mmap\", \"sqlite-private-cache\"]").unwrap();
    assert_eq!(names(&both), ["sqlite-private-cache", "sqlite-mmap"]);
    let refused = |list| swept(list).unwrap_err().to_string();
    assert_eq!(
        refused("[\"sqlite-mmap\", \"sqlite-mimalloc\"]"),
        "x.toml:16:30: the sweep can measure the treatments that the recipe lists, \
         sqlite-private-cache, sqlite-mmap (found \"sqlite-mimalloc\")"
    );
    assert_eq!(
        refused("[\"sqlite-mmap\", \"sqlite-mmap\"]"),
        "x.toml:16:30: treatment sqlite-mmap is listed twice"
    );
    let without = WHOLE.replace("treatments = [\"sqlite-private-cache\", \"sqlite-mmap\"]\n", "");
    let asked = without.replace("focus = \"2\"", "focus = \"2\"\ntreatments = [\"sqlite-mmap\"]");
    let message = Recipe::parse("x.toml", &asked).unwrap_err().to_string();
    assert!(message.starts_with("x.toml:15:15: ") && message.contains("none (found"), "{message}");
}

/// [`WHOLE`] with stanzas of its own.
fn with_variants(stanzas: &str) -> Result<Recipe, String> {
    let text = format!("{WHOLE}{stanzas}");
    Recipe::parse("recipes/x.toml", &text).map_err(|error| error.to_string())
}

const STANZAS: &str = r#"
[[variant]]
id = "fewer-rows"
label = "a smaller table"
set = { rows = 1000 }

[[variant]]
id = "mapped-fewer-rows"
label = "a smaller table, mapped"
over = "sqlite-mmap"
set = { rows = 1000, memstatus = "off" }

[[variant]]
id = "fewest-rows"
label = "both"
over = "mapped-fewer-rows"
set = { rows = 1500 }

[[variant]]
id = "again"
label = "the baseline once more"
over = "baseline"
set = {}
"#;

#[test]
fn a_recipe_has_variants_of_its_own_behind_those_of_the_catalogue() {
    let recipe = with_variants(STANZAS).unwrap();
    let variants = &recipe.variants()[5..];
    let names: Vec<_> = variants.iter().map(|variant| variant.plan.id.0.as_str()).collect();
    assert_eq!(names, ["fewer-rows", "mapped-fewer-rows", "fewest-rows", "again"]);
    let [fewer, mapped, fewest, again] = variants else { panic!("four") };
    assert_eq!(fewer.plan.role, VariantRole::Treatment);
    assert_eq!(
        (fewer.plan.label.as_str(), fewer.plan.over.0.as_str()),
        ("a smaller table", "baseline")
    );
    assert_eq!(fewer.plan.changes, ["rows = 1000"]);
    assert_eq!(
        (fewer.settings["rows"].as_str(), fewer.settings["cache"].as_str()),
        ("1000", "shared")
    );
    assert_eq!(mapped.plan.over, VariantId::new("sqlite-mmap"));
    assert_eq!(mapped.plan.changes, ["memstatus = off", "rows = 1000"]);
    assert_eq!(
        (mapped.settings["mmap"].as_str(), mapped.settings["cache"].as_str()),
        ("256MiB", "private")
    );
    assert_eq!(
        (fewest.settings["rows"].as_str(), fewest.settings["memstatus"].as_str()),
        ("1500", "off")
    );
    assert_eq!((again.plan.over.0.as_str(), &again.settings), ("baseline", &recipe.settings));
    assert!(again.plan.changes.is_empty());
    assert!(recipe.as_published().is_err());
}

#[test]
fn the_sweep_can_measure_a_recipes_own_variant() {
    let text = format!("{WHOLE}{STANZAS}");
    let text =
        text.replace("focus = \"2\"", "focus = \"2\"\ntreatments = [\"again\", \"sqlite-mmap\"]");
    let recipe = Recipe::parse("x.toml", &text).unwrap();
    let names: Vec<_> = recipe.sweep_treatments.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(names, ["sqlite-mmap", "again"]);
}

#[test]
fn what_is_wrong_with_a_variant_has_its_place() {
    let first = WHOLE.lines().count() + 1;
    let stanza = |keys: &str| format!("[[variant]]\n{keys}");
    for (keys, line, column, words) in [
        ("id = \"A b\"\nlabel = \"x\"\nset = {}", 1, 6, "names have 1 to 64"),
        (
            "id = \"control\"\nlabel = \"x\"\nset = {}",
            1,
            6,
            "control is a variant of Kneepoint's own",
        ),
        ("id = \"sqlite-mimalloc\"\nlabel = \"x\"\nset = {}", 1, 6, "choose another id"),
        ("id = \"a\"\nlabel = \"\"\nset = {}", 2, 9, "one line"),
        (
            "id = \"a\"\nlabel = \"x\"\nset = {}\nover = \"b\"",
            4,
            8,
            "over must be one of those before it: baseline, sqlite-private-cache, \
             sqlite-mmap (found \"b\")",
        ),
        ("id = \"a\"\nlabel = \"x\"\nset = {}\nover = \"a\"", 4, 8, "over must be one of"),
        ("id = \"a\"\nlabel = \"x\"\nset = { rows = 1 }", 3, 16, "rows must be 1000 to"),
        ("id = \"a\"\nlabel = \"x\"\n[variant.set]\ncash = 5", 4, 8, "has no setting \"cash\""),
        ("id = \"a\"\nlabel = \"x\"", 1, 6, "variant a changes nothing: add set"),
        ("id = \"a\"\nlabel = \"x\"\nenvironment = {}", 1, 6, "changes nothing"),
        (
            "id = \"a\"\nlabel = \"x\"\nset = { cache = \"shared\" }\nenvironment = { \"\" = 1 }",
            4,
            15,
            "environment is NAME=VALUE words",
        ),
        ("id = \"a\"\nlabel = \"x\"\nset = {}\nwish = 1", 4, 1, "unknown field `wish`"),
    ] {
        let message = with_variants(&stanza(keys)).unwrap_err();
        let place = format!("recipes/x.toml:{}:{column}: ", first + line);
        assert!(
            message.starts_with(&place) && message.contains(words),
            "{keys}\n{place}\n{message}"
        );
    }
    let twice = "[[variant]]\nid = \"a\"\nlabel = \"x\"\nset = {}\n".repeat(2);
    let message = with_variants(&twice).unwrap_err();
    assert!(
        message.contains(&format!(":{}:6: two variants have the id a", first + 5)),
        "{message}"
    );
}

#[test]
fn a_variant_of_a_command_changes_what_its_start_and_its_slices_use() {
    let of = |baseline: &str, set: &str| {
        let text = format!(
            "name = \"x\"\nsummary = \"x\"\noperation = \"runs\"\n[workload]\nkind = \"command\"\n\
             [workload.settings]\nrun = \"true {{clients}}\"\n{baseline}\n[sweep]\nclients = [1]\n\
             focus = 1\n[[variant]]\nid = \"v\"\nlabel = \"x\"\nset = {{ {set} }}\n"
        );
        Recipe::parse("x", &text).map_err(|error| error.to_string())
    };
    let recipe = of("environment = \"A=1\"", "run = \"false\", environment = \"A=2\"").unwrap();
    let variant = recipe.variants().pop().unwrap();
    assert_eq!(
        (variant.settings["run"].as_str(), variant.settings["environment"].as_str()),
        ("false", "A=2")
    );
    let recipe =
        of("environment = { A = 1, B = \"x y\" }", "} \nenvironment = { A = \"2\"").unwrap();
    assert_eq!(recipe.settings["environment"], "A=1 'B=x y'");
    let variant = recipe.variants().pop().unwrap();
    assert_eq!(variant.settings["environment"], "'B=x y' A=2");
    assert_eq!(variant.plan.changes, ["A=2"]);
    assert!(of("", "setup = \"true\"").unwrap_err().contains("setup takes effect once a run"));
    assert!(of("", "start = \"true\"").unwrap_err().contains("variant v moves the clients"));
}

#[test]
fn a_treatment_that_is_left_out_leaves_the_sweep_too() {
    for listing in recipe::all().unwrap() {
        let mut recipe = Recipe::named(&listing.name).unwrap();
        recipe.sweep_treatments.clone_from(&recipe.treatments);
        recipe.leave_out_lacking();
        let ids = |of: &[kneepoint_rig::Treatment]| -> Vec<String> {
            of.iter().map(|one| one.id.clone()).collect()
        };
        assert_eq!(ids(&recipe.sweep_treatments), ids(&recipe.treatments));
    }
}

#[test]
fn a_wrong_value_is_reported_with_its_place_and_what_is_possible() {
    let cases = [
        ("[1,", "[0,", "14:12: levels must be 1 to 4096 (found 0)"),
        ("[1,", "[-7,", "14:12: levels must be 1 to 4096 (found -7)"),
        ("\"2C\"]", "\"9999999999C\"]", "14:20: levels must be 1 to 4096 (found 9999999999C)"),
        (
            "[1,",
            "[\"many\",",
            "14:12: a level is a number such as 4, or a multiple of the cores such as 2C \
             (found \"many\")",
        ),
        (
            "[1,",
            "[1.5,",
            "14:12: a level is a number such as 4, or a multiple of the cores such as 2C \
             (found \"1.5\")",
        ),
        ("[1, \"2\", \"2C\"]", "[]", "14:11: clients must hold at least one level"),
        (
            "focus = \"2\"",
            "focus = 3",
            "15:9: focus must be one of the levels in clients (found 3)",
        ),
        (
            "\"sqlite-mmap\"",
            "\"sqlite-nmap\"",
            "4:39: no treatment is named \"sqlite-nmap\"; there are: sqlite-private-cache, \
             sqlite-mmap, sqlite-memstatus-off, sqlite-mimalloc, sqlite-serialized",
        ),
        (
            "\"sqlite-private-cache\", ",
            "",
            "4:15: treatment sqlite-mmap adds to sqlite-private-cache: list sqlite-private-cache \
             before it",
        ),
        (
            "\"sqlite-mmap\"",
            "\"sqlite-private-cache\"",
            "4:39: treatment sqlite-private-cache is listed twice",
        ),
        ("\"shared\"", "\"warm\"", "10:9: cache must be shared or private (found \"warm\")"),
        ("5000", "-1", "11:8: rows must be 1000 to 100000000 (found \"-1\")"),
        ("\"mine\"", "\"a b\"", "1:8: names have 1 to 64 of a-z, 0-9 and '-' (found \"a b\")"),
        ("\"one line\"", "\"\"", "2:11: must be one line, and not an empty one"),
        ("[6, 24]", "[24, 6]", "21:17: effect_blocks are [least, most] (found [24, 6])"),
        ("0.05", "0.9", "23:13: precision must be 0.001 to 0.5 (found 0.9)"),
        ("0.05", "nan", "23:13: precision must be 0.001 to 0.5 (found NaN)"),
        ("budget_s = 90", "budget_s = 0", "25:12: budget_s must be 1 to 604800 (found 0)"),
        ("ramp_ms = 100", "ramp_ms = -1", "19:11: ramp_ms must be 0 to 3600000 (found -1)"),
    ];
    for (passage, replacement, message) in cases {
        assert_eq!(refusal(passage, replacement), format!("recipes/x.toml:{message}"));
    }
}

#[test]
fn what_is_no_recipe_is_reported_with_its_place() {
    let unknown = refusal("\"sqlite-oltp\"", "\"nothing\"");
    let words = "recipes/x.toml:7:8: no workload is named \"nothing\"; there are: ";
    let known = unknown.strip_prefix(words).unwrap();
    assert!(known.split(", ").any(|name| name == "sqlite-oltp"), "{unknown}");
    let unknown = refusal("budget_s", "budgets");
    assert!(unknown.starts_with("recipes/x.toml:25:1: unknown field `budgets`"), "{unknown}");
    let unknown = refusal("focus", "fokus");
    assert!(unknown.starts_with("recipes/x.toml:15:1: unknown field `fokus`"), "{unknown}");
    let absent = refusal("focus = \"2\"\n", "");
    assert_eq!(absent, "recipes/x.toml:13:1: missing field `focus`");
    let kind = refusal("slice_ms = 500", "slice_ms = \"long\"");
    assert!(kind.starts_with("recipes/x.toml:18:12: invalid type: string"), "{kind}");
    let torn = refusal("\"one line\"", "\"one line");
    assert!(torn.starts_with("recipes/x.toml:2:20: "), "{torn}");
    assert_eq!(torn.lines().count(), 1);
    let empty = Recipe::parse("x.toml", "").unwrap_err().to_string();
    assert_eq!(empty, "x.toml:1:1: missing field `name`");
}

#[test]
fn a_recipe_adds_names_of_locks() {
    let names = "\n[names.plumbing]\nparts = [\"my_latch_\"]\n";
    let recipe = Recipe::parse("x.toml", &format!("{WHOLE}{names}")).unwrap();
    assert_eq!(recipe.names.plumbing.parts, ["my_latch_"]);
    assert!(Recipe::parse("x.toml", WHOLE).unwrap().names.is_empty());
    let refused = |names: &str| {
        let text = format!("{WHOLE}\n[names.plumbing]\n{names}\n");
        Recipe::parse("x.toml", &text).unwrap_err().to_string()
    };
    assert!(refused("parts = [\"\"]").contains("an empty name"), "{}", refused("parts = [\"\"]"));
    let unknown = refused("pieces = []");
    assert!(unknown.starts_with("x.toml:29:1: unknown field `pieces`"), "{unknown}");
}

#[test]
fn columns_count_characters() {
    let shifted = refusal("[1,", "[ \"é\" , 1,");
    assert!(shifted.starts_with("recipes/x.toml:14:13: a level is"), "{shifted}");
    let after = refusal("[\"sqlite-private-cache\", ", "[ #éé\n \"é\", ");
    assert!(after.starts_with("recipes/x.toml:5:2: no treatment"), "{after}");
}

#[test]
fn a_recipe_that_is_not_there_is_named() {
    let message = Recipe::named("sqlight").unwrap_err().to_string();
    assert!(message.starts_with("no recipe is named \"sqlight\"; choose one of: "));
    let message = Recipe::load(Path::new("/nonexistent/r.toml")).unwrap_err().to_string();
    assert!(message.starts_with("/nonexistent/r.toml: cannot be read: "), "{message}");
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(at in 0..WHOLE.len(), length in 0_usize..30, inserted in ".{0,6}") {
        let end = (at + length).min(WHOLE.len());
        let text = format!("{}{inserted}{}", &WHOLE[..at], &WHOLE[end..]);
        if let Err(error) = Recipe::parse("x.toml", &text) {
            let message = error.to_string();
            prop_assert!(message.starts_with("x.toml:"), "{}", message);
            prop_assert_eq!(message.lines().count(), 1, "{}", message);
        }
    }
}

/// [`WHOLE`] with a published protocol.
fn published(lines: &str) -> Result<Recipe, String> {
    let text = format!("{WHOLE}\n[protocol.published]\n{lines}");
    Recipe::parse("recipes/x.toml", &text).map_err(|error| error.to_string())
}

#[test]
fn a_published_protocol_is_read() {
    let whole = "warm_up_s = 360\nslice_s = 120\nramp_ms = 5\nrepetitions = 3\n\
        clients = [1, 8]\nfocus = 8\norder = \"random\"\n";
    let recipe = published(whole).unwrap().as_published().unwrap();
    let found = recipe.follows.unwrap();
    assert_eq!((found.warm_up, found.slice), (Nanos(360_000_000_000), Nanos(120_000_000_000)));
    assert_eq!((found.ramp, found.repetitions), (Nanos::from_millis(5), 3));
    assert_eq!((found.clients.len(), found.focus.resolve(2)), (2, 8));
    assert_eq!(found.order, LevelOrder::Random);
    let least = published("slice_s = 1\nclients = [1]\n").unwrap();
    let least = least.as_published().unwrap().follows.unwrap();
    assert_eq!((least.warm_up, least.ramp, least.repetitions), (Nanos(0), Nanos(0), 1));
    assert_eq!((least.order, least.focus.resolve(9)), (LevelOrder::Ascending, 2));
}

#[test]
fn a_published_protocol_changes_settings_and_tries_no_treatments() {
    let lines = "slice_s = 1\nclients = [1]\n[protocol.published.settings]\nrows = 7000\n";
    let own = published(lines).unwrap();
    assert_eq!((own.settings["rows"].as_str(), own.treatments.len()), ("5000", 2));
    let recipe = own.as_published().unwrap();
    let expected = [("cache".to_owned(), "shared".to_owned()), ("rows".into(), "7000".into())];
    assert_eq!(recipe.settings, BTreeMap::from(expected));
    assert!(recipe.treatments.is_empty() && recipe.sweep_treatments.is_empty());
    assert!(recipe.variants().iter().all(|variant| variant.settings["rows"] == "7000"));
}

#[test]
fn what_is_wrong_with_a_published_protocol_has_its_place() {
    let refused = |lines: &str| published(lines).unwrap_err();
    let first = WHOLE.lines().count() + 3;
    for (lines, line, words) in [
        ("slice_s = 0\nclients = [1]\n", 0, "slice_s must be 1 to 86400 (found 0)"),
        ("slice_s = 1\nclients = []\n", 1, "clients must hold at least one level"),
        ("slice_s = 1\nclients = [1, 0]\n", 1, "levels must be 1 to 4096 (found 0)"),
        ("slice_s = 1\nclients = [1]\nfocus = 2\n", 2, "focus must be one of the levels"),
        ("slice_s = 1\nclients = [1]\norder = \"up\"\n", 2, "ascending or random (found \"up\")"),
        ("slice_s = 1\nclients = [1]\nrepetitions = 0\n", 2, "repetitions must be 1 to 1000"),
        ("slice_s = 1\nclients = [1]\nwarm_up_s = -1\n", 2, "warm_up_s must be 0 to 86400"),
        ("slice_s = 1\nclients = [1]\ntreatments = []\n", 2, "unknown field `treatments`"),
        ("slice_s = 1\nclients = [1]\nsettings.rows = 1\n", 2, "rows must be "),
        ("slice_s = 1\nclients = [1]\nsettings.x = 1\n", 2, "has no setting \"x\""),
    ] {
        let message = refused(lines);
        assert!(message.starts_with(&format!("recipes/x.toml:{}:", first + line)), "{message}");
        assert!(message.contains(words), "{message}");
    }
    assert!(refused("clients = [1]\n").contains("missing field `slice_s`"));
}

#[test]
fn a_recipe_without_a_published_protocol_says_so() {
    let message = Recipe::parse("x", WHOLE).unwrap().as_published().unwrap_err().to_string();
    assert!(
        message.starts_with("mine has no published protocol; those that have one:"),
        "{message}"
    );
}
