//! Who waits for whom, as stacked frames: under each wait those who end it.

use super::flame::{Stacked, frame, framed, stacked};
use super::markup::{Markup, Tag};
use super::table::Table;
use crate::number;
use crate::words;
use kneepoint_vocab::findings::ChainNode;
use kneepoint_vocab::{Ratio, Unit};

/// The picture with how it is read and its numbers; empty where nothing is waited for.
pub(super) fn view(chain: Option<&ChainNode>) -> Markup {
    let Some(chain) = chain.filter(|chain| words::chain::waits(chain)) else {
        return Markup::default();
    };
    let Some((frames, deepest)) = stacked(chain, drawn) else { return Markup::default() };
    let how = Tag::of("p", "aside").text(words::chain::HOW).done();
    let table = table(chain).folded("The chain in numbers");
    framed("Threads and what they wait for", &frames, deepest, &Markup::default(), &[&how, &table])
}

impl Stacked for ChainNode {
    fn width(&self) -> f64 {
        self.threads.get()
    }

    fn above(&self) -> &[Self] {
        &self.next
    }
}

fn drawn(node: &ChainNode, place: [f64; 2], depth: usize) -> Markup {
    let called = words::chain::called(&node.link);
    let threads = number::plain_mean(node.threads);
    let share = number::plain_percent(Ratio(place[1]));
    let tip = format!("{called}\n{threads} threads in the mean ({share})");
    let class = format!("frame {} t1", words::chain::colour(&node.link));
    let name = format!("{called}  {threads}");
    frame(Tag::of("svg", &class), &name, &tip, place, depth)
}

fn table(chain: &ChainNode) -> Table {
    let mut table = Table::new(["who or what", "threads, mean", "share"]);
    list(&mut table, chain, chain.threads.get(), 0);
    table
}

fn list(table: &mut Table, node: &ChainNode, all: f64, depth: usize) {
    let indent = "\u{2003}".repeat(depth);
    table.row([
        format!("{indent}{}", words::chain::called(&node.link)),
        number::plain_mean(node.threads),
        number::plain_percent(Ratio(node.threads.get() / all)),
    ]);
    for next in &node.next {
        list(table, next, all, depth + 1);
    }
}
