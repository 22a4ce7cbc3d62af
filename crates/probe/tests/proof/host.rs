//! The eBPF programs compiled for the host and loaded into the test: `bpf/host/host.c`.

use super::event::{CPUS, Event, How, Lock, Sequence, Task, What, renamed};
use super::wire::{Core, GroupId, GroupSum, Thread, WaitId, WaitRecord, WaitSum, counter};
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Most entries of one kind that a window may leave.
const MOST: u32 = 8192;

/// `struct event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    at: u64,
    what: u32,
    cpu: u32,
    seen: u32,
    a: u32,
    b: u32,
    c: u32,
    w: [u64; 4],
}

/// `struct taken`: a stack that was taken.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Taken {
    pub id: u64,
    pub p: u64,
    pub at: u64,
    pub tid: u32,
    pub kind: u32,
}

/// What the programs' maps held when a window closed.
pub(super) struct Kept {
    pub begin: u64,
    pub end: u64,
    pub threads: Vec<(u32, Thread)>,
    pub waits: Vec<(WaitId, WaitSum)>,
    pub exited: Vec<(GroupId, GroupSum)>,
    pub cores: Vec<Core>,
    /// Since the sequence began.
    pub counters: [u64; counter::COUNT as usize],
    pub marks: Vec<Taken>,
    pub records: Vec<WaitRecord>,
}

/// Functions of the compiled library.
struct Functions {
    begin: unsafe extern "C" fn(*const Task, u32, u64),
    run: unsafe extern "C" fn(*const Raw, u64),
    lock: unsafe extern "C" fn(u32, u32) -> u64,
    threads: unsafe extern "C" fn(*mut Thread, u32) -> u32,
    waits: unsafe extern "C" fn(*mut WaitId, *mut WaitSum, u32) -> u32,
    exited: unsafe extern "C" fn(*mut GroupId, *mut GroupSum, u32) -> u32,
    core: unsafe extern "C" fn(u32, *mut Core),
    counter: unsafe extern "C" fn(u32) -> u64,
    marks: unsafe extern "C" fn(*mut Taken, u32) -> u32,
    records: unsafe extern "C" fn(*mut WaitRecord, u32) -> u32,
}

/// The programs, ready to be given events.
pub(super) struct Host {
    functions: Functions,
    library: *mut c_void,
    raw: Vec<Raw>,
    _folder: tempfile::TempDir,
}

/// Folder of the programs' sources.
pub(super) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf")
}

/// Whether there is a C compiler; prints why a test is skipped where there is none.
#[allow(clippy::print_stdout, reason = "a skipped test says so")]
pub(super) fn compiler_is_there(test: &str) -> bool {
    let there = Command::new("cc").arg("--version").output().is_ok_and(|out| out.status.success());
    if !there {
        println!("SKIP {test}: cc: no C compiler; install gcc or clang");
    }
    there
}

/// The place of a function in the library; a C function of that type.
///
/// # Safety
/// `F` is the type of the function that `host.c` defines under this name.
unsafe fn function<F: Copy>(library: *mut c_void, name: &str) -> F {
    let symbol = CString::new(name).unwrap();
    // SAFETY: the library is open and the name ends with a zero.
    let place = unsafe { libc::dlsym(library, symbol.as_ptr()) };
    assert!(!place.is_null() && size_of::<F>() == size_of::<*mut c_void>(), "host.c has no {name}");
    // SAFETY: the caller names the type of the function; it has the size of an address.
    unsafe { std::mem::transmute_copy(&place) }
}

impl Host {
    /// Compiles the programs whose sources lie in `folder`, at this level, and loads them.
    pub(super) fn of(folder: &Path, optimised: &str) -> Self {
        let out = tempfile::tempdir().unwrap();
        let object = out.path().join("account.so");
        let compiled = Command::new("cc")
            .args(["-std=gnu11", optimised, "-w", "-shared", "-fPIC", "-fno-strict-aliasing"])
            .args(["-Wl,-Bsymbolic", "-I"])
            .arg(sources().join("host"))
            .arg("-I")
            .arg(folder)
            .arg(sources().join("host/host.c"))
            .arg("-o")
            .arg(&object)
            .output()
            .unwrap();
        assert!(compiled.status.success(), "cc: {}", String::from_utf8_lossy(&compiled.stderr));
        let path = CString::new(object.to_str().unwrap()).unwrap();
        // SAFETY: the path ends with a zero; the library has no constructors.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "{} cannot be loaded", object.display());
        // SAFETY: the types are those of the functions in host.c.
        let functions = unsafe {
            Functions {
                begin: function(library, "host_begin"),
                run: function(library, "host_run"),
                lock: function(library, "host_lock"),
                threads: function(library, "host_threads"),
                waits: function(library, "host_waits"),
                exited: function(library, "host_exited"),
                core: function(library, "host_core"),
                counter: function(library, "host_counter"),
                marks: function(library, "host_marks"),
                records: function(library, "host_records"),
            }
        };
        Self { functions, library, raw: Vec::new(), _folder: out }
    }

    /// The address of a lock on the machine.
    pub(super) fn address(&self, lock: Lock) -> u64 {
        let (kind, number) = match lock {
            Lock::Memory(number) => (0, number),
            Lock::Inode(number) => (1, number),
            Lock::Position(number) => (2, number),
            Lock::Other(number) => (3, number),
        };
        // SAFETY: computes an address.
        unsafe { (self.functions.lock)(kind, u32::from(number)) }
    }

