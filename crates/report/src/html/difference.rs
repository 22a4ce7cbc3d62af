//! Flame graphs of differences: two levels or two variants in one picture, which says by colour
//! what one operation takes more of, and what less.
//!
//! A frame is as wide as the mean of both sides, so that what only one of them has is seen as well,
//! and widths add up. Its colour is its change over the sum of both sides: the area of a colour
//! then goes with the seconds.

use super::flame::{LISTED, Stacked, boxed, frame, legend, stacked};
use super::markup::{Markup, Tag};
use super::table::Table;
use crate::number;
use crate::words::{self, Axis};
use kneepoint_vocab::Findings;
use kneepoint_vocab::findings::{DifferenceNode, StackDifference};
use kneepoint_vocab::{Seconds, Unit};
use std::collections::BTreeMap;

/// Changes over the sum of both sides from which a frame has the next stronger colour.
const STEPS: [f64; 3] = [0.05, 0.2, 0.5];

/// All differences, each folded away under what it shows.
pub(super) fn views(findings: &Findings, axis: Axis) -> Markup {
    let all = findings.differences.iter().map(|one| {
        let title = words::difference::title(findings, axis, one);
        let picture = draw(findings, axis, one, &title);
        if picture.is_empty() {
            return picture;
        }
        let summary = Tag::new("summary").text(&format!("Differences: {title}")).done();
        Tag::of("details", "fold").with(&summary).with(&picture).done()
    });
    all.collect()
}

fn draw(findings: &Findings, axis: Axis, one: &StackDifference, title: &str) -> Markup {
    let total = one.root.width();
    let frames = stacked(&one.root, |node, place, depth| drawn(node, total, place, depth));
    let Some((frames, deepest)) = frames else { return Markup::default() };
    let said = words::difference::sentence(findings, axis, one);
    let said = Tag::of("p", "aside").text(&said).done();
    let more = words::difference::side(findings, axis, one, true);
    let less = words::difference::side(findings, axis, one, false);
    let (more, less) = (format!("more with {more}"), format!("more with {less}"));
    let keys = legend(&[("up3", &more), ("down3", &less), ("alike", "alike")]);
    let table = table(findings, axis, one).folded("Greatest changes in numbers");
    boxed(title, &frames, deepest, &[&keys, &said, &table])
}

impl Stacked for DifferenceNode {
    fn width(&self) -> f64 {
        self.mean().get()
    }

    fn above(&self) -> &[Self] {
        &self.children
    }
}

/// `total` is what the picture is as wide as.
fn drawn(node: &DifferenceNode, total: f64, place: [f64; 2], depth: usize) -> Markup {
    let tip = format!(
        "{}\n{} per operation: {} → {}",
        node.name,
        words::price::signed(node.change().get()),
        number::plain_seconds(node.before),
        number::plain_seconds(node.after)
    );
    let kernel = if node.kernel { " in-kernel" } else { "" };
    let tag = Tag::of("svg", &format!("frame {}{kernel}", class(node)))
        .attr("data-change", &format!("{:.5}", node.change().get() / total));
    frame(tag, &node.name, &tip, place, depth)
}

/// The colour of a change: the script does the same with frames that it draws.
fn class(node: &DifferenceNode) -> String {
    let change = node.change().get() / (node.before.get() + node.after.get());
    let step = STEPS.iter().filter(|step| change.abs() >= **step).count();
    match (step, change < 0.0) {
        (0, _) => "alike".to_owned(),
        (step, true) => format!("down{step}"),
        (step, false) => format!("up{step}"),
    }
}

/// Functions whose own time changes most.
fn table(findings: &Findings, axis: Axis, one: &StackDifference) -> Table {
    let sides = [false, true].map(|after| words::difference::side(findings, axis, one, after));
    let [before, after] = sides;
    let mut table = Table::new(["function".to_owned(), before, after, "change".to_owned()]);
    let mut own: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    one.root.children.iter().for_each(|child| add(child, &mut own));
    let change = |sides: &[f64; 2]| sides[1] - sides[0];
    let mut rows: Vec<(&str, [f64; 2])> = own.into_iter().collect();
    rows.sort_by(|a, b| change(&b.1).abs().total_cmp(&change(&a.1).abs()).then(a.0.cmp(b.0)));
    for (name, sides) in rows.into_iter().take(LISTED) {
        table.row([
            name.to_owned(),
            number::plain_seconds(Seconds(sides[0])),
            number::plain_seconds(Seconds(sides[1])),
            words::price::signed(change(&sides)),
        ]);
    }
    table
}

/// Time of functions' own, both sides, by name.
fn add<'a>(node: &'a DifferenceNode, own: &mut BTreeMap<&'a str, [f64; 2]>) {
    let below = |side: fn(&DifferenceNode) -> f64| -> f64 { node.children.iter().map(side).sum() };
    let (before, after) = (below(|child| child.before.0), below(|child| child.after.0));
    let entry = own.entry(node.name.as_str()).or_default();
    entry[0] += (node.before.0 - before).max(0.0);
    entry[1] += (node.after.0 - after).max(0.0);
    node.children.iter().for_each(|child| add(child, own));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(before: f64, after: f64) -> DifferenceNode {
        let (before, after) = (Seconds(before), Seconds(after));
        DifferenceNode { name: "f".to_owned(), kernel: false, before, after, children: Vec::new() }
    }

    #[test]
    fn the_colour_is_the_direction_and_the_part_of_a_change() {
        let classes = [(1.0, 1.05), (1.0, 1.2), (1.0, 2.0), (0.0, 1.0), (3.0, 1.0), (1.0, 0.0)]
            .map(|(before, after)| class(&node(before, after)));
        assert_eq!(classes, ["alike", "up1", "up2", "up3", "down3", "down3"]);
    }
}
