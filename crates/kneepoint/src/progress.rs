//! The progress of a run, fed by the plan: a bar on a terminal, else a line now and then.

use crate::print::{self, Volume};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kneepoint_lab::Progress;
use kneepoint_report::number;
use kneepoint_vocab::{Nanos, PerSecond};
use std::io::IsTerminal;

/// Where standard error is no terminal, a line is written when so much time has passed.
const BETWEEN_LINES: Nanos = Nanos::from_millis(10_000);

/// Columns of the bar and the blank after it.
const BESIDE_BAR: usize = 21;

/// Tells on standard error how far the plan is, when it ends, and what the last slice gave.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// What one operation is, in the plural.
    operation: String,
    /// What is being done.
    doing: String,
    /// Throughput of the last slice.
    last: Option<PerSecond>,
    /// When the next line is due; absent on a terminal.
    line_at: Option<Nanos>,
}

impl Bar {
    /// An empty bar, on a terminal; lines elsewhere; nothing where quiet was asked for.
    pub(crate) fn new(operation: &str) -> Self {
        let target = match print::volume() {
            Volume::Quiet => ProgressDrawTarget::hidden(),
            Volume::Usual | Volume::Verbose => ProgressDrawTarget::stderr_with_hz(4),
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style = ProgressStyle::with_template("{bar:20} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("█▌ ");
        bar.set_style(style);
        let line_at = (!std::io::stderr().is_terminal()).then_some(BETWEEN_LINES);
        Self { bar, operation: operation.to_owned(), doing: String::new(), last: None, line_at }
    }

    /// Takes the bar off the screen.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Progress for Bar {
    fn step(&mut self, done: Nanos, total: Nanos, doing: &str) {
        self.bar.set_length(total.0);
        self.bar.set_position(done.0);
        doing.clone_into(&mut self.doing);
        let reported = Reported { done, total, doing, last: self.last, operation: &self.operation };
        if self.line_at.is_some_and(|due| done >= due) {
            self.line_at = Some(done + BETWEEN_LINES);
            print::note(&reported.within(usize::MAX));
        }
        let room = print::error_width().saturating_sub(BESIDE_BAR);
        self.bar.set_message(print::inert(&reported.within(room)));
    }

    fn measured(&mut self, throughput: PerSecond) {
        self.last = Some(throughput);
        if print::volume() == Volume::Verbose {
            let rate = number::plain_rate(throughput);
            self.remark(&format!("{rate} {}/s  {}", self.operation, self.doing));
        }
    }

    fn remark(&mut self, text: &str) {
        self.bar.suspend(|| print::note(text));
    }
}

/// What there is to tell of a step.
struct Reported<'a> {
    done: Nanos,
    total: Nanos,
    doing: &'a str,
    last: Option<PerSecond>,
    operation: &'a str,
}

impl Reported<'_> {
    /// ` 42 %   51 s left  last 6.81k transactions/s  baseline at 2 clients` in at most so many
    /// columns: what finds no room is left out or cut at the end of a word, the least important
    /// first.
    fn within(&self, room: usize) -> String {
        let percent = self.done.0.saturating_mul(100).checked_div(self.total.0).unwrap_or(0);
        let left = self.total.0.saturating_sub(self.done.0).div_ceil(1_000_000_000);
        let head = format!("{:3} %  {left:3} s left", percent.min(100));
        let rate = self.last.map(number::plain_rate);
        let whole = rate.as_ref().map(|rate| format!("  last {rate} {}/s", self.operation));
        let short = rate.map(|rate| format!("  last {rate}/s")).unwrap_or_default();
        let whole = whole.unwrap_or_else(|| short.clone());
        let columns = |parts: [&str; 3]| parts.iter().map(|part| part.chars().count()).sum();
        let doing = format!("  {}", self.doing);
        for rate in [&whole, &short] {
            let used: usize = columns([&head, rate, &doing]);
            if used <= room {
                return format!("{head}{rate}{doing}");
            }
        }
        let beside: usize = columns([&head, &short, "  "]);
        match shortened(self.doing, room.saturating_sub(beside)) {
            Some(doing) => format!("{head}{short}  {doing}"),
            None if beside <= room + 2 => format!("{head}{short}"),
            None => head,
        }
    }
}

/// `another… at 2 clients`: without the last words of what stands before ` at `, to fit into so
/// many columns; none where not even one word fits.
fn shortened(doing: &str, room: usize) -> Option<String> {
    let (name, level) = doing.rfind(" at ").map_or((doing, ""), |at| doing.split_at(at));
    let ends = name.rmatch_indices(' ').map(|(end, _)| end);
    let cut = ends.map(|end| format!("{}…{level}", &name[..end]));
    cut.chain([format!("…{level}")]).find(|text| text.chars().count() <= room)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(done: u64, doing: &str, last: Option<f64>, room: usize) -> String {
        let seconds = |seconds: u64| Nanos::from_millis(seconds * 1000);
        let last = last.map(PerSecond);
        let operation = "transactions";
        Reported { done: seconds(done), total: seconds(80), doing, last, operation }.within(room)
    }

    #[test]
    fn progress_is_reported_in_words() {
        let first = reported(0, "preparing the system", None, 59);
        assert_eq!(first, "  0 %   80 s left  preparing the system");
        let later = reported(20, "baseline at 2 clients", Some(6812.0), 80);
        assert_eq!(later, " 25 %   60 s left  last 6.81k transactions/s  baseline at 2 clients");
        let nothing =
            Reported { done: Nanos(1), total: Nanos(0), doing: "x", last: None, operation: "" };
        assert_eq!(nothing.within(80), "  0 %    0 s left  x");
    }

    #[test]
    fn a_narrow_terminal_cuts_between_words() {
        let doing = "private page caches at 16 clients";
        assert_eq!(
            reported(20, "baseline at 2 clients", Some(8030.0), 59),
            " 25 %   60 s left  last 8.03k/s  baseline at 2 clients"
        );
        assert_eq!(
            reported(20, doing, Some(8030.0), 59),
            " 25 %   60 s left  last 8.03k/s  private… at 16 clients"
        );
        for room in 0..120 {
            let text = reported(20, doing, Some(8030.0), room);
            assert!(text.chars().count() <= room.max(18), "{room}: {text}");
            let words = "25 % 60 s left last 8.03k/s 8.03k transactions/s … private private… \
                         page page… caches at 16 clients";
            let known = |word: &str| words.split(' ').any(|known| known == word);
            assert!(text.split_whitespace().all(known), "{room}: {text}");
        }
    }
}
