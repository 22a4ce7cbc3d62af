//! The settings of `block-read`.

use super::NAME;
use crate::environment::Variables;
use crate::workload::SettingError;
use crate::workload::settings::{Reader, number, refusal};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// Files in memory behind loop devices.
    Loop,
    /// Compressed memory.
    Zram,
    /// Block devices of the user's, opened for reading only.
    Named(Vec<PathBuf>),
}

/// What reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// fio, one `pread` at a time a client.
    Psync,
    /// fio, one request at a time a client in a ring of its own.
    IoUring,
    /// One dd a client.
    Dd,
}

impl Engine {
    /// Its word in a recipe, which is fio's too.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Psync => "psync",
            Self::IoUring => "io_uring",
            Self::Dd => "dd",
        }
    }
}

/// Everything in which two variants can differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// What is read.
    pub(super) device: Device,
    /// How many of them; clients are spread evenly.
    pub(super) devices: u32,
    /// What reads.
    pub(super) engine: Engine,
    /// Bytes of a read.
    pub(super) block_size: u32,
    /// MiB of content on each device that is made.
    pub(super) size: u32,
    /// What is set in the readers' environment.
    pub(super) environment: Variables,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            device: Device::Loop,
            devices: 1,
            engine: Engine::Psync,
            block_size: 512,
            size: 64,
            environment: Variables::default(),
        }
    }
}

const MOST_DEVICES: u32 = 64;
const MOST_BLOCK: u32 = 1 << 20;
/// A zram device's smallest read: a page.
const PAGE: u32 = 4096;

impl Settings {
    /// The settings that `texts` mean; what is absent has its default.
    pub(super) fn parse(texts: &BTreeMap<String, String>) -> Result<Self, SettingError> {
        let default = Self::default();
        let mut reader = Reader::new(NAME, texts);
        let engines = [Engine::Psync, Engine::IoUring, Engine::Dd].map(|one| (one.word(), one));
        let mut settings = Self {
            device: reader.parsed("device", default.device, device)?,
            devices: reader.number("devices", 1..=MOST_DEVICES, default.devices)?,
            engine: reader.one_of("engine", &engines, default.engine)?,
            block_size: reader.parsed("block_size", default.block_size, block_size)?,
            size: reader.mebibytes("size", 16..=1 << 20, default.size)?,
            environment: reader.environment()?,
        };
        if let Device::Named(paths) = &settings.device {
            settings.devices = u32::try_from(paths.len()).unwrap_or(MOST_DEVICES);
            if reader.given("devices") {
                let problem = "devices counts those that are made; it cannot be set where \
                               device names them";
                return Err(refusal("devices", problem));
            }
        }
        reader.finish()?;
        settings.fit_together()?;
        Ok(settings)
    }

    fn fit_together(&self) -> Result<(), SettingError> {
        if self.device == Device::Zram && self.block_size < PAGE {
            let problem = "device = zram needs block_size of at least 4096: it has no smaller \
                           blocks";
            return Err(refusal("block_size", problem));
        }
        if self.device == Device::Zram && self.engine == Engine::Dd {
            let problem = "engine = dd reads a device once from its begin to its end; a zram \
                           device is too short for that";
            return Err(refusal("engine", problem));
        }
        Ok(())
    }
}

fn device(value: &str) -> Result<Device, String> {
    match value {
        "loop" => Ok(Device::Loop),
        "zram" => Ok(Device::Zram),
        _ => {
            let paths: Vec<PathBuf> = value.split_whitespace().map(PathBuf::from).collect();
            // fio takes a colon for a separator of names.
            let usable = |path: &PathBuf| path.is_absolute() && !value.contains(':');
            if paths.is_empty() || !paths.iter().all(usable) {
                let wrong = "must be loop, zram or the paths of block devices to read, such as \
                             \"/dev/nvme0n1 /dev/nvme1n1\"";
                return Err(wrong.to_owned());
            }
            Ok(Device::Named(paths))
        }
    }
}

fn block_size(value: &str) -> Result<u32, String> {
    let size = number(value, &(512..=MOST_BLOCK))?;
    size.is_power_of_two().then_some(size).ok_or_else(|| "must be a power of two".to_owned())
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
            ("device", "zram"),
            ("devices", "3"),
            ("engine", "io_uring"),
            ("block_size", "8192"),
            ("size", "32MiB"),
            ("environment", "A=1"),
        ];
        let expected = Settings {
            device: Device::Zram,
            devices: 3,
            engine: Engine::IoUring,
            block_size: 8192,
            size: 32,
            environment: Variables::parse("A=1").unwrap(),
        };
        assert_eq!(parse(&texts).unwrap(), expected);
        let named = parse(&[("device", "/dev/a /dev/b")]).unwrap();
        assert_eq!(named.device, Device::Named(vec!["/dev/a".into(), "/dev/b".into()]));
        assert_eq!(named.devices, 2);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused: &[(&[(&str, &str)], &str)] = &[
            (&[("device", "sda")], "device must be loop, zram or the paths"),
            (&[("device", "")], "device must be"),
            (&[("device", "/dev/a:/dev/b")], "device must be"),
            (&[("device", "/dev/a"), ("devices", "2")], "cannot be set where device names them"),
            (&[("devices", "0")], "devices must be 1 to 64"),
            (&[("engine", "libaio")], "engine must be psync, io_uring or dd"),
            (&[("block_size", "513")], "power of two"),
            (&[("block_size", "256")], "block_size must be 512 to"),
            (&[("device", "zram")], "at least 4096"),
            (&[("device", "zram"), ("block_size", "4096"), ("engine", "dd")], "too short"),
            (&[("size", "64")], "size must be 16MiB to 1048576MiB, such as 64MiB"),
            (&[("sized", "64")], "no setting"),
        ];
        for (texts, problem) in refused {
            let error = parse(texts).unwrap_err().to_string();
            assert!(error.contains(problem), "{texts:?}: {error}");
        }
    }
}
