//! Picture 3, what cures it: paired ratios on a logarithmic axis with the noise floor behind.

use super::curve::{reading, round_tick};
use super::markup::{Markup, Tag};
use super::scale::Scale;
use super::table::Table;
use crate::number;
use crate::words;
use kneepoint_vocab::findings::{Cross, Effect, Verdict};
use kneepoint_vocab::record::Proof;
use kneepoint_vocab::{Findings, Ratio, Unit, VariantRole};

/// Height of a strip in pixels.
const STRIP: f64 = 40.0;

/// One treatment or control, ready for the template.
pub(super) struct EffectView<'a> {
    pub(super) effect: &'a Effect,
    pub(super) over: Option<String>,
    pub(super) strip: Markup,
    pub(super) ratio: String,
    /// Throughput before and after, where it is decided.
    pub(super) gain: Option<String>,
    pub(super) interval: String,
    pub(super) verdict: String,
    pub(super) class: &'static str,
    pub(super) effort: String,
    pub(super) proofs: &'a [Proof],
    pub(super) control: bool,
}

/// Two variants and both together.
pub(super) struct CrossView {
    pub(super) pair: String,
    pub(super) said: String,
    pub(super) cells: Markup,
}

/// The whole picture.
pub(super) struct Forest<'a> {
    pub(super) rows: Vec<EffectView<'a>>,
    pub(super) crosses: Vec<CrossView>,
    pub(super) axis: Markup,
    pub(super) table: Markup,
}

/// All variants with a ratio or a verdict: treatments in the recipe's order, then the controls.
pub(super) fn forest(findings: &Findings) -> Forest<'_> {
    let scale = scale(findings);
    let of = |control: bool| {
        findings
            .effects
            .iter()
            .filter(move |effect| (effect.role != VariantRole::Treatment) == control)
            .filter(|effect| effect.role != VariantRole::Baseline)
    };
    let rows = of(false).chain(of(true)).map(|effect| view(findings, effect, &scale)).collect();
    let crosses = findings.crosses.iter().map(|cross| crossed(findings, cross)).collect();
    let table = table(findings).folded("All variants in numbers");
    Forest { rows, crosses, axis: axis(&scale), table }
}

fn crossed(findings: &Findings, cross: &Cross) -> CrossView {
    let figures = cross.figures.as_ref();
    let cells = figures.map(|figures| {
        let [base, one, other, both] = words::cross::cells(findings, cross, figures);
        let (with, without) = (format!("with {}", other.0), format!("without {}", other.0));
        let mut table = Table::new([words::cross::blocks(figures), without, with]);
        table.row([format!("without {}", one.0), base.1, other.1]);
        table.row([format!("with {}", one.0), one.1, both.1]);
        table.markup()
    });
    CrossView {
        pair: words::cross::pair(findings, cross),
        said: words::cross::sentence(cross),
        cells: cells.unwrap_or_default(),
    }
}

/// Wide enough for every interval, dot and the noise band, with 1 inside.
fn scale(findings: &Findings) -> Scale {
    let floor = findings.noise.floor.get();
    let mut ends = vec![0.8, 1.25];
    if findings.noise.pairs > 0 {
        ends.extend([1.0 + floor, 1.0 - floor]);
    }
    for effect in &findings.effects {
        ends.extend(effect.ratio.iter().flat_map(|ratio| [ratio.low.get(), ratio.high.get()]));
        ends.extend(effect.pair_ratios.iter().map(|ratio| ratio.get()));
    }
    ends.retain(|end| end.is_finite() && (1e-3..=1e3).contains(end));
    let low = ends.iter().copied().fold(1.0, f64::min);
    let high = ends.iter().copied().fold(1.0, f64::max);
    Scale::log((low / 1.06, high * 1.06), (0.0, 1.0))
}

fn view<'a>(findings: &Findings, effect: &'a Effect, scale: &Scale) -> EffectView<'a> {
    let shown = effect.ratio.as_ref().map(number::factor);
    let mut effort = format!(
        "{}, {}",
        words::counted(effect.pairs, "pair"),
        words::counted(effect.starts, "start")
    );
    if let Some(p) = effect.p_holm {
        effort += &format!(", p {} (Holm)", number::probability(p));
    }
    EffectView {
        effect,
        over: words::over(findings, effect),
        gain: words::gain(findings, effect),
        strip: strip(findings, effect, scale),
        ratio: shown.as_ref().map(|shown| shown.value.clone()).unwrap_or_default(),
        interval: shown.map(|shown| shown.interval).unwrap_or_default(),
        verdict: words::outcome(effect),
        class: words::verdict_class(effect.verdict),
        effort,
        proofs: &effect.proofs,
        control: effect.role != VariantRole::Treatment,
    }
}

