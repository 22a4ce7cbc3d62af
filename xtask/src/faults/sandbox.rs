//! A world of its own for each point: processes, mounts, shared memory, sockets and control groups
//! of nobody else, so that all that is in it afterwards is of the point, and goes with it.

use super::found::Found;
use super::points::Point;
use super::strike;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The flag by which this program is started within one.
pub(super) const INSIDE: &str = "--inside";
/// Room for servers' files, and for what fills every room there is.
const ROOM: &str = "700m";
/// Longest that a point may take: more than a run that hangs is given.
const LONGEST: Duration = Duration::from_secs(180);

/// What the outer program and the one inside agree upon.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) program: PathBuf,
    /// An empty folder, on which a file system is mounted that only the sandbox sees.
    pub(super) home: PathBuf,
    pub(super) seed: u64,
    /// Whether to print what Kneepoint said.
    pub(super) tells: bool,
}

/// Takes one point in a sandbox, which ends with this program, however that ends.
pub(super) fn point(place: &Place, number: u32) -> Result<Found> {
    let own = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--ipc", "--net", "--fork"]);
    command.args(["--propagation", "private", "--kill-child=KILL"]);
    // The full collector tells processes by the ids that the kernel knows them by.
    if !Point::drawn(place.seed, number).shares_processes() {
        command.args(["--pid", "--mount-proc"]);
    }
    // What this program was started to ignore, Kneepoint would ignore too.
    command.args(["env", "--default-signal=INT,TERM,HUP"]);
    command.arg(own).args(["faults", INSIDE]).args([&place.home, &place.program]);
    command.args([place.seed.to_string(), number.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("setpriv")?;
    let outputs = (child.stdout.take(), child.stderr.take());
    let (ended, printed, said) = std::thread::scope(|scope| {
        let printed = scope.spawn(|| text(outputs.0));
        let said = scope.spawn(|| text(outputs.1));
        let ended = end_of(&mut child);
        (ended, printed.join().unwrap_or_default(), said.join().unwrap_or_default())
    });
    if place.tells {
        println!("{}", said.trim());
    }
    if let Some(true) = ended?.map(|status| status.success()) {
        return serde_json::from_str(&printed).with_context(|| format!("point {number}: {said}"));
    }
    // Where much else is done, a sandbox may fail; where nothing is, that is a finding.
    let problem = format!("its sandbox failed, or took longer than {LONGEST:?}: {}", said.trim());
    Ok(Found { slow: vec![problem], ..Found::default() })
}

fn text(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read until an error is all that there is.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How it ended; none where it had to be ended.
fn end_of(child: &mut Child) -> Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > LONGEST {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Why there can be no sandbox here, if so.
pub(super) fn lacking() -> Option<String> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--ipc", "--net", "--pid", "--fork", "--mount-proc"]);
    match unshare.arg("mount").args(["-t", "tmpfs", "none", "/mnt"]).output() {
        Err(error) => Some(format!("unshare: {error}")),
        Ok(output) if !output.status.success() => {
            Some(format!("unshare: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
        Ok(_) => ["strace", "prlimit", "setpriv"].iter().find_map(|name| {
            let there = Command::new(name).arg("--version").output().is_ok();
            (!there).then(|| format!("{name} is not installed"))
        }),
    }
}

/// Within the sandbox: makes the place, takes the point, and prints what was found.
pub(super) fn inside(words: &[&str]) -> Result<()> {
    let [home, program, seed, number] = words else { bail!("{INSIDE} takes four values") };
    let (seed, number) = (seed.parse()?, number.parse()?);
    let home = Path::new(home);
    for (folder, size) in [(home, "256m"), (Path::new("/dev/shm"), ROOM)] {
        let mut mount = Command::new("mount");
        let options = format!("mode=1777,size={size}");
        let mounted = mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(folder).status()?;
        ensure!(mounted.success(), "nothing can be mounted on {}", folder.display());
    }
    // Without one, whoever wants a loopback address gets none, and says so.
    let _ = Command::new("ip").args(["link", "set", "lo", "up"]).output();
    let group = own_group()?;
    let found = strike::point(Path::new(program), home, &group, &Point::drawn(seed, number));
    leave(&group);
    println!("{}", serde_json::to_string(&found?)?);
    Ok(())
}

/// A control group of this process alone; its folder does not exist where none can be made.
fn own_group() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("/proc is not mounted")?;
    let cgroup2 = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let point = cgroup2.and_then(|line| line.split(' ').nth(4)).unwrap_or("/nowhere");
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let below = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let namespace = fs::metadata("/proc/self/ns/mnt").context("/proc/self/ns")?.ino();
    let group = Path::new(point).join(below).join(format!("faults-{namespace}"));
    if fs::create_dir(&group).is_ok() {
        fs::write(group.join("cgroup.procs"), "0").context("entering a control group")?;
    }
    Ok(group)
}

/// Ends and removes the control group, with all in it but this process.
fn leave(group: &Path) {
    let parent = group.parent().unwrap_or(Path::new("/nowhere")).join("cgroup.procs");
    if fs::write(parent, "0").is_ok() {
        let _ = fs::write(group.join("cgroup.kill"), "1");
        for _ in 0..500 {
            if remove(group).is_ok() || !group.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

fn remove(group: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(group)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}
