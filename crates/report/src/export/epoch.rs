//! When a run began, as other tools count it: from the begin of 1970 in UTC.

/// Seconds of `YYYY-MM-DDTHH:MM:SSZ`, as hosts bear it; none of anything else.
pub(super) fn seconds(begun: &str) -> Option<i64> {
    let (date, clock) = begun.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    // A part of a second is no more than a host knows.
    let [hour, minute, second] = numbers(clock.split('.').next()?, ':')?;
    let sane = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    sane.then(|| ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let parts: Option<Vec<i64>> = text.split(between).map(|part| part.parse().ok()).collect();
    parts?.try_into().ok()
}

/// Days since 1970-01-01. A year begins in March here, so that the day that leap years have more
/// is its last, and months before it have a closed form.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let since_march = (month + 9) % 12;
    let before_month = (153 * since_march + 2) / 5;
    let leaps = year / 4 - year / 100 + year / 400;
    // 1970-01-01 is day 719,468 of a count that begins with 0000-03-01.
    year * 365 + leaps + before_month + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn dates_are_counted_as_date_counts_them() {
        // As `date -u -d DATE +%s` prints them.
        for (begun, counted) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-11-21T20:31:07Z", 1_795_293_067),
            ("2024-12-31T23:59:59.25Z", 1_735_689_599),
        ] {
            assert_eq!(seconds(begun), Some(counted), "{begun}");
        }
        for bad in ["", "yesterday", "2026-11-21", "2026-13-01T00:00:00Z", "2026-11-21T20:31:07"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
