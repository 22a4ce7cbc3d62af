//! How right a diagnosis is.

use super::names::Names;
use super::specimen::{Planted, Specimen};
use kneepoint_vocab::Estimate;
use kneepoint_vocab::units::Ratio;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A null has no cause with more than this share.
const ALARM: f64 = 0.2;
/// A twin that gains less shows that the planted cause costs nothing on this machine.
const LEAST_GAIN: f64 = 1.15;
/// A planted cause that costs less of the loss, as the specimen measured it, need not be found.
const LEAST_PLANTED: f64 = 0.1;
/// Causes that a reader looks at.
const FIRST: usize = 3;

/// What came of one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Scored {
    pub(super) specimen: String,
    pub(super) family: String,
    pub(super) form: String,
    /// The planted cause, the greatest where there are two; none for a null.
    pub(super) planted: Option<String>,
    /// Kind of the first cause.
    pub(super) first: Option<String>,
    pub(super) outcome: Outcome,
    /// Wall time of the diagnosis in seconds.
    pub(super) seconds: f64,
    /// Whether other tools show what is planted on top, by their names, where they were tried.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tools: BTreeMap<String, bool>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub(super) enum Outcome {
    Planted(Marks),
    /// Nothing is wrong with it: whether a cause was claimed all the same.
    Null {
        alarm: bool,
    },
    /// The planted cause costs nothing here, so that nothing can be found.
    Void,
    Failed {
        why: String,
    },
}

/// What is right about the diagnosis of a planted cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Marks {
    /// The first cause is the planted one, by its kind, its words and its place.
    pub(super) top_1: bool,
    /// All that is planted is among the first three.
    pub(super) top_3: bool,
    /// The first cause is of the planted kind, and says so.
    pub(super) kind: bool,
    /// The first cause names a place that a person would mend.
    pub(super) place: bool,
    /// The share that was told less the one that the specimen measured, of each that was found. All
    /// causes of the first three that are the planted one have it together.
    pub(super) share_errors: Vec<f64>,
    /// Whether the intervals of these shares hold the truth.
    pub(super) covered: Vec<bool>,
    /// Gain of the treated twin by paired trials over that by its own count.
    pub(super) gain_ratio: Option<f64>,
    /// The gain that was forecast for the first cause gone, over the twin's own count.
    pub(super) forecast_ratio: Option<f64>,
}

/// What is known beside the findings.
pub(super) struct Known<'a> {
    pub(super) specimen: &'a Specimen,
    pub(super) names: &'a Names,
    /// Share of each planted cause, where the specimen could measure it.
    pub(super) shares: Option<Vec<f64>>,
    /// The twin's throughput over the specimen's, by their own counts.
    pub(super) gain: Option<f64>,
    /// The same by paired trials.
    pub(super) paired: Option<f64>,
}

/// Judges the findings of one run.
pub(super) fn judge(findings: &Value, known: &Known<'_>) -> Outcome {
    let causes = findings["causes"].as_array().map_or(&[][..], Vec::as_slice);
    if known.specimen.is_null() {
        return Outcome::Null { alarm: causes.iter().any(|cause| share(cause, "value") > ALARM) };
    }
    if known.gain.is_some_and(|gain| gain < LEAST_GAIN) {
        return Outcome::Void;
    }
    let planted = &known.specimen.expected.causes;
    let fits: Vec<Vec<Fit>> = causes
        .iter()
        .take(FIRST)
        .enumerate()
        .map(|(at, cause)| {
            let said = findings["evidence_lines"][at].as_str().unwrap_or_default();
            planted.iter().map(|one| fit(cause, said, one, known.names)).collect()
        })
        .collect();
    let first = fits.first().map_or(&[][..], Vec::as_slice);
    let (mut share_errors, mut covered) = (Vec::new(), Vec::new());
    let mut missed = 0;
    for (which, _) in planted.iter().enumerate() {
        let truth = known.shares.as_ref().and_then(|shares| shares.get(which));
        let of_it = causes.iter().zip(&fits).filter(|(_, of)| of[which].both());
        let found: Vec<&Value> = of_it.map(|(cause, _)| cause).collect();
        if found.is_empty() {
            missed += u32::from(truth.is_none_or(|share| *share >= LEAST_PLANTED));
        } else if let Some(truth) = truth {
            let told = shares_together(&found);
            share_errors.push(told.value.0 - truth);
            covered.push(told.low.0 <= *truth && *truth <= told.high.0);
        }
    }
    let over = |gain: Option<f64>| Some(gain? / known.gain?);
    let replaced = known.specimen.expected.replaced;
    Outcome::Planted(Marks {
        top_1: first.iter().any(|one| one.both()),
        top_3: missed == 0,
        kind: first.iter().any(|one| one.kind),
        place: first.iter().any(|one| one.place),
        share_errors,
        covered,
        gain_ratio: over(known.paired),
        // A treatment of two planted causes takes more away than the first one.
        forecast_ratio: over(forecast(findings)).filter(|_| planted.len() == 1 && !replaced),
    })
}

