//! The JSON report of fio 3.

use super::{Measured, OutputError, Response, nanos, only};
use kneepoint_vocab::Nanos;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Engines that have one request in flight whatever the depth asked for.
const SYNCHRONOUS: [&str; 6] = ["sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"];
/// fio's engine where none is named.
const DEFAULT_ENGINE: &str = "psync";

/// Whether a text looks like fio's JSON.
#[must_use]
pub fn is(text: &str) -> bool {
    text.contains("\"fio version\"")
}

/// The one group of jobs that `text` reports.
///
/// # Errors
/// There is none or several, it is not fio's JSON, or a job failed.
pub fn parse(text: &str) -> Result<Measured, OutputError> {
    only(parse_all(text)?)
}

/// Every group of jobs in `text`, in order: jobs of one group run together, groups one after the
/// other.
///
/// # Errors
/// It is not fio's JSON, a job failed, or did nothing for no time.
pub fn parse_all(text: &str) -> Result<Vec<Measured>, OutputError> {
    let (begin, report) = read(text)?;
    let mut groups: BTreeMap<u64, Vec<&JobText>> = BTreeMap::new();
    for job in &report.jobs {
        groups.entry(job.group).or_default().push(job);
    }
    groups.values().map(|jobs| measured(begin + 1, &report, jobs)).collect()
}

/// All jobs of `text` as one run, and the operations of each.
///
/// # Errors
/// It is not fio's JSON, or a job failed.
pub fn parse_by_job(text: &str) -> Result<(Measured, Vec<u64>), OutputError> {
    let (begin, report) = read(text)?;
    let jobs: Vec<&JobText> = report.jobs.iter().collect();
    let operations = jobs.iter().map(|job| job.directions().map(|moved| moved.total).sum());
    Ok((measured(begin + 1, &report, &jobs)?, operations.collect()))
}

/// The report, and the number of lines before it.
fn read(text: &str) -> Result<(usize, ReportText), OutputError> {
    // fio writes warnings before its JSON.
    let begin = text.lines().take_while(|line| !line.trim_start().starts_with('{')).count();
    let mut rest = text;
    for _ in 0..begin {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    let mut reader = serde_json::Deserializer::from_str(rest);
    let report = ReportText::deserialize(&mut reader).map_err(|error| {
        let problem = format!("not the JSON report of fio (--output-format=json): {error}");
        OutputError::at(begin + error.line().max(1), problem)
    })?;
    Ok((begin, report))
}

#[derive(Deserialize)]
struct ReportText {
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, String>,
    jobs: Vec<JobText>,
}

#[derive(Deserialize)]
struct JobText {
    #[serde(rename = "jobname")]
    name: String,
    #[serde(rename = "groupid", default)]
    group: u64,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, String>,
    read: Option<Direction>,
    write: Option<Direction>,
    trim: Option<Direction>,
    /// In place of the others, with `unified_rw_reporting`.
    mixed: Option<Direction>,
}

impl JobText {
    /// The directions in which it moved anything.
    fn directions(&self) -> impl Iterator<Item = &Direction> {
        let all = [&self.read, &self.write, &self.trim, &self.mixed];
        all.into_iter().flatten().filter(|direction| direction.total > 0)
    }
}

#[derive(Deserialize)]
struct Direction {
    #[serde(rename = "total_ios", default)]
    total: u64,
    /// Milliseconds.
    #[serde(default)]
    runtime: u64,
    #[serde(rename = "clat_ns")]
    completion: Option<Completion>,
    #[serde(rename = "lat_ns")]
    whole: Option<Completion>,
}

#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    max: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
    /// Nanoseconds to count, with `--output-format=json+`.
    #[serde(default)]
    bins: BTreeMap<u64, u64>,
}

