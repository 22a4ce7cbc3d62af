//! Tests against the real kernel: stacks of threads that leave a core.

use super::names::Names;
use super::perf::{Event, EventOptions, Source};
use super::process::{Images, Process};
use super::reader::Reader;
use kneepoint_vocab::{StackId, StackRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Every stack at which a thread of `tids` leaves a core while `meanwhile` runs, and how often;
/// `None`, after saying why, where the kernel does not allow that.
fn switches(
    test: &str,
    pid: u32,
    tids: &[u32],
    meanwhile: impl FnOnce(),
) -> Option<Vec<(StackRecord, u64)>> {
    let source = Source::ContextSwitch;
    let options = EventOptions { source, stack_bytes: 65_528, kernel: true, inherit: false };
    let mut events = Vec::new();
    let mut reader = Reader::default();
    let cpus = std::thread::available_parallelism().unwrap().get();
    for (tid, cpu) in tids.iter().flat_map(|tid| (0..cpus).map(move |cpu| (*tid, cpu))) {
        let event = Event::open(&options, Some(tid), u32::try_from(cpu).unwrap());
        let opened = event.and_then(|event| Ok((event.ring(256)?, event)));
        match opened {
            Ok((ring, event)) => {
                reader.rings.push(ring);
                events.push(event);
            }
            Err(error) => {
                println!("SKIP {test}: perf events: {error}");
                return None;
            }
        }
    }
    reader.begin(&[pid]);
    events.iter().for_each(|event| event.enable().unwrap());
    meanwhile();
    events.iter().for_each(|event| event.disable().unwrap());
    let window = reader.end();
    let mut names = Names::default();
    let mut stacks: BTreeMap<StackId, (StackRecord, u64)> = BTreeMap::new();
    for (id, count) in &window.on_cpu {
        let (found, new) =
            names.resolve(*id, reader.stacks.get(*id)?, &reader.images, &reader.maps);
        stacks.extend(new.map(|record| (found, (record, 0))));
        stacks.get_mut(&found)?.1 += count;
    }
    println!("{test}: {} stacks, {} cut, {} lost", window.taken, window.truncated, window.lost);
    Some(stacks.into_values().collect())
}

fn functions(record: &StackRecord) -> Vec<&str> {
    record.frames.iter().map(|frame| frame.function.as_str()).collect()
}

#[repr(C)]
struct Lock(std::cell::UnsafeCell<libc::pthread_mutex_t>);
// SAFETY: a pthread mutex is made to be used from several threads.
unsafe impl Sync for Lock {}
static LOCK: Lock = Lock(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));

#[inline(never)]
fn waits_for_the_lock() {
    // SAFETY: LOCK is an initialised mutex for the whole of the program.
    let results = unsafe {
        [libc::pthread_mutex_lock(LOCK.0.get()), libc::pthread_mutex_unlock(LOCK.0.get())]
    };
    assert_eq!(results, [0, 0]);
}

#[test]
fn a_thread_that_blocks_in_libc_is_seen_up_to_its_entry() {
    let (tid_out, tid_in) = mpsc::channel();
    let (go_out, go_in) = mpsc::channel::<()>();
    // SAFETY: as above; this thread unlocks below.
    assert_eq!(unsafe { libc::pthread_mutex_lock(LOCK.0.get()) }, 0);
    let thread = std::thread::spawn(move || {
        tid_out.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
        if go_in.recv().is_ok() {
            waits_for_the_lock();
        }
    });
    let tid = tid_in.recv().unwrap();
    let name = "a_thread_that_blocks_in_libc";
    let stacks = switches(name, std::process::id(), &[tid], || {
        go_out.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    });
    // SAFETY: locked above by this thread. The thread may already be gone if nothing was opened.
    assert_eq!(unsafe { libc::pthread_mutex_unlock(LOCK.0.get()) }, 0);
    drop(go_out);
    let _ = thread.join();
    let Some(stacks) = stacks else { return };
    let ours = stacks.iter().map(|(stack, _)| stack).find(|stack| {
        functions(stack).iter().any(|function| function.ends_with("waits_for_the_lock"))
    });
    let ours = ours.unwrap_or_else(|| panic!("no such stack in {stacks:#?}"));
    let names = functions(ours);
    println!("{}", names.join(" < "));
    assert!(!ours.truncated, "{names:?}");
    let kernel = ours.frames.iter().position(|frame| frame.module != "[kernel]").unwrap();
    assert!(kernel > 0 && names[..kernel].iter().any(|name| name.contains("futex")), "{names:?}");
    assert!(!names[0].starts_with("perf_") && !names[0].starts_with("__traceiter"), "{names:?}");
    let libc = &ours.frames[kernel..].iter().position(|frame| frame.module.starts_with("libc"));
    assert!(libc.is_some(), "{names:?}");
}

extern "C" fn handles_the_signal(_: i32) {
    std::thread::sleep(Duration::from_millis(20));
}

#[inline(never)]
fn is_interrupted() {
    // SAFETY: the handler is installed before; it only sleeps.
    assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
}

