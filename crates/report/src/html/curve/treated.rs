//! Curves of treatments beside the baseline's: dashed, in the colour of what helps, each with marks
//! of its own.

use super::Plot;
use crate::html::markup::{Markup, Tag};
use crate::number;
use crate::series;
use crate::words::Axis;
use kneepoint_vocab::findings::TreatedCurve;
use kneepoint_vocab::{Level, Unit};

/// Dashes that the style sheet tells apart.
const DASHES: usize = 3;

impl Plot<'_> {
    /// All of them. Where one number of cores is picked, those on others step back.
    pub(super) fn treated(&self) -> Markup {
        let of_cores = |treated: &TreatedCurve| {
            let cores = series::cores(&treated.curve);
            self.series.curves.iter().position(|curve| series::cores(curve) == cores)
        };
        let drawn = self.findings.treated.iter().enumerate().map(|(index, treated)| {
            let picked = of_cores(treated).filter(|_| self.series.several());
            let picked = picked.map_or_else(String::new, |cores| format!(" series s{cores}"));
            let group = Tag::of("g", &format!("beside b{}{picked}", index % DASHES));
            group
                .with(&self.trace(&treated.curve))
                .with(&self.treated_points(index, treated))
                .done()
        });
        drawn.collect()
    }

    /// Marks that read their values when pointed at.
    fn treated_points(&self, index: usize, treated: &TreatedCurve) -> Markup {
        let named = if self.series.several() { Axis::Both } else { self.series.axis };
        let mut out = Markup::default();
        for point in &treated.curve.points {
            let Some(x) = self.place(point.level) else { continue };
            let y = self.y.at(point.throughput.value.get());
            let mut tip = format!(
                "{}\n{}\n{} {}/s",
                treated.label,
                named.phrase(point.level),
                number::rate(&point.throughput),
                self.findings.operation
            );
            if !treated.curve.knee.beyond_last && treated.curve.knee.level == point.level {
                tip.push_str("\nits knee");
            }
            let hit = Tag::of("circle", "hit").num("cx", x).num("cy", y).num("r", 11.0).done();
            // The strips are what the keyboard reaches, and they read this curve too.
            let reading = Tag::of("g", "reading")
                .attr("role", "img")
                .attr("aria-label", &tip.replace('\n', ", "))
                .attr("data-tip", &tip);
            let mark = self.dot(index + 1, (x, y), point);
            out.push(&reading.with(&self.whisker(x, point)).with(&mark).with(&hit).done());
        }
        out
    }

    /// What the treated curves read at a level, each on a line of its own after a line feed.
    pub(super) fn treated_at(&self, level: Level) -> String {
        let read = self.findings.treated.iter().filter_map(|treated| {
            let mut points = treated.curve.points.iter();
            let point = points.find(|point| self.series.same_place(point.level, level))?;
            Some(format!("\n{}: {}/s", treated.label, number::rate(&point.throughput)))
        });
        read.collect()
    }
}
