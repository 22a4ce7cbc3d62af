//! Picture 1, where it stops scaling: throughput against level, with its interval, the bound,
//! fitted laws, the knee, and treated variants beside the baseline.

mod numbers;
mod peaks;
mod several;
mod treated;

pub(super) use numbers::{laws, table, times};
pub(super) use peaks::peaks;
pub(super) use several::picks;

use super::markup::{Markup, Tag, apart, label, line, path, picture};
use super::scale::{Scale, ceiling};
use crate::number;
use crate::series::{self, Series};
use crate::words::{self, Axis};
use kneepoint_vocab::findings::{Curve, CurvePoint, Effect, Fit, Verdict};
use kneepoint_vocab::{Estimate, Findings, Level, PerSecond, Unit, VariantRole};

/// The bound may leave the picture where it is this many times the highest measurement.
const HEADROOM: f64 = 2.6;
/// The same where several curves share the picture.
const LITTLE_HEADROOM: f64 = 1.4;

/// Places of one drawing.
struct Plot<'a> {
    findings: &'a Findings,
    series: Series<'a>,
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    bottom: f64,
    y: Scale,
    /// What stands along the axis, and where.
    x: Vec<(Level, f64)>,
}

/// The picture at one width in pixels; its height follows.
pub(super) fn draw(findings: &Findings, width: f64, class: &str) -> Markup {
    let plot = Plot::new(findings, width);
    let mut inside = plot.grid();
    if plot.series.several() {
        inside.push(&plot.several());
    } else {
        let curve = &findings.curve;
        inside.push(&plot.laws(curve));
        inside.push(&plot.knee(curve));
        inside.push(&plot.baseline(curve));
        inside.push(&plot.readings());
    }
    inside.push(&plot.treated());
    inside.push(&plot.variants());
    picture(class, width, plot.height, &plot.said(), &inside)
}

/// About how wide a letter of a note is, in pixels.
const LETTER: f64 = 6.6;
/// Least distance of two notes one below the other.
const LINE: f64 = 13.0;
/// Where a variant's name begins, right of its mark.
const NAME_AFTER: f64 = 11.0;

/// A treated variant's mark in the picture.
struct PlacedVariant<'a> {
    variant: &'a Effect,
    rate: Estimate<PerSecond>,
    x: f64,
    y: f64,
    name: Option<String>,
}

impl<'a> Plot<'a> {
    fn new(findings: &'a Findings, width: f64) -> Self {
        let series = Series::of(findings);
        let several = series.several();
        let height = (width * 0.56).clamp(230.0, 400.0);
        let (left, right, top, bottom) = (46.0, width - 14.0, 14.0, height - 38.0);
        let points = || series.curves.iter().flat_map(|curve| &curve.points);
        let beside = findings.treated.iter().flat_map(|one| &one.curve.points);
        let ends = points().chain(beside).map(|point| point.throughput.high.get());
        let variants =
            treated(findings).filter_map(|variant| variant.throughput).map(|rate| rate.high.get());
        let measured = ends.chain(variants).filter(|end| end.is_finite()).fold(0.0, f64::max);
        let ideal = points().map(|point| point.ideal.get()).filter(|end| end.is_finite());
        let headroom = if several { LITTLE_HEADROOM } else { HEADROOM };
        let ideal = ideal.fold(0.0, f64::max).min(measured * headroom);
        let most = ceiling(measured.max(ideal) * 1.04, 5);
        let y = Scale::linear((0.0, most), (bottom, top));
        let names = if several { several::NAMES } else { 30.0 };
        let levels = series.levels();
        let places = places(&levels, series.axis, left + 26.0, right - names);
        let x = levels.into_iter().zip(places).collect();
        Self { findings, series, width, height, left, right, bottom, y, x }
    }

    /// The picture in words.
    fn said(&self) -> String {
        let axis = self.series.axis;
        let reported = self.series.curves.iter().map(|curve| {
            let on = if self.series.several() {
                format!("On {}: knee", words::counted(series::cores(curve), "core"))
            } else {
                "Knee".to_owned()
            };
            format!("{on} {}; the curve {}.", words::knee(curve, axis), words::shape(curve.shape))
        });
        let treated = self.findings.treated.iter().map(|one| {
            let (knee, shape) = (words::knee(&one.curve, axis), words::shape(one.curve.shape));
            format!("With {}: knee {knee}; the curve {shape}.", one.label)
        });
        format!(
            "Throughput against {}. {} The table below holds the numbers.",
            axis.word(),
            reported.chain(treated).collect::<Vec<_>>().join(" ")
        )
    }

