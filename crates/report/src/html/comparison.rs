//! Runs beside each other as one self-contained page: their curves in one picture, tables of
//! ratios, what an operation costs, and what is not alike.

use super::curve::{rates, reading};
use super::frame::{self, section};
use super::markup::{Markup, Tag, apart, label, line, path, picture};
use super::scale::{Scale, ceiling};
use super::table::Table;
use crate::number;
use crate::words::comparison as words;
use crate::words::counted;
use kneepoint_vocab::comparison::{LevelRatio, PricePair, RunPair};
use kneepoint_vocab::{Comparison, Estimate, PerSecond, Unit};
use std::collections::BTreeMap;

/// Rows of a price, beside all others as one.
const MOST_LINES: usize = 12;
/// Widths of the picture in pixels.
const WIDE: f64 = 900.0;
const NARROW: f64 = 330.0;
/// Patterns of lines that the style sheet has.
const PATTERNS: usize = 3;

/// Renders a comparison as a complete HTML document.
#[must_use]
pub fn render(comparison: &Comparison) -> String {
    let names: Vec<&str> = comparison.runs.iter().map(|run| run.name.as_str()).collect();
    let title = format!("{}: {}", comparison.recipe, names.join(", "));
    let body: Markup = [header(comparison), main(comparison)].into_iter().collect();
    frame::page(&title, &body)
}

fn header(comparison: &Comparison) -> Markup {
    let what = format!("{}/s", comparison.operation);
    let name = Tag::of("p", "recipe")
        .with(&Tag::new("b").text(&comparison.recipe).done())
        .text(" ")
        .with(&Tag::new("span").text(&what).done())
        .done();
    let said: Vec<String> = comparison.pairs.iter().map(words::headline).collect();
    let headline = Tag::new("h1").text(&said.join(" ")).done();
    let word = if comparison.trustworthy { "Trust: good" } else { "Not trustworthy" };
    let caveat = comparison.caveats.first().map(|one| format!(": {}", words::caveat(one)));
    let trust = Tag::of("p", "trust")
        .with(&Tag::new("b").text(word).done())
        .text(&caveat.unwrap_or_default())
        .done();
    Tag::new("header").with(&name).with(&headline).with(&trust).done()
}

fn main(comparison: &Comparison) -> Markup {
    let prices: Markup = comparison.pairs.iter().map(prices).collect();
    let parts = [
        section("curves", "Throughput", &curves(comparison)),
        section("prices", "What an operation costs", &prices),
        section("alike", "How far they can be compared", &alike(comparison)),
    ];
    Tag::new("main").with(&parts.into_iter().collect()).done()
}

/// A run's throughput by clients.
struct Curve<'a> {
    name: &'a str,
    points: BTreeMap<u32, Estimate<PerSecond>>,
}

/// The curves of all runs, on the most cores that were measured; the first run's first.
fn all_curves(comparison: &Comparison) -> Vec<Curve<'_>> {
    let levels = || comparison.pairs.iter().flat_map(|pair| &pair.levels);
    let cores = levels().map(|level| level.cores).max().flatten();
    let shown = |level: &&LevelRatio| level.cores == cores;
    let first = comparison.runs.first().map(|run| Curve {
        name: &run.name,
        points: levels().filter(shown).map(|level| (level.over_clients, level.over)).collect(),
    });
    let others = comparison.pairs.iter().map(|pair| Curve {
        name: &pair.run,
        points: pair.levels.iter().filter(shown).map(|level| (level.clients, level.run)).collect(),
    });
    first.into_iter().chain(others).collect()
}

fn curves(comparison: &Comparison) -> Markup {
    let all = all_curves(comparison);
    let mut out = Markup::default();
    if all.iter().any(|curve| curve.points.len() > 1) {
        let caption = format!("{} each second against clients", comparison.operation);
        let caption = Tag::new("figcaption")
            .with(&Tag::new("b").text("Throughput").done())
            .text(&format!(" {caption}"))
            .done();
        let pictures = [draw(&all, WIDE, "wide"), draw(&all, NARROW, "narrow")];
        let figure = Tag::of("figure", "curve-figure")
            .with(&caption)
            .with(&pictures.into_iter().collect())
            .with(&keys(&all));
        out.push(&figure.done());
    }
    for pair in &comparison.pairs {
        out.push(&ratios(pair).named(&format!("{} over {}", pair.run, pair.over)));
        if !pair.unmatched.is_empty() {
            let said = words::unmatched(&comparison.runs, pair);
            out.push(&Tag::of("p", "aside").text(&said).done());
        }
    }
    out
}

