//! The loads: `perf bench sched pipe`, 512-byte reads of a loop device, MariaDB under sysbench.

use super::Cell;
use super::observers::Observer;
use super::undo::Undo;
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time that sysbench's threads have to settle before the first cell.
const SETTLE: Duration = Duration::from_secs(8);

/// Something that does operations.
pub(crate) trait Load {
    /// Runs it for a cell under the observer.
    fn cell(&mut self, observer: Option<&mut dyn Observer>) -> Result<Cell>;
}

/// The load of this name, ready for cells of this length.
pub(crate) fn start(name: &str, cell: Duration, undo: &Undo) -> Result<Box<dyn Load>> {
    match name {
        "pipe" => Ok(Box::new(pipe(cell, &["perf"])?)),
        "pipe-one-cpu" => Ok(Box::new(pipe(cell, &["taskset", "-c", "0", "perf"])?)),
        "block" => Ok(Box::new(block(cell, undo)?)),
        "mariadb" => Ok(Box::new(Mariadb::start(cell, undo)?)),
        _ => bail!("known are pipe, pipe-one-cpu, block and mariadb"),
    }
}

/// A command that tells its own rate.
struct Reported {
    command: Vec<String>,
    rate: fn(&str) -> Option<f64>,
}

impl Reported {
    fn run(&self, observer: Option<&mut dyn Observer>) -> Result<Cell> {
        // It waits for a line, so that its process is known before it does anything.
        let mut child = Command::new("sh")
            .args(["-c", "read -r go && exec \"$@\"", "sh"])
            .args(&self.command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().context("no input")?;
        let mut observer = observer;
        if let Some(observer) = &mut observer {
            observer.begin(&[child.id()], &[])?;
        }
        writeln!(input, "go")?;
        let output = child.wait_with_output()?;
        let remark = observer.map_or_else(|| Ok(String::new()), |observer| observer.end())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let failed = || {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("{}: {}: {text}{said}", self.command[0], output.status)
        };
        Ok(Cell { rate: (self.rate)(&text).with_context(failed)?, remark })
    }
}

impl Load for Reported {
    fn cell(&mut self, observer: Option<&mut dyn Observer>) -> Result<Cell> {
        self.run(observer)
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// So many loops that a run without observer lasts a cell. Free to move, the two partners share
/// a core at one time and wake each other's core at another; on one CPU the rate is steady and
/// the highest that there is.
fn pipe(cell: Duration, perf: &[&str]) -> Result<Reported> {
    let command = |loops: u64| {
        let mut words = strings(perf);
        words.extend(strings(&["bench", "sched", "pipe", "-l", &loops.to_string()]));
        words
    };
    let first = Reported { command: command(50_000), rate: operations };
    let rate = first.run(None).context("perf is not installed, or cannot")?.rate;
    let loops = (rate * cell.as_secs_f64()).clamp(1e3, 1e8);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let loops = loops as u64;
    Ok(Reported { command: command(loops), rate: operations })
}

/// `  211540 ops/sec`, thousands with commas or not.
fn operations(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_suffix("ops/sec"))?;
    line.trim().replace(',', "").parse().ok()
}

/// As the recipe `block-read-512` does it, at its focus: 16 readers, one read at a time each.
fn block(cell: Duration, undo: &Undo) -> Result<Reported> {
    let file = PathBuf::from(format!("/dev/shm/kneepoint-bench-probe-{}", std::process::id()));
    undo.add(&format!("rm -f '{}'", file.display()))?;
    let made = std::fs::File::create(&file)?;
    made.set_len(64 << 20)?;
    drop(made);
    let mut losetup = Command::new("losetup");
    losetup.args(["--find", "--show", "--direct-io=off"]).arg(&file);
    let output = losetup.output().context("losetup is not installed")?;
    let device = said(&output)?;
    undo.add(&format!("losetup -d '{device}'"))?;
    let filename = format!("--filename={device}");
    let runtime = format!("--runtime={:.2}", cell.as_secs_f64());
    let command = strings(&[
        "fio",
        "--name=read",
        "--rw=randread",
        "--bs=512",
        "--direct=1",
        "--ioengine=psync",
        "--numjobs=16",
        "--thread",
        "--time_based",
        "--group_reporting",
        "--output-format=json",
        &filename,
        &runtime,
    ]);
    let load = Reported { command, rate: reads };
    load.run(None).context("fio is not installed, or cannot")?;
    Ok(load)
}

fn reads(text: &str) -> Option<f64> {
    let from = text.find('{')?;
    let reported: Value = serde_json::from_str(&text[from..]).ok()?;
    reported["jobs"][0]["read"]["iops"].as_f64().filter(|rate| *rate > 0.0)
}

/// What a command printed; what it complained of where it failed.
fn said(output: &Output) -> Result<String> {
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A server of its own, and one sysbench that goes on for the whole bench; operations are counted
/// by the server between the edges of a cell.
struct Mariadb {
    cell: Duration,
    socket: PathBuf,
    server: Child,
    generator: Child,
}

/// The CPUs of server and generator: apart where there are two.
fn split() -> (String, String) {
    match std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
        1 => ("0".to_owned(), "0".to_owned()),
        cpus => (format!("0-{}", cpus - 2), (cpus - 1).to_string()),
    }
}

fn on_cpus(cpus: &str, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cpus, program]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

impl Mariadb {
    fn start(cell: Duration, undo: &Undo) -> Result<Self> {
        let (data, socket) = (undo.folder().join("data"), undo.folder().join("socket"));
        let datadir = format!("--datadir={}", data.display());
        let install = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--user=root", "--skip-test-db", &datadir])
            .args(["--auth-root-authentication-method=normal"])
            .output()
            .context("mariadb-install-db is not installed")?;
        said(&install)?;
        let (server_cpus, generator_cpus) = split();
        let server = on_cpus(&server_cpus, "mariadbd")
            .args(["--no-defaults", "--user=root", &datadir, "--skip-networking"])
            .args(["--skip-name-resolve", "--innodb-buffer-pool-size=256M"])
            .arg(format!("--socket={}", socket.display()))
            .spawn()
            .context("taskset is not installed")?;
        undo.add_process(&server, "mariadbd")?;
        await_answer(&socket)?;
        query(&socket, "CREATE DATABASE bench")?;
        said(
            &Command::new("sysbench")
                .args(sysbench_options(&socket))
                .args(["--threads=1", "prepare"])
                .output()?,
        )?;
        let mut generator = on_cpus(&generator_cpus, "sysbench");
        generator.args(sysbench_options(&socket)).args(["--threads=8", "--time=0", "run"]);
        let generator = generator.spawn()?;
        undo.add_process(&generator, "sysbench")?;
        std::thread::sleep(SETTLE);
        Ok(Self { cell, socket, server, generator })
    }

