//! The throughput and response times in the output of well-known load generators.

use super::figure::{Pattern, number};
use super::general;
use crate::output::{Response, fio, millis, sysbench};
use kneepoint_vocab::{Latency, Nanos};
use std::borrow::Cow;

/// Whose output it is, its operations per second, and its response times where all are reported.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) by: &'static str,
    pub(super) rate: f64,
    pub(super) latency: Option<Latency>,
}

/// Reads the response times in a generator's output, as far as they are reported.
type Times = fn(&str) -> Response;

/// Whose format it is, the pattern of its operations per second, and its response times.
const FORMATS: [(&str, &str, Times); 10] = [
    ("sysbench", r"(?m)^\s*transactions:\s+[0-9]+\s+\(([0-9.]+) per sec\.\)", of_sysbench),
    ("sysbench", r"(?m)^\s*events per second:\s+([0-9.]+)\s*$", of_sysbench),
    ("sysbench", r"(?m)^\s*Total operations:\s+[0-9]+\s+\(\s*([0-9.]+) per second\)", none),
    ("pgbench", r"(?m)^tps = ([0-9.]+) \((?:without initial|excluding)", none),
    // wrk, hey and oha, which print percentiles in much the same form.
    ("an HTTP generator", r"(?m)^\s*Requests/sec:\s+([0-9.]+)\s*$", of_http),
    ("ab", r"(?m)^Requests per second:\s+([0-9.]+) \[#/sec\]", of_ab),
    ("memtier_benchmark", r"(?m)^Totals\s+([0-9.]+)\s", of_memtier),
    ("redis-benchmark", r"(?:: |^\s*|\n\s*)([0-9.]+) requests per second", of_redis),
    ("redis-benchmark --csv", r#"(?m)^"[^"]+","([0-9.]+)"(?:,"[0-9.]+"){6}\s*$"#, of_redis_csv),
    (
        "stress-ng",
        concat!(
            r"(?m)^stress-ng: (?:metrc|info):\s+\[[0-9]+\]\s+[a-z][a-z0-9-]*\s+[0-9]+",
            r"(?:\s+[0-9.]+){3}\s+([0-9.]+)\s+[0-9.]+"
        ),
        none,
    ),
];

/// So many bytes of the beginning and of the end of what was printed are looked through for
/// figures: results stand there, and who prints without end is not to be waited for.
const EACH_END: usize = 256 << 10;

/// The whole lines at both ends of a text.
pub(super) fn ends(text: &str) -> Cow<'_, str> {
    if text.len() <= 2 * EACH_END {
        return Cow::Borrowed(text);
    }
    // Half a line could hold half a number.
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let (head, tail) = (&text.as_bytes()[..EACH_END], text.len() - EACH_END);
    let head = head.iter().rposition(is_end).map_or("", |last| &text[..=last]);
    let begin = text.as_bytes()[tail..].iter().position(is_end);
    let tail = begin.map_or("", |begin| &text[tail + begin..]);
    Cow::Owned([head, tail].concat())
}

/// What the first of `texts` that tells operations per second says; none where none does.
///
/// # Errors
/// It holds different figures, so that nobody can tell which is meant, one that is no number, or
/// the report of a run that failed.
pub(super) fn recognised(texts: &[&str]) -> Result<Option<Reading>, String> {
    for text in texts {
        if let Some(reading) = of_a_generator(text)? {
            return Ok(Some(reading));
        }
    }
    for text in texts {
        if let Some(rate) = general::rate(&ends(text))? {
            return Ok(Some(Reading { by: "a line with ops/s", rate, latency: None }));
        }
    }
    Ok(None)
}

