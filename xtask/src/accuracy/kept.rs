//! Scores that stay: a file with a line for each run that was ever scored, of any version.
//!
//! Five seeds of every specimen in every form take a night. Here they add up over many calls, each
//! with the commit whose rules it judged.

use super::score::Scored;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

/// The score of one run, and what it is a score of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KeptScore {
    /// The commit that was scored, with a `+` where the tree held more than it.
    pub(super) commit: String,
    /// What levels, sizes and names were drawn from.
    pub(super) seed: u64,
    #[serde(flatten)]
    pub(super) scored: Scored,
}

/// Adds the scores of one call to a file, and reads all that it holds then.
///
/// # Errors
/// The file cannot be written, or a line of it is no score.
pub(super) fn add(path: &Path, seed: u64, scored: &[Scored]) -> Result<Vec<KeptScore>> {
    add_of(&commit(), path, seed, scored)
}

fn add_of(commit: &str, path: &Path, seed: u64, scored: &[Scored]) -> Result<Vec<KeptScore>> {
    let said = || path.display().to_string();
    let mut file = fs::File::options().create(true).append(true).open(path).with_context(said)?;
    for scored in scored.iter().cloned() {
        let kept = KeptScore { commit: commit.to_owned(), seed, scored };
        writeln!(file, "{}", serde_json::to_string(&kept)?).with_context(said)?;
    }
    read(path)
}

/// All that a file holds.
///
/// # Errors
/// It cannot be read, or a line of it is no score.
pub(super) fn read(path: &Path) -> Result<Vec<KeptScore>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let score_of = |(at, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), at + 1))
    };
    text.lines().enumerate().map(score_of).collect()
}

/// The scores of the version that was scored last, or from the first of version `since` on.
///
/// # Errors
/// Nothing was scored by that version.
pub(super) fn newest(kept: &[KeptScore], since: Option<&str>) -> Result<Vec<Scored>> {
    let newest: Vec<&KeptScore> = match (since, kept.last()) {
        (Some(since), _) => kept.iter().skip_while(|one| one.commit != since).collect(),
        (None, Some(last)) => kept.iter().filter(|one| one.commit == last.commit).collect(),
        (None, None) => Vec::new(),
    };
    if let (Some(commit), true) = (since, newest.is_empty()) {
        bail!("no run was scored by {commit}");
    }
    Ok(newest.into_iter().map(|one| one.scored.clone()).collect())
}

/// The commit that is checked out; *unknown* where there is no repository.
fn commit() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(crate::root()).output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(said)
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--", "crates"]);
    commit + if changed.is_some_and(|files| !files.is_empty()) { "+" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::super::score::{Marks, Outcome};
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn scores_of_many_calls_add_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scores.jsonl");
        let outcomes = [
            Outcome::Planted(Marks { share_errors: vec![0.1], ..Marks::default() }),
            Outcome::Null { alarm: true },
            Outcome::Void,
            Outcome::Failed { why: "it died".to_owned() },
        ];
        let scored = outcomes.map(|outcome| Scored {
            specimen: "herd".to_owned(),
            family: "user locks".to_owned(),
            form: "lto".to_owned(),
            planted: None,
            first: None,
            outcome,
            seconds: 20.0,
            tools: BTreeMap::new(),
        });
        assert_eq!(add_of("1a2b3c", &file, 1, &scored[..2]).unwrap().len(), 2);
        let all = add_of("1a2b3c+", &file, 2, &scored[2..]).unwrap();
        let outcomes: Vec<&Outcome> = all.iter().map(|kept| &kept.scored.outcome).collect();
        assert_eq!(outcomes, scored.iter().map(|one| &one.outcome).collect::<Vec<_>>());
        assert_eq!(all.iter().map(|kept| kept.seed).collect::<Vec<_>>(), [1, 1, 2, 2]);
        assert_eq!((all[1].commit.as_str(), all[2].commit.as_str()), ("1a2b3c", "1a2b3c+"));
        assert_eq!(newest(&all, None).unwrap().len(), 2);
        assert_eq!(newest(&all, Some("1a2b3c")).unwrap().len(), 4);
        assert!(newest(&all, Some("ffffff")).is_err());
        assert!(newest(&[], None).unwrap().is_empty());
    }

    #[test]
    fn a_line_that_is_no_score_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scores.jsonl");
        fs::write(&file, "{}\n").unwrap();
        let refused = read(&file).unwrap_err().to_string();
        assert!(refused.ends_with("scores.jsonl:1"), "{refused}");
    }
}
