//! From what a run of the command printed, and how long it took, to counted operations.

use super::figure::{Pattern, number};
use super::line::Line;
use super::{formats, unknown};
use kneepoint_vocab::{Latency, Nanos};
use serde_json::Value;
use std::time::Duration;

/// How operations are counted.
#[derive(Clone, Debug)]
pub(super) enum Counting {
    /// By the format of a well-known generator, or a line such as `950 req/s`.
    Automatic,
    /// It prints operations per second.
    Throughput(Pattern),
    /// It prints a number of operations, and perhaps the seconds they took.
    Operations { count: Pattern, elapsed: Option<Pattern> },
    /// Its JSON holds operations per second at this pointer.
    Json(String),
    /// A run does so many operations, however long that takes.
    Work(f64),
    /// Another program tells how many there have been.
    Counter(Counter),
}

/// The program that tells, and where its number is.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    pub(super) line: Line,
    pub(super) pattern: Pattern,
}

/// Operations, and the time over which they were counted.
pub(super) type Counted = (u64, Nanos);

/// What a run of the command did.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run {
    pub(super) counted: Counted,
    /// By whose format.
    pub(super) by: &'static str,
    /// Response times, where its format tells all of them.
    pub(super) latency: Option<Latency>,
}

/// Counts are exact in a float below this.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// Longest time that operations may have taken by what a program prints, in ns: 31 years.
const LONGEST: f64 = 1e18;

impl Counting {
    /// One line for people.
    pub(super) fn reported(&self) -> String {
        match self {
            Self::Automatic => "by its output's known form".to_owned(),
            Self::Throughput(_) => "operations/s that it prints".to_owned(),
            Self::Operations { elapsed: Some(_), .. } => {
                "operations and seconds that it prints".to_owned()
            }
            Self::Operations { .. } => {
                "operations that it prints, over its clients' run".to_owned()
            }
            Self::Json(pointer) => format!("operations/s at {pointer} of its JSON"),
            Self::Work(work) => format!("{work} operations a run, over its run"),
            Self::Counter(counter) => {
                format!("by `{}`, at the edges of the window", counter.line)
            }
        }
    }

    /// Whether only a run to its own end counts.
    pub(super) fn needs_the_end(&self) -> bool {
        matches!(self, Self::Work(_))
    }

    /// The operations of a run that took `wall`, and whose clients worked for `worked` of that.
    ///
    /// # Errors
    /// What is wrong with what it printed.
    pub(super) fn count(
        &self,
        printed: &str,
        complained: &str,
        wall: Duration,
        worked: Duration,
    ) -> Result<Run, String> {
        let texts = [printed, complained];
        let counted = match self {
            Self::Automatic => {
                let Some(reading) = formats::recognised(&texts)? else {
                    let [printed, complained] = texts.map(formats::ends);
                    return Err(unknown::refusal(&[&printed, &complained]));
                };
                let formats::Reading { by, rate, latency } = reading;
                return Ok(Run { counted: by_rate(rate, wall)?, by, latency });
            }
            Self::Throughput(pattern) => by_rate(pattern.find(&texts)?, wall),
            Self::Operations { count, elapsed } => {
                let seconds = match elapsed {
                    Some(pattern) => pattern.find(&texts)?,
                    None => worked.as_secs_f64(),
                };
                over(count.find(&texts)?, seconds)
            }
            Self::Json(pointer) => by_rate(json(printed, pointer)?, wall),
            Self::Work(work) => over(*work, wall.as_secs_f64()),
            Self::Counter(_) => Err("its operations are counted elsewhere".to_owned()),
        };
        Ok(Run { counted: counted?, by: "as set", latency: None })
    }
}

