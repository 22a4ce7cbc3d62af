//! fio as the readers: one thread a client, its result as JSON.

use super::settings::Settings;
use crate::output;
use crate::process::Program;
use crate::workload::{Drive, SliceOutput};
use anyhow::{Context as _, ensure};
use kneepoint_vocab::Nanos;
use std::path::{Path, PathBuf};

/// Longer than the slice, so that the readers outlast the moment in which they were found.
const MARGIN: Nanos = Nanos::from_millis(30);

/// For how long, or for how many reads, fio shall read.
pub(super) enum Until {
    /// Wall time.
    Lasts(Nanos),
    /// Reads of each client.
    Reads(u64),
}

/// fio with so many readers, client `i` on device `i` modulo their number.
pub(super) fn program<'a>(
    settings: &Settings,
    devices: &[PathBuf],
    drive: &Drive,
    until: &Until,
    seed: u64,
    folder: &'a Path,
) -> Program<'a> {
    let mut arguments = vec![
        "--readonly".to_owned(),
        "--thread".to_owned(),
        "--direct=1".to_owned(),
        "--rw=randread".to_owned(),
        "--norandommap".to_owned(),
        format!("--randseed={seed}"),
        format!("--bs={}", settings.block_size),
        format!("--ioengine={}", settings.engine.word()),
        "--iodepth=1".to_owned(),
        "--lat_percentiles=1".to_owned(),
        "--eta=never".to_owned(),
        "--output-format=json+".to_owned(),
    ];
    match until {
        Until::Lasts(lasts) => {
            let milliseconds = (*lasts + MARGIN).0.div_ceil(1_000_000);
            arguments.extend(["--time_based".into(), format!("--runtime={milliseconds}ms")]);
        }
        Until::Reads(reads) => arguments.push(format!("--number_ios={reads}")),
    }
    for (index, device) in devices.iter().enumerate() {
        let readers = share(drive.clients, devices.len(), index);
        if readers > 0 {
            arguments.push(format!("--name=device-{index}"));
            arguments.push(format!("--filename={}", device.display()));
            arguments.push(format!("--numjobs={readers}"));
        }
    }
    let mut program = Program::new("fio", "fio", arguments, folder);
    program.environment = settings.environment.for_program();
    program.cpus.clone_from(&drive.cpus.system);
    program.raised = false;
    program
}

/// Clients of the device at `index` where they are dealt out one by one.
pub(super) fn share(clients: u32, devices: usize, index: usize) -> usize {
    let (clients, devices) = (clients as usize, devices.max(1));
    clients / devices + usize::from(index < clients % devices)
}

/// What fio printed, as a slice of so many clients.
///
/// # Errors
/// It is no report of fio's, of other clients, or one that tells of errors or of no reads.
pub(super) fn parse(printed: &str, clients: u32) -> anyhow::Result<SliceOutput> {
    let (run, per_client) = output::fio::parse_by_job(printed).context("fio's report")?;
    let found = per_client.len();
    ensure!(found == clients as usize, "fio had {found} readers, not {clients}");
    ensure!(run.operations > 0 && run.counted_over.0 > 0, "fio read nothing");
    Ok(SliceOutput {
        operations: run.operations,
        counted_over: run.counted_over,
        per_client,
        latency: run.response.latency(),
        counts: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(error: i64, reads: u64, runtime: u64) -> String {
        format!(
            r#"{{"jobname": "device-0", "error": {error}, "read": {{"total_ios": {reads},
            "runtime": {runtime}, "lat_ns": {{"min": 10, "max": 900, "mean": 200.0, "N": 4,
            "bins": {{"100": 2, "300": 2}}}}}}}}"#
        )
    }

    fn report(jobs: &[String]) -> String {
        let jobs = jobs.join(",");
        format!("fio: a note\n{{\n\"fio version\": \"fio-3.33\", \"jobs\": [{jobs}]}}\n")
    }

    #[test]
    fn readers_are_added_up() {
        let output = parse(&report(&[job(0, 4, 951), job(0, 4, 950)]), 2).unwrap();
        assert_eq!((output.operations, output.per_client.as_slice()), (8, &[4, 4][..]));
        assert_eq!(output.counted_over, Nanos::from_millis(951));
        let latency = output.latency.unwrap();
        let wanted = (Nanos(200), Nanos(100), Some(Nanos(300)), Some(Nanos(900)));
        assert_eq!((latency.mean, latency.p50, latency.p95, latency.longest), wanted);
    }

    #[test]
    fn nonsense_is_no_number() {
        let refused = [
            (String::new(), "JSON report of fio"),
            ("fio: engine io_uring not loadable".to_owned(), "JSON report of fio"),
            (report(&[job(0, 4, 951)])[..60].to_owned(), "JSON report of fio"),
            (report(&[job(0, 4, 951)]), "1 readers, not 2"),
            (report(&[job(0, 4, 951), job(5, 1, 9)]), "error 5"),
            (report(&[job(0, 0, 951), job(0, 0, 951)]), "read nothing"),
            (report(&[job(0, 4, 0), job(0, 4, 0)]), "read nothing"),
        ];
        for (text, problem) in refused {
            let error = format!("{:#}", parse(&text, 2).unwrap_err());
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn clients_are_dealt_out() {
        let dealt = |clients| [0, 1, 2].map(|index| share(clients, 3, index));
        assert_eq!(dealt(1), [1, 0, 0]);
        assert_eq!(dealt(7), [3, 2, 2]);
        assert_eq!(dealt(48), [16, 16, 16]);
    }
}
