//! A program in C that waits for words: at each line that it reads it works, and says `done`.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The program `name` from this text, compiled in a folder; none, after saying why, where that
/// cannot be.
pub(crate) fn compiled(
    test: &str,
    folder: &Path,
    (name, text): (&str, &str),
    options: &[&str],
) -> Option<PathBuf> {
    let (source, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-pthread"]).args(options).arg("-o").arg(&program).arg(&source);
    match compiler.output() {
        Ok(done) if done.status.success() => Some(program),
        Ok(done) => panic!("cc: {}", String::from_utf8_lossy(&done.stderr)),
        Err(error) => {
            println!("SKIP {test}: cc: {error}");
            None
        }
    }
}

/// The program, waiting for words.
pub(crate) struct Shop {
    pub(crate) child: Child,
    words: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Shop {
    pub(crate) fn open(program: &Path) -> Self {
        let mut command = Command::new(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let words = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut shop = Self { child, words, said };
        shop.hears("ready");
        shop
    }

    fn hears(&mut self, word: &str) {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), word);
    }

    pub(crate) fn serves(&mut self, word: &str) {
        writeln!(self.words, "{word}").unwrap();
        self.hears("done");
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