/// Kind of the first cause.
pub(super) fn first_kind(findings: &Value) -> Option<String> {
    Some(findings["causes"][0]["kind"].as_str()?.to_owned())
}

/// What of a cause is that of a planted one.
#[derive(Clone, Copy)]
struct Fit {
    kind: bool,
    place: bool,
}

impl Fit {
    fn both(self) -> bool {
        self.kind && self.place
    }
}

fn fit(cause: &Value, said: &str, planted: &Planted, names: &Names) -> Fit {
    let path: Vec<&str> =
        cause["path"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let name = format!("{} < {}", cause["name"].as_str().unwrap_or_default(), path.join(" < "));
    let roles = names.roles_in(&name);
    let place = planted.places.iter().any(|place| roles.contains(place.as_str()));
    let plain = names.without(&name).to_lowercase();
    let object = planted.objects.iter().any(|object| plain.contains(&object.to_lowercase()));
    let anywhere = planted.places.is_empty() && planted.objects.is_empty();
    let evidence = format!("{} {said}", texts(&cause["evidence"]));
    let evidence = names.without(&evidence).to_lowercase();
    let says = |words: &String| {
        let mut alternatives = words.split('|').map(str::to_lowercase);
        alternatives.any(|word| plain.contains(&word) || evidence.contains(&word))
    };
    let kind = cause["kind"].as_str().unwrap_or_default();
    Fit {
        kind: planted.kinds.iter().any(|one| one == kind) && planted.words.iter().all(says),
        place: place || object || anywhere,
    }
}

/// What a value says: a text, or the texts of a structure with the names of its fields that hold
/// something.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts).collect::<Vec<_>>().join(" "),
        Value::Object(fields) => {
            let holds = |value: &Value| !value.is_null() && *value != Value::Array(Vec::new());
            let held = fields.iter().filter(|(_, value)| holds(value));
            held.map(|(name, value)| format!("{name} {}", texts(value)))
                .collect::<Vec<_>>()
                .join(" ")
        }
        _ => String::new(),
    }
}

/// The shares of causes that are all of one planted cause, as one with an interval: their errors
/// are taken to be independent.
fn shares_together(causes: &[&Value]) -> Estimate<Ratio> {
    let sum: f64 = causes.iter().map(|cause| share(cause, "value")).sum();
    let reach = |end: &str| {
        let away = |cause: &&Value| (share(cause, end) - share(cause, "value")).powi(2);
        causes.iter().map(away).sum::<f64>().sqrt()
    };
    let (low, high) = ((sum - reach("low")).max(0.0), (sum + reach("high")).min(1.0));
    Estimate { value: Ratio(sum), low: Ratio(low), high: Ratio(high) }
}

fn share(cause: &Value, end: &str) -> f64 {
    let share = &cause["share"];
    share[end].as_f64().or(share["value"].as_f64()).unwrap_or(0.0)
}

/// Ratio of the variant that is the treated twin, by paired trials.
pub(super) fn treated(findings: &Value) -> Option<f64> {
    let effects = findings["effects"].as_array()?;
    let twin = effects.iter().find(|effect| effect["variant"] == super::TREATED)?;
    twin["ratio"]["value"].as_f64()
}