    /// The place of a level, if the picture has it.
    fn place(&self, level: Level) -> Option<f64> {
        let mut places = self.x.iter();
        places.find(|(one, _)| self.series.same_place(*one, level)).map(|(_, x)| *x)
    }

    /// Places of a curve's points at some rate of each.
    fn traced(&self, curve: &Curve, rate: impl Fn(usize, &CurvePoint) -> f64) -> Vec<(f64, f64)> {
        let points = curve.points.iter().enumerate();
        points
            .filter_map(|(index, point)| {
                Some((self.place(point.level)?, self.y.at(rate(index, point))))
            })
            .collect()
    }

    fn grid(&self) -> Markup {
        let mut out = rates(&self.y, self.left, self.right);
        let axis = self.series.axis;
        let ticks: Vec<(f64, String)> =
            self.x.iter().map(|(level, x)| (*x, axis.tick(*level))).collect();
        let in_focus = |level: Level| self.series.same_place(level, self.findings.focus);
        let focus = self.x.iter().position(|(level, _)| in_focus(*level));
        let shown = apart(&ticks, focus);
        for (((level, _), (x, words)), _) in
            self.x.iter().zip(&ticks).zip(shown).filter(|(_, shown)| *shown)
        {
            let class = if in_focus(*level) { "tick mid strong" } else { "tick mid" };
            out.push(&label(class, *x, self.bottom + 17.0, words));
        }
        let middle = f64::midpoint(self.left, self.right);
        out.push(&label("tick mid", middle, self.height - 5.0, axis.word()));
        out
    }

    /// The bound and the fitted laws, cut off at the picture's edge.
    fn laws(&self, curve: &Curve) -> Markup {
        let ideal = self.traced(curve, |_, point| point.ideal.get());
        let mut out = path("ideal", &ideal, false);
        if let [_, .., (x, y)] = &ideal[..]
            && !self.is_taken((x - 5.0 * LETTER, *x), y - 11.0)
        {
            out.push(&label("note end", *x, y - 7.0, "bound"));
        }
        let mut named: Vec<(f64, f64, &str)> = Vec::new();
        for fit in usable(curve) {
            let rate = |index: usize| fit.fitted.get(index).map(|rate| rate.get());
            let mut fitted = self.traced(curve, |index, _| rate(index).unwrap_or(f64::NAN));
            fitted.truncate(fit.fitted.len());
            out.push(&path("fit", &fitted, false));
            named.extend(fitted.last().map(|(x, y)| (*x, y + 17.0, fit.law.as_str())));
        }
        named.sort_by(|a, b| a.1.total_cmp(&b.1));
        let mut taken = f64::MIN;
        for (x, y, law) in named {
            taken = y.max(taken + 14.0);
            out.push(&label("note end", x, taken, law));
        }
        out
    }

    /// The knee's interval as a band, the knee itself as a line.
    fn knee(&self, curve: &Curve) -> Markup {
        let knee = &curve.knee;
        let mut out = Markup::default();
        let reported = !knee.beyond_last && curve.points.len() > 1;
        let Some(x) = self.place(knee.level).filter(|_| reported) else { return out };
        let top = self.y.at(f64::MAX);
        if let (Some(low), Some(high)) = (self.place(knee.low), self.place(knee.high)) {
            let band = Tag::of("rect", "knee-band")
                .num("x", low - 9.0)
                .num("y", top)
                .num("width", high - low + 18.0)
                .num("height", self.bottom - top);
            out.push(&band.done());
        }
        out.push(&line("knee", x, top, x, self.bottom));
        out.push(&label("note knee-name", x + 13.0, top + 11.0, "knee"));
        out
    }

    /// A curve's line with its band.
    fn trace(&self, curve: &Curve) -> Markup {
        let mut band = self.traced(curve, |_, point| point.throughput.high.get());
        let low = self.traced(curve, |_, point| point.throughput.low.get());
        band.extend(low.into_iter().rev());
        let mut out = path("band", &band, true);
        let middle = self.traced(curve, |_, point| point.throughput.value.get());
        out.push(&path("curve", &middle, false));
        out
    }

    fn baseline(&self, curve: &Curve) -> Markup {
        let mut out = self.trace(curve);
        for point in &curve.points {
            let Some(x) = self.place(point.level) else { continue };
            out.push(&self.whisker(x, point));
            let y = self.y.at(point.throughput.value.get());
            let radius = if point.level == self.findings.focus { 5.5 } else { 4.0 };
            out.push(&Tag::of("circle", "dot").num("cx", x).num("cy", y).num("r", radius).done());
        }
        out
    }

