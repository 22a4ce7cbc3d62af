//! What counts the operations of a system that runs already, if anything does.

use super::rate;
use anyhow::{Context as _, Result, anyhow};
use kneepoint_probe::calls::{Calls, Wanted};
use std::time::{Duration, Instant};

/// How long a command that has just begun may take to load what is to be counted.
const LOADING: Duration = Duration::from_secs(3);
/// How often is looked whether it has.
const GLANCE: Duration = Duration::from_millis(20);

/// What a caller takes for operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// A command line prints a count that only grows.
    Rate(String),
    /// Calls of a function, or passes of a probe.
    Calls(Wanted),
}

impl Counted {
    /// For the record.
    pub(super) fn reported(&self) -> String {
        match self {
            Self::Rate(line) => line.clone(),
            Self::Calls(wanted) => format!("calls of {wanted}"),
        }
    }
}

/// Counts in windows.
#[derive(Debug)]
pub(super) enum Counter {
    /// Nobody counts.
    Nothing,
    /// The command line, with what it printed when the window opened, and when it closed.
    Rate { line: String, opened: u64, closed: u64 },
    /// Probes in the kernel, with what they counted in the window.
    Calls { calls: Calls, counted: u64 },
}

impl Counter {
    /// What is asked for, of these processes. Where they have `just_begun`, they are given some
    /// time to load it.
    ///
    /// # Errors
    /// It counts nothing, or may not.
    pub(super) fn begin(asked: Option<&Counted>, roots: &[u32], just_begun: bool) -> Result<Self> {
        match asked {
            None => Ok(Self::Nothing),
            Some(Counted::Rate(line)) => {
                let opened = rate::read(line)?;
                Ok(Self::Rate { line: line.clone(), opened, closed: opened })
            }
            Some(Counted::Calls(wanted)) => {
                let until = Instant::now() + if just_begun { LOADING } else { Duration::ZERO };
                loop {
                    match Calls::attach(wanted, roots) {
                        Ok(calls) => return Ok(Self::Calls { calls, counted: 0 }),
                        Err(why) if why.may_pass() && Instant::now() < until => {
                            std::thread::sleep(GLANCE);
                        }
                        Err(why) => return Err(anyhow!(why).context("--operation")),
                    }
                }
            }
        }
    }

    /// A window opens.
    pub(super) fn open(&mut self) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Rate { line, opened, .. } => {
                *opened = rate::read(line)?;
                Ok(())
            }
            Self::Calls { calls, .. } => calls.open().context("--operation"),
        }
    }

    /// Looks at what has begun meanwhile.
    pub(super) fn look(&mut self) -> Result<()> {
        match self {
            Self::Calls { calls, .. } => calls.look().context("--operation"),
            Self::Nothing | Self::Rate { .. } => Ok(()),
        }
    }

    /// The window closes. What counts may be the subject itself, and end with it: then the count
    /// may be lost.
    pub(super) fn close(&mut self, subject_lives: bool) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Rate { line, closed, .. } => {
                *closed = match rate::read(line) {
                    Err(_) if !subject_lives => 0,
                    count => count?,
                };
                Ok(())
            }
            Self::Calls { calls, counted } => {
                *counted = calls.close().context("--operation")?;
                Ok(())
            }
        }
    }

    /// Operations of the window that has closed; none where nobody counts.
    pub(super) fn counted(&self) -> Result<Option<u64>> {
        match self {
            Self::Nothing => Ok(None),
            Self::Calls { counted, .. } => Ok(Some(*counted)),
            Self::Rate { opened, closed, .. } => {
                let added = closed.checked_sub(*opened).ok_or_else(|| {
                    anyhow!("--rate: the count fell from {opened} to {closed}: it has to grow only")
                })?;
                Ok(Some(added))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_s_count_is_a_difference_and_may_not_fall() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("count");
        let write = |count: u32| std::fs::write(&file, format!("{count}\n")).unwrap();
        write(10);
        let asked = Counted::Rate(format!("cat {}", file.display()));
        let mut counter = Counter::begin(Some(&asked), &[], false).unwrap();
        counter.open().unwrap();
        write(52);
        counter.close(true).unwrap();
        assert_eq!(counter.counted().unwrap(), Some(42));
        write(3);
        counter.close(true).unwrap();
        let fell = counter.counted().unwrap_err().to_string();
        assert!(fell.contains("the count fell from 10 to 3"), "{fell}");
        std::fs::remove_file(&file).unwrap();
        assert!(counter.close(true).is_err() && counter.close(false).is_ok());
        let mut nothing = Counter::begin(None, &[], false).unwrap();
        nothing.open().and_then(|()| nothing.close(true)).unwrap();
        assert_eq!(nothing.counted().unwrap(), None);
    }
}
