//! What Kneepoint's own scripts in sysbench tell of each client, one line at a time.

use anyhow::{Context as _, ensure};
use kneepoint_vocab::Nanos;

const MARK: &str = "kneepoint: client ";

/// Who serves a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    /// Kernel id of the server's thread.
    pub(super) thread: u32,
    /// Where the server sees the client.
    pub(super) host: String,
}

/// What a client has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    /// Operations that it ended.
    pub(super) operations: u64,
    /// When it began the first and ended the last, since boot; zero where it does not tell.
    pub(super) span: (Nanos, Nanos),
}

/// Who serves the clients, in client order; none until all have reported.
pub(super) fn served(text: &str, clients: u32) -> Option<Vec<Served>> {
    in_order(text, clients, |words| {
        let (thread, host) = words.strip_prefix("is served by thread ")?.split_once(" from ")?;
        Some(Served { thread: thread.parse().ok()?, host: host.to_owned() })
    })
}

/// Kernel ids of the threads that the clients are, in client order; none until all have reported.
pub(super) fn threads(text: &str, clients: u32) -> Option<Vec<u32>> {
    in_order(text, clients, |words| words.strip_prefix("runs as thread ")?.parse().ok())
}

/// What the clients have done, in client order.
pub(super) fn ended(text: &str, clients: u32) -> anyhow::Result<Vec<Ended>> {
    let all = in_order(text, clients, |words| {
        let mut words = words.strip_prefix("ended ")?.split(' ');
        let operations = words.next()?.parse().ok()?;
        let span = match (words.next(), words.next(), words.next(), words.next()) {
            (None, ..) => (Nanos(0), Nanos(0)),
            (Some("from"), Some(begin), Some("to"), Some(end)) => (instant(begin)?, instant(end)?),
            _ => return None,
        };
        Some(Ended { operations, span })
    });
    let all = all.with_context(|| format!("not each of {clients} clients reported what it did"))?;
    ensure!(all.iter().all(|it| it.span.0 <= it.span.1), "a client ended before it began");
    Ok(all)
}

/// What `read` makes of a client's line, once each of the clients has just one such line.
fn in_order<T>(text: &str, clients: u32, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let mut all: Vec<(u32, T)> = text
        .lines()
        .filter_map(|line| line.strip_prefix(MARK)?.split_once(' '))
        .filter_map(|(client, words)| Some((client.parse().ok()?, read(words)?)))
        .collect();
    all.sort_by_key(|(client, _)| *client);
    let whole = all.iter().map(|(client, _)| *client).eq(0..clients);
    whole.then(|| all.into_iter().map(|(_, reported)| reported).collect())
}

/// Seconds since boot with nine decimals.
fn instant(text: &str) -> Option<Nanos> {
    let (seconds, rest) = text.split_once('.')?;
    let (seconds, rest): (u64, u64) = (seconds.parse().ok()?, rest.parse().ok()?);
    (text.len() - text.find('.')? == 10)
        .then(|| seconds.checked_mul(1_000_000_000)?.checked_add(rest).map(Nanos))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPORTED: &str = "kneepoint: client 1 is served by thread 71 from localhost\n\
        WARNING: something\n\
        kneepoint: client 0 is served by thread 70 from 127.0.0.1:5000\n\
        kneepoint: client 1 runs as thread 81\n\
        kneepoint: client 0 runs as thread 80\n\
        kneepoint: client 0 ended 12\n\
        kneepoint: client 1 ended 9 from 100.000000005 to 101.500000000\n";

    #[test]
    fn clients_come_in_order_once_all_have_reported() {
        let served = served(REPORTED, 2).unwrap();
        assert_eq!(served.iter().map(|it| it.thread).collect::<Vec<_>>(), [70, 71]);
        assert_eq!(served[0].host, "127.0.0.1:5000");
        assert_eq!(super::served(REPORTED, 3), None);
        assert_eq!(super::served(REPORTED, 1), None);
        assert_eq!(threads(REPORTED, 2), Some(vec![80, 81]));
        let ended = ended(REPORTED, 2).unwrap();
        assert_eq!(ended[0], Ended { operations: 12, span: (Nanos(0), Nanos(0)) });
        assert_eq!(ended[1].span, (Nanos(100_000_000_005), Nanos(101_500_000_000)));
    }

    #[test]
    fn what_a_client_cannot_have_reported_is_refused() {
        for (from, to) in [
            ("ended 12", "ended many"),
            ("ended 12", "ended 12 from 1.5 to 2.5"),
            ("101.500000000", "99.500000000"),
            ("client 0 ended", "client 1 ended"),
            ("kneepoint: client 0 ended 12\n", ""),
        ] {
            let text = REPORTED.replace(from, to);
            assert!(ended(&text, 2).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}", number in "[0-9.]{0,30}") {
            let _ = served(&format!("{MARK}{text}"), 1);
            let _ = threads(&format!("{MARK}0 runs as thread {number}"), 1);
            let _ = ended(&format!("{MARK}0 ended {number} from {number} to {number}"), 1);
        }
    }
}
