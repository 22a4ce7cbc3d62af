//! Who waits for whom, in words.

use super::class;
use kneepoint_vocab::findings::{ChainLink, ChainNode, HolderState, LineKind};

/// What a link of the chain is called.
pub(crate) fn called(link: &ChainLink) -> String {
    match link {
        ChainLink::Clients { name } if name.is_empty() => "client threads".to_owned(),
        ChainLink::Clients { name } => format!("client threads {name}"),
        ChainLink::Threads { name } => format!("threads {name}"),
        ChainLink::System => "threads of the system".to_owned(),
        ChainLink::OnCore => "on a core".to_owned(),
        ChainLink::Runnable => "waiting for a core".to_owned(),
        ChainLink::Request => "waiting for the next request".to_owned(),
        ChainLink::Wait { name, .. } => name.to_string(),
        ChainLink::OtherWaits => "other waits".to_owned(),
        ChainLink::Holder { state } => holder(*state).to_owned(),
        ChainLink::Outside => "a timer, an interrupt or another process".to_owned(),
    }
}

fn holder(state: HolderState) -> &'static str {
    match state {
        HolderState::Running => "its holder, on a core",
        HolderState::Runnable => "its holder, waiting for a core",
        HolderState::Blocked => "its holder, blocked itself",
        HolderState::Unknown => "its holder, not known",
    }
}

/// The class that colours it.
pub(crate) fn colour(link: &ChainLink) -> &'static str {
    class(match link {
        ChainLink::Clients { .. } | ChainLink::Threads { .. } | ChainLink::System => {
            LineKind::Unaccounted
        }
        ChainLink::OnCore | ChainLink::Holder { state: HolderState::Running } => LineKind::Running,
        ChainLink::Runnable | ChainLink::Holder { state: HolderState::Runnable } => {
            LineKind::Runnable
        }
        ChainLink::Request => LineKind::IdleNoWork,
        ChainLink::Wait { line, .. } => *line,
        ChainLink::Holder { state: HolderState::Blocked } => LineKind::IdleThread,
        ChainLink::OtherWaits | ChainLink::Holder { .. } => LineKind::IdleOther,
        ChainLink::Outside => LineKind::Others,
    })
}

/// Whether anything in the system is waited for at all.
pub(crate) fn waits(chain: &ChainNode) -> bool {
    matches!(chain.link, ChainLink::Wait { .. }) || chain.next.iter().any(waits)
}

/// How the picture is read.
pub(crate) const HOW: &str = "Under each wait stand those who end it, and under these what they \
    do in turn; the holder of a lock by what it did when the wait began. As wide as threads in the \
    mean.";
