//! The numbers behind a picture, for readers who do not see it and for copying.

use super::markup::{Markup, Tag};

/// A table: the first column names a row, the others hold numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    head: Vec<String>,
    rows: Vec<Vec<Markup>>,
}

impl Table {
    pub(super) fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { head: head.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    pub(super) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.cells(cells.into_iter().map(|cell| Markup::text(&cell.into())));
    }

    /// A row with more than text in it.
    pub(super) fn cells(&mut self, cells: impl IntoIterator<Item = Markup>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table under a line that names it.
    pub(super) fn named(&self, line: &str) -> Markup {
        let mut out = Tag::of("p", "table-name").text(line).done();
        out.push(&self.markup());
        out
    }

    /// The table in a box that scrolls where the page is narrow.
    pub(super) fn markup(&self) -> Markup {
        let head =
            self.head.iter().map(|cell| Tag::new("th").attr("scope", "col").text(cell).done());
        let head = Tag::new("tr").with(&head.collect()).done();
        let rows: Markup = self.rows.iter().map(|cells| row(cells)).collect();
        let table = Tag::new("table")
            .with(&Tag::new("thead").with(&head).done())
            .with(&Tag::new("tbody").with(&rows).done())
            .done();
        Tag::of("div", "scroll").attr("tabindex", "0").with(&table).done()
    }

    /// The table, folded away under a line.
    pub(super) fn folded(&self, line: &str) -> Markup {
        Tag::of("details", "numbers")
            .with(&Tag::new("summary").text(line).done())
            .with(&self.markup())
            .done()
    }
}

fn row(cells: &[Markup]) -> Markup {
    let cells = cells.iter().enumerate().map(|(index, cell)| {
        let tag = if index == 0 { Tag::new("th").attr("scope", "row") } else { Tag::new("td") };
        tag.with(cell).done()
    });
    Tag::new("tr").with(&cells.collect()).done()
}