fn of_a_generator(printed: &str) -> Result<Option<Reading>, String> {
    if fio::is(printed) {
        let (report, _) =
            fio::parse_by_job(printed).map_err(|error| format!("fio's report: {error}"))?;
        let seconds = report.counted_over.seconds().0;
        let latency = report.response.latency();
        return Ok(Some(Reading { by: "fio", rate: rate(report.operations, seconds)?, latency }));
    }
    let printed = &*ends(printed);
    for (by, text, times) in FORMATS {
        let pattern = Pattern::parse(text)?;
        if pattern.matches(printed) {
            let rate = pattern.find(&[printed]).map_err(|why| {
                format!("{why}; say with `throughput` (--throughput) which figure counts")
            })?;
            // Times that are cut to nothing say nothing.
            let reported = times(printed).latency().filter(|latency| latency.p50 > Nanos(0));
            return Ok(Some(Reading { by, rate, latency: reported }));
        }
    }
    // Its tests of threads and mutexes report a count and a time, and no rate.
    if sysbench::is(printed)
        && let Ok(report) = sysbench::parse(printed)
    {
        let rate = rate(report.operations, report.counted_over.seconds().0)?;
        return Ok(Some(Reading { by: "sysbench", rate, latency: report.response.latency() }));
    }
    Ok(None)
}

fn rate(operations: u64, seconds: f64) -> Result<f64, String> {
    #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    number(&(operations as f64 / seconds).to_string())
}

fn none(_: &str) -> Response {
    Response::default()
}

fn of_sysbench(printed: &str) -> Response {
    sysbench::parse(printed).map(|report| report.response).unwrap_or_default()
}

/// `  95% in 0.0003 secs` and `Slowest: 0.0067 secs` of hey and oha, `  99%    5.25ms` below the
/// line `Latency   517.64us    1.33ms  18.07ms` (mean, deviation, longest) of wrk --latency.
fn of_http(printed: &str) -> Response {
    let mut reported = Response::default();
    for line in printed.lines().map(str::trim) {
        if let Some((percent, rest)) = line.split_once("% in ") {
            let percent = percent.trim().parse().ok();
            reported.percentiles.extend(percent.zip(length(rest)));
        } else if let Some(rest) = line.strip_prefix("Slowest:") {
            reported.longest = reported.longest.or(length(rest));
        } else if let Some(rest) = line.strip_prefix("Average:") {
            reported.mean = reported.mean.or(length(rest));
        } else if let Some((percent, rest)) = line.split_once("% ") {
            let percent = percent.parse().ok();
            reported.percentiles.extend(percent.zip(short_length(rest)));
        } else if let Some(rest) = line.strip_prefix("Latency ") {
            let mut lengths = rest.split_whitespace().map(short_length);
            reported.mean = reported.mean.or(lengths.next().flatten());
            reported.longest = reported.longest.or(lengths.nth(1).flatten());
        }
    }
    reported
}

/// `32.00us`, `1.89ms`, `2.00m`: a number and its unit of time without a blank.
fn short_length(text: &str) -> Option<Nanos> {
    let text = text.trim();
    let (figure, unit) = text.split_at(text.find(|it: char| it.is_ascii_alphabetic())?);
    let scale = match unit {
        "us" => 1e-3,
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 6e4,
        _ => return None,
    };
    millis(figure.parse::<f64>().ok()? * scale)
}

/// The line `Totals` below the heads of its columns, which lie two blanks apart, in milliseconds.
fn of_memtier(printed: &str) -> Response {
    let mut reported = Response::default();
    let heads = printed.lines().find(|line| line.starts_with("Type ")).unwrap_or_default();
    let totals = printed.lines().find(|line| line.starts_with("Totals ")).unwrap_or_default();
    let heads = heads.split("  ").map(str::trim).filter(|head| !head.is_empty());
    for (head, value) in heads.zip(totals.split_whitespace()) {
        let Some(value) = value.parse().ok().and_then(millis) else { continue };
        let percent = head.strip_prefix('p').and_then(|head| head.strip_suffix(" Latency"));
        match percent.and_then(|percent| percent.parse().ok()) {
            Some(percent) => reported.percentiles.push((percent, value)),
            None if head == "Avg. Latency" => reported.mean = Some(value),
            None => {}
        }
    }
    reported
}

