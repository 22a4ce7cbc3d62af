//! What a test may have left on the machine: a picture taken before, compared with the one after.
//!
//! Other programs come and go meanwhile, other tests too. So what is counted bears a mark: a piece
//! of text such as the test's own directory, found in a process's command line, working directory
//! or open files, in a mount, a loop device's file or a path. Other test crates include this file
//! by `#[path]`.

#![allow(dead_code, reason = "no test that includes it needs all of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long what is on its way out may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Everything on the machine that a run could leave, by name, each with all the text about it.
pub(crate) struct Machine(BTreeMap<String, String>);

impl Machine {
    /// As it is now.
    pub(crate) fn now() -> Self {
        let mut found = BTreeMap::new();
        processes(&mut found);
        mounts(&mut found);
        block_devices(&mut found);
        for parent in ["/dev/shm".into(), std::env::temp_dir()] {
            for path in entries(&parent) {
                found.insert(format!("path {}", path.display()), String::new());
            }
        }
        control_groups(Path::new("/sys/fs/cgroup"), 0, &mut found);
        Self(found)
    }

    /// What bears the mark now and did not exist before; and compressed-memory devices in use,
    /// which bear none.
    pub(crate) fn left(&self, mark: &str) -> Vec<String> {
        let now = Self::now().0.into_iter().filter(|(name, _)| !self.0.contains_key(name));
        let ours = now.filter(|(name, about)| {
            name.starts_with("zram ") || name.contains(mark) || about.contains(mark)
        });
        ours.map(|(name, about)| format!("{name} ({about})")).collect()
    }

    /// Fails the test where something is left that bears the mark, also after some timeout.
    pub(crate) fn assert_nothing_left(&self, mark: &str) {
        self.assert_nothing_left_within(mark, TIMEOUT);
    }

    /// The same with a timeout of one's own.
    pub(crate) fn assert_nothing_left_within(&self, mark: &str, timeout: Duration) {
        let begun = Instant::now();
        loop {
            let left = self.left(mark);
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < timeout, "left behind:\n{}", left.join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn processes(found: &mut BTreeMap<String, String>) {
    for folder in entries(Path::new("/proc")) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (Ok(pid), Ok(stat)) = (name.parse::<u32>(), text(&folder.join("stat"))) else {
            continue;
        };
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        // A zombie that nobody reaps has ended; the test itself holds its own directory open.
        if fields.first() == Some(&"Z") || pid == std::process::id() {
            continue;
        }
        let mut about = vec![text(&folder.join("cmdline")).unwrap_or_default().replace('\0', " ")];
        let mut links = entries(&folder.join("fd"));
        links.push(folder.join("cwd"));
        let targets = links.iter().filter_map(|link| fs::read_link(link).ok());
        about.extend(targets.map(|path| path.display().to_string()).filter(|t| t.contains('/')));
        let started = fields.get(19).copied().unwrap_or_default();
        found.insert(format!("process {pid} of {started}"), about.join(" "));
    }
}

fn mounts(found: &mut BTreeMap<String, String>) {
    for line in text(Path::new("/proc/self/mountinfo")).unwrap_or_default().lines() {
        let id = line.split(' ').next().unwrap_or_default();
        found.insert(format!("mount {id}"), line.to_owned());
    }
}

fn block_devices(found: &mut BTreeMap<String, String>) {
    for folder in entries(Path::new("/sys/block")) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Ok(file) = text(&folder.join("loop/backing_file")) {
            found.insert(format!("loop {name} {}", file.trim()), String::new());
        }
        if name.starts_with("zram") && text(&folder.join("disksize")).is_ok_and(|s| s != "0\n") {
            found.insert(format!("zram {name}"), String::new());
        }
    }
}

fn control_groups(folder: &Path, depth: u32, found: &mut BTreeMap<String, String>) {
    for path in entries(folder).into_iter().filter(|path| path.is_dir() && !path.is_symlink()) {
        if depth < 8 {
            control_groups(&path, depth + 1, found);
        }
        found.insert(format!("control group {}", path.display()), String::new());
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn text(file: &Path) -> std::io::Result<String> {
    fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
