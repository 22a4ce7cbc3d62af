//! A container by its name or the begin of its id. No runtime is asked for its processes: control
//! groups bear the name of what runs in them, whoever has started it. What people call a container
//! stands in files of its runtime; where not, `docker` and `podman` are asked for the id.

use super::ask::ask;
use crate::regular;
use anyhow::{Result, bail};
use kneepoint_machine::Start;
use kneepoint_machine::proc::{self, tasks};
use kneepoint_rig::SearchPath;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Digits of an id as runtimes make it.
const ID: usize = 64;
/// Digits of an id that people are shown.
const SHOWN: usize = 12;
/// Containers that are listed in a message.
const MOST_LISTED: usize = 6;
/// The longest file of a runtime that is read.
const MOST_BYTES: u64 = 16 << 20;

/// How control groups of runtimes begin, and whose they are.
const RUNTIMES: [(&str, &str); 6] = [
    ("docker", "docker"),
    ("libpod", "podman"),
    ("cri-containerd", "containerd"),
    ("nerdctl", "containerd"),
    ("crio", "CRI-O"),
    ("buildkit", "buildkit"),
];

/// A container that something runs in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Container {
    /// Who runs it, as far as that can be told.
    runtime: String,
    /// Its id or, where it has none, its name.
    id: String,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if is_id(&self.id) { &self.id[..SHOWN] } else { &self.id };
        write!(f, "{} container {shown}", self.runtime)
    }
}

/// Containers with their processes.
type Running = BTreeMap<Container, Vec<u32>>;

/// What the container is called, and the processes in it.
///
/// # Errors
/// None fits, several do, or it does not run.
pub(super) fn processes(wanted: &str) -> Result<(String, Vec<u32>)> {
    let running = running();
    let named = |name: &str| {
        let ids = in_files(Path::new("/"), name);
        if ids.is_empty() { by_programs(name) } else { ids }
    };
    let container = choose(wanted, &running, named)?;
    Ok((container.to_string(), running.get(&container).cloned().unwrap_or_default()))
}

fn is_id(text: &str) -> bool {
    text.len() == ID && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// All that run.
fn running() -> Running {
    let mut running = Running::new();
    for pid in tasks::processes() {
        let groups = proc::text(&format!("{pid}/cgroup")).unwrap_or_default();
        for container in of_groups(&groups) {
            running.entry(container).or_default().push(pid);
        }
    }
    running
}

/// The containers that a process is in, by its `cgroup` file: a line for each hierarchy,
/// `NUMBER:CONTROLLERS:PATH`. One may run in another.
fn of_groups(text: &str) -> BTreeSet<Container> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut found = BTreeSet::new();
    for path in paths {
        let mut above = "";
        for name in path.split('/') {
            found.extend(of_group(above, name));
            above = name;
        }
    }
    found
}

/// The container whose control group is called so, below one that is called `above`.
fn of_group(above: &str, name: &str) -> Option<Container> {
    let container = |runtime: &str, id: &str| {
        (!id.is_empty()).then(|| Container { runtime: runtime.to_owned(), id: id.to_owned() })
    };
    if let Some(name) = name.strip_prefix("lxc.payload.") {
        return container("lxc", name);
    }
    if above == "lxc" || above == "lxc.payload" {
        return container("lxc", name);
    }
    let unit = name.strip_suffix(".scope").unwrap_or(name);
    if let Some(name) = unit.strip_prefix("machine-").filter(|_| unit.len() < name.len()) {
        return container("systemd", &unescaped(name));
    }
    if let Some(name) = name.strip_prefix("systemd-nspawn@") {
        return container("systemd", &unescaped(name.strip_suffix(".service")?));
    }
    let begin = unit.len().checked_sub(ID)?;
    let (before, id) = unit.is_char_boundary(begin).then(|| unit.split_at(begin))?;
    let before = before.trim_end_matches('-');
    // What watches a container from outside has a group that is called nearly so.
    if !is_id(id) || before.ends_with("conmon") {
        return None;
    }
    let known = |text: &str| RUNTIMES.iter().find(|(begin, _)| text.starts_with(begin));
    let pod = above.starts_with("pod") || above.contains("-pod") || above.starts_with("kubepods");
    let runtime = match known(before).or_else(|| known(above)) {
        Some((_, runtime)) => runtime,
        None if pod => "Kubernetes",
        None => "some",
    };
    container(runtime, id)
}

