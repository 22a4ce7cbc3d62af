//! What `cargo run` sets for Kneepoint itself, and no measured program would have without it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const LIBRARIES: &str = "LD_LIBRARY_PATH";
/// How deep the programs of rustup call each other.
const DEPTH: &str = "RUST_RECURSION_COUNT";

/// What a program is started with instead: names to leave out, and one that is set anew.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TakenBack {
    pub(crate) without: Vec<OsString>,
    pub(crate) with: Option<(OsString, OsString)>,
}

/// What Cargo has added to this process's environment, taken back.
pub(crate) fn taken_back() -> TakenBack {
    let own = std::env::current_exe().ok();
    let folder = own.as_deref().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
    of(|name| std::env::var_os(name), &folder)
}

/// The same, of an environment and the folder of the program that Cargo runs.
fn of(variable: impl Fn(&str) -> Option<OsString>, folder: &Path) -> TakenBack {
    let (Some(cargo), Some(_)) = (variable("CARGO"), variable("CARGO_MANIFEST_DIR")) else {
        return TakenBack::default();
    };
    let mut taken = TakenBack { without: vec![DEPTH.into()], with: None };
    let Some(paths) = variable(LIBRARIES) else { return taken };
    // The toolchain's libraries lie beside the folder of its programs.
    let toolchain = Path::new(&cargo).ancestors().nth(2).map(|root| root.join("lib"));
    let of_cargo = |path: &PathBuf| {
        path.starts_with(folder) || toolchain.as_ref().is_some_and(|lib| path.starts_with(lib))
    };
    let rest: Vec<PathBuf> = std::env::split_paths(&paths).filter(|path| !of_cargo(path)).collect();
    match std::env::join_paths(&rest) {
        Ok(joined) if !rest.is_empty() => taken.with = Some((LIBRARIES.into(), joined)),
        _ => taken.without.push(LIBRARIES.into()),
    }
    taken
}

/// This process's environment without it, sorted by name.
pub(crate) fn own_variables() -> BTreeMap<String, String> {
    let taken = taken_back();
    let kept = std::env::vars_os().filter(|(name, _)| !taken.without.contains(name));
    let text = |text: OsString| text.to_string_lossy().into_owned();
    kept.chain(taken.with).map(|(name, value)| (text(name), text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(libraries: Option<&'static str>) -> TakenBack {
        let variable = move |name: &str| match name {
            "CARGO" => Some("/rust/nightly/bin/cargo".into()),
            "CARGO_MANIFEST_DIR" => Some("/src".into()),
            LIBRARIES => libraries.map(Into::into),
            _ => None,
        };
        of(variable, Path::new("/src/target/release"))
    }

    #[test]
    fn what_cargo_adds_goes_and_what_was_there_stays() {
        let depth: Vec<OsString> = vec![DEPTH.into()];
        assert_eq!(with(None), TakenBack { without: depth.clone(), with: None });
        let added = "/src/target/release/deps:/src/target/release:/rust/nightly/lib/rustlib/x/lib";
        let without = vec![DEPTH.into(), LIBRARIES.into()];
        assert_eq!(with(Some(added)), TakenBack { without, with: None });
        let kept = Some((LIBRARIES.into(), "/opt/lib:/usr/local/lib".into()));
        let both = "/src/target/release/deps:/opt/lib:/rust/nightly/lib:/usr/local/lib";
        assert_eq!(with(Some(both)), TakenBack { without: depth, with: kept });
    }

    #[test]
    fn without_cargo_nothing_is_touched() {
        let variable = |name: &str| (name == LIBRARIES).then(|| "/src/target/release".into());
        assert_eq!(of(variable, Path::new("/src/target/release")), TakenBack::default());
    }
}