/// `0.0003 secs`, `1.5 ms`: a number and its unit of time.
fn length(text: &str) -> Option<Nanos> {
    let (figure, unit) = text.trim().split_once(' ')?;
    let scale = match unit.trim() {
        "secs" | "sec" | "s" => 1e3,
        "ms" => 1.0,
        "us" | "µs" => 1e-3,
        _ => return None,
    };
    millis(figure.parse::<f64>().ok()? * scale)
}

/// Whole milliseconds: `  95%      4`, ` 100%      9 (longest request)`, and the line of the sum.
fn of_ab(printed: &str) -> Response {
    let mut reported = Response::default();
    for line in printed.lines().map(str::trim) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let value = |index: usize| millis(fields.get(index)?.parse().ok()?);
        let percent = fields.first().and_then(|first| first.strip_suffix('%')?.parse().ok());
        match (percent, value(1)) {
            (Some(percent), Some(value)) if percent < 100.0 => {
                reported.percentiles.push((percent, value));
            }
            (Some(_), value) => reported.longest = value,
            _ if line.starts_with("Time per request:") && reported.mean.is_none() => {
                reported.mean = value(3);
            }
            _ => {}
        }
    }
    reported
}

/// The line below `avg min p50 p95 p99 max`, in milliseconds.
fn of_redis(printed: &str) -> Response {
    let mut lines = printed.lines();
    let heads = ["avg", "min", "p50", "p95", "p99", "max"];
    let found = lines.by_ref().any(|line| line.split_whitespace().eq(heads));
    let below = lines.next().filter(|_| found).unwrap_or_default();
    of_row(&below.split_whitespace().collect::<Vec<_>>())
}

/// `"GET","32733.22","0.042","0.008","0.023","0.039","0.079","10.279"`: name, rate, the same six.
fn of_redis_csv(printed: &str) -> Response {
    let row = printed.lines().find(|line| {
        line.split(',').nth(1).is_some_and(|rate| rate.trim_matches('"').parse::<f64>().is_ok())
    });
    let fields: Vec<&str> =
        row.unwrap_or_default().split(',').skip(2).map(|field| field.trim_matches('"')).collect();
    of_row(&fields)
}

/// Average, least, median, 95th and 99th percentile, and greatest, in milliseconds.
fn of_row(fields: &[&str]) -> Response {
    let numbers: Vec<Option<Nanos>> =
        fields.iter().map(|field| millis(field.parse().ok()?)).collect();
    let [mean, _, p50, p95, p99, longest] = numbers[..] else { return Response::default() };
    let reported = [(50.0, p50), (95.0, p95), (99.0, p99)];
    let percentiles = reported.into_iter().filter_map(|(at, value)| Some((at, value?))).collect();
    Response { mean, longest, percentiles }
}

#[cfg(test)]
mod tests {
    use super::super::unknown;
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;

    /// What generators really print.
    const PRINTED: [&str; 12] = [
        include_str!("../../../tests/output/ab.txt"),
        include_str!("../../../tests/output/fio-group.json"),
        include_str!("../../../tests/output/fio-two-jobs.json"),
        include_str!("../../../tests/output/hey.txt"),
        include_str!("../../../tests/output/pgbench-time.txt"),
        include_str!("../../../tests/output/redis-benchmark-csv.txt"),
        include_str!("../../../tests/output/redis-benchmark.txt"),
        include_str!("../../../tests/output/stress-ng.txt"),
        include_str!("../../../tests/output/sysbench-cpu.txt"),
        include_str!("../../../tests/output/sysbench-histogram.txt"),
        include_str!("../../../tests/output/sysbench-oltp.txt"),
        include_str!("../../../tests/output/wrk-latency.txt"),
    ];