/// A name as systemd writes it into that of a unit: `\x2d` stands for a hyphen.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match digits {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend(part[2..].bytes());
            }
            None => bytes.extend(format!("\\x{part}").bytes()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The one that is meant: by its whole id or name, by what a runtime calls so, by the begin of its
/// id.
fn choose(
    wanted: &str,
    running: &Running,
    named: impl FnOnce(&str) -> Vec<String>,
) -> Result<Container> {
    let one = |found: Vec<&Container>| match &found[..] {
        [] => Ok(None),
        [one] => Ok(Some((*one).clone())),
        several => {
            let all = listed(several.iter().copied());
            bail!("{wanted:?} fits several containers: {all}; give the id of one")
        }
    };
    // Incus and LXD put the project before the name.
    let behind = format!("_{wanted}");
    let is_called =
        |one: &&Container| one.id == wanted || !is_id(&one.id) && one.id.ends_with(&behind);
    if let Some(found) = one(running.keys().filter(is_called).collect())? {
        return Ok(found);
    }
    let ids = named(wanted);
    let is_named = |one: &&Container| ids.contains(&one.id);
    if let Some(found) = one(running.keys().filter(is_named).collect())? {
        return Ok(found);
    }
    let is_begin = |one: &&Container| is_id(&one.id) && one.id.starts_with(wanted);
    if let Some(found) = one(running.keys().filter(is_begin).collect())? {
        return Ok(found);
    }
    if let Some(id) = ids.first() {
        let id = id.get(..SHOWN).unwrap_or(id);
        bail!("container {wanted:?} ({id}) does not run: there is no process of it here");
    }
    if running.is_empty() {
        bail!("{wanted:?}: no process here runs in a container");
    }
    let all = listed(running.keys());
    bail!(
        "no container that runs is called {wanted:?}, or has an id that begins so; there are: {all}"
    )
}

fn listed<'a>(all: impl ExactSizeIterator<Item = &'a Container>) -> String {
    let more = all.len().saturating_sub(MOST_LISTED);
    let names: Vec<String> = all.take(MOST_LISTED).map(ToString::to_string).collect();
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

/// Ids of what runtimes call so, from the files that they keep below `root`.
fn in_files(root: &Path, name: &str) -> Vec<String> {
    let mut ids = BTreeSet::new();
    for file in children(&root.join("var/lib/docker/containers"), &["config.v2.json"]) {
        let Some(about) = json(&file) else { continue };
        let is_it = about["Name"].as_str().is_some_and(|its| its.trim_start_matches('/') == name);
        ids.extend(about["ID"].as_str().filter(|_| is_it).map(str::to_owned));
    }
    let mut stores = vec![root.join("var/lib/containers/storage")];
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|_| root == Path::new("/"));
    stores.extend(home.map(|home| home.join(".local/share/containers/storage")));
    for store in stores {
        for file in children(&store, &["containers.json"]) {
            let list = json(&file);
            for about in list.iter().filter_map(Value::as_array).flatten() {
                let names = about["names"].as_array().into_iter().flatten();
                let is_it = names.filter_map(Value::as_str).any(|its| its == name);
                ids.extend(about["id"].as_str().filter(|_| is_it).map(str::to_owned));
            }
        }
    }
    let tasks = root.join("run/containerd/io.containerd.runtime.v2.task");
    for space in folders(&tasks) {
        for file in children(&space, &["config.json"]) {
            let is_it = json(&file).is_some_and(|about| is_annotated(&about["annotations"], name));
            let id = file.parent().and_then(Path::file_name).and_then(|id| id.to_str());
            ids.extend(id.filter(|_| is_it).map(str::to_owned));
        }
    }
    ids.into_iter().collect()
}

/// Whether a container of containerd's is called so: by Kubernetes, alone or behind the name of its
/// pod, or by nerdctl.
fn is_annotated(notes: &Value, name: &str) -> bool {
    let note = |key: &str| notes[key].as_str().unwrap_or_default();
    let container = note("io.kubernetes.cri.container-name");
    let in_pod = format!("{}/{container}", note("io.kubernetes.cri.sandbox-name"));
    !name.is_empty() && [container, &in_pod, note("nerdctl/name")].contains(&name)
}

/// Folders in a folder.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// Files of these names in the folders of a folder.
fn children(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let all = folders(folder);
    all.iter().flat_map(|folder| names.iter().map(|name| folder.join(name))).collect()
}

fn json(file: &Path) -> Option<Value> {
    serde_json::from_slice(&regular::read(file, MOST_BYTES).ok()?).ok()
}

