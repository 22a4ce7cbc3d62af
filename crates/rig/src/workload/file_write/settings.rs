//! The settings of `file-write`.

use crate::workload::SettingError;
use std::collections::BTreeMap;

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

/// Everything in which two arms can differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Where the files lie.
    pub(super) filesystem: FileSystem,
    /// How many files; each write goes to one of them at random.
    pub(super) files: u32,
    /// Bytes of a write.
    pub(super) block_size: u32,
    /// MiB of all files together.
    pub(super) total_size: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { filesystem: FileSystem::Tmpfs, files: 1, block_size: 16_384, total_size: 128 }
    }
}

impl Settings {
    /// The settings that `texts` mean; what is absent has its default.
    pub(super) fn parse(texts: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let mut settings = Self::default();
        for (key, value) in texts {
            settings.set(key, value).map_err(|problem| refusal(key, problem))?;
        }
        let (total, block) = (u64::from(settings.total_size) << 20, settings.block_size);
        if total % (u64::from(settings.files) * u64::from(block)) != 0 {
            let problem = format!(
                "{} MiB do not part into {} files of whole writes of {block} bytes: sysbench \
                 would write less at their ends",
                settings.total_size, settings.files
            );
            return Err(refusal("files", problem));
        }
        Ok(settings)
    }

    /// Bytes of one file.
    pub(super) fn file_size(&self) -> u64 {
        (u64::from(self.total_size) << 20) / u64::from(self.files.max(1))
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "filesystem" => {
                let all = [FileSystem::Tmpfs, FileSystem::Ext4, FileSystem::Xfs];
                let known = all.into_iter().find(|kind| kind.word() == value);
                self.filesystem = known.ok_or_else(|| {
                    format!("filesystem must be tmpfs, ext4 or xfs (found {value:?})")
                })?;
            }
            "files" => self.files = number(key, value, 1, 1024)?,
            "block_size" => self.block_size = number(key, value, 512, 1 << 20)?,
            "total_size" => {
                let mib = value.strip_suffix("MiB").ok_or_else(|| {
                    format!("total_size must be a number of MiB such as 128MiB (found {value:?})")
                })?;
                self.total_size = number(key, mib, 16, 1 << 20)?;
            }
            _ => {
                return Err(format!(
                    "file-write has no setting {key:?}; \
                     there are: block_size, files, filesystem, total_size"
                ));
            }
        }
        Ok(())
    }
}

fn number(key: &str, value: &str, least: u32, most: u32) -> Result<u32, String> {
    let number = value.trim().parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("{key} must be {least} to {most} (found {value:?})"))
}

fn refusal(setting: &str, problem: impl Into<String>) -> SettingError {
    SettingError { setting: setting.to_owned(), problem: problem.into() }
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
            ("files", "64"),
            ("block_size", "4096"),
            ("total_size", "64MiB"),
        ];
        let expected =
            Settings { filesystem: FileSystem::Xfs, files: 64, block_size: 4096, total_size: 64 };
        assert_eq!(parse(&texts).unwrap(), expected);
        assert_eq!(expected.file_size(), 1 << 20);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused: &[(&[(&str, &str)], &str)] = &[
            (&[("filesystem", "zfs")], "filesystem must be tmpfs, ext4 or xfs"),
            (&[("files", "0")], "files must be 1 to 1024"),
            (&[("files", "per-client")], "files must be 1 to 1024"),
            (&[("block_size", "0")], "block_size must be"),
            (&[("total_size", "128")], "number of MiB"),
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
