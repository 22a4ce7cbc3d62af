//! `file-write`: random writes to files by sysbench's threads, without a wait for any device.
//!
//! The files lie in memory, in tmpfs or in a file system made there. sysbench's threads are the
//! clients and the system at once; what they contend for is the kernel's.

mod settings;

use super::kernel_counts::{self, agreed, final_counts, has_ended};
use super::{Description, Drive, Need, SettingError, Setup, SliceOutput, System, Workload};
use crate::devices::Mount;
use crate::output;
use crate::process::{self, Process, Program};
use crate::search_path::SearchPath;
use crate::undo::Undo;
use anyhow::{Context as _, ensure};
use kneepoint_vocab::{CountCheck, Nanos, Proof};
use rustix::fs::{statfs, statvfs};
use settings::{FileSystem, Settings};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The workload's name.
const NAME: &str = "file-write";
/// sysbench counts in whole seconds, and its threads are found only after its clock has begun.
const MARGIN: Nanos = Nanos::from_millis(25);
/// Bytes of the smallest image that every one of the file systems accepts.
const LEAST_IMAGE: u64 = 512 << 20;

/// The workload `file-write`.
#[derive(Clone, Debug)]
pub struct FileWrite {
    /// How long sysbench may take to start, and to end once its time is over.
    pub patience: Duration,
}

impl FileWrite {
    /// With the patience that suits any machine.
    pub const STANDARD: Self = Self { patience: Duration::from_secs(30) };
}

impl Workload for FileWrite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "sysbench's random writes to files in memory, to one or to many"
    }

    fn needs(&self, settings: &BTreeMap<String, String>, path: &SearchPath) -> Vec<Need> {
        let Ok(settings) = Settings::parse(settings) else { return Vec::new() };
        let mut needs =
            vec![Need::program("sysbench", "sysbench", path), Need::session_starter(path)];
        let on_image = |needs: &mut Vec<Need>, mkfs: &str, package: &str| {
            let here = rustix::process::geteuid().is_root();
            needs.push(Need { what: "root".to_owned(), package: String::new(), here });
            needs.push(Need::program("losetup", "mount", path));
            needs.push(Need::program(mkfs, package, path));
        };
        match settings.filesystem {
            FileSystem::Tmpfs => {}
            FileSystem::Ext4 => on_image(&mut needs, "mkfs.ext4", "e2fsprogs"),
            FileSystem::Xfs => on_image(&mut needs, "mkfs.xfs", "xfsprogs"),
        }
        needs
    }

    fn check(&self, settings: &BTreeMap<String, String>) -> Result<(), SettingError> {
        Settings::parse(settings).map(|_| ())
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let settings = Settings::parse(&setup.settings).with_context(|| NAME.to_owned())?;
        let name = format!("{}-{}-", setup.arm, setup.start).replace(['/', '\0'], "-");
        let folder = tempfile::Builder::new()
            .prefix(&name)
            .tempdir_in(&setup.scratch)
            .with_context(|| format!("{}: no directory can be made", setup.scratch.display()))?;
        let total = u64::from(settings.total_size) << 20;
        require_room(folder.path(), total)?;
        let place = folder.path().join("files");
        fs::create_dir(&place).with_context(|| place.display().to_string())?;
        let kind = settings.filesystem;
        let mounted = if kind == FileSystem::Tmpfs {
            None
        } else {
            let image = folder.path().join("image");
            let bytes = LEAST_IMAGE.max(2 * total);
            Some(Mount::make(&setup.undo, kind.word(), &image, bytes, &place)?)
        };
        let writers = Writers {
            running: None,
            mounted,
            place,
            folder,
            settings,
            undo: setup.undo.clone(),
            seed: setup.seed,
            max_clients: setup.max_clients,
            patience: self.patience,
        };
        writers.make_files()?;
        Ok(Box::new(writers))
    }
}

/// A full tmpfs would make the writes fail in the midst of a slice.
fn require_room(folder: &Path, total: u64) -> anyhow::Result<()> {
    let about = statvfs(folder).with_context(|| folder.display().to_string())?;
    let room = about.f_bavail.saturating_mul(about.f_frsize);
    ensure!(
        room > total + total / 8,
        "{}: {} MiB are free, {} are to be written; set a smaller total_size",
        folder.display(),
        room >> 20,
        total >> 20
    );
    Ok(())
}

/// Fields are dropped in order: sysbench is killed, the mount goes, then the files.
struct Writers {
    running: Option<Running>,
    mounted: Option<Mount>,
    place: PathBuf,
    folder: TempDir,
    settings: Settings,
    undo: Undo,
    seed: u64,
    max_clients: u32,
    patience: Duration,
}

/// sysbench at work.
struct Running {
    process: Process,
    clients: u32,
}