/// What the run's twin says of its first cause gone.
fn forecast(findings: &Value) -> Option<f64> {
    let tried = findings["next"]["what_if"].as_array()?;
    let gone = |one: &&Value| {
        let kind = one["change"]["kind"].as_str().unwrap_or_default();
        one["first_cause"] == true && (kind == "without" || kind == "saved")
    };
    tried.iter().find(gone)?["forecast"]["ratio"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::super::specimen::Expectation;
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    const TWO: &str = "family = \"mixes\"\n\
        [[cause]]\ncalled = \"mutex\"\nkinds = [\"lock\"]\nwords = [\"mutex\"]\n\
        places = [\"post\", \"ledger\"]\n\
        [[cause]]\ncalled = \"file\"\nkinds = [\"kernel-lock\"]\nwords = [\"inode|file\"]\n\
        objects = [\"inode rwsem\"]\n";

    fn specimen(text: &str) -> Specimen {
        let expected: Expectation = toml::from_str(text).unwrap();
        Specimen { name: "x".to_owned(), source: PathBuf::new(), expected }
    }

    fn names() -> Names {
        let drawn = [("mutexika", "post"), ("lobedi", "other")];
        Names {
            module: "zoru".to_owned(),
            drawn: BTreeMap::from(drawn.map(|(name, role)| (name.to_owned(), role.to_owned()))),
            symbols: vec![(0x100, "mutexika".to_owned()), (0x200, "main".to_owned())],
        }
    }

    fn outcome(text: &str, findings: &Value, gain: f64, shares: Option<Vec<f64>>) -> Outcome {
        let (specimen, names) = (specimen(text), names());
        let paired = treated(findings);
        let known = Known { specimen: &specimen, names: &names, shares, gain: Some(gain), paired };
        judge(findings, &known)
    }

    fn cause(kind: &str, name: &str, share: f64) -> Value {
        json!({ "kind": kind, "name": name, "path": [], "evidence": "",
                "share": { "value": share, "low": share - 0.1, "high": share + 0.1 } })
    }

    fn marks(causes: &Value) -> Marks {
        let findings = json!({ "causes": causes });
        match outcome(TWO, &findings, 2.0, Some(vec![0.55, 0.2])) {
            Outcome::Planted(marks) => marks,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_that_is_planted_has_to_be_among_the_first_three() {
        let [lock, file] =
            [cause("lock", "mutex in mutexika", 0.6), cause("kernel-lock", "inode rwsem", 0.5)];
        let other = cause("scheduler", "runnable", 0.1);
        let found = marks(&json!([lock, other, file]));
        assert!(found.top_1 && found.top_3 && found.kind && found.place, "{found:?}");
        assert_eq!(found.covered, [true, false]);
        assert!((found.share_errors[0] - 0.05).abs() < 1e-9);
        assert!((found.share_errors[1] - 0.3).abs() < 1e-9);
        let parted = marks(&json!([cause("lock", "mutex in mutexika", 0.3), lock, file]));
        assert!((parted.share_errors[0] - 0.35).abs() < 1e-9, "all that is of it together");
        assert!(!parted.covered[0] && parted.top_3, "{parted:?}");
        let late = marks(&json!([other, lock, other, file]));
        assert!(!late.top_1 && !late.top_3 && late.covered.len() == 1, "{late:?}");
        assert_eq!(marks(&json!([])), Marks::default());
    }

    #[test]
    fn kind_and_place_are_told_apart() {
        let stripped = marks(&json!([cause("lock", "mutex in zoru+0x180", 0.6)]));
        assert!(stripped.top_1 && !stripped.top_3);
        let elsewhere = marks(&json!([cause("lock", "mutex in lobedi", 0.6)]));
        assert!(elsewhere.kind && !elsewhere.place && !elsewhere.top_1);
        // The drawn name is no word of the diagnosis.
        let unnamed = marks(&json!([cause("lock", "lock in mutexika", 0.6)]));
        assert!(!unnamed.kind && unnamed.place);
        let wrong = marks(&json!([cause("function", "mutex in mutexika", 0.6)]));
        assert!(!wrong.kind && wrong.place);
    }

    #[test]
    fn evidence_may_be_a_structure() {
        let evidence = json!({ "spins": null, "also": [], "how": [{ "kind": "a mutex" }, 3] });
        assert_eq!(texts(&evidence).trim(), "how kind a mutex");
        let mut lock = cause("lock", "lock in mutexika", 0.6);
        lock["evidence"] = evidence;
        assert!(marks(&json!([lock])).top_1);
    }

    #[test]
    fn a_null_has_no_great_cause() {
        let null = "family = \"nulls\"\n";
        let of = |share: f64| {
            let findings = json!({ "causes": [cause("lock", "mutex", share)] });
            outcome(null, &findings, 1.0, None)
        };
        assert_eq!(of(0.19), Outcome::Null { alarm: false });
        assert_eq!(of(0.21), Outcome::Null { alarm: true });
    }

    #[test]
    fn what_costs_nothing_is_void_and_gains_are_compared() {
        let findings = json!({
            "causes": [cause("lock", "mutex in mutexika", 0.6)],
            "effects": [{ "variant": "control", "ratio": { "value": 1.0 } },
                        { "variant": "treated", "ratio": { "value": 2.2 } }],
            "next": { "what_if": [
                { "change": { "kind": "split" }, "first_cause": true,
                  "forecast": { "ratio": 9.0 } },
                { "change": { "kind": "without" }, "first_cause": true,
                  "forecast": { "ratio": 3.0 } }] },
        });
        assert_eq!(outcome(TWO, &findings, 1.1, None), Outcome::Void);
        let marks = |planted: &str| match outcome(planted, &findings, 2.0, None) {
            Outcome::Planted(marks) => marks,
            other => panic!("it is planted: {other:?}"),
        };
        let two = marks(TWO);
        assert!((two.gain_ratio.unwrap() - 1.1).abs() < 1e-9);
        assert_eq!(two.forecast_ratio, None, "its treatment takes both away");
        assert!(two.share_errors.is_empty());
        let one = TWO.rsplit_once("[[cause]]").unwrap().0;
        assert!((marks(one).forecast_ratio.unwrap() - 1.5).abs() < 1e-9);
    }
}
