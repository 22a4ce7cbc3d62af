//! What a workload needs on the machine, and how what is lacking can be had.

use crate::search_path::SearchPath;
use serde::Serialize;
use std::collections::BTreeSet;

/// Something that a workload needs on the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Need {
    /// What, for people, e.g. `mariadbd` or `root`.
    pub what: String,
    /// The Debian package that brings it; empty where none does.
    pub package: String,
    /// Whether it is here.
    pub here: bool,
}

impl Need {
    /// A program, looked for in `path`.
    #[must_use]
    pub fn program(name: &str, package: &str, path: &SearchPath) -> Self {
        let here = path.find(name).is_some();
        Self { what: name.to_owned(), package: package.to_owned(), here }
    }

    /// The command that brings what is lacking; none where nothing is, or no package has it.
    #[must_use]
    pub fn install_line(needs: &[Self]) -> Option<String> {
        let lacking = needs.iter().filter(|need| !need.here && !need.package.is_empty());
        let packages: BTreeSet<&str> = lacking.map(|need| need.package.as_str()).collect();
        let packages: Vec<&str> = packages.into_iter().collect();
        (!packages.is_empty())
            .then(|| format!("apt-get install --no-install-recommends {}", packages.join(" ")))
    }
}