impl Writers {
    /// sysbench's file test with this command and options of its own.
    fn sysbench(&self, command: &str, options: &[String]) -> Program<'_> {
        let Settings { files, total_size, block_size, .. } = self.settings;
        let mut arguments = vec![
            "fileio".to_owned(),
            format!("--file-num={files}"),
            format!("--file-total-size={total_size}M"),
            format!("--file-block-size={block_size}"),
            "--file-test-mode=rndwr".to_owned(),
            "--file-io-mode=sync".to_owned(),
            "--file-fsync-freq=0".to_owned(),
            "--file-fsync-end=off".to_owned(),
            format!("--rand-seed={}", self.seed % (1 << 31)),
        ];
        arguments.extend_from_slice(options);
        arguments.push(command.to_owned());
        Program::new("sysbench", "sysbench", arguments, &self.place)
    }

    fn make_files(&self) -> anyhow::Result<()> {
        let made = process::run(self.sysbench("prepare", &[]), self.patience, &self.undo);
        made.map(drop).context("the files cannot be made")
    }

    /// The files, and the smallest size among them.
    fn files(&self) -> (u64, u64) {
        let entries = fs::read_dir(&self.place).into_iter().flatten().flatten();
        let ours =
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("test_file."));
        let sizes: Vec<u64> =
            ours.filter_map(|entry| entry.metadata().ok()).map(|about| about.size()).collect();
        (sizes.len() as u64, sizes.into_iter().min().unwrap_or(0))
    }
}

/// The kernel's name of a file system.
fn kind_of(folder: &Path) -> String {
    const EXT4: i128 = 0xef53;
    const XFS: i128 = 0x5846_5342;
    const TMPFS: i128 = 0x0102_1994;
    match statfs(folder).map(|about| i128::from(about.f_type)) {
        Ok(TMPFS) => "tmpfs".to_owned(),
        Ok(EXT4) => "ext4".to_owned(),
        Ok(XFS) => "xfs".to_owned(),
        Ok(other) => format!("of type {other:#x}"),
        Err(error) => error.to_string(),
    }
}

impl System for Writers {
    fn pids(&self) -> Vec<u32> {
        self.running.iter().map(|running| running.process.pid()).collect()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        ensure!(self.running.is_none(), "{NAME}: describe before finish");
        let proof = |what: &str, expected: String, found: String| Proof {
            what: what.to_owned(),
            active: expected == found,
            expected,
            found,
        };
        let (files, size) = self.files();
        let whole = if size >= self.settings.file_size() { "" } else { ", too short" };
        let proofs = vec![
            proof(
                "file system, by statfs",
                self.settings.filesystem.word().to_owned(),
                kind_of(&self.place),
            ),
            proof(
                "files in the directory",
                self.settings.files.to_string(),
                format!("{files}{whole}"),
            ),
        ];
        let version = Program::new("sysbench", "sysbench", ["--version"], self.folder.path());
        let version = process::run(version, self.patience, &self.undo)?;
        Ok((proofs, vec![("sysbench".to_owned(), version.trim().to_owned())]))
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        ensure!(self.running.is_none(), "{NAME}: begin before finish");
        let (clients, most) = (drive.clients, self.max_clients);
        ensure!(
            (1..=most).contains(&clients),
            "{NAME}: clients must be 1 to {most} (found {clients})"
        );
        let seconds = (drive.lasts + MARGIN).0.div_ceil(1_000_000_000);
        let options = [
            format!("--threads={clients}"),
            format!("--time={seconds}"),
            "--histogram=on".to_owned(),
        ];
        let mut program = self.sysbench("run", &options);
        program.cpus.clone_from(&drive.cpus.system);
        let mut process = program.spawn(&self.undo)?;
        let mut threads = Vec::new();
        process.await_ready(self.patience, |sysbench| {
            threads = kernel_counts::threads(sysbench.pid(), "sysbench");
            // The first thread only waits for the others.
            threads.retain(|(tid, done)| *tid != sysbench.pid() && done.write_calls > 0);
            threads.len() == clients as usize
        })?;
        self.running = Some(Running { process, clients });
        Ok(threads.into_iter().map(|(tid, _)| tid).collect())
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        let running = self.running.as_ref().with_context(|| format!("{NAME}: none is running"))?;
        Ok(!has_ended(&running.process))
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        // It counts over the whole of its own run.
        self.running.as_ref().map(drop).with_context(|| format!("{NAME}: mark before begin"))
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        let running = self.running.take();
        let Running { mut process, clients } =
            running.with_context(|| format!("{NAME}: finish before begin"))?;
        let calls = final_counts(&process, self.patience)?.write_calls;
        let printed = process.await_success(self.patience)?;
        let run = output::sysbench::parse(&printed)
            .with_context(|| format!("sysbench's report{}", process.tail()))?;
        let found = run.clients;
        ensure!(found == clients, "sysbench had {found} threads, not {clients}");
        ensure!(run.operations > 0 && run.counted_over.0 > 0, "sysbench wrote nothing");
        // Its report is written too, but by some tens of calls.
        let check = CountCheck {
            counter: "write calls, by /proc/PID/io".to_owned(),
            generator: run.operations,
            server: calls,
        };
        Ok(SliceOutput {
            operations: run.operations,
            counted_over: run.counted_over,
            per_client: Vec::new(),
            latency: run.response.latency(),
            counts: Some(agreed(check, NAME)?),
        })
    }

    fn stop(mut self: Box<Self>) -> anyhow::Result<()> {
        self.running = None;
        self.mounted.take().map_or(Ok(()), Mount::unmount)
    }
}
