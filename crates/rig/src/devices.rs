//! Block devices and file systems in memory: each noted in the undo journal, gone with its guard.
//!
//! A loop device is a file behind `/dev/loopN`; a zram device is compressed memory; a mount puts
//! a file system made on one of them below the scratch directory. Only root makes them.

use crate::ending::HUNG_AFTER;
use crate::process::{self, Program};
use crate::undo::{self, Action, Change, Undo};
use anyhow::{Context as _, bail, ensure};
use rand_core::{Rng as _, SeedableRng as _};
use rustix::mount::{MountFlags, mount};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// How often another loop device is tried where somebody else took the free one.
const TRIES: u32 = 20;
/// Bytes that content is repeated after: more than any cache in front of the device's memory
/// would have to tell apart.
const PIECE: usize = 1 << 20;
/// Where a new zram device is asked for.
const HOT_ADD: &str = "/sys/class/zram-control/hot_add";

/// Writes `bytes` of content that compresses to about half, as much stored text does.
///
/// # Errors
/// There is no room for it.
pub(crate) fn fill(file: &Path, bytes: u64, seed: u64) -> anyhow::Result<()> {
    let reported = || format!("{}: {} MiB cannot be written", file.display(), bytes >> 20);
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(seed);
    let mut piece = vec![0; PIECE];
    for page in piece.chunks_mut(4096) {
        let (noise, rest) = page.split_at_mut(2048);
        random.fill_bytes(noise);
        rest.fill(b'.');
    }
    let opened = OpenOptions::new().write(true).create(true).truncate(false).open(file);
    let mut opened = opened.with_context(reported)?;
    let mut left = bytes;
    while left > 0 {
        let part = left.min(PIECE as u64);
        let length = usize::try_from(part).unwrap_or(PIECE);
        opened.write_all(&piece[..length]).with_context(reported)?;
        left -= part;
    }
    opened.sync_all().with_context(reported)
}

/// A file behind a loop device.
#[derive(Debug)]
pub(crate) struct Loop {
    device: PathBuf,
    change: Change,
}

impl Loop {
    /// Attaches `image`, past the page cache where its file system allows that.
    ///
    /// # Errors
    /// Not root, no loop device left, or none in this kernel.
    pub(crate) fn attach(undo: &Undo, image: &Path, read_only: bool) -> anyhow::Result<Self> {
        let folder = image.parent().context("a loop device's file lies in a directory")?;
        for _ in 0..TRIES {
            let find = Program::new("losetup", "losetup", ["--find"], folder);
            let free = process::run(find, HUNG_AFTER, undo).context("no loop device is free")?;
            let device = PathBuf::from(free.trim());
            // Noted before it is done: the file's name keeps it from touching anybody else's.
            let backing = image.to_owned();
            let change = undo.register(Action::DetachLoop { device: device.clone(), backing })?;
            for direct in [true, false] {
                match attach(undo, &device, image, read_only, direct) {
                    Ok(()) => return Ok(Self { device, change }),
                    Err(error) if !is_loop(&device) && !direct => return Err(error),
                    // Taken by somebody else meanwhile, or no direct I/O to this file.
                    Err(_) => {}
                }
            }
        }
        bail!("{}: every loop device that was free was taken by others", image.display())
    }

    /// Its path in `/dev`.
    pub(crate) fn device(&self) -> &Path {
        &self.device
    }

    /// What stands in a file of its sysfs folder `loop`, e.g. `backing_file`.
    pub(crate) fn reported(&self, attribute: &str) -> String {
        let file = format!("/sys/block/{}/loop/{attribute}", name(&self.device));
        fs::read_to_string(file).unwrap_or_default().trim_end().to_owned()
    }

    /// Detaches it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn detach(self) -> anyhow::Result<()> {
        self.change.undo()
    }
}

fn attach(
    undo: &Undo,
    device: &Path,
    image: &Path,
    read_only: bool,
    direct: bool,
) -> anyhow::Result<()> {
    let folder = image.parent().context("a loop device's file lies in a directory")?;
    let mut arguments = Vec::new();
    arguments.extend(read_only.then_some("--read-only"));
    arguments.extend(direct.then_some("--direct-io=on"));
    let mut program = Program::new("losetup", "losetup", arguments, folder);
    program.arguments.extend([device.into(), image.into()]);
    let attached = process::run(program, HUNG_AFTER, undo).map(drop);
    attached.with_context(|| format!("{} cannot be attached to a file", device.display()))
}

fn is_loop(device: &Path) -> bool {
    Path::new(&format!("/sys/block/{}/loop/backing_file", name(device))).exists()
}

/// A compressed-memory device.
#[derive(Debug)]
pub(crate) struct Zram {
    device: PathBuf,
    change: Change,
}

impl Zram {
    /// Whether this machine lets one be added.
    pub(crate) fn possible() -> bool {
        Path::new(HOT_ADD).exists() && rustix::process::geteuid().is_root()
    }