/// So many operations in so many seconds.
fn over(operations: f64, seconds: f64) -> Result<Counted, String> {
    by_rate(operations / seconds, Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
}

/// Operations of this rate over about `wall`: a whole number of them, and exactly the time that
/// they take, so that a low rate loses nothing to rounding. A rate of zero is no operation in
/// `wall`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to fit")]
pub(in crate::workload) fn by_rate(rate: f64, wall: Duration) -> Result<Counted, String> {
    if rate == 0.0 {
        // Nothing was done, which is a result too.
        return match u64::try_from(wall.as_nanos()) {
            Ok(nanos @ 1..) => Ok((0, Nanos(nanos))),
            _ => Err("nothing was done in no time".to_owned()),
        };
    }
    let operations = (rate * wall.as_secs_f64()).round().max(1.0);
    let nanos = operations / rate * 1e9;
    if !rate.is_finite() || operations >= EXACT || !(1.0..LONGEST).contains(&nanos) {
        return Err(format!("{rate} operations/s is no throughput"));
    }
    Ok((operations as u64, Nanos(nanos.round() as u64)))
}

/// The number at a JSON pointer of what was printed; lines before the first brace are skipped.
fn json(printed: &str, pointer: &str) -> Result<f64, String> {
    let begin = printed.find(['{', '[']).ok_or("it printed no JSON")?;
    let mut values = serde_json::Deserializer::from_str(&printed[begin..]).into_iter::<Value>();
    let report = match values.next() {
        Some(Ok(report)) => report,
        Some(Err(error)) => return Err(format!("what it printed is not JSON: {error}")),
        None => return Err("it printed no JSON".to_owned()),
    };
    match report.pointer(pointer) {
        Some(Value::Number(found)) => number(&found.to_string()),
        Some(Value::String(found)) => number(found),
        Some(other) => Err(format!("{pointer} of its JSON is no number: {}", brief(other))),
        None => Err(format!("its JSON has nothing at {pointer}")),
    }
}

fn brief(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { short + "..." } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn count(counting: &Counting, printed: &str) -> Result<Counted, String> {
        counting.count(printed, "", SECOND, SECOND).map(|run| run.counted)
    }

    #[test]
    fn every_way_of_counting_counts() {
        let pattern = |text| Pattern::parse(text).unwrap();
        let throughput = Counting::Throughput(pattern("=([0-9.]+)"));
        assert_eq!(count(&throughput, "x=250"), Ok((250, Nanos(1_000_000_000))));
        let elapsed = Some(pattern("in ([0-9.]+)"));
        let both = Counting::Operations { count: pattern("did ([0-9]+)"), elapsed };
        assert_eq!(count(&both, "did 30 in 0.5"), Ok((30, Nanos(500_000_000))));
        let only = Counting::Operations { count: pattern("did ([0-9]+)"), elapsed: None };
        assert_eq!(count(&only, "did 30"), Ok((30, Nanos(1_000_000_000))));
        let half = only.count("did 30", "", SECOND, SECOND / 2).unwrap();
        assert_eq!(half.counted, (30, Nanos(500_000_000)));
        let json = Counting::Json("/a/0/r".to_owned());
        assert_eq!(count(&json, "# x\n{\"a\":[{\"r\":12}]}\n# y").unwrap().0, 12);
        assert_eq!(count(&json, "{\"a\":[{\"r\":\"12.0\"}]}").unwrap().0, 12);
        assert_eq!(count(&Counting::Work(7.0), ""), Ok((7, Nanos(1_000_000_000))));
        assert_eq!(count(&Counting::Automatic, "7 req/s"), Ok((7, Nanos(1_000_000_000))));
    }

    #[test]
    fn nothing_done_is_counted_as_that() {
        let nothing = Ok((0, Nanos(1_000_000_000)));
        assert_eq!(count(&Counting::Automatic, "0.0 ops/s"), nothing);
        let throughput = Counting::Throughput(Pattern::parse("=([0-9]+)").unwrap());
        assert_eq!(count(&throughput, "=0"), nothing);
        let did = Counting::Operations {
            count: Pattern::parse("did ([0-9]+)").unwrap(),
            elapsed: Some(Pattern::parse("in ([0-9]+)").unwrap()),
        };
        assert_eq!(count(&did, "did 0 in 2"), Ok((0, Nanos(2_000_000_000))));
        assert!(count(&did, "did 0 in 0").is_err());
    }

    #[test]
    fn an_output_that_is_not_understood_is_refused() {
        let reported = count(&Counting::Automatic, "finished 30 rounds").unwrap_err();
        assert!(
            reported.contains("finished 30 rounds") && reported.contains("--throughput '"),
            "{reported}"
        );
        assert!(count(&Counting::Automatic, "").unwrap_err().contains("--work 1"));
        for bad in ["nan ops/s", "1e400 ops/s", "600 MB/s", "950 req/s 20 qps"] {
            assert!(count(&Counting::Automatic, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let json = Counting::Json("/r".to_owned());
        for printed in ["", "no", "{", "{}", "{\"r\":null}", "{\"r\":\"x\"}", "{\"r\":-1}"] {
            assert!(count(&json, printed).is_err(), "{printed} passed");
        }
        let throughput = Counting::Throughput(Pattern::parse("=(.*)").unwrap());
        for printed in ["", "=", "=nan", "=inf", "=-3", "=1e300", "=1e-300"] {
            assert!(count(&throughput, printed).is_err(), "{printed} passed");
        }
    }

    proptest! {
        #[test]
        fn a_rate_is_kept_however_low(rate in 1e-6f64..1e12, wall in 0.001f64..1000.0) {
            let counted = by_rate(rate, Duration::from_secs_f64(wall));
            prop_assume!(counted.is_ok());
            let (operations, over) = counted.unwrap();
            #[allow(clippy::cast_precision_loss, reason = "a test on modest numbers")]
            let kept = operations as f64 / (over.0 as f64 / 1e9);
            prop_assert!((kept / rate - 1.0).abs() < 1e-3 || over.0 < 10_000, "{kept} {rate}");
        }
    }
}
