//! The progress of a run, fed by the plan: a bar on a terminal, else a line now and then.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kneepoint_lab::Progress;
use kneepoint_report::number;
use kneepoint_vocab::{Nanos, PerSecond};
use std::io::IsTerminal;

/// Where standard error is no terminal, a line is written when so much time has passed.
const BETWEEN_LINES: Nanos = Nanos::from_millis(10_000);

/// Tells on standard error how far the plan is, when it ends, and what the last slice gave.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// What one operation is, in the plural.
    operation: String,
    /// Throughput of the last slice.
    last: Option<PerSecond>,
    /// When the next line is due; absent on a terminal.
    line_at: Option<Nanos>,
}

impl Bar {
    /// An empty bar, on a terminal; lines elsewhere.
    pub(crate) fn new(operation: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(4));
        let style = ProgressStyle::with_template("{bar:20} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("█▌ ");
        bar.set_style(style);
        let line_at = (!std::io::stderr().is_terminal()).then_some(BETWEEN_LINES);
        Self { bar, operation: operation.to_owned(), last: None, line_at }
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
        let text = reported(done, total, doing, self.last, &self.operation);
        self.bar.set_length(total.0);
        self.bar.set_position(done.0);
        if self.line_at.is_some_and(|due| done >= due) {
            self.line_at = Some(done + BETWEEN_LINES);
            crate::print::note(&text);
        }
        self.bar.set_message(crate::print::inert(&text));
    }

    fn measured(&mut self, throughput: PerSecond) {
        self.last = Some(throughput);
    }

    fn remark(&mut self, text: &str) {
        self.bar.suspend(|| crate::print::note(text));
    }
}

/// ` 42 %   51 s left   baseline at 2 clients; last 6.8k transactions/s`.
fn reported(
    done: Nanos,
    total: Nanos,
    doing: &str,
    last: Option<PerSecond>,
    operation: &str,
) -> String {
    let percent = done.0.saturating_mul(100).checked_div(total.0).unwrap_or(0).min(100);
    let left = total.0.saturating_sub(done.0).div_ceil(1_000_000_000);
    let last = last.map(|rate| format!("; last {} {operation}/s", number::plain_rate(rate)));
    format!("{percent:3} %  {left:3} s left  {doing}{}", last.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_reported_in_words() {
        let seconds = |seconds: u64| Nanos::from_millis(seconds * 1000);
        let first = reported(Nanos(0), seconds(80), "preparing the system", None, "ops");
        assert_eq!(first, "  0 %   80 s left  preparing the system");
        let later = reported(
            seconds(20),
            seconds(80),
            "baseline at 2 clients",
            Some(PerSecond(6812.0)),
            "ops",
        );
        assert_eq!(later, " 25 %   60 s left  baseline at 2 clients; last 6.81k ops/s");
        assert!(reported(seconds(1), Nanos(0), "x", None, "ops").starts_with("  0 %    0 s left"));
    }
}
