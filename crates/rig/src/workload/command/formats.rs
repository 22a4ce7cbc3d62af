//! The throughput in the output of well-known load generators.

use super::figure::{Pattern, number};
use serde_json::Value;

/// Whose format it is, and the pattern of its operations per second.
const FORMATS: [(&str, &str); 8] = [
    ("sysbench", r"(?m)^\s*transactions:\s+[0-9]+\s+\(([0-9.]+) per sec\.\)"),
    ("sysbench", r"(?m)^\s*events per second:\s+([0-9.]+)\s*$"),
    ("sysbench", r"(?m)^\s*Total operations:\s+[0-9]+\s+\(\s*([0-9.]+) per second\)"),
    ("pgbench", r"(?m)^tps = ([0-9.]+) \((?:without initial|excluding)"),
    ("wrk", r"(?m)^Requests/sec:\s+([0-9.]+)\s*$"),
    ("ab", r"(?m)^Requests per second:\s+([0-9.]+) \[#/sec\]"),
    ("memtier_benchmark", r"(?m)^Totals\s+([0-9.]+)\s"),
    ("redis-benchmark", r"(?:: |^\s*|\n\s*)([0-9.]+) requests per second"),
];

/// A line such as `123.4 ops/s`.
const GENERAL: &str = concat!(
    r"(?i)(?:^|[\s=:(])([0-9][0-9.,]*[kM]?)\s*",
    r"(?:ops|op|operations|requests|transactions|queries|iterations|events)\s*",
    r"(?:/s|/sec|/second|per sec|per second)\b",
);

/// Whose output this is, and its operations per second; none where it is nobody's.
///
/// # Errors
/// It holds different figures, so that nobody can tell which is meant, or one that is no number.
pub(super) fn recognised(printed: &str) -> Result<Option<(&'static str, f64)>, String> {
    if let Some(rate) = fio(printed) {
        return rate.map(|rate| Some(("fio", rate)));
    }
    let general = std::iter::once(("a line with ops/s", GENERAL));
    for (name, text) in FORMATS.into_iter().chain(general) {
        let pattern = Pattern::parse(text)?;
        if pattern.matches(printed) {
            let rate = pattern.find(&[printed]);
            return rate.map(|rate| Some((name, rate))).map_err(|why| {
                format!("{why}; say with `throughput` (--throughput) which figure counts")
            });
        }
    }
    Ok(None)
}

/// The sum over jobs and directions of `fio --output-format=json`.
fn fio(printed: &str) -> Option<Result<f64, String>> {
    let begin = printed.find('{')?;
    let report: Value = serde_json::from_str(&printed[begin..]).ok()?;
    report.get("fio version")?;
    let jobs = report.get("jobs")?.as_array()?;
    let directions = ["read", "write", "trim"];
    let of = |job: &Value, direction: &str| job.get(direction)?.get("iops")?.as_f64();
    let rates = jobs.iter().flat_map(|job| directions.map(|direction| of(job, direction)));
    let sum: f64 = rates.flatten().sum();
    Some(number(&sum.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(printed: &str) -> Option<(&'static str, f64)> {
        recognised(printed).unwrap()
    }

    #[test]
    fn well_known_generators_are_recognised() {
        let sysbench = "SQL statistics:\n    transactions:      2401   (2399.12 per sec.)\n    \
                        queries:  4802  (4798.2 per sec.)\n";
        assert_eq!(told(sysbench), Some(("sysbench", 2399.12)));
        let cpu = "CPU speed:\n    events per second:  1234.56\n\nGeneral statistics:\n";
        assert_eq!(told(cpu), Some(("sysbench", 1234.56)));
        let memory = "Total operations: 5120 (1234567.89 per second)\n";
        assert_eq!(told(memory), Some(("sysbench", 1_234_567.89)));
        let pgbench = "latency average = 0.1 ms\ntps = 26510.6 (without initial connection time)\n";
        assert_eq!(told(pgbench), Some(("pgbench", 26510.6)));
        assert_eq!(told("Requests/sec:  10203.4\nTransfer/sec: 1MB\n"), Some(("wrk", 10203.4)));
        assert_eq!(told("Requests per second:    99.5 [#/sec] (mean)\n"), Some(("ab", 99.5)));
        let redis = "\rGET: rps=1.0 (overall: 2.0)\rGET: 91743.12 requests per second, p50=0.4\n";
        assert_eq!(told(redis), Some(("redis-benchmark", 91743.12)));
        let memtier = "Type  Ops/sec\nSets  10.5 1\nTotals  115.5  0.00 104\n";
        assert_eq!(told(memtier), Some(("memtier_benchmark", 115.5)));
        let fio = "note: x\n{\"fio version\": \"fio-3.33\", \"jobs\": [{\"read\": \
                   {\"iops\": 10.5}, \
                   \"write\": {\"iops\": 2.0}}, {\"read\": {\"iops\": 0.5}}]}";
        assert_eq!(told(fio), Some(("fio", 13.0)));
        assert_eq!(told("done: 1,234.5 ops/s\n"), Some(("a line with ops/s", 1234.5)));
    }

    #[test]
    fn what_is_not_clear_is_not_guessed() {
        let two = "PING: 100.5 requests per second\nGET: 200.5 requests per second\n";
        assert!(recognised(two).unwrap_err().contains("--throughput"));
        assert!(recognised("1 ops/s\n2 ops/s\n").is_err());
        assert_eq!(told(""), None);
        assert_eq!(told("took 3.1 s, all good"), None);
        assert_eq!(told("{\"jobs\": []}"), None);
        assert!(recognised("0.0 ops/s").is_err());
    }
}