/// The class of a run's line.
fn class(index: usize) -> String {
    match index {
        0 => "first".to_owned(),
        _ => format!("beside b{}", (index - 1) % PATTERNS),
    }
}

fn keys(all: &[Curve<'_>]) -> Markup {
    let key = |(index, curve): (usize, &Curve<'_>)| {
        let band = Tag::of("rect", "band").attr("width", "26").attr("height", "12").done();
        let example = Tag::of("svg", &class(index))
            .attr("width", "26")
            .attr("height", "12")
            .attr("aria-hidden", "true")
            .with(&band)
            .with(&line("curve", 0.0, 6.0, 26.0, 6.0))
            .done();
        Tag::new("li").with(&example).text(curve.name).done()
    };
    Tag::of("ul", "keys").with(&all.iter().enumerate().map(key).collect()).done()
}

/// Places of one drawing.
struct Plot<'a> {
    all: &'a [Curve<'a>],
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Vec<(u32, f64)>,
    y: Scale,
}

fn draw(all: &[Curve<'_>], width: f64, class: &str) -> Markup {
    let plot = Plot::new(all, width);
    let mut inside = plot.grid();
    inside.extend(all.iter().enumerate().map(|(index, curve)| plot.trace(index, curve)));
    inside.extend(plot.x.iter().map(|(clients, x)| plot.reading(*clients, *x)));
    let names: Vec<&str> = all.iter().map(|curve| curve.name).collect();
    let said = format!(
        "Throughput against clients of {}. The tables below hold the numbers.",
        names.join(", ")
    );
    picture(class, width, plot.height, &said, &inside)
}

impl<'a> Plot<'a> {
    fn new(all: &'a [Curve<'a>], width: f64) -> Self {
        let height = (width * 0.45).clamp(230.0, 400.0);
        let (left, right, top, bottom) = (46.0, width - 14.0, 14.0, height - 38.0);
        let ends = all.iter().flat_map(|curve| curve.points.values()).map(|rate| rate.high.get());
        let most = ends.filter(|end| end.is_finite()).fold(0.0, f64::max);
        let y = Scale::linear((0.0, ceiling(most * 1.04, 5)), (bottom, top));
        let mut clients: Vec<u32> =
            all.iter().flat_map(|curve| curve.points.keys().copied()).collect();
        clients.sort_unstable();
        clients.dedup();
        let (first, last) = (clients.first().copied(), clients.last().copied());
        let ends = (f64::from(first.unwrap_or(1)), f64::from(last.unwrap_or(2)));
        let room = (left + 26.0, right - 30.0);
        let scale =
            if ends.1 / ends.0 > 4.0 { Scale::log(ends, room) } else { Scale::linear(ends, room) };
        let x = clients.into_iter().map(|one| (one, scale.at(f64::from(one)))).collect();
        Self { all, height, left, right, top, bottom, x, y }
    }

    fn place(&self, clients: u32) -> f64 {
        self.x.iter().find(|(one, _)| *one == clients).map_or(self.left, |(_, x)| *x)
    }

    fn grid(&self) -> Markup {
        let mut out = rates(&self.y, self.left, self.right);
        let ticks: Vec<(f64, String)> =
            self.x.iter().map(|(clients, x)| (*x, clients.to_string())).collect();
        for ((x, words), _) in ticks.iter().zip(apart(&ticks, None)).filter(|(_, shown)| *shown) {
            out.push(&label("tick mid", *x, self.bottom + 17.0, words));
        }
        let middle = f64::midpoint(self.left, self.right);
        out.push(&label("tick mid", middle, self.height - 5.0, "clients"));
        out
    }

    /// A run's line, with its band, its intervals and its points.
    fn trace(&self, index: usize, curve: &Curve<'_>) -> Markup {
        let at = |rate: fn(&Estimate<PerSecond>) -> f64| {
            let place = |(clients, found): (&u32, &Estimate<PerSecond>)| {
                (self.place(*clients), self.y.at(rate(found)))
            };
            curve.points.iter().map(place).collect::<Vec<_>>()
        };
        let (low, high) = (at(|found| found.low.get()), at(|found| found.high.get()));
        let middle = at(|found| found.value.get());
        let band: Vec<(f64, f64)> = high.iter().chain(low.iter().rev()).copied().collect();
        let mut inside = path("band", &band, true);
        inside.push(&path("curve", &middle, false));
        for ((low, high), (x, y)) in low.iter().zip(&high).zip(&middle) {
            inside.push(&line("whisker", *x, low.1, *x, high.1));
            let dot = Tag::of("circle", "dot").num("cx", *x).num("cy", *y).num("r", 4.0);
            inside.push(&dot.done());
        }
        Tag::of("g", &class(index)).with(&inside).done()
    }

    /// A strip over a number of clients that reads what all runs gave there.
    fn reading(&self, clients: u32, x: f64) -> Markup {
        let mut lines = vec![counted(clients, "client")];
        for curve in self.all {
            if let Some(rate) = curve.points.get(&clients) {
                lines.push(format!("{}: {}", curve.name, number::rate(rate)));
            }
        }
        let wide = (self.right - self.left) / f64::from(u32::try_from(self.x.len()).unwrap_or(1));
        let area = Tag::of("rect", "hit")
            .num("x", x - wide / 2.0)
            .num("y", self.top)
            .num("width", wide)
            .num("height", self.bottom - self.top);
        let cursor = line("cursor", x, self.top, x, self.bottom);
        reading(&lines.join("\n")).with(&area.done()).with(&cursor).done()
    }
}

