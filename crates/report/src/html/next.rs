//! The fourth question: what next. Tables of what the run's twin says, and how far to believe it.

use super::markup::Markup;
use super::table::Table;
use crate::number;
use crate::words::next as words;
use kneepoint_vocab::Ratio;
use kneepoint_vocab::findings::Next;

/// The section's parts; absent where nobody asked the twin.
pub(super) struct NextView {
    /// Why there is no forecast.
    pub(super) why_not: Option<String>,
    /// Root mean square of what the twin is off by.
    pub(super) error: String,
    /// Changes.
    pub(super) what_if: Markup,
    /// More clients and cores.
    pub(super) levels: Markup,
    /// Measured beside simulated.
    pub(super) residuals: Markup,
    /// What the levels do not determine.
    pub(super) open: Vec<String>,
}

pub(super) fn view(next: &Next) -> NextView {
    let mut what_if = Table::new(["Change", "Throughput", "90 % interval", "To"]);
    for it in &next.what_if {
        let ratio = words::ratio(&it.forecast);
        let to = words::throughput(&it.forecast).value;
        what_if.row([words::altered(&it.change), ratio.value, ratio.interval, to]);
    }
    let mut levels = Table::new(["Clients", "Cores", "Throughput", "90 % interval"]);
    for it in &next.levels {
        let there = words::throughput(it);
        let (clients, cores) = (it.level.clients.to_string(), it.level.cores.to_string());
        levels.row([clients, cores, there.value, there.interval]);
    }
    let mut residuals = Table::new(["Clients", "Measured", "Simulated", "Off"]);
    for it in &next.residuals {
        let off = number::plain_percent(Ratio(it.off().exp() - 1.0));
        let (measured, simulated) =
            (number::plain_rate(it.measured), number::plain_rate(it.simulated));
        residuals.row([it.clients.to_string(), measured, simulated, off]);
    }
    NextView {
        why_not: next.why_not.as_ref().map(words::no_twin),
        error: number::plain_percent(next.error),
        what_if: what_if.named("What changes would bring, by the twin"),
        levels: levels.named("Levels that were not measured, by the twin"),
        residuals: residuals.folded("How well the twin does what the system did"),
        open: next.open.iter().map(words::undetermined).collect(),
    }
}