fn measured(line: usize, report: &ReportText, jobs: &[&JobText]) -> Result<Measured, OutputError> {
    if let Some(failed) = jobs.iter().find(|job| job.error != 0) {
        let problem = format!("job {:?} failed with error {}", failed.name, failed.error);
        return Err(OutputError::at(line, problem));
    }
    let directions: Vec<&Direction> = jobs.iter().flat_map(|job| job.directions()).collect();
    let operations = directions.iter().fold(0_u64, |sum, d| sum.saturating_add(d.total));
    let runtime = directions.iter().map(|direction| direction.runtime).max().unwrap_or(0);
    let mut clients = 0_u32;
    for job in jobs {
        clients = clients.saturating_add(in_flight(line, report, jobs, job)?);
    }
    Ok(Measured {
        line,
        clients,
        operations,
        counted_over: Nanos(runtime.saturating_mul(1_000_000)),
        errors: 0,
        statements: None,
        response: response(&directions),
    })
}

/// Requests that a job, or the jobs that its report stands for, keep in flight.
fn in_flight(
    line: usize,
    report: &ReportText,
    jobs: &[&JobText],
    job: &JobText,
) -> Result<u32, OutputError> {
    let option = |key: &str| job.options.get(key).or(report.global.get(key)).map(String::as_str);
    let count = |key: &str| match option(key) {
        None => Ok(1),
        Some(text) => match text.parse() {
            Ok(value @ 1..=1_000_000) => Ok(value),
            _ => Err(OutputError::at(line, format!("{key} has to be a number (found {text:?})"))),
        },
    };
    let synchronous = SYNCHRONOUS.contains(&option("ioengine").unwrap_or(DEFAULT_ENGINE));
    let depth: u32 = if synchronous { 1 } else { count("iodepth")? };
    // Grouped reporting writes one entry for all clones of a job.
    let alone = jobs.iter().filter(|other| other.name == job.name).count() == 1;
    Ok(depth.saturating_mul(if alone { count("numjobs")? } else { 1 }))
}

/// Percentiles of several jobs or directions cannot be put together; mean, longest and bins can.
fn response(directions: &[&Direction]) -> Response {
    let mut response = Response::default();
    let (mut sum, mut count) = (0.0, 0.0);
    for direction in directions {
        let Some(reported) = direction.whole.as_ref().or(direction.completion.as_ref()) else {
            continue;
        };
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
        let weight = direction.total as f64;
        sum += reported.mean * weight;
        count += weight;
        response.longest = response.longest.max(nanos(reported.max));
    }
    response.mean = if count > 0.0 { nanos(sum / count) } else { None };
    if let [only] = directions {
        // Newer versions put percentiles of the whole beside those of the completion.
        let reported = [&only.whole, &only.completion].into_iter().flatten();
        let percentiles =
            reported.map(|reported| &reported.percentile).find(|reported| !reported.is_empty());
        response.percentiles = percentiles
            .into_iter()
            .flatten()
            .filter_map(|(percent, value)| Some((percent.parse().ok()?, nanos(*value)?)))
            .collect();
    } else {
        let reported = directions.iter().filter_map(|moved| moved.whole.as_ref());
        response.percentiles = merged(reported);
    }
    response
}

