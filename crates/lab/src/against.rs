//! Whether what an earlier run measured can be measured again: by its kind, its programs, its
//! variables. Two dates are no pair; two variants of one run are.

use kneepoint_rig::environment::LEFT_OUT;
use kneepoint_vocab::environment::changes_programs;
use kneepoint_vocab::{Proof, ProtocolName, RunRecord, VariantId, VariantStart};
use std::collections::BTreeMap;

/// How a proof parts a program's file from its build.
const BUILD: &str = ", build ";

/// The first start of what the run's sweep measured.
///
/// # Errors
/// One line: nobody measured there, or not with `kneepoint run`, or the start is not on record.
pub fn baseline(record: &RunRecord) -> Result<&VariantStart, String> {
    let begun = record.host.arguments.first().map_or("", String::as_str);
    let by_other = record.host.imports().next().is_some();
    match record.plan.protocol {
        ProtocolName::Profile => {
            return Err(
                "it is a profile of a system that ran already, with no load that could be \
                        given again"
                    .to_owned(),
            );
        }
        ProtocolName::Imported => return Err(imported()),
        _ if by_other => return Err(imported()),
        _ if begun == "simulate" => return Err("it was simulated: there is no command".to_owned()),
        _ if begun != "run" => return Err("it was not measured by `kneepoint run`".to_owned()),
        ProtocolName::Default | ProtocolName::Published => {}
    }
    let is_baseline = |start: &&VariantStart| start.variant.0 == VariantId::BASELINE;
    let found = record.variants.iter().find(is_baseline);
    found.ok_or_else(|| "no start of its baseline is on record".to_owned())
}

fn imported() -> String {
    "another tool measured it, whose command is not on record".to_owned()
}

/// In which program of `then` there is another file or another build `now`, or none; a line that
/// says what to do.
#[must_use]
pub fn changed(then: &[Proof], now: &[Proof]) -> Option<String> {
    for what in programs(then) {
        let (path, build) = parts(what);
        let Some(current) = now.iter().find(|one| one.what == what.what) else {
            return Some(format!("its program {path} is gone"));
        };
        let (other_path, other_build) = parts(current);
        if path != other_path {
            return Some(format!(
                "its program was {path}, and the same words lead to {other_path} now"
            ));
        }
        if build != other_build {
            let known = |build: Option<&str>| build.unwrap_or("none").to_owned();
            return Some(format!(
                "its program {path} was built anew since: build {} then, {} now; keep the old file \
                 under another name",
                known(build),
                known(other_build)
            ));
        }
    }
    None
}

/// Paths of the programs that bear no build, so that only their date tells whether they changed.
#[must_use]
pub fn without_build(then: &[Proof]) -> Vec<&str> {
    let bare = programs(then).map(parts).filter(|(_, build)| build.is_none());
    bare.map(|(path, _)| path).collect()
}

/// Whether both run the same programs: none where one of the two is not known.
#[must_use]
pub fn same_programs(one: &[Proof], other: &[Proof]) -> Option<bool> {
    let of = |proofs| programs(proofs).map(|proof| proof.found.as_str()).collect::<Vec<_>>();
    let (one, other) = (of(one), of(other));
    (!one.is_empty() && !other.is_empty()).then(|| one == other)
}

/// The programs, for people: `/usr/bin/bench, build 12ab`.
#[must_use]
pub fn reported(proofs: &[Proof]) -> String {
    let found: Vec<&str> = programs(proofs).map(|proof| proof.found.as_str()).collect();
    found.join(" and ")
}

/// Proofs of programs among those of a start.
fn programs(proofs: &[Proof]) -> impl Iterator<Item = &Proof> {
    proofs.iter().filter(|proof| proof.what.ends_with("'s program"))
}

fn parts(proof: &Proof) -> (&str, Option<&str>) {
    match proof.found.rsplit_once(BUILD) {
        Some((path, build)) => (path, Some(build)),
        None => (&proof.found, None),
    }
}

