//! Functions whose calls are operations, and processes in containers.

#![allow(clippy::print_stdout, reason = "a skipped test says so")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Sandbox, alone, eventually, is_root};
use kneepoint_vocab::Profile;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Two threads that call `serve`, and count that in a file that they map.
const SHOP: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile unsigned long *calls;
__attribute__((noinline)) void serve(void) {
    __atomic_add_fetch(calls, 1, __ATOMIC_SEQ_CST);
    usleep(500);
}
void never(void) { __asm__ volatile(""); }
static void *work(void *nothing) { for (;;) serve(); return nothing; }
int main(int words, char **word) {
    int file = open(words > 1 ? word[1] : "calls", O_RDWR | O_CREAT, 0644);
    pthread_t thread;
    if (ftruncate(file, 4096)) return 1;
    calls = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_create(&thread, 0, work, 0);
    work(0);
}
"#;

/// The program in the sandbox, and whether this machine can watch it.
fn ready(sandbox: &Sandbox, test: &str) -> bool {
    fs::write(sandbox.path("shop.c"), SHOP).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-g", "-pthread", "-o"]).arg(sandbox.path("shop"));
    compiler.arg(sandbox.path("shop.c")).stderr(Stdio::null());
    let compiled = compiler.status().is_ok_and(|status| status.success());
    let has_bpf = is_root() && Path::new("/sys/kernel/btf/vmlinux").exists();
    if !compiled || !has_bpf {
        println!("SKIP {test}: needs a C compiler, root and a kernel with BTF");
    }
    compiled && has_bpf
}

/// A shop that ends with the guard.
struct Shop(Child);

