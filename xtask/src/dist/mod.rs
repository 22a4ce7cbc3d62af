//! What is handed on: a Debian package, and a static build where Rust's library for it is there.
//!
//! What goes into the package stands in `[package.metadata.deb]` of the binary's manifest, in the
//! words of cargo-deb, so `cargo deb --no-build` makes the same of it once this command has
//! generated man pages and completions. This command needs no more than dpkg-deb.

mod package;
mod pages;

use anyhow::{Context, Result, bail};
use package::{Manifest, Tree};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Target of a static build.
const STATIC: &str = "x86_64-unknown-linux-musl";

const FLAGS: &str = "--out DIR, --program FILE, --static";

struct Options {
    out: PathBuf,
    program: PathBuf,
    is_static: bool,
}

/// Makes the package of `--program`, by default the release build; with `--static` an archive of a
/// static build in its place.
///
/// # Errors
/// Where the program or a tool is missing, or something went wrong with it.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    let options = parse(flags)?;
    let root = crate::root();
    let manifest = Manifest::read(&root.join("crates/kneepoint/Cargo.toml"), &root)?;
    std::fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    let program = if options.is_static { static_build(&root)? } else { options.program };
    if !program.is_file() {
        bail!("no {}: run `cargo build --release` first", program.display());
    }
    // Where the manifest says that generated files are.
    let generated = root.join("target/dist");
    pages::generate(&program, &generated)?;
    let folder = tempfile::tempdir()?;
    let tree = Tree::lay(folder.path(), &manifest, &program, &generated)?;
    let made = if options.is_static {
        archive(&tree, &options.out.join(format!("kneepoint-{}-{STATIC}.tar.gz", manifest.version)))
    } else {
        tree.package(&manifest, &options.out)
    }?;
    println!("{}", made.display());
    Ok(())
}

fn parse(flags: &[&str]) -> Result<Options> {
    let root = crate::root();
    let mut options = Options {
        out: root.join("target/dist"),
        program: crate::built("release/kneepoint"),
        is_static: false,
    };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let mut value = || flags.next().with_context(|| format!("{flag} wants a value"));
        match *flag {
            "--out" => options.out = std::path::absolute(value()?)?,
            "--program" => options.program = std::path::absolute(value()?)?,
            "--static" => options.is_static = true,
            other => bail!("unknown flag {other}: dist takes {FLAGS}"),
        }
    }
    Ok(options)
}

/// Builds for musl; says what is missing where that cannot be.
fn static_build(root: &Path) -> Result<PathBuf> {
    let sysroot = PathBuf::from(output(Command::new("rustc").args(["--print", "sysroot"]))?.trim());
    if !sysroot.join("lib/rustlib").join(STATIC).join("lib").is_dir() {
        bail!("no static build: Rust lacks its library for {STATIC}: rustup target add {STATIC}");
    }
    if Command::new("musl-gcc").arg("--version").stdout(Stdio::null()).status().is_err() {
        bail!("no static build: musl-gcc, for SQLite's C, is missing: apt-get install musl-tools");
    }
    let mut build = Command::new(crate::cargo());
    build.args(["build", "--release", "--package", "kneepoint", "--target", STATIC]);
    build.env("CC_x86_64_unknown_linux_musl", "musl-gcc").current_dir(root);
    if !build.status().context("cargo")?.success() {
        bail!("cargo build --target {STATIC} failed");
    }
    Ok(crate::built(STATIC).join("release/kneepoint"))
}

fn archive(tree: &Tree, file: &Path) -> Result<PathBuf> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"]).arg(file);
    output(tar.arg("-C").arg(&tree.root).arg("usr"))?;
    Ok(file.to_owned())
}

/// What a command prints.
///
/// # Errors
/// Where it cannot be started or fails; in its own words.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ran = command.stdin(Stdio::null()).output().with_context(|| name.clone())?;
    if !ran.status.success() {
        bail!("{name}: {}: {}", ran.status, String::from_utf8_lossy(&ran.stderr).trim());
    }
    String::from_utf8(ran.stdout).with_context(|| format!("{name} prints no text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A program that answers what a package asks of one.
    const PROGRAM: &str = "#!/bin/sh\n\
        [ \"$1\" = -h ] && printf 'Commands:\\n  run     x\\n          more\\n  report  y\\n' && \
        printf '  help    z\\n\\nOptions:\\n' && exit\n\
        [ \"$1\" = --generate ] && echo \"generated $2\"\n";

    fn program(folder: &Path) -> PathBuf {
        let path = folder.join("kneepoint");
        std::fs::write(&path, PROGRAM).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_package_holds_program_pages_completions_and_licences() {
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            println!("SKIP a_package_holds_program_pages_completions_and_licences: no dpkg-deb");
            return;
        }
        let root = crate::root();
        let folder = tempfile::tempdir().unwrap();
        let (program, generated) = (program(folder.path()), folder.path().join("generated"));
        let manifest = Manifest::read(&root.join("crates/kneepoint/Cargo.toml"), &root).unwrap();
        pages::generate(&program, &generated).unwrap();
        let laid = folder.path().join("laid");
        let tree = Tree::lay(&laid, &manifest, &program, &generated).unwrap();
        let made = tree.package(&manifest, folder.path()).unwrap();
        let listed = output(Command::new("dpkg-deb").arg("--contents").arg(&made)).unwrap();
        for file in [
            "./usr/bin/kneepoint",
            "./usr/share/man/man1/kneepoint.1.gz",
            "./usr/share/man/man1/kneepoint-run.1.gz",
            "./usr/share/man/man1/kneepoint-report.1.gz",
            "./usr/share/bash-completion/completions/kneepoint",
            "./usr/share/zsh/vendor-completions/_kneepoint",
            "./usr/share/fish/vendor_completions.d/kneepoint.fish",
            "./usr/share/doc/kneepoint/README.md",
            "./usr/share/doc/kneepoint/copyright",
            "./usr/share/doc/kneepoint/LICENSE-APACHE",
        ] {
            let line = listed.lines().find(|line| line.ends_with(&format!(" {file}")));
            let line = line.unwrap_or_else(|| panic!("no {file} in\n{listed}"));
            let mode = if file.contains("/bin/") { "-rwxr-xr-x" } else { "-rw-r--r--" };
            assert!(line.starts_with(mode) && line.contains("root/root"), "{line}");
        }
        assert!(!listed.contains("kneepoint-help"), "{listed}");
        let about = output(Command::new("dpkg-deb").arg("--info").arg(&made)).unwrap();
        for field in [
            "Package: kneepoint",
            &format!("Version: {}", env!("CARGO_PKG_VERSION")),
            "Maintainer: ",
            "Installed-Size: ",
            "Description: Finds where",
        ] {
            assert!(about.contains(field), "no {field} in\n{about}");
        }
    }

    #[test]
    fn flags_are_understood_or_refused() {
        assert!(parse(&["--static"]).unwrap().is_static);
        assert_eq!(parse(&["--out", "/x"]).unwrap().out, Path::new("/x"));
        assert!(parse(&["--out"]).is_err() && parse(&["--fast"]).is_err());
    }
}
