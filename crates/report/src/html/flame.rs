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
const LISTED: usize = 20;

/// A flame graph with a search field, a way back, and the heaviest functions as a table.
pub(super) fn draw(root: &FlameNode, kind: &'static str, title: &str) -> Markup {
    let total = root.weight.get();
    if !(total.is_finite() && total > 0.0) {
        return Markup::default();
    }
    let mut walk = Walk { total, kind, deepest: 0, frames: Markup::default() };
    walk.visit(root, 0.0, 0);
    let rows = f64::from(u32::try_from(walk.deepest).unwrap_or(0)) + 1.0;
    let name = format!("{title}. Arrow keys move, Enter zooms, Escape goes back.");
    let picture = Tag::of("svg", "frames")
        .attr("width", "100%")
        .num("height", rows * ROW)
        .attr("role", "group")
        .attr("aria-label", &name)
        .with(&walk.frames)
        .done();
    let search = Tag::new("input")
        .attr("type", "search")
        .attr("placeholder", "find a function")
        .attr("aria-label", "find a function in this flame graph");
    let controls = Tag::of("div", "controls")
        .with(&Tag::new("strong").text(title).done())
        .with(&Tag::of("output", "found").done())
        .with(&search.done())
        .with(&Tag::of("button", "back").attr("type", "button").text("zoom out").done())
        .done();
    Tag::of("div", "flame")
        .with(&controls)
        .with(&picture)
        .with(&table(root).folded("Heaviest functions in numbers"))
        .done()
}

struct Walk {
    total: f64,
    kind: &'static str,
    deepest: usize,
    frames: Markup,
}

impl Walk {
    fn visit(&mut self, node: &FlameNode, left: f64, depth: usize) {
        let part = node.weight.get() / self.total;
        if part.is_nan() || part < LEAST || depth > DEEPEST {
            return;
        }
        self.deepest = self.deepest.max(depth);
        self.frames.push(&self.frame(node, left, part, depth));
        let mut left = left;
        for child in &node.children {
            self.visit(child, left, depth + 1);
            let part = child.weight.get() / self.total;
            left += if part.is_finite() { part.max(0.0) } else { 0.0 };
        }
    }

    fn frame(&self, node: &FlameNode, left: f64, part: f64, depth: usize) -> Markup {
        let row = f64::from(u32::try_from(depth).unwrap_or(0));
        let share = number::plain_percent(Ratio(part));
        let tip = format!("{}\n{} ({share})", node.name, number::plain_seconds(node.weight));
        let area = Tag::new("rect").attr("width", "100%").num("height", ROW - 1.0);
        let name = text::clip(&text::disarm(&node.name), WRITTEN);
        let words = Tag::new("text").num("x", 4.0).num("y", ROW - 5.5).text(&name).done();
        let kind = if node.kernel { words::class(LineKind::Kernel) } else { self.kind };
        Tag::of("svg", &format!("frame {kind} t{}", tint(&node.name)))
            .part("x", left)
            .num("y", row * ROW)
            .part("width", part)
            .num("height", ROW)
            .attr("tabindex", if depth == 0 { "0" } else { "-1" })
            .attr("data-tip", &tip)
            .with(&area.done())
            .with(&words)
            .done()
    }
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
