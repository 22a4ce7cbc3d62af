//! Installs what the tests need and the machine lacks, from Debian's ordinary sources.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Something that tests drive.
struct Need {
    /// Debian packages that bring it.
    packages: &'static [&'static str],
    /// What stays unchecked without it.
    purpose: &'static str,
    /// Whether the machine has it.
    present: fn() -> bool,
}

const NEEDS: &[Need] = &[
    Need {
        packages: &["chromium"],
        purpose: "the report in a browser",
        present: || chromium().is_some(),
    },
    Need {
        packages: &["clang-19", "llvm-19", "libbpf-dev"],
        purpose: "that the committed eBPF object comes from its source",
        present: has_bpf_compiler,
    },
    Need {
        packages: &["bpftool"],
        purpose: "that no eBPF program outlives a run",
        present: || has_all(&["bpftool"]),
    },
    Need {
        packages: &["gdb"],
        purpose: "unwound stacks against a debugger's",
        present: || find_program("gdb").is_some(),
    },
    Need {
        packages: &["mariadb-server", "sysbench"],
        purpose: "MariaDB under sysbench",
        present: || has_all(&["mariadbd", "sysbench"]),
    },
    Need { packages: &["postgresql"], purpose: "PostgreSQL under pgbench", present: has_postgres },
    Need {
        packages: &["redis-server", "redis-tools"],
        purpose: "Redis under its own benchmark",
        present: || has_all(&["redis-server", "redis-benchmark"]),
    },
    Need {
        packages: &["fio", "xfsprogs", "e2fsprogs", "util-linux"],
        purpose: "block devices and file systems under fio",
        present: || has_all(&["fio", "mkfs.xfs", "mkfs.ext4", "losetup"]),
    },
    Need {
        packages: &["strace"],
        purpose: "faults at system calls",
        present: || has_all(&["strace", "unshare", "prlimit"]),
    },
    Need {
        packages: &["jq"],
        purpose: "the README's example for it",
        present: || has_all(&["jq"]),
    },
    Need {
        packages: &["python3"],
        purpose: "a program whose threads take turns at one lock",
        present: || has_all(&["python3"]),
    },
    Need {
        packages: &["stress-ng"],
        purpose: "a driven command that writes its figures to a file",
        present: || has_all(&["stress-ng"]),
    },
];

/// Installs what is lacking; says what it did, and what stays unchecked where it could not.
pub(crate) fn run() {
    let lacking: Vec<&Need> = NEEDS.iter().filter(|need| !(need.present)()).collect();
    if lacking.is_empty() {
        println!("setup: everything that tests need is here");
        return;
    }
    let line = format!("apt-get install --no-install-recommends {}", packages(&lacking).join(" "));
    if !is_root() || find_program("apt-get").is_none() {
        println!("setup: tests will skip what they lack; on Debian, as root: {line}");
        return;
    }
    if let Err(reason) = apt_get(&["update"]) {
        println!("setup: apt-get update: {reason}; going on with what is known");
    }
    let _no_services = NoServices::begin();
    for need in lacking {
        let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
        arguments.extend(need.packages);
        match apt_get(&arguments) {
            Ok(()) => println!("setup: installed {}", need.packages.join(" ")),
            Err(reason) => println!(
                "setup: could not install {} ({reason}); not checked: {}",
                need.packages.join(" "),
                need.purpose
            ),
        }
    }
}

/// Keeps packages from starting their daemons while it lives: tests start their own, and a machine
/// that was set up serves nothing that it did not serve before.
struct NoServices {
    ours: bool,
}

impl NoServices {
    /// Debian's maintainer scripts ask this program before they start a service.
    const POLICY: &str = "/usr/sbin/policy-rc.d";

    /// Leaves a policy alone that is there already.
    fn begin() -> Self {
        use std::os::unix::fs::PermissionsExt;
        if Path::new(Self::POLICY).exists() {
            return Self { ours: false };
        }
        let refuse_all =
            "#!/bin/sh\n# Written by `cargo xtask setup`; 101 forbids the action.\nexit 101\n";
        let executable = std::fs::Permissions::from_mode(0o755);
        let written = std::fs::write(Self::POLICY, refuse_all)
            .and_then(|()| std::fs::set_permissions(Self::POLICY, executable));
        if let Err(error) = &written {
            println!("setup: {}: {error}; packages may start services", Self::POLICY);
        }
        Self { ours: true }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = std::fs::remove_file(Self::POLICY)
        {
            println!("setup: {}: {error}; remove it", Self::POLICY);
        }
    }
}

fn packages(needs: &[&Need]) -> Vec<&'static str> {
    needs.iter().flat_map(|need| need.packages.iter().copied()).collect()
}

/// Whether this process may install packages: its effective user is root.
fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.is_some_and(|ids| ids.split_whitespace().nth(1) == Some("0"))
}

/// Runs apt-get quietly.
///
/// # Errors
/// The last line that it printed.
fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("apt-get")
        .args(["-qq", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30"])
        .args(["-o", "DPkg::Lock::Timeout=120"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(last_line(&output)) }
}

fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    last.map_or_else(|| output.status.to_string(), ToOwned::to_owned)
}

/// A Chromium to look at reports with.
pub(crate) fn chromium() -> Option<PathBuf> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(find_program)
}

/// Whether the eBPF object can be compiled as it was: the pinned compiler and its headers.
pub(crate) fn has_bpf_compiler() -> bool {
    ["clang-19", "llvm-strip-19"].into_iter().all(|name| find_program(name).is_some())
        && Path::new("/usr/include/bpf/bpf_helpers.h").exists()
}

/// Whether all of these programs are here.
pub(crate) fn has_all(names: &[&str]) -> bool {
    names.iter().all(|name| find_program(name).is_some())
}

/// Whether some version of PostgreSQL is here, where Debian keeps servers.
pub(crate) fn has_postgres() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders = versions.map(|version| version.path().join("bin"));
    folders.any(|bin| bin.join("postgres").is_file() && bin.join("pgbench").is_file())
}

/// The program of that name in `PATH`, or where Debian keeps servers.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let servers = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(servers);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_name() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-anywhere").is_none());
    }

    #[test]
    fn the_line_to_run_names_every_lacking_package_once() {
        let all: Vec<&Need> = NEEDS.iter().collect();
        let named = packages(&all);
        let distinct: std::collections::BTreeSet<_> = named.iter().collect();
        assert_eq!(named.len(), distinct.len());
        assert!(named.contains(&"chromium") && named.contains(&"libbpf-dev"));
    }
}