/// The same asked of the runtimes' own programs, where they are.
fn by_programs(name: &str) -> Vec<String> {
    let path = SearchPath::own();
    let id = |program: &str| {
        let program = path.find(program)?;
        let words = ["inspect", "--type", "container", "--format", "{{.Id}}", "--", name];
        let (status, text) = ask(Start::new(program).args(words)).ok().flatten()?;
        let id = text.trim();
        (status.success() && is_id(id)).then(|| id.to_owned())
    };
    ["docker", "podman"].into_iter().find_map(id).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn id(digit: char) -> String {
        std::iter::repeat_n(digit, ID).collect()
    }

    fn container(runtime: &str, id: &str) -> Container {
        Container { runtime: runtime.to_owned(), id: id.to_owned() }
    }

    #[test]
    fn control_groups_of_every_runtime_are_known() {
        let a = id('a');
        for (path, runtime, name) in [
            (format!("/system.slice/docker-{a}.scope"), "docker", &*a),
            (format!("/docker/{a}"), "docker", &*a),
            (format!("/docker/{a}/init"), "docker", &*a),
            (format!("/machine.slice/libpod-{a}.scope/container"), "podman", &*a),
            (format!("/libpod_parent/libpod-{a}"), "podman", &*a),
            (format!("/kubepods.slice/x-pod1.slice/cri-containerd-{a}.scope"), "containerd", &*a),
            (format!("/kubepods/burstable/pod1-2/{a}"), "Kubernetes", &*a),
            (format!("/kubepods.slice/x-pod1.slice/crio-{a}.scope"), "CRI-O", &*a),
            (format!("/system.slice/nerdctl-{a}.scope"), "containerd", &*a),
            (format!("/default/{a}"), "some", &*a),
            (format!("/../../docker-{a}.scope"), "docker", &*a),
            ("/machine.slice/machine-web\\x2done.scope/payload".to_owned(), "systemd", "web-one"),
            ("/machine.slice/systemd-nspawn@web.service/payload".to_owned(), "systemd", "web"),
            ("/lxc.payload.web/init.scope".to_owned(), "lxc", "web"),
            ("/lxc/web".to_owned(), "lxc", "web"),
        ] {
            let text = format!("12:cpu,cpuacct:{path}\n0::{path}\n");
            let found: Vec<Container> = of_groups(&text).into_iter().collect();
            assert_eq!(found, [container(runtime, name)], "{path}");
        }
        for path in [
            "/".to_owned(),
            "/user.slice/user-0.slice/session-1.scope".to_owned(),
            "/machine.slice".to_owned(),
            format!("/machine.slice/libpod-conmon-{a}.scope"),
            "/lxc.monitor.web".to_owned(),
        ] {
            assert!(of_groups(&format!("0::{path}")).is_empty(), "{path}");
        }
        // One in another is in both.
        assert_eq!(of_groups(&format!("0::/docker/{a}/docker/{}", id('b'))).len(), 2);
    }

    #[test]
    fn one_is_chosen_and_several_or_none_are_refused_in_a_line() {
        let all = [
            container("docker", &id('a')),
            container("docker", &format!("{}b", &id('a')[..ID - 1])),
            container("podman", &id('c')),
            container("lxc", "web"),
            container("lxc", "user_mail"),
        ];
        let running: Running = all.iter().cloned().map(|one| (one, vec![1])).collect();
        let named = |name: &str| match name {
            "shop" => vec![id('c')],
            "gone" => vec![id('f')],
            "cccc" => vec![id('a')],
            _ => Vec::new(),
        };
        let chosen = |wanted: &str| choose(wanted, &running, named);
        for (wanted, at) in [
            (&*id('a'), 0),
            ("ccc", 2),
            ("shop", 2),
            ("cccc", 0),
            ("web", 3),
            ("mail", 4),
            ("user_mail", 4),
        ] {
            assert_eq!(chosen(wanted).unwrap(), all[at], "{wanted}");
        }
        let refused = |wanted: &str| chosen(wanted).unwrap_err().to_string();
        let several = refused("aa");
        assert!(several.contains("fits several containers: docker container aaaaaaaaaaaa, docker"));
        assert!(refused("gone").contains("(ffffffffffff) does not run"));
        let none = refused("x");
        assert!(none.contains("there are: docker container aaaaaaaaaaaa") && none.contains("web"));
        assert!(![several, none].iter().any(|why| why.contains('\n')));
        let nothing = choose("x", &Running::new(), named).unwrap_err().to_string();
        assert!(nothing.contains("no process here runs in a container"), "{nothing}");
    }

    #[test]
    fn runtimes_files_say_what_a_container_is_called() {
        let root = tempfile::TempDir::new().unwrap();
        let write = |file: &str, text: String| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        let (a, b, c) = (id('a'), id('b'), id('c'));
        write(
            &format!("var/lib/docker/containers/{a}/config.v2.json"),
            format!(r#"{{"ID": "{a}", "Name": "/web"}}"#),
        );
        write(
            "var/lib/containers/storage/overlay-containers/containers.json",
            format!(r#"[{{"id": "{b}", "names": ["mail"]}}, {{"id": "x"}}]"#),
        );
        let notes = r#"{"annotations": {"io.kubernetes.cri.container-name": "shop",
            "io.kubernetes.cri.sandbox-name": "pod-1"}}"#;
        let task = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
        write(&format!("{task}/{c}/config.json"), notes.to_owned());
        write(&format!("{task}/odd/config.json"), "no JSON".to_owned());
        let found = |name: &str| in_files(root.path(), name);
        assert_eq!(found("web"), [a]);
        assert_eq!(found("mail"), [b]);
        assert_eq!((found("shop"), found("pod-1/shop")), (vec![c.clone()], vec![c]));
        assert!(found("nobody").is_empty() && found("").is_empty());
    }

    #[test]
    fn names_of_units_are_read_as_they_were_given() {
        for (text, name) in [("a\\x2db", "a-b"), ("a", "a"), ("\\x", "\\x"), ("\\xzz", "\\xzz")] {
            assert_eq!(unescaped(text), name);
        }
    }

    proptest! {
        #[test]
        fn no_group_makes_it_panic(text in "\\PC{0,90}") {
            let _ = of_groups(&format!("0::/{text}/{text}.scope"));
            let _ = of_group("docker", &text);
            let _ = unescaped(&format!("\\x{text}"));
        }
    }
}