    /// Adds one of so many bytes, filled.
    ///
    /// # Errors
    /// Not root, no zram in this kernel, or too little memory.
    pub(crate) fn add(undo: &Undo, bytes: u64, seed: u64) -> anyhow::Result<Self> {
        // Reading this file adds a device, and only then its number is known.
        let adding = undo.register(Action::RemoveUnusedZram { before: undo::zram_devices() })?;
        let reported = fs::read_to_string(HOT_ADD).context("no zram device can be added")?;
        let index: u32 = reported.trim().parse().context("the new zram device has no number")?;
        let change = undo.register(Action::ResetZram { index, added: true })?;
        adding.settle();
        let device = PathBuf::from(format!("/dev/zram{index}"));
        fs::write(format!("/sys/block/zram{index}/disksize"), bytes.to_string())
            .with_context(|| format!("zram{index} takes no size of {bytes} bytes"))?;
        fill(&device, bytes, seed)?;
        Ok(Self { device, change })
    }

    /// Its path in `/dev`.
    pub(crate) fn device(&self) -> &Path {
        &self.device
    }

    /// Bytes of content that it holds, before compression.
    pub(crate) fn holds(&self) -> u64 {
        let file = format!("/sys/block/{}/mm_stat", name(&self.device));
        let text = fs::read_to_string(file).unwrap_or_default();
        text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    /// Resets and removes it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        self.change.undo()
    }
}

/// A file system made on a file in memory, mounted.
#[derive(Debug)]
pub(crate) struct Mount {
    // Dropped in this order: unmounted, then detached.
    change: Change,
    device: Loop,
}

impl Mount {
    /// Makes a file system of this kind on `image` (which it creates, with holes, of so many
    /// bytes) and mounts it on `target`.
    ///
    /// # Errors
    /// Not root, the kernel lacks the file system, or `mkfs` fails or is not there.
    pub(crate) fn make(
        undo: &Undo,
        kind: &str,
        image: &Path,
        bytes: u64,
        target: &Path,
    ) -> anyhow::Result<Self> {
        let reported = || format!("{}: no image of {bytes} bytes can be made", image.display());
        File::create(image).and_then(|file| file.set_len(bytes)).with_context(reported)?;
        fs::create_dir_all(target).with_context(|| target.display().to_string())?;
        let folder = image.parent().context("an image lies in a directory")?;
        let mkfs = format!("mkfs.{kind}");
        let mut program = Program::new("mkfs", mkfs, ["-q"], folder);
        program.arguments.push(image.into());
        process::run(program, HUNG_AFTER, undo)
            .with_context(|| format!("no {kind} can be made on {}", image.display()))?;
        let device = Loop::attach(undo, image, false)?;
        let change = undo.register(Action::Unmount { path: target.to_owned() })?;
        mount(device.device(), target, kind, MountFlags::NOATIME, None)
            .with_context(|| format!("{}: {kind} cannot be mounted", target.display()))?;
        Ok(Self { change, device })
    }

    /// Unmounts it and detaches its device.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn unmount(self) -> anyhow::Result<()> {
        self.change.undo()?;
        self.device.detach()
    }
}

/// A device's name in sysfs.
pub(crate) fn name(device: &Path) -> String {
    let real = fs::canonicalize(device).unwrap_or_else(|_| device.to_owned());
    real.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads that a device has completed, and the bytes they brought.
///
/// # Errors
/// It is no block device.
pub(crate) fn reads(device: &Path) -> anyhow::Result<(u64, u64)> {
    let file = format!("/sys/class/block/{}/stat", name(device));
    let text = fs::read_to_string(&file)
        .with_context(|| format!("{}: the kernel counts no reads of it", device.display()))?;
    let fields: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    ensure!(fields.len() >= 3, "{file} is not in the form that the kernel documents");
    // Its sectors are of 512 bytes whatever the device's own are.
    Ok((fields[0], fields[2] * 512))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::undo;
    use tempfile::TempDir;

    #[test]
    fn a_file_system_that_cannot_be_made_is_named_and_nothing_is_mounted() {
        let folder = TempDir::new().unwrap();
        let undo = undo(folder.path());
        let (image, target) = (folder.path().join("image"), folder.path().join("target"));
        let made = Mount::make(&undo, "no-such-kind", &image, 1 << 20, &target);
        let error = format!("{:#}", made.unwrap_err());
        assert!(error.contains("no no-such-kind can be made"), "{error}");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&*target.to_string_lossy()));
        let loops = fs::read_dir("/sys/block").unwrap().flatten();
        let behind = loops
            .filter_map(|entry| fs::read_to_string(entry.path().join("loop/backing_file")).ok());
        assert!(!behind.into_iter().any(|file| file.trim_end() == image.to_string_lossy()));
    }

    #[test]
    fn content_is_of_the_asked_length_and_follows_the_seed() {
        let folder = TempDir::new().unwrap();
        let contents = [(1, 3), (1, 3), (2, 3)].map(|(seed, mib)| {
            let file = folder.path().join(format!("{seed}"));
            fill(&file, (mib << 20) + 5, seed).unwrap();
            fs::read(file).unwrap()
        });
        assert_eq!(contents[0].len(), (3 << 20) + 5);
        assert!(contents[0] == contents[1] && contents[0] != contents[2]);
    }

    #[test]
    fn what_is_no_device_has_no_counts() {
        let error = reads(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("/dev/null"), "{error}");
    }
}
