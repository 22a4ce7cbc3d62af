//! Flame graphs: widths by weight, in percent of the picture, so that they fit any column.

use super::markup::{Markup, Tag};
use super::table::Table;
use crate::number;
use crate::text;
use crate::words;
use kneepoint_vocab::findings::{FlameNode, LineKind};
use kneepoint_vocab::{Ratio, Seconds, Unit};

/// Frames narrower than this part of the picture are left out; their caller keeps the width.
const LEAST: f64 = 0.002;
/// Deeper frames are left out.
const DEEPEST: usize = 96;
/// Height of a frame in pixels.
const ROW: f64 = 18.0;
/// Characters of a name that are written into its frame.
const WRITTEN: usize = 160;
/// Rows of the table.
pub(super) const LISTED: usize = 20;

/// A flame graph with a search field, a way back, a switch to the innermost functions, what its
/// colours mean, and the heaviest functions as a table.
pub(super) fn draw(root: &FlameNode, kind: &'static str, title: &str) -> Markup {
    let frames = stacked(root, |node, place, depth| drawn(node, kind, place, depth));
    let Some((frames, deepest)) = frames else { return Markup::default() };
    let table = table(root).folded("Heaviest functions in numbers");
    boxed(title, &frames, deepest, &[&keys(root, kind), &table])
}

/// Frames of functions, which can be turned to the innermost ones.
pub(super) fn boxed(title: &str, frames: &Markup, deepest: usize, below: &[&Markup]) -> Markup {
    let turn = Tag::of("button", "turn")
        .attr("type", "button")
        .attr("aria-pressed", "false")
        .attr("title", "The same time by the function that it passes in, callers below")
        .text("by innermost function");
    framed(title, frames, deepest, &turn.done(), below)
}

/// Frames of `deepest + 1` rows under their controls, with one of their own, and what stands below
/// them.
pub(super) fn framed(
    title: &str,
    frames: &Markup,
    deepest: usize,
    control: &Markup,
    below: &[&Markup],
) -> Markup {
    let rows = f64::from(u32::try_from(deepest).unwrap_or(0)) + 1.0;
    let name = format!("{title}. Arrow keys move, Enter zooms, Escape goes back.");
    let picture = Tag::of("svg", "frames")
        .attr("width", "100%")
        .num("height", rows * ROW)
        .attr("role", "group")
        .attr("aria-label", &name)
        .with(frames)
        .done();
    let search = Tag::new("input")
        .attr("type", "search")
        .attr("placeholder", "find a name")
        .attr("aria-label", "find a name in this picture");
    let controls = Tag::of("div", "controls")
        .with(&Tag::new("strong").text(title).done())
        .with(&Tag::of("output", "found").done())
        .with(&search.done())
        .with(control)
        .with(&Tag::of("button", "back").attr("type", "button").text("zoom out").done())
        .done();
    let below: Markup = below.iter().map(|&part| part.clone()).collect();
    Tag::of("div", "flame").with(&controls).with(&picture).with(&below).done()
}

/// What the two colours mean; nothing where there is but one.
fn keys(root: &FlameNode, kind: &'static str) -> Markup {
    let (mut user, mut kernel) = (false, false);
    let mut rest: Vec<&FlameNode> = root.children.iter().collect();
    while let Some(node) = rest.pop() {
        user |= !node.kernel;
        kernel |= node.kernel;
        rest.extend(&node.children);
    }
    let colours = [(kind, "program"), (words::class(LineKind::Kernel), "kernel")];
    if user && kernel { legend(&colours) } else { Markup::default() }
}

/// Colours with their words.
pub(super) fn legend(colours: &[(&str, &str)]) -> Markup {
    let items = colours.iter().map(|(class, words)| {
        let swatch = Tag::of("span", &format!("swatch {class}")).done();
        Tag::new("li").with(&swatch).text(words).done()
    });
    Tag::of("ul", "keys").with(&items.collect()).done()
}

/// A node of a tree that is drawn as stacked frames.
pub(super) trait Stacked: Sized {
    /// What its frame is as wide as.
    fn width(&self) -> f64;
    /// What stands on it, from left to right.
    fn above(&self) -> &[Self];
}

impl Stacked for FlameNode {
    fn width(&self) -> f64 {
        self.weight.get()
    }

    fn above(&self) -> &[Self] {
        &self.children
    }
}

/// All frames of a tree, and how deep they lie; `draw` makes one of its node, where it begins and
/// how wide it is in parts of the picture, and its depth. None where there is nothing to see.
pub(super) fn stacked<N: Stacked>(
    root: &N,
    draw: impl Fn(&N, [f64; 2], usize) -> Markup,
) -> Option<(Markup, usize)> {
    let total = root.width();
    if !(total.is_finite() && total > 0.0) {
        return None;
    }
    let mut walk = Walk { total, deepest: 0, frames: Markup::default(), draw };
    walk.visit(root, 0.0, 0);
    Some((walk.frames, walk.deepest))
}

struct Walk<F> {
    total: f64,
    deepest: usize,
    frames: Markup,
    draw: F,
}

impl<F> Walk<F> {
    fn visit<N: Stacked>(&mut self, node: &N, left: f64, depth: usize)
    where
        F: Fn(&N, [f64; 2], usize) -> Markup,
    {
        let part = node.width() / self.total;
        if part.is_nan() || part < LEAST || depth > DEEPEST {
            return;
        }
        self.deepest = self.deepest.max(depth);
        self.frames.push(&(self.draw)(node, [left, part], depth));
        let mut left = left;
        for child in node.above() {
            self.visit(child, left, depth + 1);
            let part = child.width() / self.total;
            left += if part.is_finite() { part.max(0.0) } else { 0.0 };
        }
    }
}

fn drawn(node: &FlameNode, kind: &'static str, place: [f64; 2], depth: usize) -> Markup {
    let share = number::plain_percent(Ratio(place[1]));
    let tip = format!("{}\n{} ({share})", node.name, number::plain_seconds(node.weight));
    let kind = if node.kernel { words::class(LineKind::Kernel) } else { kind };
    let class = format!("frame {kind} t{}", tint(&node.name));
    frame(Tag::of("svg", &class), &node.name, &tip, place, depth)
}

/// A frame of this name between parts of the picture: where it begins and how wide it is.
pub(super) fn frame(
    tag: Tag,
    name: &str,
    tip: &str,
    [left, part]: [f64; 2],
    depth: usize,
) -> Markup {
    let row = f64::from(u32::try_from(depth).unwrap_or(0));
    let area = Tag::new("rect").attr("width", "100%").num("height", ROW - 1.0);
    let name = text::clip(&text::disarm(name), WRITTEN);
    let words = Tag::new("text").num("x", 4.0).num("y", ROW - 5.5).text(&name).done();
    tag.part("x", left)
        .num("y", row * ROW)
        .part("width", part)
        .num("height", ROW)
        .attr("tabindex", if depth == 0 { "0" } else { "-1" })
        .attr("data-tip", tip)
        .with(&area.done())
        .with(&words)
        .done()
}

/// One of four tints, the same for the same name.
fn tint(name: &str) -> u32 {
    name.bytes().fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 4
}

fn table(root: &FlameNode) -> Table {
    let mut table = Table::new(["function", "own time", "with callees", "share"]);
    for (name, time) in words::functions(root).into_iter().take(LISTED) {
        table.row([
            name.to_owned(),
            number::plain_seconds(Seconds(time.own)),
            number::plain_seconds(Seconds(time.total)),
            number::plain_percent(Ratio(time.own / root.weight.get())),
        ]);
    }
    table
}