    /// Statements so far, and the server's clock in seconds.
    fn count(&self) -> Result<(f64, f64)> {
        let reported = query(
            &self.socket,
            "SELECT VARIABLE_VALUE, UNIX_TIMESTAMP(NOW(6)) FROM information_schema.GLOBAL_STATUS \
             WHERE VARIABLE_NAME = 'QUESTIONS'",
        )?;
        let mut words = reported.split_whitespace().map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(count)), Some(Ok(time))) => Ok((count, time)),
            _ => bail!("the server said `{reported}`"),
        }
    }
}

impl Load for Mariadb {
    fn cell(&mut self, observer: Option<&mut dyn Observer>) -> Result<Cell> {
        let mut observer = observer;
        if let Some(observer) = &mut observer {
            observer.begin(&[self.server.id()], &[self.generator.id()])?;
        }
        // What the observer did to get going passes.
        std::thread::sleep(Duration::from_millis(200));
        let before = self.count()?;
        std::thread::sleep(self.cell);
        let after = self.count()?;
        let remark = observer.map_or_else(|| Ok(String::new()), |observer| observer.end())?;
        if let Some(status) = self.generator.try_wait()? {
            bail!("sysbench ended: {status}");
        }
        Ok(Cell { rate: (after.0 - before.0) / (after.1 - before.1), remark })
    }
}

impl Drop for Mariadb {
    fn drop(&mut self) {
        for child in [&mut self.generator, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn sysbench_options(socket: &std::path::Path) -> Vec<String> {
    let mut options = strings(&["oltp_read_only", "--tables=4", "--table-size=10000"]);
    options.extend(strings(&["--mysql-db=bench", "--mysql-user=root", "--db-driver=mysql"]));
    options.push(format!("--mysql-socket={}", socket.display()));
    options
}

fn query(socket: &std::path::Path, statement: &str) -> Result<String> {
    let socket = format!("--socket={}", socket.display());
    let client = Command::new("mariadb")
        .args(["--no-defaults", "--user=root", "--batch", "--skip-column-names", &socket])
        .arg(format!("--execute={statement}"))
        .output()?;
    said(&client)
}

fn await_answer(socket: &std::path::Path) -> Result<()> {
    let begin = Instant::now();
    loop {
        match query(socket, "SELECT 1") {
            Ok(_) => return Ok(()),
            Err(error) if begin.elapsed() > TIMEOUT => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_what_the_commands_print() {
        let perf =
            "# Executed 1000\n\n     Total time: 0.9 [sec]\n\n  4.7 usecs/op\n   211,540 ops/sec\n";
        assert_eq!(operations(perf), Some(211_540.0));
        assert_eq!(operations("nothing"), None);
        let fio = "note\n{\"jobs\": [{\"read\": {\"iops\": 1234.5}}]}";
        assert_eq!(reads(fio), Some(1234.5));
        assert_eq!(reads("{\"jobs\": [{\"read\": {\"iops\": 0}}]}"), None);
    }
}
