//! Puts the machine back as it was, also when the bench is killed.

use anyhow::{Context as _, Result};
use std::cell::RefCell;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Collects lines of shell; when its input ends it runs them, the last one first.
const SCRIPT: &str = r#"all=:; while read -r line; do all="$line; $all"; done; eval "$all""#;

/// A shell of its own process group that outlives the bench and undoes what it did.
pub(crate) struct Undo {
    shell: Child,
    input: RefCell<Option<ChildStdin>>,
    folder: PathBuf,
}

impl Undo {
    /// With a folder of its own, which goes too.
    pub(crate) fn new() -> Result<Self> {
        let folder =
            std::env::temp_dir().join(format!("kneepoint-bench-probe-{}", std::process::id()));
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let input = RefCell::new(shell.stdin.take());
        let undo = Self { shell, input, folder };
        undo.add(&format!("rm -rf '{}'", undo.folder.display()))?;
        std::fs::create_dir(&undo.folder)?;
        Ok(undo)
    }

    /// Scratch space.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs this line at the end.
    pub(crate) fn add(&self, line: &str) -> Result<()> {
        let mut input = self.input.borrow_mut();
        let input = input.as_mut().context("the shell has no input")?;
        writeln!(input, "{line}").context("the shell that undoes has ended")
    }

    /// Ends this process at the end, where the bench has not waited for it by then.
    pub(crate) fn add_process(&self, child: &Child, name: &str) -> Result<()> {
        let pid = child.id();
        // A number may have passed to another process meanwhile: the name has to fit as well.
        self.add(&format!(
            "[ \"$(cat /proc/{pid}/comm 2>/dev/null)\" = '{name}' ] && kill -9 {pid} && \
             while [ -e /proc/{pid}/exe ]; do sleep 0.05; done"
        ))
    }
}

impl Drop for Undo {
    /// Undoes all, and waits for it.
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_last_is_undone_first_and_the_folder_goes() {
        let undo = Undo::new().unwrap();
        let folder = undo.folder().to_owned();
        let out = tempfile::NamedTempFile::new().unwrap();
        let path = out.path().display();
        undo.add(&format!("ls {} >> {path}", folder.display())).unwrap();
        undo.add(&format!("touch {}/seen", folder.display())).unwrap();
        let mut sleeper = Command::new("sleep").arg("100").spawn().unwrap();
        undo.add_process(&sleeper, "sleep").unwrap();
        let waiter = std::thread::spawn(move || sleeper.wait().unwrap());
        drop(undo);
        assert!(!waiter.join().unwrap().success(), "it was ended");
        assert_eq!(std::fs::read_to_string(out.path()).unwrap(), "seen\n");
        assert!(!folder.exists());
    }
}