fn ratios(pair: &RunPair) -> Table {
    let (over, run) = (pair.over.as_str(), pair.run.as_str());
    let mut table = Table::new(["clients", over, run, "ratio", "95 % interval", "verdict"]);
    let mut row = |level: &LevelRatio, peak: bool| {
        let rate = |rate: &Estimate<PerSecond>, clients: u32| {
            let value = number::rate(rate).to_string();
            if peak { format!("{value} @{clients}") } else { value }
        };
        let shown = number::factor(&level.ratio);
        let verdict = Some(words::verdict(&level.verdict).to_owned());
        let verdict = [verdict, words::needs(&level.verdict)];
        table.row([
            words::level(level, peak),
            rate(&level.over, level.over_clients),
            rate(&level.run, level.clients),
            shown.value.clone(),
            shown.interval_or_dash(),
            verdict.into_iter().flatten().collect::<Vec<_>>().join("; "),
        ]);
    };
    row(&pair.peak, true);
    pair.levels.iter().for_each(|level| row(level, false));
    table
}

fn prices(pair: &RunPair) -> Markup {
    let Some(price) = &pair.price else { return Markup::default() };
    priced(pair, price).named(&words::price_title(price))
}

fn priced(pair: &RunPair, price: &PricePair) -> Table {
    let mut table = Table::new(["part", pair.over.as_str(), pair.run.as_str()]);
    let whole = [&price.over, &price.run].map(|whole| number::seconds(whole).to_string());
    let [over, run] = whole;
    table.row(["whole".to_owned(), over, run]);
    for line in words::price_lines(price, MOST_LINES) {
        table.row([line.label, line.over, line.run]);
    }
    table
}

/// The runs, what differs, what limits, and what was asked.
fn alike(comparison: &Comparison) -> Markup {
    let mut table = Table::new(["run", "measured"]);
    for run in &comparison.runs {
        table.row([run.name.clone(), words::run(run)]);
    }
    let unlike = words::unlike(comparison).into_iter().map(|one| format!("Not alike: {one}"));
    let said = unlike
        .chain(comparison.caveats.iter().map(words::caveat))
        .chain([words::NO_PAIR.to_owned()])
        .chain(comparison.conditions.iter().map(words::answer));
    let said: Markup = said.map(|one| Tag::new("li").text(&one).done()).collect();
    let mut out = table.markup();
    out.push(&Tag::new("ul").with(&said).done());
    out
}
