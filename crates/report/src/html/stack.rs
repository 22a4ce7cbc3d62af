//! Columns of stacked bands, one a level: the drawing that both ledgers share.

use super::curve::round_tick;
use super::markup::{Markup, Tag, apart, extent, label, line, picture};
use super::scale::{Scale, ceiling};

/// A piece of a column.
#[derive(Clone, Debug)]
pub(super) struct Band {
    /// CSS class of its kind.
    pub(super) class: &'static str,
    /// Its height, in the unit of the axis. What is not above zero is not drawn.
    pub(super) value: f64,
    /// Words printed inside where there is room.
    pub(super) inside: String,
    /// What it reads when pointed at.
    pub(super) tip: String,
    /// Fragment that it opens.
    pub(super) opens: Option<String>,
}

/// All of one level.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) tick: String,
    pub(super) focus: bool,
    /// From the ground up.
    pub(super) bands: Vec<Band>,
    /// Words above the column.
    pub(super) top: String,
}

impl Column {
    /// What is drawn of it: all bands above zero.
    fn height(&self) -> f64 {
        self.bands.iter().map(|band| band.value.max(0.0)).sum()
    }
}

/// What a drawing is called, and how its axes are.
pub(super) struct Frame<'a> {
    pub(super) class: &'a str,
    pub(super) name: &'a str,
    pub(super) width: f64,
    /// Words under the horizontal axis.
    pub(super) along: &'a str,
    /// A quantity as a tick of the vertical axis.
    pub(super) tick: fn(f64) -> String,
    /// The height that every column should reach, drawn as a line.
    pub(super) full: Option<f64>,
}

/// The picture; its height follows from its width.
pub(super) fn draw(columns: &[Column], frame: &Frame<'_>) -> Markup {
    let height = (frame.width * 0.6).clamp(250.0, 400.0);
    let (left, right, top, bottom) = (46.0, frame.width - 8.0, 24.0, height - 38.0);
    let heights =
        columns.iter().map(|column| column.bands.iter().map(|band| band.value.max(0.0)).sum());
    let tallest = heights.fold(frame.full.unwrap_or(0.0), f64::max);
    let most = frame.full.map_or_else(|| ceiling(tallest, 4), |full| full.max(tallest));
    let y = Scale::linear((0.0, most), (bottom, top));
    let mut inside = Markup::default();
    let close = |tick: f64| frame.full.is_some_and(|full| (y.at(tick) - y.at(full)).abs() < 14.0);
    for tick in y.ticks(4) {
        if close(tick) {
            continue;
        }
        inside.push(&line("grid", left, y.at(tick), right, y.at(tick)));
        inside.push(&label(
            "tick end",
            left - 7.0,
            y.at(tick) + 4.0,
            &round_tick(&(frame.tick)(tick)),
        ));
    }
    let count = f64::from(u32::try_from(columns.len().max(1)).unwrap_or(1));
    let pitch = (right - left) / count;
    let wide = (pitch * 0.74).min(92.0);
    let mut middle = left + pitch / 2.0;
    let mut ticks = Vec::new();
    let mut tops = Vec::new();
    for column in columns {
        ticks.push((middle, column.tick.clone()));
        tops.push((middle, column.top.clone()));
        inside.push(&draw_column(column, middle, wide, &y));
        middle += pitch;
    }
    let focus = columns.iter().position(|column| column.focus);
    let labelled = apart(&ticks, focus).into_iter().zip(apart(&tops, focus));
    for ((column, (middle, _)), (tick, top)) in columns.iter().zip(ticks).zip(labelled) {
        let class = if column.focus { "tick mid strong" } else { "tick mid" };
        if tick {
            inside.push(&label(class, middle, bottom + 17.0, &column.tick));
        }
        if top && !column.top.is_empty() {
            let gap = if column.focus { 11.0 } else { 7.0 };
            inside.push(&label(class, middle, y.at(column.height()) - gap, &column.top));
        }
    }
    if let Some(full) = frame.full {
        inside.push(&label(
            "tick end strong",
            left - 7.0,
            y.at(full) + 4.0,
            &round_tick(&(frame.tick)(full)),
        ));
        inside.push(&line("full", left, y.at(full), right, y.at(full)));
    }
    inside.push(&label("tick mid", f64::midpoint(left, right), height - 5.0, frame.along));
    picture(frame.class, frame.width, height, frame.name, &inside)
}

fn draw_column(column: &Column, middle: f64, wide: f64, y: &Scale) -> Markup {
    let mut out = Markup::default();
    let mut under = 0.0;
    for band in column.bands.iter().filter(|band| band.value > 0.0) {
        let (low, high) = (y.at(under), y.at(under + band.value));
        under += band.value;
        out.push(&draw_band(band, middle - wide / 2.0, high, wide, low - high));
    }
    if column.focus {
        let frame = Tag::of("rect", "focus")
            .num("x", middle - wide / 2.0 - 4.0)
            .num("y", y.at(under) - 4.0)
            .num("width", wide + 8.0)
            .num("height", y.at(0.0) - y.at(under) + 8.0)
            .num("rx", 4.0);
        out.push(&frame.done());
    }
    out
}

fn draw_band(band: &Band, x: f64, y: f64, width: f64, height: f64) -> Markup {
    let area = Tag::new("rect").num("x", x).num("y", y).num("width", width).num("height", height);
    let name = if band.opens.is_some() { "a" } else { "g" };
    let mut group = Tag::of(name, &format!("band {}", band.class))
        .attr("aria-label", &band.tip.replace('\n', ", "))
        .attr("data-tip", &band.tip)
        .with(&area.done());
    if let Some(fragment) = &band.opens {
        group = group.attr("href", &format!("#{fragment}"));
    } else {
        group = group.attr("role", "img");
    }
    if height >= 15.0 && extent(&band.inside) <= width {
        let (middle, base) = (x + width / 2.0, y + height / 2.0 + 4.0);
        group = group.with(&label("inside mid", middle, base, &band.inside));
    }
    group.done()
}
