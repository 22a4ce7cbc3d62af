//! One point: runs Kneepoint, does to it what the point says, and asks what is left and what was
//! said.

use super::damage;
use super::found::Found;
use super::machine::{self, Act, Scene, Whom};
use super::points::{Kind, Point};
use anyhow::{Context, Result, ensure};
use kneepoint_vocab::{Disposition, Phase, TrialRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::Peekable;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long what is on its way out may take before it counts as left behind.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long a run may take to end once it was asked to: three seconds, and what a machine under
/// faults adds to that.
const STOPPING: Duration = Duration::from_secs(5);
/// How long a run may take.
const HANGING: Duration = Duration::from_secs(40);
/// How much more than that a machine may need that has more to do than it has cores for.
const MOST_PATIENCE: f64 = 2.5;
/// How often is looked whether it is time for the next act,
const GLANCE: Duration = Duration::from_millis(2);
/// and whether those are there whom it awaits.
const LOOK: Duration = Duration::from_millis(10);
/// How long what was put right may take to be gone.
const GONE: Duration = Duration::from_secs(2);
/// How long the kernel may take to let go of eBPF objects that nobody holds.
const LET_GO: Duration = Duration::from_secs(15);
/// How long reports of a damaged directory may take.
const READING: Duration = Duration::from_secs(20);
/// Signals of programs that fail: ILL, ABRT, BUS, FPE, SEGV.
const CRASHES: [i32; 5] = [4, 6, 7, 8, 11];
/// How far a throughput may be off what the command has claimed, by the digits it is kept in.
const CLAIMED: f64 = 0.02;

/// Takes a point.
pub(super) fn point(program: &Path, home: &Path, group: &Path, point: &Point) -> Result<Found> {
    let mark = format!("{}-{:x}", home.display(), point.seed);
    let scene = Scene { home, group, mark, shared: point.shares_processes() };
    let place = home.join("place");
    for folder in [&home.join("tmp"), &place, &place.join("runs")] {
        fs::create_dir(folder)?;
    }
    let mut stage = Stage { program, scene, place: &place, point, found: Found::default() };
    match point.kind {
        Kind::Damaged => stage.damaged()?,
        _ => stage.struck()?,
    }
    Ok(stage.found)
}

struct Stage<'a> {
    program: &'a Path,
    scene: Scene<'a>,
    place: &'a Path,
    point: &'a Point,
    found: Found,
}

