//! Dependencies carry permissive licences only.

use super::Complaint;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Licences that ask for no more than a notice.
const PERMISSIVE: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Every package that can come into a Linux build may be used and passed on freely.
pub(super) fn only_permissive_licences(root: &Path) -> Result<Vec<Complaint>> {
    Ok(offending(&metadata(root)?))
}

/// What Cargo knows of the dependencies, from what it has already downloaded.
fn metadata(root: &Path) -> Result<Value> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(crate::cargo())
        .args(["metadata", "--offline", "--format-version", "1", "--filter-platform", &platform])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn offending(metadata: &Value) -> Vec<Complaint> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    packages
        .iter()
        .filter(|package| !is_permissive(package["license"].as_str().unwrap_or_default()))
        .map(|package| {
            let name = package["name"].as_str().unwrap_or_default();
            let licence = package["license"].as_str().unwrap_or("none stated");
            let what = format!("{name} has the licence `{licence}`: take another crate");
            Complaint::new("Cargo.lock", 1, what)
        })
        .collect()
}

/// Whether an SPDX expression, or an older one with `/` for OR, leaves a permissive choice.
fn is_permissive(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Expression { words: &words, at: 0 };
    parser.any() && parser.at == words.len()
}

struct Expression<'a> {
    words: &'a [&'a str],
    at: usize,
}

impl Expression<'_> {
    fn take(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at) == Some(&word);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> bool {
        let mut good = self.all();
        while self.take("OR") {
            good |= self.all();
        }
        good
    }

    fn all(&mut self) -> bool {
        let mut good = self.one();
        while self.take("AND") {
            good &= self.one();
        }
        good
    }

    fn one(&mut self) -> bool {
        if self.take("(") {
            let good = self.any();
            return self.take(")") && good;
        }
        let Some(&name) = self.words.get(self.at) else { return false };
        self.at += 1;
        if self.take("WITH") {
            let exception = self.words.get(self.at).copied().unwrap_or_default();
            self.at += 1;
            return PERMISSIVE.contains(&format!("{name} WITH {exception}").as_str());
        }
        PERMISSIVE.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_choice_must_leave_a_permissive_one() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        ] {
            assert!(is_permissive(good), "{good}");
        }
        for bad in ["", "CDDL-1.0", "MIT AND GPL-3.0", "(MIT", "GPL-2.0 WITH Linux-syscall-note"] {
            assert!(!is_permissive(bad), "{bad}");
        }
    }

    #[test]
    fn the_offending_package_is_named() {
        let metadata = json!({ "packages": [
            { "name": "fine", "license": "MIT" },
            { "name": "flame", "license": "CDDL-1.0" },
            { "name": "silent", "license": null },
        ]});
        let names: Vec<String> = offending(&metadata).iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), 2);
        assert!(names[0].contains("flame") && names[1].contains("silent"));
    }
}
