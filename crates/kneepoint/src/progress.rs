//! The progress bar, fed by the plan.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kneepoint_lab::Progress;
use kneepoint_vocab::Nanos;
use std::time::Duration;

/// One line on standard error that tells how far the plan is and when it ends.
pub(crate) struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// An empty bar. Draws only where standard error is a terminal.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(4));
        let style = ProgressStyle::with_template("{bar:24} {prefix}  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("█▌ ");
        bar.set_style(style);
        Self { bar }
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
        let left = Duration::from_nanos(total.0.saturating_sub(done.0));
        self.bar.set_length(total.0);
        self.bar.set_position(done.0);
        self.bar.set_prefix(format!("{:3} s left", left.as_secs()));
        self.bar.set_message(doing.to_owned());
    }

    fn remark(&mut self, text: &str) {
        self.bar.suspend(|| crate::print::note(text));
    }
}
