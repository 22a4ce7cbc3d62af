//! What a program of somebody else's prints, if it does so soon.

use kneepoint_machine::{ExitStatus, Start, Stream};
use std::io::{self, Read as _};
use std::time::{Duration, Instant};

/// How long it may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);
/// How often is looked whether it has ended.
const GLANCE: Duration = Duration::from_millis(2);
/// The most of its output that is read.
const MOST: u64 = 1 << 20;

/// How it ended, and what it printed until then; none where it took too long and was ended.
///
/// # Errors
/// It cannot be started.
pub(super) fn ask(start: Start) -> io::Result<Option<(ExitStatus, String)>> {
    let start = start.input(Stream::Nothing).output(Stream::Pipe).messages(Stream::Nothing);
    // A group of its own: what it starts ends with it where it hangs.
    let mut child = start.in_own_group().begin()?;
    let output = child.take_output().ok_or_else(|| io::Error::other("its output is lost"))?;
    let reader = std::thread::Builder::new().spawn(move || {
        let mut text = String::new();
        output.take(MOST).read_to_string(&mut text).map(|_| text)
    })?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.ended()? {
            break status;
        }
        if began.elapsed() > TIMEOUT {
            let _ = child.kill_group();
            let _ = child.wait();
            return Ok(None);
        }
        std::thread::sleep(GLANCE);
    };
    let text = reader.join().ok().and_then(Result::ok).unwrap_or_default();
    Ok(Some((status, text)))
}
