//! The settings of `file-write`.

use super::NAME;
use crate::environment::Variables;
use crate::workload::SettingError;
use crate::workload::settings::{Reader, number, refusal};
use std::collections::BTreeMap;
use std::fmt;

/// Where the files lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileSystem {
    /// The scratch directory itself, in memory.
    Tmpfs,
    /// Made on a file in memory behind a loop device.
    Ext4,
    /// The same with XFS.
    Xfs,
}

impl FileSystem {
    /// Its word in a recipe, and the kernel's name of it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }
}

/// What a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// A thread of the one sysbench.
    Thread,
    /// A sysbench of one thread.
    Process,
}

/// Which files are written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Files {
    /// So many, by all clients; each write goes to one of them at random.
    Shared(u32),
    /// One for each client, in a directory of its own.
    PerClient,
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared(files) => files.fmt(f),
            Self::PerClient => f.write_str(PER_CLIENT),
        }
    }
}

const PER_CLIENT: &str = "per-client";
/// Most files that clients share.
const MOST_FILES: u32 = 1024;

/// Everything in which two variants can differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Where the files lie.
    pub(super) filesystem: FileSystem,
    /// What a client is.
    pub(super) clients: Writer,
    /// Which files are written to.
    pub(super) files: Files,
    /// Bytes of a write.
    pub(super) block_size: u32,
    /// MiB of all files that are written to together.
    pub(super) total_size: u32,
    /// What is set in sysbench's environment.
    pub(super) environment: Variables,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            filesystem: FileSystem::Tmpfs,
            clients: Writer::Thread,
            files: Files::Shared(1),
            block_size: 16_384,
            total_size: 128,
            environment: Variables::default(),
        }
    }
}

impl Settings {
    /// The settings that `texts` mean; what is absent has its default.
    pub(super) fn parse(texts: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let default = Self::default();
        let mut reader = Reader::new(NAME, texts);
        let systems = [FileSystem::Tmpfs, FileSystem::Ext4, FileSystem::Xfs];
        let systems = systems.map(|system| (system.word(), system));
        let writers = [("threads", Writer::Thread), ("processes", Writer::Process)];
        let settings = Self {
            filesystem: reader.one_of("filesystem", &systems, default.filesystem)?,
            clients: reader.one_of("clients", &writers, default.clients)?,
            files: reader.parsed("files", default.files, files)?,
            block_size: reader.number("block_size", 512..=1 << 20, default.block_size)?,
            total_size: reader.mebibytes("total_size", 16..=1 << 20, default.total_size)?,
            environment: reader.environment()?,
        };
        reader.finish()?;
        settings.fit_together()?;
        Ok(settings)
    }

    fn fit_together(&self) -> Result<(), SettingError> {
        let files = match self.files {
            Files::Shared(files) => files,
            Files::PerClient if self.clients == Writer::Process => return Ok(()),
            Files::PerClient => {
                let problem = "files = per-client needs clients = processes: the threads of one \
                               sysbench all write to all of its files";
                return Err(refusal("files", problem));
            }
        };
        let (total, block) = (self.total_bytes(), self.block_size);
        if total % (u64::from(files) * u64::from(block)) != 0 {
            let problem = format!(
                "{} MiB do not part into {files} files of whole writes of {block} bytes: \
                 sysbench would write less at their ends",
                self.total_size
            );
            return Err(refusal("files", problem));
        }
        Ok(())
    }

    /// Bytes of all files that are written to together.
    pub(super) fn total_bytes(&self) -> u64 {
        u64::from(self.total_size) << 20
    }

    /// Bytes of each file where so many parts make up the total: whole writes, one at least.
    pub(super) fn part(&self, parts: u32) -> u64 {
        let block = u64::from(self.block_size);
        (self.total_bytes() / u64::from(parts.max(1)) / block).max(1) * block
    }
}

fn files(text: &str) -> Result<Files, String> {
    if text == PER_CLIENT {
        return Ok(Files::PerClient);
    }
    let files = number(text, &(1..=MOST_FILES)).map(Files::Shared);
    files.map_err(|wrong| format!("{wrong}, or {PER_CLIENT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[(&str, &str)]) -> Result<Settings, SettingError> {
        let owned = texts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Settings::parse(&owned.collect())
    }

    #[test]
    fn each_setting_is_read() {
        assert_eq!(parse(&[]).unwrap(), Settings::default());
        let texts = [
            ("filesystem", "xfs"),
            ("clients", "processes"),
            ("files", "64"),
            ("block_size", "4096"),
            ("total_size", "64MiB"),
            ("environment", "A=1"),
        ];
        let expected = Settings {
            filesystem: FileSystem::Xfs,
            clients: Writer::Process,
            files: Files::Shared(64),
            block_size: 4096,
            total_size: 64,
            environment: Variables::parse("A=1").unwrap(),
        };
        assert_eq!(parse(&texts).unwrap(), expected);
        assert_eq!(expected.part(64), 1 << 20);
        let own = parse(&[("clients", "processes"), ("files", "per-client")]).unwrap();
        assert_eq!(own.files, Files::PerClient);
    }

    #[test]
    fn a_part_is_of_whole_writes() {
        let own = parse(&[("clients", "processes"), ("files", "per-client")]).unwrap();
        assert_eq!(own.part(1), 128 << 20);
        assert_eq!(own.part(3), 2730 * 16_384);
        assert_eq!(own.part(u32::MAX), 16_384);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused: &[(&[(&str, &str)], &str)] = &[
            (&[("filesystem", "zfs")], "filesystem must be tmpfs, ext4 or xfs"),
            (&[("clients", "8")], "clients must be threads or processes (found \"8\")"),
            (&[("files", "0")], "files must be 1 to 1024, or per-client (found \"0\")"),
            (&[("files", "per-client")], "needs clients = processes"),
            (&[("block_size", "0")], "block_size must be"),
            (&[("total_size", "128")], "such as 128MiB"),
            (&[("total_size", "8MiB")], "total_size must be 16"),
            (&[("files", "1024"), ("total_size", "16MiB"), ("block_size", "32768")], "do not part"),
            (&[("files", "100")], "do not part"),
            (&[("fsync", "on")], "no setting"),
        ];
        for (texts, problem) in refused {
            let error = parse(texts).unwrap_err().to_string();
            assert!(error.contains(problem), "{texts:?}: {error}");
        }
    }
}
