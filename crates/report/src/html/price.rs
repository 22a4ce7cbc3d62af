//! Why throughput falls: the waterfall of an operation's price, and all prices in numbers.

use super::causes::fragment;
use super::markup::{Markup, Tag, label, line, picture};
use super::scale::Scale;
use super::table::Table;
use crate::text;
use crate::words::{self, Axis};
use kneepoint_vocab::Findings;
use words::price::{Row, Waterfall};

/// Rows between the two prices, at most.
const MOST: usize = 7;
/// Height of a row in pixels, and of its bar.
const ROW: f64 = 30.0;
const BAR: f64 = 16.0;
/// Columns of the widest label, by the width that it has.
const LETTER: f64 = 6.6;

/// Everything on prices, ready for the template.
#[derive(Default)]
pub(super) struct PriceView {
    /// The waterfall; empty where throughput does not fall.
    pub(super) wide: Markup,
    pub(super) narrow: Markup,
    pub(super) title: String,
    /// What stands below it.
    pub(super) said: Vec<String>,
    /// That the price is flat, where nothing is wrong.
    pub(super) flat: Option<String>,
    /// Where the CPU goes then.
    pub(super) busy: String,
    /// Prices of all levels, line by line, and what keeps each level below its bound.
    pub(super) table: Markup,
    pub(super) limits: Markup,
}

pub(super) fn view(findings: &Findings, axis: Axis) -> PriceView {
    let fall = words::price::waterfall(findings, axis, MOST);
    let drawn = |width: f64, class: &str| {
        fall.as_ref().map(|fall| draw(findings, fall, width, class)).unwrap_or_default()
    };
    let said = [words::price::at_best(findings, axis), words::price::generator(findings, axis)];
    PriceView {
        wide: drawn(500.0, "wide"),
        narrow: drawn(330.0, "narrow"),
        title: fall.as_ref().map(|fall| fall.title.clone()).unwrap_or_default(),
        said: said.into_iter().flatten().collect(),
        flat: words::price::flat(findings, axis),
        busy: findings
            .at_bound
            .as_ref()
            .map_or_else(String::new, |at| words::busy_functions(at).join(", ")),
        table: table(findings, axis),
        limits: limits(findings, axis),
    }
}

/// Where things lie across.
struct Columns {
    bars: Scale,
    /// Right end of what a row adds.
    values: f64,
    /// Columns for a label.
    letters: usize,
}

impl Columns {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a picture's width in letters"
    )]
    fn of(width: f64) -> Self {
        let (labels, values) = (width * 0.42, 72.0);
        Self {
            bars: Scale::linear((0.0, 1.0), (labels + values + 6.0, width - 2.0)),
            values: labels + values,
            letters: (labels / LETTER) as usize,
        }
    }
}

fn draw(findings: &Findings, fall: &Waterfall, width: f64, class: &str) -> Markup {
    let across = Columns::of(width);
    let mut inside = end(&across, &fall.from, 0.0);
    let mut top = ROW;
    let mut places = vec![(fall.from.2, 0.0)];
    for row in &fall.rows {
        inside.push(&step(findings, &across, row, top));
        places.push((row.end, top));
        top += ROW;
    }
    inside.push(&end(&across, &fall.to, top));
    for (place, above) in places {
        let x = across.bars.at(place);
        let (from, to) = (above + middle() + BAR / 2.0, above + ROW + middle() - BAR / 2.0);
        inside.push(&line("joint", x, from, x, to));
    }
    picture(class, width, top + ROW, &fall.title, &inside)
}

const fn middle() -> f64 {
    ROW / 2.0
}

/// The price at one end.
fn end(across: &Columns, (level, price, place): &(String, String, f64), top: f64) -> Markup {
    let base = top + middle() + 4.0;
    let tip = format!("{level}\n{price} of the machine for one operation");
    let bar = bar(across, 0.0, *place, top);
    let mut out = label("strong", 0.0, base, level);
    out.push(&label("strong end", across.values, base, price));
    let group = Tag::of("g", "band ends").attr("role", "img").attr("aria-label", &flat(&tip));
    out.push(&group.attr("data-tip", &tip).with(&bar).done());
    out
}

/// What one part adds to the price, from where the rows above have brought it.
fn step(findings: &Findings, across: &Columns, row: &Row, top: f64) -> Markup {
    let base = top + middle() + 4.0;
    let share = row.share.as_ref().map(|share| format!("{share} of what rises"));
    let parts = [Some(row.rise.clone()), row.split.clone(), share];
    let said: Vec<String> = parts.into_iter().flatten().collect();
    let tip = format!("{}\n{}", row.label, said.join("\n"));
    let bar = bar(across, row.begin, row.end, top);
    let class = format!("band {}", words::class(row.kind));
    let opens = row.cause.as_ref().and_then(|id| fragment(findings, id));
    let group = match &opens {
        Some(fragment) => Tag::of("a", &class).attr("href", &format!("#{fragment}")),
        None => Tag::of("g", &class).attr("role", "img"),
    };
    let mut out = label("step", 0.0, base, &text::shorten(&row.label, across.letters));
    out.push(&label("end", across.values, base, &row.rise));
    out.push(&group.attr("aria-label", &flat(&tip)).attr("data-tip", &tip).with(&bar).done());
    out
}

fn flat(tip: &str) -> String {
    tip.replace('\n', ", ")
}

fn bar(across: &Columns, begin: f64, end: f64, top: f64) -> Markup {
    let (left, right) = (across.bars.at(begin.min(end)), across.bars.at(begin.max(end)));
    Tag::new("rect")
        .num("x", left)
        .num("y", top + middle() - BAR / 2.0)
        .num("width", (right - left).max(1.0))
        .num("height", BAR)
        .done()
}

/// A row a part, a column a level; nothing where there is one level only.
fn table(findings: &Findings, axis: Axis) -> Markup {
    let Some(price) = findings.price.as_ref().filter(|price| price.levels.len() > 1) else {
        return Markup::default();
    };
    let levels = &price.levels;
    let head = levels.iter().map(|level| axis.tick(level.level));
    let mut table = Table::new(std::iter::once(axis.word().to_owned()).chain(head));
    let whole = levels.iter().map(|level| words::price::amount(&level.price));
    table.row(std::iter::once("an operation".to_owned()).chain(whole));
    let count = levels.iter().map(|level| level.parts.len()).min().unwrap_or(0);
    for at in 0..count {
        let some = |level: &&kneepoint_vocab::findings::price::LevelPrice| {
            level.parts[at].price.value.0.abs() >= 0.001 * level.price.value.0
        };
        if levels.iter().any(|level| some(&level)) {
            let name = words::price::name(&levels[0].parts[at].line);
            let cells = levels.iter().map(|level| words::price::amount(&level.parts[at].price));
            table.row(std::iter::once(name).chain(cells));
        }
    }
    table.folded("The price of an operation at each level: core-seconds, idle ones too")
}

/// A row a level that falls short of its bound; nothing where none does.
fn limits(findings: &Findings, axis: Axis) -> Markup {
    let levels = findings.price.iter().flat_map(|price| &price.levels);
    let mut table = Table::new([axis.word(), "most is lost to"]);
    let mut any = false;
    for level in levels.filter(|level| !level.limits.is_empty()) {
        any = true;
        table.row([axis.tick(level.level), words::price::limits(level)]);
    }
    if any { table.folded("What keeps each level below its bound") } else { Markup::default() }
}