    proptest! {
        #[test]
        fn no_damage_to_an_output_makes_it_panic(
            which in 0..PRINTED.len(),
            damages in prop::collection::vec((any::<Index>(), 0_usize..40, "\\PC{0,8}"), 1..6),
        ) {
            let mut bytes = PRINTED[which].as_bytes().to_vec();
            for (at, lost, inserted) in damages {
                let begin = at.index(bytes.len() + 1);
                let end = (begin + lost).min(bytes.len());
                bytes.splice(begin..end, inserted.bytes());
            }
            let text = String::from_utf8_lossy(&bytes);
            match recognised(&[&text]) {
                Ok(Some(reading)) => prop_assert!(reading.rate.is_finite() && reading.rate >= 0.0),
                Ok(None) => prop_assert!(!unknown::refusal(&[&text]).contains('\n')),
                Err(why) => prop_assert!(!why.is_empty()),
            }
        }
    }

    #[test]
    fn of_very_much_only_whole_lines_at_the_ends_are_read() {
        let much = |line: &str| line.repeat(3 * EACH_END / line.len());
        let flood = much("flood 1\n");
        assert_eq!(reported(&format!("7 ops/s\n{flood}")), Some(("a line with ops/s", 7.0)));
        assert_eq!(reported(&format!("{flood}7 ops/s\n")), Some(("a line with ops/s", 7.0)));
        // Neither half a line nor what stands far from both ends.
        assert_eq!(reported(&format!("{flood}7 ops/s\n{flood}")), None);
        let long = format!("{}7 ops/s {}", much("1"), "x".repeat(EACH_END - 8));
        assert_eq!(reported(&long), None);
        assert_eq!(ends(&"é".repeat(3 * EACH_END)), "");
        assert_eq!(ends("short"), "short");
    }

    fn reported(printed: &str) -> Option<(&'static str, f64)> {
        recognised(&[printed]).unwrap().map(|reading| (reading.by, reading.rate))
    }

    /// What a file that a generator really printed tells.
    fn printed(text: &str) -> (&'static str, f64, Option<[u64; 5]>) {
        let Reading { by, rate, latency } = recognised(&[text]).unwrap().unwrap();
        // What is not reported is 0 here.
        let micros = |latency: Latency| {
            let Latency { mean, p50, p95, p99, longest } = latency;
            [Some(mean), Some(p50), p95, Some(p99), longest]
                .map(|length| length.map_or(0, |length| length.0 / 1000))
        };
        (by, rate, latency.map(micros))
    }

    #[test]
    fn what_generators_really_print_is_read() {
        let wrk = include_str!("../../../tests/output/wrk-latency.txt");
        let times = Some([517, 32, 0, 5250, 18070]);
        assert_eq!(printed(wrk), ("an HTTP generator", 31926.48, times));
        let hey = include_str!("../../../tests/output/hey.txt");
        let times = Some([200, 100, 300, 3100, 6700]);
        assert_eq!(printed(hey), ("an HTTP generator", 9626.8322, times));
        // Its median is below a millisecond, which it does not resolve.
        let ab = include_str!("../../../tests/output/ab.txt");
        assert_eq!(printed(ab), ("ab", 7486.06, None));
        let slower =
            ab.replace("  50%      0\n", "  50%      1\n").replace("  95%      0", "  95%      2");
        assert_eq!(printed(&slower).2, Some([267, 1000, 2000, 4000, 9000]));
        let redis = include_str!("../../../tests/output/redis-benchmark.txt");
        let times = Some([40, 23, 39, 95, 5591]);
        assert_eq!(printed(redis), ("redis-benchmark", 34246.57, times));
        let csv = include_str!("../../../tests/output/redis-benchmark-csv.txt");
        let times = Some([42, 23, 39, 79, 10279]);
        assert_eq!(printed(csv), ("redis-benchmark --csv", 32733.22, times));
        let quiet = include_str!("../../../tests/output/redis-benchmark-quiet.txt");
        assert_eq!(printed(quiet).0, "redis-benchmark");
        let stress = include_str!("../../../tests/output/stress-ng.txt");
        assert_eq!(printed(stress), ("stress-ng", 435.06, None));
        let sysbench = include_str!("../../../tests/output/sysbench-histogram.txt");
        assert!(printed(sysbench).2.is_some());
        let oha = "Summary:\n  Success rate: 100.00%\n  Slowest: 0.0067 secs\n  \
                   Average: 0.0002 secs\n  \
                   Requests/sec: 9626.5\n\nResponse time distribution:\n  50.00% in 0.0001 secs\n  \
                   95.00% in 0.0003 secs\n  99.00% in 0.0031 secs\n";
        assert_eq!(printed(oha), ("an HTTP generator", 9626.5, Some([200, 100, 300, 3100, 6700])));
    }