impl Stage<'_> {
    fn struck(&mut self) -> Result<()> {
        if let Some(room) = self.point.room() {
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", &room, "none"]).arg(self.place.join("runs"));
            ensure!(mount.status()?.success(), "a small file system cannot be mounted");
        }
        let before = self.scene.now();
        fs::write(self.place.join("recipe.toml"), self.point.recipe())?;
        self.disguise()?;
        let held = self.under_fault()?;
        if self.point.kind == Kind::Journal {
            damage::journals(Path::new("/dev/shm"), self.point.seed)?;
        }
        // What has taken all the room was not Kneepoint's, and its page needs some.
        let _ = fs::remove_file(self.place.join("filled"));
        let timeout = match self.point.leaves_nobody() {
            true => Duration::from_millis(100),
            false => TIMEOUT.mul_f64(patience()),
        };
        self.found.before = self.scene.left_within(&before, timeout);
        self.kneepoint(&["recover"])?.judge("recover: ", &[0], &mut self.found);
        self.found.after = self.scene.left_within(&before, GONE.mul_f64(patience()));
        self.found.after.extend(machine::objects_left(&held, LET_GO));
        if self.place.join("runs/run/host.json").exists() {
            self.opened()?;
        }
        if self.point.kind == Kind::Resumed && self.place.join("runs/run/host.json").exists() {
            self.resumed()?;
        }
        Ok(())
    }

    fn kneepoint(&self, arguments: &[&str]) -> Result<Reported> {
        let mut command = Command::new(self.program);
        self.surroundings(command.args(arguments));
        let output = command.stdin(Stdio::null()).output().context("starting Kneepoint")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Reported {
            status: output.status,
            said: text(&output.stderr),
            printed: text(&output.stdout),
        })
    }

    fn surroundings(&self, command: &mut Command) {
        let home = self.scene.home;
        command.current_dir(self.place).env("TMPDIR", home.join("tmp"));
        command.env(machine::MARK, &self.scene.mark);
        if !self.point.disguises().is_empty() {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", self.place.join("bin").display()));
        }
    }

    /// Puts programs before those of their names.
    fn disguise(&self) -> Result<()> {
        let folder = self.place.join("bin");
        for (name, script) in self.point.disguises() {
            fs::create_dir_all(&folder)?;
            let file = folder.join(name);
            fs::write(&file, format!("#!/bin/sh\n{script}"))?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    /// Runs Kneepoint, and does to it what the point says. Returns the eBPF objects that it held.
    fn under_fault(&mut self) -> Result<BTreeSet<String>> {
        let mut words = self.point.starter(self.program);
        words.extend(self.point.arguments().into_iter().map(Into::into));
        let mut command = Command::new(&words[0]);
        self.surroundings(command.args(&words[1..]));
        let errors = fs::File::create(self.scene.home.join("stderr"))?;
        let out = fs::File::create(self.scene.home.join("stdout"))?;
        let mut child = command.stdin(Stdio::null()).stdout(out).stderr(errors).spawn()?;
        let begun = Instant::now();
        let mut course = Course {
            acts: self.point.acts().into_iter().peekable(),
            since: begun,
            asked: None,
            held: BTreeSet::new(),
        };
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let pause = self.act(&mut course, &child);
            let slow = course.asked.is_some_and(|since| over(since, STOPPING));
            if slow || over(begun, HANGING) {
                let what = if slow { "does not end within 5 s of being asked to" } else { "hangs" };
                self.found.slow.push(format!("it {what}"));
                machine::send("KILL", &self.scene.targets(Whom::All, child.id()));
                break child.wait()?;
            }
            std::thread::sleep(pause);
        };
        let read = |name: &str| lossy(&self.scene.home.join(name));
        let reported = Reported { status, said: read("stderr"), printed: read("stdout") };
        let codes: &[i32] = match self.point.kind {
            // What prlimit(1) and strace(1) say where Kneepoint was killed or not even loaded.
            Kind::Starved | Kind::KilledAtCall | Kind::CallFails => &[0, 1, 2, 4, 127, 134, 137],
            _ => &[0, 1, 4],
        };
        reported.judge("", codes, &mut self.found);
        // For whoever takes this point alone.
        eprintln!("{}: {}", reported.status, reported.said.trim());
        // Where there is hardly any memory, not even the loader can say so.
        let begun = !reported.said.is_empty() || self.place.join("runs/run").exists();
        // The C library ends a process so, with a line.
        let begun = begun && !reported.said.contains("Fatal glibc error: ");
        let crashed = reported.status.signal().filter(|signal| CRASHES.contains(signal));
        if let Some(signal) = crashed.filter(|_| begun || !self.point.strikes_the_loader()) {
            self.found.panics.push(format!("it crashed by signal {signal}"));
        }
        Ok(course.held)
    }

    /// Does what it is time for; returns how long nothing will be.
    fn act(&self, course: &mut Course, child: &Child) -> Duration {
        let awaited = course.acts.peek().and_then(|act| act.awaits);
        if awaited.is_some_and(|whom| self.scene.targets(whom, child.id()).is_empty()) {
            course.since = Instant::now();
        }
        let since = course.since;
        if let Some(act) = course.acts.next_if(|act| since.elapsed() >= act.after) {
            let targets = self.scene.targets(act.whom, child.id());
            if self.point.kind == Kind::Collecting {
                course.held = machine::objects_of(&targets);
            }
            machine::send(act.signal, &targets);
            course.asked = course.asked.or(act.is_request().then(Instant::now));
            if act.awaits.is_some() {
                course.since = Instant::now();
            }
        }
        if awaited.is_some() { LOOK } else { GLANCE }
    }

    /// Opens the run directory, whatever it holds by now.
    fn opened(&mut self) -> Result<()> {
        let report = self.kneepoint(&["report", "runs/run"])?;
        // A page that finds no room is an error.
        let codes: &[i32] = if self.point.kind == Kind::DiskFull { &[0, 1, 4] } else { &[0, 4] };
        report.judge("report: ", codes, &mut self.found);
        let run = self.place.join("runs/run");
        let page = lossy(&run.join("report.html"));
        if let Some(text) = self.point.hostile() {
            let scripts = page.matches("<script").count();
            if scripts > 1 || page.contains("<img src=x") || page.contains('\u{1b}') {
                self.found.wrong.push(format!("{text:?} is more than text on the page"));
            }
        }
        let trials = trials(&run.join("trials.jsonl"), &mut self.found.torn);
        let invented: Vec<_> = trials.iter().filter_map(|trial| self.invented(trial)).collect();
        self.found.invented.extend(invented);
        Ok(())
    }

    /// What is wrong with the number of a slice, if it counts.
    fn invented(&self, trial: &TrialRecord) -> Option<String> {
        // Neither warm-up nor census enters a figure.
        if !trial.counts() || !trial.id.phase.measures() {
            return None;
        }
        if self.point.counts() {
            let window = trial.window.length.0;
            let longest = self.point.longest_window();
            return (window > longest).then(|| format!("a window of {window} ns counts"));
        }
        let rate = trial.throughput().0;
        let off = |truth: f64| (rate / truth - 1.0).abs() > CLAIMED;
        self.point.truth().is_none_or(off).then(|| format!("an invented number: {rate} ops/s"))
    }

    /// Goes on with the run that was killed, and looks whether all of it is there.
    fn resumed(&mut self) -> Result<()> {
        let went_on = self.kneepoint(&["run", "--resume", "runs/run"])?;
        // It may have been killed after its end.
        let ended = went_on.said.contains("has ended");
        went_on.judge("going on: ", if ended { &[1] } else { &[0, 4] }, &mut self.found);
        let Found { wrong, torn, .. } = &mut self.found;
        let run = self.place.join("runs/run");
        if !run.join("end.json").exists() {
            wrong.push("it went on and has no end".to_owned());
        }
        let mut places: BTreeMap<(Phase, u32, u32), usize> = BTreeMap::new();
        for trial in trials(&run.join("trials.jsonl"), torn) {
            let place = (trial.id.phase, trial.id.block, trial.id.position);
            if place.0 != Phase::WarmUp {
                let stands = trial.disposition != Disposition::Disturbed;
                *places.entry(place).or_default() += usize::from(stands);
            }
        }
        // A budget that ends takes what was to be taken once more along.
        let short = lossy(&run.join("end.json")).contains("\"budget\"");
        let not_once = places.iter().filter(|(_, count)| **count > 1 || **count == 0 && !short);
        wrong.extend(not_once.map(|(place, count)| format!("{place:?} stands {count} times")));
        Ok(())
    }

    /// Opens a run directory in which something was cut, flipped or put in place of a file.
    fn damaged(&mut self) -> Result<()> {
        let run = self.place.join("run");
        let what = damage::directory(&run, self.point.seed)?;
        let begun = Instant::now();
        for arguments in [&["report", "run"][..], &["report", "run", "--json"]] {
            let report = self.kneepoint(arguments)?;
            report.judge(&format!("{what}: "), &[0, 1, 4], &mut self.found);
            if report.status.code() != Some(1) && report.printed.contains("NaN") {
                self.found.invented.push(format!("{what}: a number that is none"));
            }
        }
        if over(begun, READING) {
            self.found.slow.push(format!("{what}: it took {:?}", begun.elapsed()));
        }
        Ok(())
    }
}

