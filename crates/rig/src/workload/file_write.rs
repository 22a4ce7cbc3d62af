//! `file-write`: random writes to files by sysbench, without a wait for any device.
//!
//! The files lie in memory, in tmpfs or in a file system made there. sysbench's threads, or
//! processes of it with one thread each, are the clients and the system at once; what they contend
//! for is the kernel's.

mod client_processes;
mod settings;

use super::{
    Configured, Configuring, Description, Drive, Need, Setup, SliceOutput, System, Texts, Workload,
    check_clients,
};
use crate::devices::Mount;
use crate::ending::HUNG_AFTER;
use crate::process::{self, Program};
use crate::search_path::SearchPath;
use crate::shown;
use crate::undo::Undo;
use anyhow::{Context as _, ensure};
use client_processes::{ClientProcesses, Seen, is_written};
use kneepoint_vocab::{Nanos, Proof};
use rustix::fs::{statfs, statvfs};
use settings::{FileSystem, Files, Settings, Writer};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The workload's name.
const NAME: &str = "file-write";
/// sysbench counts in whole seconds, and its threads are found only after its clock has begun.
const MARGIN: Nanos = Nanos::from_millis(25);
/// What each process adds to that, as they do not begin at quite the same moment.
const MARGIN_OF_PROCESS: Nanos = Nanos::from_millis(5);
/// Clients whose processes and open files are looked at as a proof.
const PROVING_CLIENTS: u32 = 2;
/// How long they have at most; they are ended as soon as they were looked at, which takes a while
/// on a machine that others want as well.
const PROVING: Nanos = Nanos::from_millis(20_000);
/// Bytes written at once when a file is made longer.
const PIECE: usize = 1 << 20;
/// Bytes of the smallest image that every one of the file systems accepts.
const LEAST_IMAGE: u64 = 512 << 20;

/// The workload `file-write`.
#[derive(Clone, Debug)]
pub struct FileWrite {
    /// How long sysbench may take to start, and to end once its time is over.
    pub timeout: Duration,
}

impl FileWrite {
    /// With the timeout that suits any machine.
    pub const STANDARD: Self = Self { timeout: HUNG_AFTER };
}

impl Workload for FileWrite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "sysbench's random writes to files in memory, to one or to many"
    }

    fn configure(&self, settings: &Texts) -> Configuring {
        let (settings, timeout) = (Settings::parse(settings)?, self.timeout);
        Ok(Arc::new(Configuration { settings, timeout }))
    }
}

/// The workload as it is set.
#[derive(Debug)]
struct Configuration {
    settings: Settings,
    timeout: Duration,
}