    /// What the programs made of a sequence, window by window.
    pub(super) fn run(&mut self, sequence: &Sequence) -> Vec<Kept> {
        let count = u32::try_from(sequence.tasks.len()).unwrap();
        assert!(count <= 256, "host.c has room for 256 tasks");
        // SAFETY: as many tasks as said, in the layout of `struct described`.
        unsafe { (self.functions.begin)(sequence.tasks.as_ptr(), count, sequence.seed) };
        let mut windows = Vec::new();
        let (mut begin, mut is_open) = (0, false);
        self.raw.clear();
        for event in &sequence.events {
            let raw = self.raw(event);
            self.raw.push(raw);
            match event.what {
                What::Open { .. } => (begin, is_open) = (event.at, true),
                What::Close if is_open => {
                    self.tell();
                    windows.push(self.kept(begin, event.at));
                    is_open = false;
                }
                _ => {}
            }
        }
        self.tell();
        windows
    }

    /// Gives the programs the events that have gathered.
    fn tell(&mut self) {
        // SAFETY: as many events as said, in the layout of `struct event`.
        unsafe { (self.functions.run)(self.raw.as_ptr(), self.raw.len() as u64) };
        self.raw.clear();
    }

    fn kept(&self, begin: u64, end: u64) -> Kept {
        let all = &self.functions;
        // SAFETY: each function writes at most as many entries as there is room for and returns
        // how many; the types mirror wire.h and have no invalid values.
        unsafe {
            let threads = several::<Thread>(|out, most| (all.threads)(out, most));
            let mut threads: Vec<_> = threads.into_iter().map(|it| (it.id(), it)).collect();
            threads.sort_unstable_by_key(|(tid, _)| *tid);
            let core = |number: usize| {
                let mut core = Core::default();
                (all.core)(number as u32, &raw mut core);
                core
            };
            Kept {
                begin,
                end,
                threads,
                waits: pairs(|keys, values, most| (all.waits)(keys, values, most)),
                exited: pairs(|keys, values, most| (all.exited)(keys, values, most)),
                cores: (0..CPUS).map(core).collect(),
                counters: std::array::from_fn(|which| (all.counter)(which as u32)),
                marks: several(|out, most| (all.marks)(out, most)),
                records: several(|out, most| (all.records)(out, most)),
            }
        }
    }

    fn raw(&self, event: &Event) -> Raw {
        let mut raw = Raw {
            at: event.at,
            cpu: u32::from(event.cpu),
            seen: u32::from(event.seen),
            ..Raw::default()
        };
        let mut put = |what, a: u32, b: u32| (raw.what, raw.a, raw.b) = (what, a, b);
        match event.what {
            What::Open { own, always_from } => {
                put(0, own, 0);
                raw.w[0] = always_from;
            }
            What::Edge => put(1, 0, 0),
            What::Close => put(2, 0, 0),
            What::Switch { prev, next, how } => {
                put(3, prev.into(), next.into());
                (raw.w[0], raw.c) = match how {
                    How::Preempted => (1, 0),
                    How::PreemptedLate => (1, 1),
                    How::Yielded => (0, 0),
                    How::Blocked => (0, 2),
                    How::Dead => (0, 0x80),
                };
            }
            What::Wakeup(task) => put(4, task.into(), 0),
            What::Waking(task) => put(5, task.into(), 0),
            What::New(task) => put(6, task.into(), 0),
            What::Fork { parent, child } => put(7, parent.into(), child.into()),
            What::Lock { lock, flags } => {
                put(8, 0, flags);
                raw.w[0] = self.address(lock);
            }
            What::Unlock(lock) => {
                put(9, 0, 0);
                raw.w[0] = self.address(lock);
            }
            What::Call { task, call } => {
                put(10, task.into(), call.nr.cast_unsigned());
                raw.w = call.args;
            }
            What::IoWait { task, on } => put(11, task.into(), on.into()),
            What::Rename { task, name } => {
                put(12, task.into(), 0);
                let name = renamed(name);
                let half = |at: usize| u64::from_ne_bytes(name[at..at + 8].try_into().unwrap());
                (raw.w[0], raw.w[1]) = (half(0), half(8));
            }
            What::Word { word, value } => put(13, word.into(), value),
            What::Live { process, count } => put(14, process.into(), count),
            What::Born(task) => put(15, task.into(), 0),
            What::Target { tgid, class } => put(16, tgid, class),
            What::Client { tid, is } => put(17, tid, is.into()),
            What::Tick => put(18, 0, 0),
        }
        raw
    }
}

/// What a function writes that fills one array.
///
/// # Safety
/// The function writes at most as many elements as it is reported, returns how many, and `T` may
/// have any bytes.
unsafe fn several<T>(fill: impl FnOnce(*mut T, u32) -> u32) -> Vec<T> {
    let mut all = Vec::with_capacity(MOST as usize);
    let count = fill(all.as_mut_ptr(), MOST);
    // SAFETY: so many elements were written.
    unsafe { all.set_len(count as usize) };
    all
}

/// What a function writes that fills an array of keys and one of values.
///
/// # Safety
/// As of [`several`].
unsafe fn pairs<K, V>(fill: impl FnOnce(*mut K, *mut V, u32) -> u32) -> Vec<(K, V)> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    keys.reserve(MOST as usize);
    values.reserve(MOST as usize);
    let count = fill(keys.as_mut_ptr(), values.as_mut_ptr(), MOST) as usize;
    // SAFETY: so many elements of each were written.
    unsafe {
        keys.set_len(count);
        values.set_len(count);
    }
    keys.into_iter().zip(values).collect()
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: opened by `of`, closed once; no function of it is called afterwards.
        unsafe { libc::dlclose(self.library) };
    }
}