    /// A point's interval.
    fn whisker(&self, x: f64, point: &CurvePoint) -> Markup {
        let (low, high) = (point.throughput.low.get(), point.throughput.high.get());
        line("whisker", x, self.y.at(low), x, self.y.at(high))
    }

    /// A strip over each level that reads its values when pointed at or focused.
    fn readings(&self) -> Markup {
        let curve = &self.findings.curve;
        let places = curve.points.iter().zip(&self.x).enumerate();
        places
            .map(|(index, (point, (level, x)))| {
                let tip = [self.tip(curve, index, point), self.treated_at(*level)].concat();
                self.strip(*x, &tip)
            })
            .collect()
    }

    /// A strip over a place that reads `tip`.
    fn strip(&self, x: f64, tip: &str) -> Markup {
        let wide = (self.right - self.left) / f64::from(u32::try_from(self.x.len()).unwrap_or(1));
        let top = self.y.at(f64::MAX);
        let area = Tag::of("rect", "hit")
            .num("x", x - wide / 2.0)
            .num("y", top)
            .num("width", wide)
            .num("height", self.bottom - top);
        reading(tip).with(&area.done()).with(&line("cursor", x, top, x, self.bottom)).done()
    }

    /// What is known of a point.
    fn tip(&self, curve: &Curve, index: usize, point: &CurvePoint) -> String {
        let named = if self.series.several() { Axis::Both } else { self.series.axis };
        let mut lines = vec![named.phrase(point.level)];
        let operation = &self.findings.operation;
        lines.push(format!("{} {operation}/s", number::rate(&point.throughput)));
        let part = point.throughput.value.get() / point.ideal.get();
        lines.push(format!(
            "bound {} ({} of it)",
            number::plain_rate(point.ideal),
            number::plain_percent(kneepoint_vocab::Ratio(part))
        ));
        for fit in usable(curve) {
            if let Some(rate) = fit.fitted.get(index) {
                lines.push(format!("{} fit {}", fit.law, number::plain_rate(*rate)));
            }
        }
        if let Some(time) = point.latency {
            let of = |nanos: kneepoint_vocab::Nanos| number::plain_seconds(nanos.seconds());
            let p95 = time.p95.map(|it| format!(", {} p95", of(it))).unwrap_or_default();
            let (p50, p99) = (of(time.p50), of(time.p99));
            lines.push(format!("response time {p50} p50{p95}, {p99} p99"));
        }
        if let Some(switches) = point.switches {
            lines.push(format!("{} switches/s", number::plain_rate(switches)));
        }
        lines.push(words::counted(point.slices, "slice"));
        lines.join("\n")
    }

    /// Treated variants at the focus level, the best first: beside the baseline's dot, and named
    /// where there is room.
    fn placed_variants(&self) -> Vec<PlacedVariant<'_>> {
        let tried = self.findings.effects_at.unwrap_or(self.findings.focus);
        let Some(focus) = self.place(tried) else { return Vec::new() };
        let mut variants: Vec<_> = treated(self.findings)
            .filter_map(|variant| Some((variant, variant.throughput?)))
            .collect();
        variants.sort_by(|a, b| b.1.value.get().total_cmp(&a.1.value.get()));
        let mut last_name = f64::MIN;
        let placed = variants.into_iter().enumerate().map(|(index, (variant, rate))| {
            let x = focus + if index.is_multiple_of(2) { 13.0 } else { 25.0 };
            let y = self.y.at(rate.value.get());
            let worth = matches!(variant.verdict, Verdict::Better | Verdict::Worse);
            let name = (worth && y - last_name > LINE).then(|| self.short_name(variant, x));
            if name.is_some() {
                last_name = y;
            }
            PlacedVariant { variant, rate, x, y, name }
        });
        placed.collect()
    }

    /// Whether the name of a variant lies where letters between `x` around the height `y` would.
    fn is_taken(&self, x: (f64, f64), y: f64) -> bool {
        self.placed_variants().iter().any(|placed| {
            let letters = placed.name.as_ref().map_or(0, |name| name.chars().count());
            let begin = placed.x + NAME_AFTER;
            let end = begin + LETTER * f64::from(u32::try_from(letters).unwrap_or(0));
            begin < x.1 && x.0 < end && (placed.y - y).abs() < LINE
        })
    }

    fn variants(&self) -> Markup {
        let mut out = Markup::default();
        for PlacedVariant { variant, rate, x, y, name } in self.placed_variants() {
            let tip = format!(
                "{}\n{} {}/s\n{}",
                variant.label,
                number::rate(&rate),
                self.findings.operation,
                words::outcome(variant)
            );
            let whisker =
                line("whisker", x, self.y.at(rate.low.get()), x, self.y.at(rate.high.get()));
            let mut group = reading(&tip).with(&whisker).with(&mark(variant.verdict, x, y));
            if let Some(name) = name {
                group = group.with(&label("note variant-name", x + NAME_AFTER, y + 4.0, &name));
            }
            out.push(&group.done());
        }
        out
    }

    /// The variant's words, cut to what fits between its mark and the picture's edge.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a width in pixels, clamped above zero"
    )]
    fn short_name(&self, variant: &Effect, x: f64) -> String {
        let plus = if words::over(self.findings, variant).is_some() { "+ " } else { "" };
        let room = ((self.width - x - 18.0) / LETTER).max(3.0) as usize;
        crate::text::clip(&format!("{plus}{}", crate::text::disarm(&variant.label)), room)
    }
}

