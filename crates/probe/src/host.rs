//! Facts of the machine, from `/proc` and `/sys`, as they go into a run's record.

use kneepoint_machine::here;
use kneepoint_machine::proc::{self, tasks};
use kneepoint_vocab::{Host, SCHEMA};
use std::path::Path;

/// The machine that this process runs on.
///
/// `kneepoint` is the program's version, `begun` the begin of the run (RFC 3339, UTC) and
/// `arguments` what followed the program's name; the caller knows them, this crate does not.
#[must_use]
pub fn host(kneepoint: &str, begun: &str, arguments: Vec<String>) -> Host {
    let cpuinfo = proc::text("cpuinfo").unwrap_or_default();
    let system = rustix::system::uname();
    let of = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    Host {
        machine: here().machine(),
        schema: SCHEMA,
        kneepoint: kneepoint.to_owned(),
        begun: begun.to_owned(),
        arguments,
        cores: u32::try_from(tasks::allowed_cpus().len()).unwrap_or(u32::MAX),
        cpu: field(&cpuinfo, "model name").unwrap_or_else(|| of(system.machine())),
        memory: memory(&proc::text("meminfo").unwrap_or_default()),
        kernel: format!("{} {}", of(system.sysname()), of(system.release())),
        distribution: distribution(&text("/etc/os-release")),
        notes: notes(&cpuinfo),
    }
}

fn notes(cpuinfo: &str) -> Vec<(String, String)> {
    let virtualised = cpuinfo
        .lines()
        .any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor"));
    let maker = ["/sys/class/dmi/id/sys_vendor", "/sys/hypervisor/type"];
    let maker = maker.iter().find_map(|path| read(path)).unwrap_or_else(|| "unknown kind".into());
    let hypervisor = if virtualised { format!("yes ({maker})") } else { "none seen".to_owned() };
    let scaling = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let entries = [
        ("architecture", Some(std::env::consts::ARCH.to_owned())),
        ("hypervisor", Some(hypervisor)),
        ("governor", read(scaling).or_else(|| Some("none: no frequency control".to_owned()))),
        ("turbo", turbo()),
        ("smt", read("/sys/devices/system/cpu/smt/control")),
        ("transparent huge pages", read("/sys/kernel/mm/transparent_hugepage/enabled").map(chosen)),
        ("clock source", read("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("autogroup", setting("sched_autogroup_enabled")),
        ("numa nodes", read("/sys/devices/system/node/online")),
        ("preemption", preemption()),
        ("mitigations", mitigations()),
    ];
    entries.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// A setting of the kernel's, trimmed.
pub(crate) fn setting(name: &str) -> Option<String> {
    let found = proc::text(&format!("sys/kernel/{name}")).ok()?.trim().to_owned();
    (!found.is_empty()).then_some(found)
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A small file's content, trimmed; `None` where it is missing or empty.
pub(crate) fn read(path: &str) -> Option<String> {
    let found = std::fs::read_to_string(path).ok()?.trim().to_owned();
    (!found.is_empty()).then_some(found)
}

/// The value of the first `name : value` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn memory(meminfo: &str) -> u64 {
    let total = field(meminfo, "MemTotal").unwrap_or_default();
    let kib = total.split(' ').next().and_then(|number| number.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn distribution(release: &str) -> String {
    let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    pretty.unwrap_or("unknown").trim_matches('"').to_owned()
}

/// The bracketed choice of a line like `always [madvise] never`.
fn chosen(line: String) -> String {
    let inner = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(line.clone(), |(choice, _)| choice.to_owned())
}

fn turbo() -> Option<String> {
    let off = read("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|value| value == "1");
    let on = read("/sys/devices/system/cpu/cpufreq/boost").map(|value| value == "1");
    off.map(|off| !off).or(on).map(|on| if on { "on" } else { "off" }.to_owned())
}

fn preemption() -> Option<String> {
    let version = setting("version")?;
    version.split(' ').find(|word| word.starts_with("PREEMPT")).map(str::to_owned)
}

/// CPU weaknesses that the kernel works around, by name.
fn mitigations() -> Option<String> {
    let folder = Path::new("/sys/devices/system/cpu/vulnerabilities");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| {
            std::fs::read_to_string(entry.path()).is_ok_and(|state| state.starts_with("Mitigation"))
        })
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_the_kernel_writes_them() {
        assert_eq!(memory("MemTotal:       24628000 kB\nMemFree: 1 kB\n"), 24_628_000 * 1024);
        assert_eq!(
            field("model name\t: Some CPU @ 2 GHz\n", "model name").unwrap(),
            "Some CPU @ 2 GHz"
        );
        assert_eq!(distribution("A=1\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        assert_eq!(distribution(""), "unknown");
        assert_eq!(chosen("always [madvise] never".into()), "madvise");
        assert_eq!(chosen("plain".into()), "plain");
    }

    #[test]
    fn this_machine_has_the_essentials() {
        let found = host("0.0.0", "2026-01-01T00:00:00Z", vec!["run".into()]);
        assert!(found.cores >= 1 && found.memory > 0);
        assert!(found.kernel.starts_with("Linux "), "{}", found.kernel);
        assert!(found.notes.iter().any(|(name, _)| name == "hypervisor"));
    }
}
