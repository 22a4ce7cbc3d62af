//! Several numbers of cores in one picture: a line and a band for each, named at its end.
//!
//! One of them can be picked above the picture. It then shows its bound, its fitted laws and its
//! knee's interval, and the others step back. That works by style alone, without script.

use super::{Plot, path};
use crate::html::markup::{Markup, Tag, label};
use crate::number;
use crate::series::{self, Series};
use crate::words;
use kneepoint_vocab::findings::{Curve, CurvePoint};
use kneepoint_vocab::{Findings, Level, Unit};

/// Room right of the last point for the names of the curves, in pixels.
pub(super) const NAMES: f64 = 78.0;

/// Curves that can be picked: as many as the style sheet has rules for.
const MOST_PICKS: usize = 8;
/// Tones of the curves, from the fewest cores to the most.
const TONES: usize = 6;
/// Least distance of two names, in pixels.
const APART: f64 = 14.0;

/// Radio buttons that pick one curve or all; nothing where there is one only.
pub(in crate::html) fn picks(findings: &Findings) -> Markup {
    let series = Series::of(findings);
    if !series.several() {
        return Markup::default();
    }
    let button = |class: &str| {
        Tag::of("input", &format!("pick {class}"))
            .attr("type", "radio")
            .attr("name", "curve")
            .attr("id", class)
    };
    let name = |class: &str, words: &str| Tag::new("label").attr("for", class).text(words).done();
    let mut out = button("pick-all").attr("checked", "").done();
    out.push(&name("pick-all", "all"));
    for (index, curve) in series.curves.iter().enumerate().take(MOST_PICKS) {
        let class = format!("pick-{index}");
        out.push(&button(&class).done());
        out.push(&name(&class, &words::counted(series::cores(curve), "core")));
    }
    out
}

impl Plot<'_> {
    /// All curves, the strips that compare them, and their points, which can be pointed at.
    pub(super) fn several(&self) -> Markup {
        let curves = &self.series.curves;
        let group = |class: &str, index: usize| {
            let tone = index * (TONES - 1) / (curves.len() - 1).max(1);
            Tag::of("g", &format!("{class} s{index} t{tone}"))
        };
        let mut out = Markup::default();
        for (index, curve) in curves.iter().enumerate() {
            let only = Tag::of("g", "only").with(&self.knee(curve)).with(&self.laws(curve));
            let drawn = group("series", index).with(&only.done()).with(&self.trace(curve));
            out.push(&drawn.done());
        }
        out.extend(self.x.iter().map(|(level, x)| self.strip(*x, &self.compared(*level))));
        for (index, curve) in curves.iter().enumerate() {
            out.push(&group("series", index).with(&self.points(index, curve)).done());
        }
        out.push(&self.names());
        out
    }

    /// What all curves read at one number of clients.
    fn compared(&self, level: Level) -> String {
        let mut lines = vec![self.series.axis.phrase(level)];
        for curve in &self.series.curves {
            let points = &mut curve.points.iter();
            if let Some(point) = points.find(|point| self.series.same_place(point.level, level)) {
                let rate = number::rate(&point.throughput);
                lines.push(format!("{}: {rate}", words::counted(point.level.cores, "core")));
            }
        }
        lines.join("\n") + &self.treated_at(level)
    }

    fn points(&self, index: usize, curve: &Curve) -> Markup {
        let mut out = Markup::default();
        for (place, point) in curve.points.iter().enumerate() {
            let Some(x) = self.place(point.level) else { continue };
            let y = self.y.at(point.throughput.value.get());
            let mut tip = self.tip(curve, place, point);
            let ring = |class: &str, radius: f64| {
                Tag::of("circle", class).num("cx", x).num("cy", y).num("r", radius).done()
            };
            let mut group = self.whisker(x, point);
            if !curve.knee.beyond_last && curve.knee.level == point.level {
                tip.push_str("\nthe knee");
                group.push(&ring("ring", 9.0));
            }
            group.push(&self.dot(index, (x, y), point));
            group.push(&ring("hit", 11.0));
            // The strips are what the keyboard reaches: a stop for each point would be too many.
            let reading = Tag::of("g", "reading")
                .attr("role", "img")
                .attr("aria-label", &tip.replace('\n', ", "))
                .attr("data-tip", &tip);
            out.push(&reading.with(&group).done());
        }
        out
    }

    /// The mark of a curve: its shape says the same as its tone.
    pub(super) fn dot(&self, index: usize, (x, y): (f64, f64), point: &CurvePoint) -> Markup {
        let size = if point.level == self.findings.focus { 5.5 } else { 4.0 };
        let corners: &[(f64, f64)] = match index % 4 {
            0 => return Tag::of("circle", "dot").num("cx", x).num("cy", y).num("r", size).done(),
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.2, 0.9), (-1.2, 0.9)],
            _ => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
        };
        let at = corners.iter().map(|(right, down)| (x + right * size, y + down * size));
        path("dot", &at.collect::<Vec<_>>(), true)
    }

    /// Each curve's cores, beside its last point where nothing is there yet, else below.
    fn names(&self) -> Markup {
        let mut ends: Vec<(f64, f64, usize)> = Vec::new();
        for (index, curve) in self.series.curves.iter().enumerate() {
            let end = self.traced(curve, |_, point| point.throughput.value.get());
            ends.extend(end.last().map(|(x, y)| (*x, *y, index)));
        }
        ends.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut last = f64::MIN;
        for end in &mut ends {
            end.1 = end.1.max(last + APART);
            last = end.1;
        }
        let mut lowest = self.bottom;
        for end in ends.iter_mut().rev() {
            end.1 = end.1.min(lowest);
            lowest = end.1 - APART;
        }
        let named = ends.into_iter().map(|(x, y, index)| {
            let cores = words::counted(series::cores(self.series.curves[index]), "core");
            let name = label("note end-name", x + 13.0, y + 4.0, &cores);
            Tag::of("g", &format!("series s{index}")).with(&name).done()
        });
        named.collect()
    }
}