/// Percentiles of all that was counted in bins; none where there are no bins.
fn merged<'a>(all: impl Iterator<Item = &'a Completion>) -> Vec<(f64, Nanos)> {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for (value, count) in all.flat_map(|reported| &reported.bins) {
        let bin = bins.entry(*value).or_default();
        *bin = bin.saturating_add(*count);
    }
    let total = bins.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let at = |percent: u32| {
        let rank = (u128::from(total) * u128::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        let reached = bins.iter().find(|(_, count)| {
            seen += u128::from(**count);
            seen >= rank
        });
        reached.map(|(value, _)| (f64::from(percent), Nanos(*value)))
    };
    [50, 95, 99].into_iter().filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO: &str = include_str!("../../tests/output/fio-two-jobs.json");
    const FOUR: &str = include_str!("../../tests/output/fio-four-jobs.json");
    const GROUP: &str = include_str!("../../tests/output/fio-group.json");

    #[test]
    fn jobs_of_a_group_run_together() {
        let two = parse(TWO).unwrap();
        assert_eq!(two.clients, 1 + 2, "one job has depth 2");
        assert!(two.response.percentiles.is_empty() && two.response.mean.is_some());
        assert_eq!(parse(FOUR).unwrap().clients, 4 * 8);
        assert_eq!(parse(GROUP).unwrap().clients, 2, "one entry stands for two jobs");
        let apart = parse_all(&FOUR.replacen("\"groupid\": 0", "\"groupid\": 1", 1)).unwrap();
        assert_eq!(apart.len(), 2);
    }

    #[test]
    fn figures_are_those_of_the_file() {
        let text = r#"fio: a warning
{"fio version": "fio-3.33", "global options": {"ioengine": "libaio", "iodepth": "4"},
 "jobs": [{"jobname": "a", "groupid": 0, "error": 0, "job options": {"numjobs": "2"},
  "read": {"total_ios": 5000, "runtime": 2500, "lat_ns": {"mean": 100.0, "max": 900},
   "clat_ns": {"mean": 90.0, "max": 800,
    "percentile": {"50.000000": 80, "95.000000": 120, "99.000000": 300}}},
  "write": {"total_ios": 0, "runtime": 0}}]}"#;
        let report = parse(text).unwrap();
        assert_eq!((report.line, report.clients, report.operations), (2, 8, 5000));
        assert_eq!(report.counted_over, Nanos::from_millis(2500));
        let latency = report.response.latency().unwrap();
        assert_eq!((latency.mean, latency.p50, latency.p99), (Nanos(100), Nanos(80), Nanos(300)));
        let sync = parse(&text.replace("libaio", "psync")).unwrap();
        assert_eq!(sync.clients, 2, "a synchronous job has one request in flight");
    }

    #[test]
    fn bins_of_several_jobs_are_put_together() {
        let job = |reads: u64, bins: &str| {
            format!(
                r#"{{"jobname": "a", "error": 0, "job options": {{"numjobs": "2"}}, "read":
                {{"total_ios": {reads}, "runtime": 950, "lat_ns": {{"max": 900,
                "mean": 200.0, "bins": {{{bins}}}}}}}}}"#
            )
        };
        let report = |jobs: &[String]| format!("{{\"jobs\": [{}]}}", jobs.join(","));
        let both = report(&[job(3, r#""100": 3"#), job(97, r#""100": 47, "300": 49, "700": 1"#)]);
        let (run, operations) = parse_by_job(&both).unwrap();
        assert_eq!((run.clients, run.operations, operations), (2, 100, vec![3, 97]));
        let latency = run.response.latency().unwrap();
        assert_eq!([Some(latency.p50), latency.p95], [Some(Nanos(100)), Some(Nanos(300))]);
        let (run, _) = parse_by_job(&report(&[job(1, ""), job(1, "")])).unwrap();
        assert_eq!(run.response.latency(), None, "no bins, no percentiles of both");
    }

    #[test]
    fn what_is_no_proper_end_is_refused() {
        let failed = TWO.replacen("\"error\" : 0", "\"error\" : 5", 1);
        assert!(parse(&failed).unwrap_err().problem.contains("failed with error 5"));
        assert!(parse(&TWO[..TWO.len() / 2]).unwrap_err().problem.starts_with("not the JSON"));
        let wide = TWO.replace("\"iodepth\" : \"2\"", "\"iodepth\" : \"-2\"");
        assert!(parse(&wide).unwrap_err().problem.contains("iodepth has to be a number"));
        assert!(parse("").is_err() && parse("{}").is_err() && parse("{\"jobs\": []}").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}", cut in 0..TWO.len()) {
            let _ = parse_all(&format!("{{{text}"));
            let _ = parse_all(&TWO[..cut]);
        }
    }
}
