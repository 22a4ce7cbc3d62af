//! `xtask bpf`: compiles the eBPF objects with the pinned compiler, or checks that the committed
//! objects are what their sources compile to.

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const COMPILER: &str = "clang-19";
const STRIP: &str = "llvm-strip-19";
/// The accounting, and the census of locks.
const OBJECTS: [&str; 2] = ["threads.bpf", "census.bpf"];
const RECORD: &str = "objects.sha256";

/// Flags that the objects depend on. With the path map added in [`compile`] they are the same in
/// every folder.
const FLAGS: [&str; 10] = [
    "-g",
    "-O2",
    "-target",
    "bpf",
    "-mcpu=v3",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-I/usr/include",
    "-fdebug-compilation-dir=.",
];

/// The folder of the sources.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/probe/bpf")
}

/// Compiles the objects and records their hashes; with `check`, changes nothing and fails where the
/// record or an object differs from the sources.
///
/// # Errors
/// The compiler is missing or refuses, or the check fails.
pub(crate) fn run(check: bool) -> Result<()> {
    let folder = folder();
    if check {
        recorded(&folder)?;
        if !compiler_is_there() {
            println!("SKIP bpf object rebuild: clang: {COMPILER} or {STRIP} is not installed");
            return Ok(());
        }
    }
    let mut record = format!("{}  sources and flags\n", source_hash(&folder)?);
    for name in OBJECTS {
        let built = compile(&folder, name)?;
        let committed = folder.join(format!("{name}.o"));
        let bytes = built.len();
        if check {
            let old = std::fs::read(&committed).with_context(|| committed.display().to_string())?;
            if old != built {
                bail!(
                    "crates/probe/bpf/{name}.o: differs from what its source compiles to, \
                     run `cargo xtask bpf` and commit the object"
                );
            }
            println!("{name}.o: {bytes} bytes, as compiled from its source");
        } else {
            std::fs::write(&committed, &built).with_context(|| committed.display().to_string())?;
            println!("{name}.o: {bytes} bytes written");
        }
        let _ = writeln!(record, "{}  {name}.o", hex(&built));
    }
    if check {
        return Ok(());
    }
    let path = folder.join(RECORD);
    std::fs::write(&path, record).with_context(|| path.display().to_string())
}

/// Compares the recorded hashes with the sources and the objects that are there; needs no
/// compiler.
///
/// # Errors
/// One of them differs.
pub(crate) fn recorded(folder: &Path) -> Result<()> {
    let path = folder.join(RECORD);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut words = text.lines().filter_map(|line| line.split(' ').next());
    let stale = "run `cargo xtask bpf` and commit the objects with their record";
    if words.next() != Some(source_hash(folder)?.as_str()) {
        bail!("crates/probe/bpf/{RECORD}: the sources have changed since, {stale}");
    }
    for name in OBJECTS {
        let object = folder.join(format!("{name}.o"));
        let object = std::fs::read(&object).with_context(|| object.display().to_string())?;
        if words.next() != Some(hex(&object).as_str()) {
            bail!("crates/probe/bpf/{RECORD}: {name}.o is not the recorded one, {stale}");
        }
    }
    Ok(())
}

/// SHA-256 over the flags and every `.c` and `.h` file with its name, in order of names.
fn source_hash(folder: &Path) -> Result<String> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "c" || kind == "h"))
        .collect();
    files.sort();
    let mut hash = Sha256::new();
    hash.update(COMPILER);
    for flag in FLAGS {
        hash.update(flag);
        hash.update([0]);
    }
    for file in files {
        let name = file.file_name().unwrap_or_default();
        hash.update(name.as_encoded_bytes());
        hash.update([0]);
        hash.update(std::fs::read(&file).with_context(|| file.display().to_string())?);
    }
    Ok(hex_of(&hash.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    hex_of(&Sha256::digest(bytes))
}

fn hex_of(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn compiler_is_there() -> bool {
    let runs = |program| Command::new(program).arg("--version").output().is_ok();
    runs(COMPILER) && runs(STRIP)
}

/// The bytes of a stripped object. It is compiled in the sources' folder, so that no path enters
/// it.
fn compile(folder: &Path, name: &str) -> Result<Vec<u8>> {
    let folder = &folder.canonicalize().with_context(|| folder.display().to_string())?;
    let out = std::env::temp_dir().join(format!("kneepoint-{}-{name}.o", std::process::id()));
    let compiled = call(
        Command::new(COMPILER)
            .current_dir(folder)
            .args(FLAGS)
            .arg(format!("-ffile-prefix-map={}=.", folder.display()))
            .args(["-c", &format!("{name}.c"), "-o"])
            .arg(&out),
    )
    .and_then(|()| call(Command::new(STRIP).arg("-g").arg(&out)))
    .and_then(|()| std::fs::read(&out).with_context(|| out.display().to_string()));
    let _ = std::fs::remove_file(&out);
    compiled
}

fn call(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let hint = "install clang-19, llvm-19 and libbpf-dev, or run `cargo xtask setup`";
    let done = command.output().with_context(|| format!("{program}: {hint}"))?;
    if !done.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_matches_sources_and_object() {
        recorded(&folder()).unwrap();
    }

    #[test]
    fn a_changed_source_or_object_is_noticed() {
        let from = folder();
        let copy = std::env::temp_dir().join(format!("kneepoint-bpf-test-{}", std::process::id()));
        std::fs::create_dir_all(&copy).unwrap();
        for entry in std::fs::read_dir(&from).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
            }
        }
        recorded(&copy).unwrap();
        std::fs::write(copy.join("wire.h"), "/* another */").unwrap();
        let source = recorded(&copy).unwrap_err().to_string();
        std::fs::copy(from.join("wire.h"), copy.join("wire.h")).unwrap();
        std::fs::write(copy.join("census.bpf.o"), "another").unwrap();
        let object = recorded(&copy).unwrap_err().to_string();
        std::fs::remove_dir_all(&copy).unwrap();
        assert!(source.contains("sources have changed"), "{source}");
        assert!(object.contains("not the recorded one"), "{object}");
    }
}
