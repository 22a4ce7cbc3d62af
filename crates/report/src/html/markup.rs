//! Elements built in Rust: text and attributes are escaped on the way in, so that finished
//! markup cannot hold anything from outside.

use crate::text;
use std::fmt::Write as _;

/// Finished markup. Only [`Tag`] and concatenation make it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Markup(String);

impl Markup {
    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends other markup.
    pub(super) fn push(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    /// Text, escaped.
    pub(super) fn text(words: &str) -> Self {
        Self(text::escape(words))
    }
}

impl std::fmt::Display for Markup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Tells the templates that nothing is left to escape.
impl askama::filters::HtmlSafe for Markup {}

impl Extend<Self> for Markup {
    fn extend<T: IntoIterator<Item = Self>>(&mut self, parts: T) {
        for part in parts {
            self.push(&part);
        }
    }
}

impl FromIterator<Self> for Markup {
    fn from_iter<T: IntoIterator<Item = Self>>(parts: T) -> Self {
        let mut all = Self::default();
        all.extend(parts);
        all
    }
}

/// An element under construction.
#[derive(Clone, Debug)]
pub(super) struct Tag {
    name: &'static str,
    open: String,
    inside: Markup,
}

impl Tag {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, open: format!("<{name}"), inside: Markup::default() }
    }

    /// An element with a class.
    pub(super) fn of(name: &'static str, class: &str) -> Self {
        Self::new(name).attr("class", class)
    }

    pub(super) fn attr(mut self, name: &'static str, value: &str) -> Self {
        // Writing to a String cannot fail.
        let _ = write!(self.open, " {name}=\"{}\"", text::escape(value));
        self
    }

    /// A coordinate, to a hundredth of a pixel.
    pub(super) fn num(self, name: &'static str, value: f64) -> Self {
        self.attr(name, &short(value))
    }

    /// A coordinate as a percentage of the picture.
    pub(super) fn part(self, name: &'static str, value: f64) -> Self {
        self.attr(name, &format!("{}%", short(value * 100.0)))
    }

    pub(super) fn text(mut self, words: &str) -> Self {
        self.inside.push(&Markup::text(words));
        self
    }

    pub(super) fn with(mut self, inside: &Markup) -> Self {
        self.inside.push(inside);
        self
    }

    pub(super) fn done(self) -> Markup {
        if self.name == "input" {
            return Markup(format!("{}>", self.open));
        }
        Markup(format!("{}>{}</{}>", self.open, self.inside.0, self.name))
    }
}

/// At most two decimals; zero for what is not a number, so that a picture stays well formed.
pub(super) fn short(value: f64) -> String {
    if !value.is_finite() {
        return "0".to_owned();
    }
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A straight line.
pub(super) fn line(class: &str, x1: f64, y1: f64, x2: f64, y2: f64) -> Markup {
    Tag::of("line", class).num("x1", x1).num("y1", y1).num("x2", x2).num("y2", y2).done()
}

/// Text at a place; the class sets its anchor.
pub(super) fn label(class: &str, x: f64, y: f64, words: &str) -> Markup {
    Tag::of("text", class).num("x", x).num("y", y).text(words).done()
}

/// Width of a label in pixels, a little more than most fonts take.
pub(super) fn extent(words: &str) -> f64 {
    f64::from(u32::try_from(words.chars().count()).unwrap_or(u32::MAX)) * 7.6
}

/// Which of the labels at these places can be printed without touching: as many as fit from the
/// left, but `first` in any case.
pub(super) fn apart(labels: &[(f64, String)], first: Option<usize>) -> Vec<bool> {
    let clash = |one: usize, other: usize| {
        let room = (extent(&labels[one].1) + extent(&labels[other].1)) / 2.0 + 4.0;
        (labels[one].0 - labels[other].0).abs() < room
    };
    let mut shown: Vec<usize> = first.into_iter().filter(|index| *index < labels.len()).collect();
    for index in 0..labels.len() {
        if !shown.contains(&index) && !shown.iter().any(|other| clash(index, *other)) {
            shown.push(index);
        }
    }
    (0..labels.len()).map(|index| shown.contains(&index)).collect()
}

/// A line through points, or the outline of an area.
pub(super) fn path(class: &str, points: &[(f64, f64)], closed: bool) -> Markup {
    let mut steps = String::new();
    for (index, (x, y)) in points.iter().enumerate() {
        let verb = if index == 0 { 'M' } else { 'L' };
        let _ = write!(steps, "{verb}{} {}", short(*x), short(*y));
    }
    if closed {
        steps.push('Z');
    }
    Tag::of("path", class).attr("d", &steps).done()
}

/// A picture of fixed proportions that scales with its column, read aloud as one sentence.
pub(super) fn picture(class: &str, width: f64, height: f64, name: &str, inside: &Markup) -> Markup {
    Tag::of("svg", class)
        .attr("viewBox", &format!("0 0 {} {}", short(width), short(height)))
        .attr("role", "group")
        .attr("aria-label", name)
        .with(inside)
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_leaves_its_place() {
        let made = Tag::of("a", "x\" onclick=\"y").text("</a><script>").done().to_string();
        assert_eq!(made, "<a class=\"x&quot; onclick=&quot;y\">&lt;/a&gt;&lt;script&gt;</a>");
    }

    #[test]
    fn crowded_labels_give_way_to_the_first() {
        let labels: Vec<_> = [0.0, 10.0, 60.0, 70.0].map(|x| (x, "100".to_owned())).to_vec();
        assert_eq!(apart(&labels, Some(1)), [false, true, true, false]);
        assert_eq!(apart(&labels, None), [true, false, true, false]);
    }

    #[test]
    fn coordinates_are_short_and_finite() {
        assert_eq!(short(1.0), "1");
        assert_eq!(short(-0.001), "0");
        assert_eq!(short(2.345), "2.35");
        assert_eq!(short(f64::NAN), "0");
    }
}