impl Shop {
    fn open(mut command: Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn calls(file: &Path) -> u64 {
    let bytes = fs::read(file).unwrap_or_default();
    bytes.get(..8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// What a profile found and kept.
struct Seen {
    profile: Profile,
    /// All operations that it has counted.
    counted: u64,
    /// Its stacks as they are in the run directory. Beside other work there may be no cause, and
    /// so no function, in the profile itself.
    stacks: String,
}

fn profiled(sandbox: &Sandbox, words: &[&str]) -> Seen {
    let ran = sandbox.run(&[&["profile", "--json", "--out", "seen"], words].concat());
    assert!(matches!(ran.code, Some(0 | 4)), "{ran:?}");
    let record = kneepoint_lab::open(&sandbox.path("seen")).unwrap();
    let counted = record.trials.iter().map(|trial| trial.operations).sum();
    let stacks = fs::read_to_string(sandbox.path("seen/stacks.jsonl")).unwrap();
    fs::remove_dir_all(sandbox.path("seen")).unwrap();
    Seen { profile: ran.json(), counted, stacks }
}

#[test]
fn calls_of_a_function_are_operations() {
    const TEST: &str = "calls_of_a_function_are_operations";
    let _alone = alone();
    let sandbox = Sandbox::new();
    if !ready(&sandbox, TEST) {
        return;
    }
    let mut command = Command::new(sandbox.path("shop"));
    command.current_dir(sandbox.path("."));
    let shop = Shop::open(command);
    let file = sandbox.path("calls");
    eventually("it serves", || calls(&file) > 0);
    let before = calls(&file);
    let pid = shop.pid();
    let Seen { profile: seen, counted, .. } =
        profiled(&sandbox, &["--pid", &pid, "--seconds", "2", "--operation", "shop:serve"]);
    let all = calls(&file) - before;
    assert!(counted > 100 && counted <= all, "{counted} of {all}");
    let rate = seen.operations.as_ref().unwrap().rate.value.0;
    assert!(rate > 50.0, "{rate}");
    let by = ("counted by".to_owned(), "calls of shop:serve".to_owned());
    assert!(seen.settings.contains(&by), "{:?}", seen.settings);
    let each = seen.thread_lines.iter().map(|line| line.per_operation.unwrap().value.0);
    assert!((each.sum::<f64>() * rate / seen.threads.0 - 1.0).abs() < 0.05);
    let refused = |code: i32, what: &str, words: &[&str]| {
        let ran = sandbox.run(&["profile", "--pid", &pid, "--seconds", "1", "--operation", what]);
        ran.refused(code, &[&["--operation"], words].concat());
    };
    refused(2, "serve", &["write PROGRAM:FUNCTION"]);
    refused(1, "shop:server", &["shop has no function \"server\"; near are serve"]);
    refused(1, "market:serve", &["none of these processes runs or has loaded \"market\""]);
    refused(1, "usdt:shop:serve", &["has a probe usdt:shop:serve"]);
    refused(1, "shop:never", &["shop:never was not called in "]);
    let both = ["profile", "--pid", &pid, "--operation", "shop:serve", "--rate", "echo 1"];
    sandbox.run(&both).refused(2, &["cannot be used with"]);
    let nobody = common::ran(sandbox.as_nobody(&[
        "profile",
        "--seconds",
        "1",
        "--operation",
        "shop:serve",
        "--",
        "./shop",
        "calls-of-nobody",
    ]));
    nobody.refused(1, &["counting calls needs root"]);
    // One that was started for it is given time to load what is counted.
    let seen = profiled(&sandbox, &["--seconds", "1", "--operation", "shop:serve", "--", "./shop"]);
    assert!(seen.counted > 0);
}

/// A control group that is called like one of Docker's, with nothing switched on in it.
struct Contained(PathBuf);

impl Contained {
    /// With this process in it; none where no group can be made.
    fn with(name: &str, process: &str) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let places = own.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (kind, path) = (fields.next()?.to_owned(), fields.next()?.to_owned());
            let kind = kind.strip_prefix("name=").unwrap_or(&kind).to_owned();
            let roots = match kind.as_str() {
                "" => vec!["/sys/fs/cgroup".to_owned(), "/sys/fs/cgroup/unified".to_owned()],
                "cpuset" => Vec::new(),
                other => vec![format!("/sys/fs/cgroup/{other}")],
            };
            Some(roots.into_iter().map(move |root| PathBuf::from(format!("{root}{path}"))))
        });
        for place in places.flatten().filter(|place| place.join("cgroup.procs").exists()) {
            let made = Self(place.join(name));
            if fs::create_dir(&made.0).is_ok()
                && fs::write(made.0.join("cgroup.procs"), process).is_ok()
            {
                return Some(made);
            }
        }
        None
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A shop whose program and files nobody else sees, in a group that is called like a container's.
#[test]
fn a_container_is_found_and_its_programs_have_names() {
    const TEST: &str = "a_container_is_found_and_its_programs_have_names";
    let _alone = alone();
    let sandbox = Sandbox::new();
    if !ready(&sandbox, TEST) {
        return;
    }
    let inside = sandbox.path("inside");
    fs::create_dir(&inside).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command.arg("mount -t tmpfs tmpfs inside && cp shop inside/ && cd inside && exec ./shop");
    command.current_dir(sandbox.path("."));
    let mut shop = Shop::open(command);
    let file = PathBuf::from(format!("/proc/{}/root{}/calls", shop.pid(), inside.display()));
    eventually("it serves, or cannot", || {
        calls(&file) > 0 || fs::read_link(format!("/proc/{}/exe", shop.pid())).is_err()
    });
    if shop.0.try_wait().unwrap().is_some() {
        println!("SKIP {TEST}: needs to mount in a namespace");
        return;
    }
    assert!(fs::read_dir(&inside).unwrap().next().is_none(), "nobody else sees its files");
    // Sixty-four digits that are this test's own.
    let id = format!("{:064x}", u64::from(std::process::id()) << 40 | 0xc0ffee);
    let id = format!("ab{}", &id[2..]);
    let group = Contained::with(&format!("docker-{id}.scope"), &shop.pid());
    let Some(group) = group else {
        println!("SKIP {TEST}: needs a control group that can be written");
        return;
    };
    let words = ["--seconds", "1", "--operation", "shop:serve"];
    let seen = profiled(&sandbox, &[&["--container", &id], &words[..]].concat());
    let within = format!("shop {} in docker container {}", shop.pid(), &id[..12]);
    assert_eq!(seen.profile.subject, within);
    assert!(seen.counted > 0 && seen.stacks.contains("\"serve\""), "{}", seen.stacks);
    // The begin of an id is enough where no other begins so.
    let seen = profiled(&sandbox, &["--seconds", "1", "--container", &id[..40]]);
    assert_eq!(seen.profile.subject, within);
    let none = ["profile", "--container", "no-such-container"];
    let none = sandbox.run(&none);
    none.refused(1, &["--container", "\"no-such-container\"", "docker container "]);
    // Where the file is gone from the namespace too, the kernel still leads to it.
    fs::remove_file(file.with_file_name("shop")).unwrap();
    let seen = profiled(&sandbox, &["--seconds", "1", "--container", &id]);
    assert!(seen.stacks.contains("\"serve\""), "{}", seen.stacks);
    drop(shop);
    sandbox.run(&["profile", "--container", &id]).refused(1, &["--container"]);
    drop(group);
    let both = ["profile", "--container", "x", "--pid", "1"];
    sandbox.run(&both).refused(2, &["cannot be used with"]);
}
