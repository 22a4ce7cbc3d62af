//! `block-read`: small direct reads of block devices, as many at once as there are clients.
//!
//! The devices are made in memory (loop or zram) or named by the user and only ever read. The
//! readers, threads of fio or processes of dd, are the clients and the system at once; what
//! they wait for lies below them in the kernel.

mod dd;
mod fio;
mod settings;

use super::kernel_counts::{agreed, final_counts, has_ended};
use super::{
    Configured, Configuring, Description, Drive, Need, Setup, SliceOutput, System, Texts, Workload,
    check_clients,
};
use crate::devices::{self, Loop, Zram};
use crate::ending::HUNG_AFTER;
use crate::process::Process;
use crate::search_path::SearchPath;
use crate::shown;
use crate::undo::Undo;
use anyhow::{Context as _, bail, ensure};
use kneepoint_machine::proc::io;
use kneepoint_machine::proc::process::name;
use kneepoint_vocab::{CountCheck, Nanos, Proof};
use settings::{Device, Engine, Settings};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// The workload's name.
const NAME: &str = "block-read";
/// Reads of each client in the proof that readers do what the settings say.
const PROVING_READS: u64 = 500;
/// How long a reader is there that shows its environment.
const SHOWING: Nanos = Nanos::from_millis(1000);
/// How the kernel sees readers that call for each read.
const ONE_CALL: &str = "a read call each";
/// And those that put reads into a ring.
const NO_CALLS: &str = "no read calls";
/// Bytes that a loop device for dd seems to have: holes follow its content.
const DD_LENGTH: u64 = 64 << 30;

/// The workload `block-read`.
#[derive(Clone, Debug)]
pub struct BlockRead {
    /// How long readers may take to start, and to end once their time is over.
    pub timeout: Duration,
}

impl BlockRead {
    /// With the timeout that suits any machine.
    pub const STANDARD: Self = Self { timeout: HUNG_AFTER };
}

impl Workload for BlockRead {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "small direct reads of block devices by fio or dd, one read at a time a client"
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
        let root = rustix::process::geteuid().is_root();
        let mut needs = vec![Need { what: "root".to_owned(), package: String::new(), here: root }];
        match settings.device {
            Device::Loop => {
                needs.push(Need::program("losetup", "mount", path));
                let here = Path::new("/dev/loop-control").exists();
                needs.push(Need { what: "loop devices".into(), package: String::new(), here });
            }
            Device::Zram => {
                let here = !root || Zram::possible();
                needs.push(Need { what: "zram devices".into(), package: String::new(), here });
            }
            Device::Named(_) => {}
        }
        // fio also proves what dd reads.
        needs.push(Need::program("fio", "fio", path));
        needs.extend(settings.environment.needs(path.find("fio").as_deref()));
        if settings.engine == Engine::Dd {
            needs.push(Need::program("dd", "coreutils", path));
            needs.push(Need::program("env", "coreutils", path));
        }
        needs
    }

    fn start(&self, setup: &Setup) -> anyhow::Result<Box<dyn System>> {
        let settings = self.settings.clone();
        let folder = setup.folder()?;
        let mut made = Vec::new();
        for index in 0..settings.devices as usize {
            made.push(Made::make(&settings, index, folder.path(), setup)?);
        }
        let devices = made.iter().map(|made| made.path().to_owned()).collect();
        let mut system = Readers {
            running: None,
            made,
            folder,
            settings,
            devices,
            undo: setup.undo.clone(),
            seed: setup.seed,
            max_clients: setup.max_clients,
            timeout: self.timeout,
            proven: Proven::default(),
        };
        system.proven = system.prove()?;
        Ok(Box::new(system))
    }
}

/// A device and its guard.
enum Made {
    Loop(Loop),
    Zram(Zram),
    Named(PathBuf),
}

impl Made {
    fn make(
        settings: &Settings,
        index: usize,
        folder: &Path,
        setup: &Setup,
    ) -> anyhow::Result<Self> {
        let bytes = u64::from(settings.size) << 20;
        match &settings.device {
            Device::Loop => {
                let image = folder.join(format!("device-{index}.img"));
                devices::fill(&image, bytes, setup.seed)?;
                if settings.engine == Engine::Dd {
                    let file = OpenOptions::new().write(true).open(&image);
                    file.and_then(|file| file.set_len(DD_LENGTH))
                        .with_context(|| format!("{} cannot be extended", image.display()))?;
                }
                Loop::attach(&setup.undo, &image, true).map(Self::Loop)
            }
            Device::Zram => Zram::add(&setup.undo, bytes, setup.seed).map(Self::Zram),
            Device::Named(paths) => {
                let path = paths.get(index).context("a device has no name")?;
                let about = fs::metadata(path).with_context(|| format!("{}", path.display()))?;
                ensure!(
                    about.file_type().is_block_device(),
                    "{} is no block device; name whole devices or partitions",
                    path.display()
                );
                Ok(Self::Named(path.clone()))
            }
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Loop(device) => device.device(),
            Self::Zram(device) => device.device(),
            Self::Named(path) => path,
        }
    }

