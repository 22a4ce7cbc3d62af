//! The tree of files that a package installs, and the package of it.

use super::output;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo-deb's words say the program is, and what this repository generates.
const PROGRAM: &str = "target/release/kneepoint";
const GENERATED: &str = "../../target/dist/";

/// What the manifests say about the package.
pub(super) struct Manifest {
    folder: PathBuf,
    name: String,
    description: String,
    pub(super) version: String,
    deb: Deb,
}

/// `[package.metadata.deb]`, as far as it is used.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Deb {
    maintainer: String,
    section: String,
    priority: String,
    suggests: String,
    extended_description: String,
    license_file: (String, String),
    /// From, to, mode in octal.
    assets: Vec<(String, String, String)>,
}

impl Manifest {
    /// Reads the manifest of the binary, and what it takes from the workspace's.
    pub(super) fn read(path: &Path, root: &Path) -> Result<Self> {
        let value = table(path)?;
        let workspace = table(&root.join("Cargo.toml"))?;
        let text = |value: &toml::Value| value.as_str().map(str::to_owned);
        let package = &value["package"];
        let deb = package["metadata"]["deb"].clone();
        Ok(Self {
            folder: path.parent().unwrap_or(root).to_owned(),
            name: text(&package["name"]).context("no name")?,
            description: text(&package["description"]).context("no description")?,
            version: text(&workspace["workspace"]["package"]["version"]).context("no version")?,
            deb: deb.try_into().with_context(|| format!("{}: metadata.deb", path.display()))?,
        })
    }
}

fn table(path: &Path) -> Result<toml::Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    toml::from_str(&text).with_context(|| path.display().to_string())
}

/// Files as they are to be installed, below a folder.
pub(super) struct Tree {
    pub(super) root: PathBuf,
    /// Paths from the root.
    files: Vec<PathBuf>,
}

impl Tree {
    /// Lays copies of all assets below `root`.
    pub(super) fn lay(
        root: &Path,
        manifest: &Manifest,
        program: &Path,
        generated: &Path,
    ) -> Result<Self> {
        let mut tree = Self { root: root.to_owned(), files: Vec::new() };
        for (from, to, mode) in &manifest.deb.assets {
            let mode = u32::from_str_radix(mode, 8).with_context(|| format!("mode {mode}"))?;
            let source = if from == PROGRAM {
                program.to_owned()
            } else if let Some(below) = from.strip_prefix(GENERATED) {
                generated.join(below)
            } else {
                manifest.folder.join(from)
            };
            for file in matching(&source)? {
                let name = file.file_name().context("no name")?;
                let name = if from == PROGRAM { manifest.name.as_ref() } else { name };
                let to = if to.ends_with('/') { Path::new(to).join(name) } else { to.into() };
                tree.put(&std::fs::read(&file).with_context(|| from.clone())?, &to, mode)?;
            }
        }
        let (licence, _) = &manifest.deb.license_file;
        let licence = std::fs::read_to_string(manifest.folder.join(licence))?;
        let copyright = format!(
            "{} is free software: MIT, as below, or Apache 2.0 (LICENSE-APACHE beside this file),\n\
             as you choose. Its eBPF program is offered under GPL 2.0 as well.\n\n{licence}",
            manifest.name
        );
        let place = format!("usr/share/doc/{}/copyright", manifest.name);
        tree.put(copyright.as_bytes(), Path::new(&place), 0o644)?;
        Ok(tree)
    }