/// How a Kneepoint ended and what it said.
struct Reported {
    status: ExitStatus,
    said: String,
    printed: String,
}

impl Reported {
    /// Notes what is wrong with that, behind what it was about. Killed from outside is not.
    fn judge(&self, about: &str, codes: &[i32], found: &mut Found) {
        let said = self.said.trim();
        if self.status.code().is_some_and(|code| !codes.contains(&code)) {
            // Who gets no core can neither answer nor die.
            let starved = ["not end, though killed", "gave no answer within"];
            let slow = starved.iter().any(|words| said.contains(*words));
            let list = if slow { &mut found.slow } else { &mut found.wrong };
            list.push(format!("{about}{}: {said}", self.status));
        }
        if said.contains("panicked") || said.contains("RUST_BACKTRACE") {
            found.panics.push(format!("{about}a panic: {said}"));
        }
        let steers = |c: char| c.is_control() || ['\u{202e}', '\u{61c}', '\u{e0041}'].contains(&c);
        if [said, &self.printed].iter().any(|text| text.lines().any(|line| line.contains(steers))) {
            found.wrong.push(format!("{about}control characters on the terminal: {said:?}"));
        }
    }
}

/// What is still to be done to a run, and what came of it so far.
struct Course {
    acts: Peekable<std::vec::IntoIter<Act>>,
    /// When the time of the next act began.
    since: Instant,
    /// When Kneepoint was asked to end.
    asked: Option<Instant>,
    /// The eBPF objects that it held when it was killed.
    held: BTreeSet<String>,
}

/// Whether something takes longer than it may since `begun`.
fn over(begun: Instant, most: Duration) -> bool {
    let passed = begun.elapsed();
    passed > most && passed > most.mul_f64(patience())
}

/// How many times as long as on an idle machine things may take.
fn patience() -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = lossy(Path::new("/proc/loadavg"));
    let load = text.split(' ').next().and_then(|load| load.parse::<f64>().ok()).unwrap_or(0.0);
    (load / f64::from(u32::try_from(cores).unwrap_or(1)) / 2.0).clamp(1.0, MOST_PATIENCE)
}

/// The whole lines of a file of trials; those that are none are reported.
fn trials(file: &Path, torn: &mut Vec<String>) -> Vec<TrialRecord> {
    let text = lossy(file);
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut trials = Vec::new();
    for line in whole.lines() {
        match serde_json::from_str(line) {
            Ok(trial) => trials.push(trial),
            Err(_) => {
                let begin: String = line.chars().take(80).collect();
                torn.push(format!("a torn slice: {begin}"));
            }
        }
    }
    trials
}

fn lossy(file: &Path) -> String {
    String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
}