impl Configured for Configuration {
    fn needs(&self, path: &SearchPath) -> Vec<Need> {
        let settings = &self.settings;
        let mut needs = vec![Need::program("sysbench", "sysbench", path)];
        let on_image = |needs: &mut Vec<Need>, mkfs: &str, package: &str| {
            let here = rustix::process::geteuid().is_root();
            needs.push(Need { what: "root".to_owned(), package: String::new(), here });
            needs.push(Need::program("losetup", "mount", path));
            needs.push(Need::program(mkfs, package, path));
        };
        if settings.clients == Writer::Process {
            needs.push(Need::program("sh", "dash", path));
        }
        match settings.filesystem {
            FileSystem::Tmpfs => {}
            FileSystem::Ext4 => on_image(&mut needs, "mkfs.ext4", "e2fsprogs"),
            FileSystem::Xfs => on_image(&mut needs, "mkfs.xfs", "xfsprogs"),
        }
        needs.extend(settings.environment.needs(path.find("sysbench").as_deref()));
        needs
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let settings = self.settings.clone();
        let folder = setup.folder()?;
        let total = settings.total_bytes();
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
        let mut writers = Writers {
            running: None,
            mounted,
            place,
            folder,
            settings,
            undo: setup.undo.clone(),
            seed: setup.seed,
            max_clients: setup.max_clients,
            timeout: self.timeout,
            parts: 0,
            seen: None,
            shown: Vec::new(),
        };
        writers.make_files()?;
        writers.prove()?;
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
    running: Option<ClientProcesses>,
    mounted: Option<Mount>,
    place: PathBuf,
    folder: TempDir,
    settings: Settings,
    undo: Undo,
    seed: u64,
    max_clients: u32,
    timeout: Duration,
    /// Files that make up the total at the moment.
    parts: u32,
    /// What the kernel showed of a few clients.
    seen: Option<Seen>,
    /// What one of its processes showed of its environment.
    shown: Vec<Proof>,
}

impl Writers {
    /// sysbench's file test in this directory, with this command and options of its own.
    fn sysbench<'a>(&self, command: &str, options: &[String], folder: &'a Path) -> Program<'a> {
        let files = match self.settings.files {
            Files::Shared(files) => files,
            Files::PerClient => 1,
        };
        let bytes = self.settings.part(self.parts) * u64::from(files);
        let mut arguments = vec![
            "fileio".to_owned(),
            format!("--file-num={files}"),
            format!("--file-total-size={bytes}"),
            format!("--file-block-size={}", self.settings.block_size),
            "--file-test-mode=rndwr".to_owned(),
            "--file-io-mode=sync".to_owned(),
            "--file-fsync-freq=0".to_owned(),
            "--file-fsync-end=off".to_owned(),
        ];
        arguments.extend_from_slice(options);
        arguments.push(command.to_owned());
        Program::new("sysbench", "sysbench", arguments, folder)
    }

    /// Where a client writes.
    fn folder_of(&self, client: u32) -> PathBuf {
        match self.settings.files {
            Files::Shared(_) => self.place.clone(),
            Files::PerClient => self.place.join(format!("client-{client}")),
        }
    }

    fn make_files(&mut self) -> anyhow::Result<()> {
        match self.settings.files {
            Files::Shared(files) => {
                self.parts = files;
                let prepare = self.sysbench("prepare", &[], &self.place);
                let made = process::run(prepare, self.timeout, &self.undo);
                made.map(drop).context("the files cannot be made")
            }
            Files::PerClient => {
                for client in 0..self.max_clients {
                    let folder = self.folder_of(client);
                    fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
                }
                self.lay_out(self.max_clients)
            }
        }
    }

    /// Shares the total among the files of so many clients: it stays the same at every level, and
    /// so does what fits into which cache.
    fn lay_out(&mut self, clients: u32) -> anyhow::Result<()> {
        if self.parts == clients || self.settings.files != Files::PerClient {
            return Ok(());
        }
        let mut short = Vec::new();
        for client in 0..self.max_clients {
            let size = if client < clients { self.settings.part(clients) } else { 0 };
            let file = self.folder_of(client).join("test_file.0");
            let reported = || format!("{} cannot be resized", file.display());
            let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&file);
            let opened = opened.with_context(reported)?;
            if opened.metadata().with_context(reported)?.size() < size {
                short.push((file, opened, size));
            } else {
                opened.set_len(size).with_context(reported)?;
            }
        }
        // The others have made room by now.
        for (file, opened, size) in short {
            let grown = grow(opened, size);
            grown.with_context(|| format!("{} cannot be made longer", file.display()))?;
        }
        self.parts = clients;
        Ok(())
    }

    /// Starts sysbench for so many clients, and waits until all of them write.
    fn client_processes(&self, drive: &Drive) -> anyhow::Result<ClientProcesses> {
        let (processes, threads) = match self.settings.clients {
            Writer::Thread => (1, drive.clients),
            Writer::Process => (drive.clients, 1),
        };
        let margin = match self.settings.clients {
            Writer::Thread => MARGIN,
            Writer::Process => Nanos(MARGIN.0 + MARGIN_OF_PROCESS.0 * u64::from(processes)),
        };
        let seconds = (drive.lasts + margin).0.div_ceil(1_000_000_000);
        let folders: Vec<PathBuf> = (0..processes).map(|client| self.folder_of(client)).collect();
        let program = |(index, folder)| {
            let options = [
                format!("--threads={threads}"),
                format!("--time={seconds}"),
                "--histogram=on".to_owned(),
                // Of one seed, they would all write to the same places in the same order.
                format!("--rand-seed={}", (self.seed.wrapping_add(index) % (1 << 31)).max(1)),
            ];
            let mut program = self.sysbench("run", &options, folder);
            program.environment = self.settings.environment.for_program();
            program.cpus.clone_from(&drive.cpus.system);
            program
        };
        let programs = (0..).zip(folders.iter().map(PathBuf::as_path)).map(program).collect();
        ClientProcesses::start(programs, drive.clients, &self.undo, self.timeout)
    }

    /// Has a few clients write, and looks at what the kernel shows of them.
    fn prove(&mut self) -> anyhow::Result<()> {
        let clients = self.max_clients.clamp(1, PROVING_CLIENTS);
        self.lay_out(clients)?;
        let client_processes = self.client_processes(&Drive::new(clients, PROVING))?;
        self.seen = Some(client_processes.seen(&self.place));
        if let Some(process) = client_processes.pids().first() {
            self.shown = shown::variables("sysbench", *process, &self.settings.environment);
        }
        drop(client_processes);
        self.lay_out(self.max_clients)
    }

    /// What the settings make the kernel show of so many clients.
    fn expected(&self) -> Seen {
        let clients = self.max_clients.clamp(1, PROVING_CLIENTS) as usize;
        let processes = if self.settings.clients == Writer::Process { clients } else { 1 };
        let (files, shared) = match self.settings.files {
            Files::Shared(files) => {
                (files as usize, if processes > 1 { files as usize } else { 0 })
            }
            Files::PerClient => (clients, 0),
        };
        Seen { processes, writers: clients, files, shared }
    }

    /// The files by their number, the directories they lie in, and their bytes.
    fn stored(&self) -> String {
        let mut folders: BTreeSet<PathBuf> =
            (0..self.max_clients).map(|client| self.folder_of(client)).collect();
        let (mut files, mut bytes) = (0, 0);
        folders.retain(|folder| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let ours = entries.filter(|entry| is_written(&entry.path()));
            let sizes: Vec<u64> =
                ours.filter_map(|entry| entry.metadata().ok()).map(|about| about.size()).collect();
            files += sizes.len();
            bytes += sizes.iter().sum::<u64>();
            !sizes.is_empty()
        });
        reported(files, folders.len(), bytes)
    }

    /// What the settings make of that.
    fn to_be_stored(&self) -> String {
        let bytes = self.settings.part(self.parts) * u64::from(self.parts);
        match self.settings.files {
            Files::Shared(files) => reported(files as usize, 1, bytes),
            Files::PerClient => {
                let clients = self.max_clients as usize;
                reported(clients, clients, bytes)
            }
        }
    }
}