fn across(class: &str, x: f64, from: f64, to: f64) -> Markup {
    Tag::of("line", class).part("x1", x).part("x2", x).num("y1", from).num("y2", to).done()
}

/// The noise floor on both sides of 1; nothing where no control measured it.
fn noise_band(findings: &Findings, scale: &Scale) -> Markup {
    if findings.noise.pairs == 0 {
        return Markup::default();
    }
    let floor = findings.noise.floor.get();
    let (low, high) = (scale.at(1.0 - floor), scale.at(1.0 + floor));
    let band = Tag::of("rect", "noise").part("x", low).part("width", high - low);
    band.attr("height", "100%").done()
}

fn strip(findings: &Findings, effect: &Effect, scale: &Scale) -> Markup {
    let mut inside = noise_band(findings, scale);
    inside.push(&across("one", scale.at(1.0), 0.0, STRIP));
    for (index, ratio) in effect.pair_ratios.iter().enumerate() {
        let lift = f64::from(u32::try_from(index % 4).unwrap_or(0)) * 3.0;
        let dot = Tag::of("circle", "pair")
            .part("cx", scale.at(ratio.get()))
            .num("cy", STRIP - 6.0 - lift)
            .num("r", 1.8);
        inside.push(&dot.done());
    }
    if let Some(ratio) = &effect.ratio {
        let height = 14.0;
        let (low, high) = (scale.at(ratio.low.get()), scale.at(ratio.high.get()));
        let range = Tag::of("line", "range")
            .part("x1", low)
            .part("x2", high)
            .num("y1", height)
            .num("y2", height);
        let place = scale.at(ratio.value.get());
        let holder = Tag::of("svg", "point").part("x", place).num("y", height);
        let shape = super::curve::mark(effect.verdict, 0.0, 0.0);
        let tip =
            format!("{}\n{}\n{}", effect.label, number::factor(ratio), words::outcome(effect));
        let area = Tag::of("rect", "hit").attr("width", "100%").attr("height", "100%");
        let group = reading(&tip)
            .with(&area.done())
            .with(&range.done())
            .with(&across("range", low, height - 4.0, height + 4.0))
            .with(&across("range", high, height - 4.0, height + 4.0))
            .with(&holder.with(&shape).done());
        inside.push(&group.done());
    }
    Tag::of("svg", &format!("lane {}", words::verdict_class(effect.verdict)))
        .attr("width", "100%")
        .num("height", STRIP)
        .with(&inside)
        .done()
}

fn axis(scale: &Scale) -> Markup {
    let mut inside = Markup::default();
    for tick in scale.ticks(5) {
        let place = scale.at(tick);
        if !(0.02..=0.98).contains(&place) {
            continue;
        }
        inside.push(&across("grid", place, 0.0, 5.0));
        let words = round_tick(&number::plain_factor(Ratio(tick)));
        let text = Tag::of("text", "tick mid").part("x", place).num("y", 18.0).text(&words);
        inside.push(&text.done());
    }
    Tag::of("svg", "lane").attr("width", "100%").num("height", 22.0).with(&inside).done()
}

fn table(findings: &Findings) -> Table {
    let mut table = Table::new([
        "variant",
        "over",
        "ratio",
        "95 % interval",
        "throughput /s",
        "verdict",
        "pairs",
        "starts",
        "p (Holm)",
    ]);
    for effect in &findings.effects {
        let ratio = effect.ratio.as_ref().filter(|_| effect.verdict != Verdict::Invalid);
        let shown = ratio.map(number::factor);
        let dash = || "–".to_owned();
        table.row([
            effect.label.clone(),
            words::over(findings, effect).unwrap_or_else(|| "baseline".to_owned()),
            shown.as_ref().map_or_else(dash, |shown| shown.value.clone()),
            shown.map_or_else(dash, |shown| shown.interval_or_dash()),
            effect.throughput.as_ref().map_or_else(dash, |rate| number::rate(rate).to_string()),
            words::outcome(effect),
            effect.pairs.to_string(),
            effect.starts.to_string(),
            effect.p_holm.map_or_else(dash, number::probability),
        ]);
    }
    table
}