    /// What it is, by the kernel's word.
    fn kind(&self, folder: &Path) -> String {
        match self {
            Self::Loop(device)
                if device.reported("backing_file").starts_with(&*folder.to_string_lossy()) =>
            {
                "loop".to_owned()
            }
            Self::Zram(device) if device.holds() > 0 => "zram".to_owned(),
            Self::Named(path) => path.display().to_string(),
            Self::Loop(_) | Self::Zram(_) => "not ours".to_owned(),
        }
    }

    fn undo(self) -> anyhow::Result<()> {
        match self {
            Self::Loop(device) => device.detach(),
            Self::Zram(device) => device.remove(),
            Self::Named(_) => Ok(()),
        }
    }
}

/// What a few reads showed of the readers.
#[derive(Default)]
struct Proven {
    block_size: u64,
    readers: String,
}

/// Fields are dropped in order: readers are killed, devices go, then the files behind them.
struct Readers {
    running: Option<Running>,
    made: Vec<Made>,
    folder: TempDir,
    settings: Settings,
    devices: Vec<PathBuf>,
    undo: Undo,
    seed: u64,
    max_clients: u32,
    timeout: Duration,
    proven: Proven,
}

/// Readers at work.
struct Running {
    who: Who,
    clients: u32,
    /// Reads that the devices had completed before.
    before: u64,
}

enum Who {
    Fio(Box<Process>),
    Dd(dd::ClientProcesses),
}

impl Readers {
    /// Has one client a device read a little, and looks at what the kernel counts of it.
    fn prove(&self) -> anyhow::Result<Proven> {
        let before = self.counted()?;
        let drive = Drive::new(self.settings.devices, Nanos(0));
        let (program, calls, reads) = if self.settings.engine == Engine::Dd {
            let mut client_processes = self.dd(&drive)?;
            client_processes.mark()?;
            let (program, calls) =
                (name(client_processes.pids()[0]), client_processes.read_calls()?);
            let (output, lifelong) = client_processes.finish()?;
            (program, calls, lifelong - output.operations)
        } else {
            let mut process = self.fio(&drive, &fio::Until::Reads(PROVING_READS))?;
            let calls = final_counts(&process, self.timeout)?.read_calls;
            let program = name(process.pid());
            let printed = process.await_success(self.timeout)?;
            (program, calls, fio::parse(&printed, drive.clients)?.operations)
        };
        let after = self.counted()?;
        let (seen, bytes) = (after.0 - before.0, after.1 - before.1);
        ensure!(seen > 0, "{NAME}: the kernel counts no reads of {:?}", self.devices);
        let how = if calls >= reads { ONE_CALL } else { NO_CALLS };
        Ok(Proven { block_size: bytes / seen, readers: format!("{program}, {how}") })
    }

    /// What a reader shows of its environment, where something is set there.
    fn shown(&self) -> anyhow::Result<Vec<Proof>> {
        let set = &self.settings.environment;
        if set.is_empty() {
            return Ok(Vec::new());
        }
        let drive = Drive::new(self.settings.devices, SHOWING);
        let process = match self.readers(&drive)?.0 {
            Who::Fio(process) => return Ok(shown::variables("fio", process.pid(), set)),
            Who::Dd(client_processes) => client_processes,
        };
        let first = process.pids().first().copied();
        Ok(first.map_or_else(Vec::new, |first| shown::variables("dd", first, set)))
    }

    /// Reads and bytes read of all devices so far.
    fn counted(&self) -> anyhow::Result<(u64, u64)> {
        self.devices.iter().try_fold((0, 0), |sum, device| {
            let (reads, bytes) = devices::reads(device)?;
            Ok((sum.0 + reads, sum.1 + bytes))
        })
    }

    fn fio(&self, drive: &Drive, until: &fio::Until) -> anyhow::Result<Process> {
        let folder = self.folder.path();
        fio::program(&self.settings, &self.devices, drive, until, self.seed, folder)
            .spawn(&self.undo)
    }

    fn dd(&self, drive: &Drive) -> anyhow::Result<dd::ClientProcesses> {
        let folder = self.folder.path();
        dd::ClientProcesses::start(
            &self.settings,
            &self.devices,
            drive,
            folder,
            &self.undo,
            self.timeout,
        )
    }