/// Variables that change how programs run and that were otherwise `then`, with what they were.
///
/// # Errors
/// One line: one is set `now` that was not: what is measured again would have it too.
pub fn variables(
    then: &[(String, String)],
    now: &[(String, String)],
) -> Result<BTreeMap<String, String>, String> {
    let telling = |all: &[(String, String)]| -> BTreeMap<String, String> {
        let tells = |(name, value): &&(String, String)| changes_programs(name) && value != LEFT_OUT;
        all.iter().filter(tells).cloned().collect()
    };
    if then.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (then, now) = (telling(then), telling(now));
    if let Some((name, _)) = now.iter().find(|(name, _)| !then.contains_key(*name)) {
        return Err(format!("{name} is set here and was not in that run: unset it"));
    }
    Ok(then.into_iter().filter(|(name, value)| now.get(name) != Some(value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::small_plan;
    use kneepoint_vocab::{Host, SCHEMA, Seconds};

    fn program(found: &str) -> Proof {
        Proof::equal("the command's program", found, found)
    }

    #[test]
    fn programs_that_went_moved_or_were_built_anew_are_reported() {
        let then = [program("/opt/bench, build 12ab"), Proof::equal("rows", 1, 1)];
        let said = |now: &[Proof]| changed(&then, now);
        assert_eq!(said(&[program("/opt/bench, build 12ab")]), None);
        for (now, words) in [
            (vec![], "its program /opt/bench is gone"),
            (vec![program("/usr/bench, build 12ab")], "lead to /usr/bench now"),
            (vec![program("/opt/bench, build 99")], "build 12ab then, 99 now; keep the old file"),
            (vec![program("/opt/bench")], "build 12ab then, none now"),
        ] {
            let why = said(&now).unwrap();
            assert!(why.contains(words) && !why.contains('\n'), "{why}");
        }
        assert_eq!(without_build(&then), Vec::<&str>::new());
        assert_eq!(without_build(&[program("/opt/script")]), ["/opt/script"]);
        assert_eq!(same_programs(&then, &[program("/opt/bench, build 12ab")]), Some(true));
        assert_eq!(same_programs(&then, &[program("/opt/new, build 9")]), Some(false));
        assert_eq!(same_programs(&then, &[]), None);
        assert_eq!(reported(&then), "/opt/bench, build 12ab");
    }

    #[test]
    fn variables_are_as_they_were_and_new_ones_are_refused() {
        let all = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let then = all(&[("HOME", "/a"), ("LD_PRELOAD", "x.so"), ("OMP_NUM_THREADS", "2")]);
        let now = all(&[("HOME", "/b"), ("OMP_NUM_THREADS", "2")]);
        let set = variables(&then, &now).unwrap();
        assert_eq!(set, BTreeMap::from([("LD_PRELOAD".to_owned(), "x.so".to_owned())]));
        let why = variables(&now, &then).unwrap_err();
        assert!(why.contains("LD_PRELOAD is set here and was not"), "{why}");
        assert_eq!(variables(&[], &then), Ok(BTreeMap::new()));
    }

    fn record(arguments: &[&str]) -> RunRecord {
        let host = Host {
            schema: SCHEMA,
            machine: kneepoint_vocab::MachineName::default(),
            kneepoint: String::new(),
            begun: String::new(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
            cores: 2,
            cpu: String::new(),
            memory: 0,
            kernel: String::new(),
            distribution: String::new(),
            notes: Vec::new(),
        };
        let start = VariantStart {
            variant: VariantId::new(VariantId::BASELINE),
            start: 0,
            proofs: Vec::new(),
            ready_after: Seconds(0.0),
            settings: Vec::new(),
            environment: Vec::new(),
        };
        RunRecord {
            host,
            plan: small_plan(),
            variants: vec![start],
            trials: Vec::new(),
            stacks: Vec::new(),
            end: None,
            torn: Vec::new(),
        }
    }

    #[test]
    fn only_what_was_run_can_be_run_again() {
        assert!(baseline(&record(&["run", "--", "sh"])).is_ok());
        let why = |record: &RunRecord| baseline(record).unwrap_err();
        assert!(why(&record(&["simulate", "x.toml"])).contains("it was simulated"));
        assert!(why(&record(&[])).contains("not measured by `kneepoint run`"));
        let mut other = record(&["run"]);
        other.variants.clear();
        assert!(why(&other).contains("no start of its baseline"));
        other.plan.protocol = ProtocolName::Profile;
        assert!(why(&other).contains("it is a profile"));
        other.plan.protocol = ProtocolName::Imported;
        assert!(why(&other).contains("another tool measured it"));
    }
}
