//! Damages files as disks, hasty copies and evil people do.

use anyhow::Result;
use kneepoint_stats::random::Generator;
use std::fs;
use std::path::Path;

const FILES: [&str; 6] =
    ["host.json", "plan.toml", "arms.jsonl", "trials.jsonl", "stacks.jsonl", "end.json"];
/// Recorded runs, the small ones first.
const RUNS: [&str; 4] = ["cut-off", "fallback", "cut-off", "treated-curve"];

/// Makes a run directory with one damage, and tells which.
pub(super) fn directory(run: &Path, seed: u64) -> Result<String> {
    let mut random = Generator::new(seed);
    fs::create_dir(run)?;
    let name = RUNS[random.below(RUNS.len())];
    for entry in fs::read_dir(crate::root().join("fixtures/runs").join(name))? {
        let path = entry?.path();
        fs::copy(&path, run.join(path.file_name().unwrap_or_default()))?;
    }
    let file = FILES[random.below(FILES.len())];
    let path = run.join(file);
    let Ok(bytes) = fs::read(&path) else { return Ok(format!("{name} as it is")) };
    if random.below(8) == 0 {
        fs::remove_file(&path)?;
        let target = ["/dev/zero", "/etc/passwd", "/dev/shm", "."][random.below(4)];
        std::os::unix::fs::symlink(target, &path)?;
        return Ok(format!("{name}/{file} is a link"));
    }
    fs::write(&path, damaged(bytes, &mut random))?;
    Ok(format!("{name}/{file}"))
}

/// Damages every journal of what has to be put back.
pub(super) fn journals(parent: &Path, seed: u64) -> Result<()> {
    let mut random = Generator::new(seed);
    for entry in fs::read_dir(parent)?.flatten() {
        let path = entry.path().join("undo.jsonl");
        if let Ok(bytes) = fs::read(&path) {
            fs::write(&path, damaged(bytes, &mut random))?;
        }
    }
    Ok(())
}

fn damaged(mut bytes: Vec<u8>, random: &mut Generator) -> Vec<u8> {
    if bytes.is_empty() {
        return bytes;
    }
    let place = random.below(bytes.len());
    match random.below(6) {
        0 => bytes.truncate(place),
        1 => bytes[place] ^= 1 << random.below(8),
        2 => {
            let end = (place + random.below(200)).min(bytes.len());
            bytes.drain(place..end);
        }
        3 => {
            let copy = bytes[place..].to_vec();
            bytes.splice(place..place, copy);
        }
        // A line that is lost, and numbers that are others.
        4 => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let count = text.lines().count();
            let lost = random.below(count);
            let kept = text.split_inclusive('\n').enumerate().filter(|(at, _)| *at != lost);
            bytes = kept.map(|(_, line)| line).collect::<String>().into_bytes();
        }
        _ => {
            let digits: Vec<usize> =
                (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
            if let Some(at) = digits.get(random.below(digits.len())) {
                let number = ["-1", "1e999", "18446744073709551616", "null", "0"][random.below(5)];
                bytes.splice(*at..=*at, number.bytes());
            }
        }
    }
    bytes
}