/// The laws whose parameters mean something: no others are drawn or spoken of.
fn usable(curve: &Curve) -> impl Iterator<Item = &Fit> {
    curve.fits.iter().filter(|fit| fit.unfit.is_empty())
}

/// Something that shows `tip` when pointed at or focused.
pub(super) fn reading(tip: &str) -> Tag {
    Tag::of("g", "reading")
        .attr("tabindex", "0")
        .attr("role", "img")
        .attr("aria-label", &tip.replace('\n', ", "))
        .attr("data-tip", tip)
}

/// The mark of a verdict: its shape says the same as its colour.
pub(super) fn mark(verdict: Verdict, x: f64, y: f64) -> Markup {
    let class = format!("mark {}", words::verdict_class(verdict));
    let shape = match verdict {
        Verdict::Better => [(0.0, -6.0), (6.0, 5.0), (-6.0, 5.0)].to_vec(),
        Verdict::Worse => [(0.0, 6.0), (6.0, -5.0), (-6.0, -5.0)].to_vec(),
        Verdict::NoEffect { .. } => [(-5.0, -5.0), (5.0, -5.0), (5.0, 5.0), (-5.0, 5.0)].to_vec(),
        Verdict::Undecided { .. } | Verdict::Invalid => {
            [(0.0, -6.0), (6.0, 0.0), (0.0, 6.0), (-6.0, 0.0)].to_vec()
        }
    };
    let points: Vec<_> = shape.into_iter().map(|(right, down)| (x + right, y + down)).collect();
    path(&class, &points, true)
}

fn treated(findings: &Findings) -> impl Iterator<Item = &Effect> {
    findings.effects.iter().filter(|effect| effect.role == VariantRole::Treatment)
}

/// Lines across a picture at round rates, from `left` to `right`, with their numbers before them.
pub(super) fn rates(y: &Scale, left: f64, right: f64) -> Markup {
    let mut out = Markup::default();
    for tick in y.ticks(5) {
        let at = y.at(tick);
        out.push(&line("grid", left, at, right, at));
        let words = if tick > 0.0 { number::plain(tick) } else { "0".to_owned() };
        out.push(&label("tick end", left - 7.0, at + 4.0, &round_tick(&words)));
    }
    out
}

/// A tick's number without decimals that say nothing: `5.00k` is `5k`.
pub(super) fn round_tick(words: &str) -> String {
    let digits = words.trim_end_matches(|c: char| !c.is_ascii_digit());
    let suffix = &words[digits.len()..];
    if digits.contains('.') {
        format!("{}{suffix}", digits.trim_end_matches('0').trim_end_matches('.'))
    } else {
        words.to_owned()
    }
}

/// Places of the levels: in proportion to the logarithm of what varies, or evenly where two
/// things do.
fn places(levels: &[Level], axis: Axis, left: f64, right: f64) -> Vec<f64> {
    let quantities: Vec<f64> = levels
        .iter()
        .enumerate()
        .map(|(index, level)| match axis {
            Axis::Clients => f64::from(level.clients),
            Axis::Cores => f64::from(level.cores),
            Axis::Both => f64::from(u32::try_from(index).unwrap_or(0)) + 1.0,
        })
        .collect();
    let (Some(&first), Some(&last)) = (quantities.first(), quantities.last()) else {
        return Vec::new();
    };
    if levels.len() == 1 {
        return vec![f64::midpoint(left, right)];
    }
    let scale = if axis == Axis::Both || last / first <= 4.0 {
        Scale::linear((first, last), (left, right))
    } else {
        Scale::log((first, last), (left, right))
    };
    quantities.into_iter().map(|quantity| scale.at(quantity)).collect()
}
