//! The causes of the loss, each opening to its evidence.

use super::flame;
use super::markup::{Markup, Tag};
use crate::number::{self, sentence};
use crate::words;
use kneepoint_vocab::findings::{Cause, HolderState, LineKind};
use kneepoint_vocab::{Findings, Level, Unit};

/// One cause, ready for the template.
pub(super) struct CauseView<'a> {
    pub(super) cause: &'a Cause,
    pub(super) rank: usize,
    pub(super) fragment: String,
    pub(super) class: &'static str,
    pub(super) kind: &'static str,
    pub(super) share: number::Shown,
    pub(super) bar: Markup,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) holders: Markup,
    /// Its evidence, with percentages that stay on one line.
    pub(super) evidence: String,
    pub(super) path: String,
    /// Rank and fragment of the cause that this one follows from.
    pub(super) follows: Option<(usize, String)>,
    /// Label and ratio of the treatment that cured it.
    pub(super) cure: Option<(String, String)>,
    pub(super) stacks: Markup,
    /// What its flame graph shows.
    pub(super) stacks_title: String,
    pub(super) wakers: Markup,
}

/// The place of a cause on the page, by its id in the findings.
pub(super) fn fragment(findings: &Findings, id: &str) -> Option<String> {
    rank(findings, id).map(|rank| format!("cause-{rank}"))
}

fn rank(findings: &Findings, id: &str) -> Option<usize> {
    findings.causes.iter().position(|cause| cause.id == id).map(|index| index + 1)
}

/// All causes, greatest first.
pub(super) fn views(findings: &Findings) -> Vec<CauseView<'_>> {
    let causes = findings.causes.iter().enumerate();
    causes.map(|(index, cause)| view(findings, cause, index + 1)).collect()
}

fn view<'a>(findings: &Findings, cause: &'a Cause, rank_here: usize) -> CauseView<'a> {
    let class = words::class(words::cause_line(cause.kind));
    let waits = cause.waits.is_some() || cause.wait_mean.is_some();
    let (colour, title) = if waits {
        (class, "Where threads began to wait")
    } else {
        (words::class(LineKind::Running), "On a core")
    };
    let drawn = |stacks: Option<&_>, colour, title| {
        stacks.map(|stacks| flame::draw(stacks, colour, title)).unwrap_or_default()
    };
    let follows = cause.follows_from.as_ref().and_then(|id| rank(findings, id));
    CauseView {
        cause,
        rank: rank_here,
        fragment: format!("cause-{rank_here}"),
        class,
        kind: words::word_of(cause),
        share: number::percent(&cause.share),
        bar: share_bar(cause),
        facts: facts(findings, cause),
        holders: holders(cause),
        evidence: words::evidence(&cause.evidence).replace(" %", "\u{a0}%"),
        path: if cause.path == [cause.name.to_string()] {
            String::new()
        } else {
            cause.path.join(" ← ")
        },
        follows: follows.map(|rank| (rank, format!("cause-{rank}"))),
        cure: words::cure(findings, cause).map(|effect| {
            let ratio = effect.ratio.as_ref().map(|ratio| number::factor(ratio).value);
            let tried = |at: Level| format!(" at {}", words::counted(at.clients, "client"));
            let at = findings.effects_at.map_or_else(String::new, tried);
            (effect.label.clone(), ratio.unwrap_or_default() + &at)
        }),
        stacks: drawn(cause.stacks.as_ref(), colour, title),
        stacks_title: title.to_lowercase(),
        wakers: drawn(
            cause.waker_stacks.as_ref(),
            words::class(LineKind::IdleScheduler),
            "Who ended the waits",
        ),
    }
}

/// The share with its interval, as a bar.
fn share_bar(cause: &Cause) -> Markup {
    let part = |value: f64| if value.is_finite() { value.clamp(0.0, 1.0) } else { 0.0 };
    let share = &cause.share;
    let (low, high) = (part(share.low.get()), part(share.high.get()));
    let ground = Tag::of("rect", "ground").attr("width", "100%").attr("height", "100%");
    let bar = Tag::of("rect", words::class(words::cause_line(cause.kind)))
        .part("width", part(share.value.get()))
        .attr("height", "100%");
    let whisker = Tag::of("line", "whisker")
        .part("x1", low)
        .part("x2", high)
        .attr("y1", "50%")
        .attr("y2", "50%");
    Tag::of("svg", "share")
        .attr("aria-hidden", "true")
        .with(&ground.done())
        .with(&bar.done())
        .with(&whisker.done())
        .done()
}

fn facts(findings: &Findings, cause: &Cause) -> Vec<(&'static str, String)> {
    let mut facts = vec![("cores lost", number::cores(&cause.lost).to_string())];
    if let Some(waits) = &cause.waits {
        facts.push(("waits each second", number::rate(waits).to_string()));
    }
    if let Some(mean) = cause.wait_mean {
        facts.push(("mean wait", number::brief_seconds(mean)));
    }
    if let Some(longest) = cause.wait_longest {
        facts.push(("longest wait", number::plain_seconds(longest)));
    }
    if let Some(time) = &cause.wait_per_operation {
        facts.push(("waited per operation", number::seconds(time).to_string()));
    }
    if let Some(lock) = words::locks::of_cause(findings, cause) {
        let taken = lock.taken.map(sentence::quantity);
        facts.extend(taken.map(|taken| ("taken per operation", taken)));
        facts.extend(lock.held.map(|held| ("held each time", number::seconds(&held).to_string())));
        let room = lock.at_most.map(|most| number::rate(&most).to_string());
        facts.extend(room.map(|most| ("room for, operations/s", most)));
    }
    if let Some(source) = &cause.source {
        facts.push(("source", words::source_line(source)));
    }
    if let Some(share) = cause.stacks_complete {
        facts.push(("stacks complete", number::plain_percent(share)));
    }
    facts
}

/// What holders were doing, as one bar with its words.
fn holders(cause: &Cause) -> Markup {
    if cause.holders.is_empty() {
        return Markup::default();
    }
    let mut left = 0.0;
    let mut bars = Markup::default();
    let mut words_of = Vec::new();
    for (state, share) in &cause.holders {
        let part = share.get();
        let part = if part.is_finite() { part.clamp(0.0, 1.0 - left) } else { 0.0 };
        let bar = Tag::of("rect", holder_class(*state))
            .part("x", left)
            .part("width", part)
            .attr("height", "100%");
        bars.push(&bar.done());
        left += part;
        words_of.push((*state, number::plain_percent(*share)));
    }
    let list = words_of.iter().map(|(state, share)| {
        let swatch = Tag::of("span", &format!("swatch {}", holder_class(*state))).done();
        Tag::new("li").with(&swatch).text(&format!("{} {share}", state.as_str())).done()
    });
    let bar = Tag::of("svg", "share holders").attr("aria-hidden", "true").with(&bars).done();
    Tag::of("div", "holding")
        .with(&Tag::new("p").text("When a wait began, the holder was").done())
        .with(&bar)
        .with(&Tag::of("ul", "keys").with(&list.collect()).done())
        .done()
}

const fn holder_class(state: HolderState) -> &'static str {
    words::class(match state {
        HolderState::Running => LineKind::Running,
        HolderState::Runnable => LineKind::Runnable,
        HolderState::Blocked => LineKind::IdleOther,
        HolderState::Unknown => LineKind::Unaccounted,
    })
}