#[test]
fn a_signal_handler_is_seen_with_what_it_interrupted() {
    let test = "a_signal_handler_is_seen";
    // SAFETY: replaces the default action of a signal that nothing else here uses.
    let old =
        unsafe { libc::signal(libc::SIGUSR1, handles_the_signal as extern "C" fn(i32) as usize) };
    assert_ne!(old, libc::SIG_ERR);
    let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let Some(stacks) = switches(test, std::process::id(), &[tid], is_interrupted) else { return };
    let inside = |(stack, _): &&(StackRecord, u64)| {
        functions(stack).iter().any(|function| function.ends_with("handles_the_signal"))
    };
    let (stack, _) = stacks.iter().find(inside).unwrap_or_else(|| panic!("{stacks:#?}"));
    println!("{test}: {}", functions(stack).join(" < "));
    assert!(!stack.truncated);
    assert!(functions(stack).iter().any(|function| function.ends_with("is_interrupted")));
}

#[test]
fn a_deleted_program_is_still_read() {
    let test = "a_deleted_program_is_still_read";
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("sleeper");
    // Not by this process: a child that a neighbouring test starts meanwhile would hold the copy
    // open for writing, and what is, cannot be run.
    let copied = Command::new("cp").arg("/bin/sleep").arg(&copy).status();
    if !copied.is_ok_and(|status| status.success()) {
        println!("SKIP {test}: no /bin/sleep");
        return;
    }
    let child = Killed(Command::new(&copy).arg("60").spawn().unwrap());
    fs::remove_file(&copy).unwrap();
    let mut images = Images::default();
    let mut process = Process::new(child.0.id(), &mut images);
    // The program replaces its parent's image shortly after it was started.
    while images.get(0).is_none_or(|image| image.name != "sleeper") {
        std::thread::sleep(Duration::from_millis(1));
        images = Images::default();
        process = Process::new(child.0.id(), &mut images);
    }
    assert_eq!(process.unreadable, Vec::<String>::new());
    assert!(images.get(0).is_some_and(|image| image.frames.is_some()));
}

/// Threads that wait in ways of their own, over and over. None by `select.select`: its frame of
/// 48 KiB is mostly never touched, and the kernel's copy of a stack ends at an absent page.
const SLEEPERS: &str = "
import threading, time, select, os, socket, queue
r, w = os.pipe()
a, b = socket.socketpair()
a.settimeout(0.05)
def poller():
    p = select.poll(); p.register(r)
    while True: p.poll(50)
def sleeper():
    while True: time.sleep(0.05)
def receiver():
    while True:
        try: a.recv(1)
        except TimeoutError: pass
def getter():
    q = queue.Queue()
    while True:
        try: q.get(timeout=0.05)
        except queue.Empty: pass
for f in (poller, sleeper, receiver, getter):
    threading.Thread(target=f, daemon=True).start()
print('up', flush=True)
time.sleep(60)
";

struct Killed(Child);
impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names as gdb prints them for every frame of every thread.
fn gdb_names(pid: u32) -> Option<BTreeSet<String>> {
    let commands = ["-p", &pid.to_string(), "-batch", "-nx", "-ex", "thread apply all bt"];
    let output = Command::new("gdb").args(commands).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let frames = text.lines().filter(|line| line.starts_with('#'));
    let name = |line: &str| {
        let rest = line.split_once(' ')?.1.trim_start();
        let rest = if rest.starts_with("0x") { rest.split_once(" in ")?.1 } else { rest };
        Some(alias_free(rest.split(" (").next()?))
    };
    Some(frames.filter_map(name).collect())
}

/// glibc has several names for one function: `poll`, `__poll`, `__GI___poll`.
fn alias_free(name: &str) -> String {
    let bare = name.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
    let bare = bare.trim_start_matches("libc_").trim_start_matches("new_");
    bare.strip_suffix("64").unwrap_or(bare).to_owned()
}

#[test]
fn gdb_knows_every_name_that_is_given_to_a_stripped_program() {
    let test = "gdb_knows_every_name";
    let python =
        Command::new("/usr/bin/python3").args(["-c", SLEEPERS]).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = python else {
        println!("SKIP {test}: no /usr/bin/python3");
        return;
    };
    let output = python.stdout.take().unwrap();
    let python = Killed(python);
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    let pid = python.0.id();
    let tids = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let tids: Vec<u32> =
        tids.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    let wait = || std::thread::sleep(Duration::from_millis(600));
    let Some(stacks) = switches(test, pid, &tids, wait) else { return };
    let Some(known) = gdb_names(pid).filter(|names| !names.is_empty()) else {
        println!("SKIP {test}: gdb does not run");
        return;
    };
    // A stack seen but a few times is a wait in passing, which gdb's one look may miss.
    let usual: Vec<_> = stacks.iter().filter(|(_, count)| *count >= 5).map(|(s, _)| s).collect();
    assert!(usual.len() >= 3, "{stacks:#?}");
    let cut = stacks.iter().map(|(stack, _)| stack).find(|stack| stack.truncated);
    assert!(cut.is_none(), "cut: {}", functions(cut.unwrap()).join(" < "));
    let (mut named, mut numbered) = (BTreeSet::new(), BTreeSet::new());
    for frame in usual.iter().flat_map(|stack| &stack.frames).filter(|f| f.module != "[kernel]") {
        let number = format!("{}+0x", frame.module);
        let names = if frame.function.starts_with(&number) { &mut numbered } else { &mut named };
        names.insert(frame.function.clone());
    }
    println!("{test}: {} names, {} numbers: {named:?} {numbered:?}", named.len(), numbered.len());
    let other_processes: Vec<_> =
        named.iter().filter(|name| !known.contains(&alias_free(name))).collect();
    assert!(
        other_processes.is_empty(),
        "gdb does not know {other_processes:?}; it knows {known:?}"
    );
}