    /// Starts the readers and waits until all of them read.
    fn readers(&self, drive: &Drive) -> anyhow::Result<(Who, Vec<u32>)> {
        if self.settings.engine == Engine::Dd {
            let client_processes = self.dd(drive)?;
            let pids = client_processes.pids();
            return Ok((Who::Dd(client_processes), pids));
        }
        let mut process = self.fio(drive, &fio::Until::Lasts(drive.lasts))?;
        let mut threads = Vec::new();
        process.await_ready(self.timeout, |fio| {
            threads = io::of_threads_named(fio.pid(), "fio");
            // The first thread only waits for the others, as does one that asks for nothing.
            threads.retain(|(tid, done)| *tid != fio.pid() && done.device_bytes > 0);
            threads.len() == drive.clients as usize
        })?;
        Ok((Who::Fio(Box::new(process)), threads.into_iter().map(|(tid, _)| tid).collect()))
    }
}

impl System for Readers {
    fn pids(&self) -> Vec<u32> {
        match self.running.as_ref().map(|running| &running.who) {
            Some(Who::Fio(process)) => vec![process.pid()],
            Some(Who::Dd(client_processes)) => client_processes.pids(),
            None => Vec::new(),
        }
    }

    fn describe(&mut self) -> anyhow::Result<Description> {
        ensure!(self.running.is_none(), "{NAME}: describe before finish");
        let Settings { device, devices, engine, block_size, .. } = &self.settings;
        let kinds: Vec<String> =
            self.made.iter().map(|made| made.kind(self.folder.path())).collect();
        let wanted: Vec<String> = match device {
            Device::Loop => vec!["loop".to_owned(); *devices as usize],
            Device::Zram => vec!["zram".to_owned(); *devices as usize],
            Device::Named(paths) => paths.iter().map(|path| path.display().to_string()).collect(),
        };
        let readers = match engine {
            Engine::Psync => format!("fio, {ONE_CALL}"),
            Engine::IoUring => format!("fio, {NO_CALLS}"),
            Engine::Dd => format!("dd, {ONE_CALL}"),
        };
        let mut proofs = vec![
            Proof::equal("devices, by /sys/block", wanted.join(", "), kinds.join(", ")),
            Proof::equal("readers, by /proc/PID/io", readers, self.proven.readers.clone()),
            Proof::equal(
                "bytes of a read, by the devices' own counters",
                block_size.to_string(),
                self.proven.block_size.to_string(),
            ),
        ];
        let mut reported = vec![("devices".to_owned(), kinds.join(", "))];
        for made in &self.made {
            if let Made::Loop(device) = made {
                let direct = device.reported("dio") == "1";
                let name = format!("{} reads its file past the page cache", made.path().display());
                reported.push((name, if direct { "yes" } else { "no" }.to_owned()));
            }
        }
        proofs.extend(self.shown()?);
        reported.extend(self.settings.environment.reported());
        Ok((proofs, reported))
    }

    fn begin(&mut self, drive: &Drive) -> anyhow::Result<Vec<u32>> {
        ensure!(self.running.is_none(), "{NAME}: begin before finish");
        let (clients, most) = (drive.clients, self.max_clients);
        check_clients(NAME, clients, most)?;
        let before = self.counted()?.0;
        let (who, threads) = self.readers(drive)?;
        self.running = Some(Running { who, clients, before });
        Ok(threads)
    }

    fn working(&mut self) -> anyhow::Result<bool> {
        match self.running.as_mut().map(|running| &mut running.who) {
            Some(Who::Fio(process)) => Ok(!has_ended(process)),
            Some(Who::Dd(client_processes)) => client_processes.check().map(|()| true),
            None => bail!("{NAME}: no readers are running"),
        }
    }

    fn mark(&mut self) -> anyhow::Result<()> {
        match self.running.as_mut().map(|running| &mut running.who) {
            // It counts over the whole of its own run.
            Some(Who::Fio(_)) => Ok(()),
            Some(Who::Dd(client_processes)) => client_processes.mark(),
            None => bail!("{NAME}: mark before begin"),
        }
    }

    fn finish(&mut self) -> anyhow::Result<SliceOutput> {
        let running = self.running.take();
        let Running { who, clients, before } =
            running.with_context(|| format!("{NAME}: finish before begin"))?;
        let (mut output, asked) = match who {
            Who::Fio(mut process) => {
                let printed = process.await_success(self.timeout)?;
                let output = fio::parse(&printed, clients).with_context(|| process.tail())?;
                let asked = output.operations;
                (output, asked)
            }
            Who::Dd(client_processes) => client_processes.finish()?,
        };
        let served = self.counted()?.0 - before;
        let counter = "reads completed, by the devices' own counters".to_owned();
        let check = CountCheck { counter, generator: asked, server: served };
        output.counts = Some(agreed(check, NAME)?);
        Ok(output)
    }

    fn stop(mut self: Box<Self>) -> anyhow::Result<()> {
        self.running = None;
        let made = std::mem::take(&mut self.made);
        made.into_iter().map(Made::undo).fold(Ok(()), anyhow::Result::and)
    }
}