    fn put(&mut self, bytes: &[u8], to: &Path, mode: u32) -> Result<()> {
        let path = self.root.join(to);
        let folder = path.parent().context("no folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::write(&path, bytes).with_context(|| path.display().to_string())?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        self.files.push(to.to_owned());
        Ok(())
    }

    /// Makes the package, and looks whether it holds what it should.
    pub(super) fn package(&self, manifest: &Manifest, out: &Path) -> Result<PathBuf> {
        let control = self.root.join("DEBIAN");
        std::fs::create_dir_all(&control)?;
        // Whatever the caller's file mode mask is.
        let folders = output(Command::new("find").arg(&self.root).args(["-type", "d"]))?;
        for folder in folders.lines() {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))?;
        }
        std::fs::write(control.join("control"), self.control(manifest)?)?;
        let mut sums = Command::new("md5sum");
        let sums = output(sums.args(&self.files).current_dir(&self.root))?;
        std::fs::write(control.join("md5sums"), sums)?;
        let file = format!("{}_{}_{}.deb", manifest.name, manifest.version, architecture()?);
        let file = out.join(file);
        let mut deb = Command::new("dpkg-deb");
        deb.args(["--root-owner-group", "--build"]).arg(&self.root).arg(&file);
        if let Some(date) = date_of_source() {
            deb.env("SOURCE_DATE_EPOCH", date);
        }
        output(&mut deb)?;
        let listed = output(Command::new("dpkg-deb").arg("--contents").arg(&file))?;
        for installed in &self.files {
            if !listed.lines().any(|line| line.ends_with(&format!(" ./{}", installed.display()))) {
                bail!("{}: lacks {}", file.display(), installed.display());
            }
        }
        Ok(file)
    }

    fn control(&self, manifest: &Manifest) -> Result<String> {
        let Deb { maintainer, section, priority, suggests, extended_description, .. } =
            &manifest.deb;
        let mut size = 0;
        for file in &self.files {
            size += std::fs::metadata(self.root.join(file))?.len().div_ceil(1024);
        }
        let program = self.root.join("usr/bin").join(&manifest.name);
        let depends = dependencies(&std::fs::read(program)?);
        // A line that is empty ends the field, so it holds a dot.
        let long: String = extended_description
            .trim()
            .lines()
            .map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") })
            .collect();
        Ok(format!(
            "Package: {}\nVersion: {}\nArchitecture: {}\nMaintainer: {maintainer}\n\
             Installed-Size: {size}\n{depends}Suggests: {suggests}\nSection: {section}\n\
             Priority: {priority}\nDescription: {}\n{long}",
            manifest.name,
            manifest.version,
            architecture()?,
            manifest.description
        ))
    }
}

/// A file, or those that a pattern stands for: `FOLDER/*`, or `FOLDER/*ENDING`.
fn matching(source: &Path) -> Result<Vec<PathBuf>> {
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(ending) = name.strip_prefix('*') else { return Ok(vec![source.to_owned()]) };
    let folder = source.parent().context("no folder")?;
    let listed = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for entry in listed {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(ending) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        bail!("{}: there is nothing", source.display());
    }
    Ok(files)
}

/// The field of what a program needs to be loaded; empty where it needs nothing.
fn dependencies(program: &[u8]) -> String {
    const UNWINDER: &[u8] = b"\0libgcc_s.so.1\0";
    let libc = needed_libc(program).map(|(major, minor)| format!("libc6 (>= {major}.{minor})"));
    let unwinds = program.windows(UNWINDER.len()).any(|window| window == UNWINDER);
    let unwinder = unwinds.then(|| "libgcc-s1 (>= 4.2)".to_owned());
    let needed: Vec<String> = libc.into_iter().chain(unwinder).collect();
    if needed.is_empty() { String::new() } else { format!("Depends: {}\n", needed.join(", ")) }
}

/// The version of the C library that a program's symbols need: the greatest of `GLIBC_N.N` in it.
/// None of one that needs none.
fn needed_libc(program: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let places = program.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let versions = places.filter_map(|(at, _)| {
        let rest = &program[at + MARK.len()..];
        let length = rest.iter().take_while(|&&byte| byte.is_ascii_digit() || byte == b'.').count();
        let mut numbers = std::str::from_utf8(&rest[..length]).ok()?.split('.');
        let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        // A symbol's version ends with its string.
        (rest.get(length) == Some(&0)).then_some((major, minor))
    });
    versions.max()
}

fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no Debian name for {other}"),
    }
}

/// When the source was last changed, so that the same source gives the same package.
fn date_of_source() -> Option<String> {
    let mut git = Command::new("git");
    let date = output(git.args(["log", "-1", "--format=%ct"]).current_dir(crate::root())).ok()?;
    Some(date.trim().to_owned()).filter(|date| !date.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_the_library_counts() {
        let program = b"\0GLIBC_2.2.5\0GLIBC_2.34\0x GLIBC_9.9 y\0GLIBC_2.17\0GLIBC_TUNABLES\0";
        assert_eq!(needed_libc(program), Some((2, 34)));
        assert_eq!(needed_libc(b"nothing"), None);
        assert_eq!(dependencies(program), "Depends: libc6 (>= 2.34)\n");
        let unwinds = b"\0libgcc_s.so.1\0GLIBC_2.34\0";
        assert_eq!(dependencies(unwinds), "Depends: libc6 (>= 2.34), libgcc-s1 (>= 4.2)\n");
        assert_eq!(dependencies(b"static"), "");
    }
}