fn reported(files: usize, folders: usize, bytes: u64) -> String {
    format!("files: {files}, directories: {folders}, bytes in all: {bytes}")
}

/// Makes a file so long, with content: a hole would be filled within a slice.
fn grow(mut file: File, size: u64) -> std::io::Result<()> {
    let piece = vec![0; PIECE];
    let mut length = file.seek(SeekFrom::End(0))?;
    while length < size {
        let part = usize::try_from(size - length).unwrap_or(PIECE).min(PIECE);
        file.write_all(&piece[..part])?;
        length += part as u64;
    }
    file.sync_all()
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
        self.running.iter().flat_map(ClientProcesses::pids).collect()
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        ensure!(self.running.is_none(), "{NAME}: describe before finish");
        let seen = self.seen.map_or_else(String::new, |seen| seen.to_string());
        let mut proofs = vec![
            Proof::equal(
                "file system, by statfs",
                self.settings.filesystem.word(),
                kind_of(&self.place),
            ),
            Proof::equal("files, by stat", self.to_be_stored(), self.stored()),
            Proof::equal(
                "some clients and their files, by /proc/PID/task and fd",
                self.expected(),
                seen,
            ),
        ];
        let version = Program::new("sysbench", "sysbench", ["--version"], self.folder.path());
        let version = process::run(version, self.timeout, &self.undo)?;
        proofs.extend(self.shown.iter().cloned());
        let mut reported = vec![("sysbench".to_owned(), version.trim().to_owned())];
        reported.extend(self.settings.environment.reported());
        Ok((proofs, reported))
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        ensure!(self.running.is_none(), "{NAME}: begin before finish");
        let (clients, most) = (drive.clients, self.max_clients);
        check_clients(NAME, clients, most)?;
        self.lay_out(clients)?;
        let client_processes = self.client_processes(drive)?;
        let writers = client_processes.writers();
        self.running = Some(client_processes);
        Ok(writers)
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        let running = self.running.as_ref().with_context(|| format!("{NAME}: none is running"))?;
        Ok(running.works())
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        // It counts over the whole of its own run.
        self.running.as_ref().map(drop).with_context(|| format!("{NAME}: mark before begin"))
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        let client_processes =
            self.running.take().with_context(|| format!("{NAME}: finish before begin"))?;
        client_processes.finish(self.timeout)
    }

    fn stop(mut self: Box<Self>) -> anyhow::Result<()> {
        self.running = None;
        self.mounted.take().map_or(Ok(()), Mount::unmount)
    }
}
