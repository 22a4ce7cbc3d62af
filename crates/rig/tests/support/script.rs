//! Executable files that a test makes and runs.

use std::path::Path;
use std::process::Command;

/// Writes a shell script and makes it executable. Another program does: while this one had the
/// file open, a neighbouring test could start a child, which would hold it open for writing until
/// it becomes another program, and the kernel runs no file that is open for writing (ETXTBSY).
pub(crate) fn script(path: &Path, lines: &str) {
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod 755 "$2""#;
    let status = Command::new("sh").args(["-c", write, "sh", lines]).arg(path).status();
    assert!(status.expect("sh runs").success(), "{}", path.display());
}