    #[test]
    fn well_known_generators_are_recognised() {
        let sysbench = "SQL statistics:\n    transactions:      2401   (2399.12 per sec.)\n    \
                        queries:  4802  (4798.2 per sec.)\n";
        assert_eq!(reported(sysbench), Some(("sysbench", 2399.12)));
        let cpu = "CPU speed:\n    events per second:  1234.56\n\nGeneral statistics:\n";
        assert_eq!(reported(cpu), Some(("sysbench", 1234.56)));
        let memory = "Total operations: 5120 (1234567.89 per second)\n";
        assert_eq!(reported(memory), Some(("sysbench", 1_234_567.89)));
        let threads = include_str!("../../../tests/output/sysbench-threads.txt");
        let (by, rate) = reported(threads).unwrap();
        assert!(by == "sysbench" && (rate - 3072.0 / 1.0005).abs() < 0.01, "{by}: {rate}");
        let cut = threads.split("total number").next().unwrap();
        assert_eq!(reported(cut), None);
        let pgbench = "latency average = 0.1 ms\ntps = 26510.6 (without initial connection time)\n";
        assert_eq!(reported(pgbench), Some(("pgbench", 26510.6)));
        let redis = "\rGET: rps=1.0 (overall: 2.0)\rGET: 91743.12 requests per second, p50=0.4\n";
        assert_eq!(reported(redis), Some(("redis-benchmark", 91743.12)));
        let memtier = "Type  Ops/sec\nSets  10.5 1\nTotals  115.5  0.00 104\n";
        assert_eq!(reported(memtier), Some(("memtier_benchmark", 115.5)));
        let heads = "Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 \
                     Latency     p99 Latency   p99.9 Latency       KB/sec \n";
        let totals = "Totals    10033.7         0.00     91214.23         0.49750         0.39100 \
                      1.50300         3.00700      4255.88 \n";
        let times = printed(&[heads, totals].concat());
        assert_eq!(times, ("memtier_benchmark", 10033.7, Some([497, 391, 0, 1503, 0])));
        assert_eq!(reported("done: 1,234.5 ops/s\n"), Some(("a line with ops/s", 1234.5)));
        let said = recognised(&["", "7 ops/s"]).unwrap().unwrap();
        assert_eq!(said.rate.to_bits(), 7.0_f64.to_bits());
    }

    #[test]
    fn a_failed_job_of_fio_is_no_result() {
        let fio = include_str!("../../../tests/output/fio-two-jobs.json");
        assert_eq!(reported(fio).unwrap().0, "fio");
        let failed = fio.replacen("\"error\" : 0", "\"error\" : 5", 1);
        assert_ne!(fio, failed);
        let why = recognised(&[&failed]).unwrap_err();
        assert!(why.contains("error") && why.contains('5'), "{why}");
    }

    #[test]
    fn what_is_not_clear_is_not_guessed() {
        let two = "PING: 100.5 requests per second\nGET: 200.5 requests per second\n";
        assert!(recognised(&[two]).unwrap_err().contains("--throughput"));
        let csv = include_str!("../../../tests/output/redis-benchmark-csv.txt");
        let two = format!("{csv}\"SET\",\"7.0\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"\n");
        assert!(recognised(&[&two]).unwrap_err().contains("--throughput"));
        assert!(recognised(&["1 ops/s\n2 ops/s\n"]).is_err());
        assert_eq!(reported(""), None);
        assert_eq!(reported("took 3.1 s, all good"), None);
        assert_eq!(reported("{\"jobs\": []}"), None);
    }
}
