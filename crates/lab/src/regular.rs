//! Reading files that somebody else may have made: regular ones only, no link followed, nothing
//! waited for, and never more than a bound.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Largest file that is written whole: far more than any has.
pub(crate) const MOST_WHOLE: u64 = 16 << 20;
/// Largest file of lines.
pub(crate) const MOST_LINES: u64 = 2 << 30;

/// Opens a regular file of at most so many bytes for reading.
///
/// # Errors
/// It is a link, a pipe, a device or anything else than a regular file; it is larger; or it
/// cannot be opened.
pub fn open(path: &Path, most: u64) -> io::Result<File> {
    // A pipe that nobody writes to would be waited for.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(io::Error::other("is a link, and links are not followed"));
        }
        opened => opened?,
    };
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    if about.len() > most {
        return Err(too_large(most));
    }
    Ok(file)
}

/// The content of a regular file of at most so many bytes.
///
/// # Errors
/// As [`open`], or it cannot be read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, most)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large(most));
    }
    Ok(bytes)
}

fn too_large(most: u64) -> io::Error {
    io::Error::other(format!("is larger than {} MiB", most >> 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status();
        assert!(made.unwrap().success());
        assert_eq!(read(&path("file"), 4).unwrap(), b"text");
        for (name, word) in [("link", "link"), ("pipe", "regular")] {
            let error = read(&path(name), 4).unwrap_err().to_string();
            assert!(error.contains(word), "{name}: {error}");
        }
        for device in ["/dev/zero", "/dev/null", "/dev"] {
            let error = read(Path::new(device), 4).unwrap_err().to_string();
            assert!(error.contains("regular"), "{device}: {error}");
        }
        assert!(read(&path("file"), 3).unwrap_err().to_string().contains("larger"));
    }
}
