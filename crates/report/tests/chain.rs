//! Who waits for whom, on the page.

#[allow(dead_code, reason = "other tests are about the rest")]
mod synthetic;

use kneepoint_report::html;
use kneepoint_vocab::findings::{ChainLink, ChainNode, HolderState, LineKind, Name};
use kneepoint_vocab::{Count, Findings};

fn node(link: ChainLink, threads: f64, next: Vec<ChainNode>) -> ChainNode {
    ChainNode { link, threads: Count(threads), next }
}

/// Eight clients of which five wait for a lock that a thread without clients holds mostly.
fn findings() -> Findings {
    let holder = |state, threads| node(ChainLink::Holder { state }, threads, Vec::new());
    let holders = vec![holder(HolderState::Running, 4.0), holder(HolderState::Blocked, 0.5)];
    let purger = node(ChainLink::Threads { name: "purger<b>".to_owned() }, 4.5, holders);
    let outside = node(ChainLink::Outside, 0.5, Vec::new());
    let name = Name::from("mutex in trim");
    let wait = ChainLink::Wait { name, line: LineKind::IdleLock, cause: None };
    let next = vec![
        node(wait, 5.0, vec![purger, outside]),
        node(ChainLink::OnCore, 2.0, Vec::new()),
        node(ChainLink::Request, 1.0, Vec::new()),
    ];
    let clients = ChainLink::Clients { name: "worker".to_owned() };
    Findings { chain: Some(node(clients, 8.0, next)), ..synthetic::findings() }
}

#[test]
fn a_chain_is_a_picture_with_its_numbers() {
    let page = html::render(&findings());
    assert!(page.contains("<h3>Who waits for whom at 2 clients</h3>"));
    for said in [
        "client threads worker\n8.0 threads in the mean (100 %)",
        "mutex in trim\n5.0 threads in the mean",
        "its holder, on a core\n4.0 threads",
        "waiting for the next request\n1.0 threads",
        "a timer, an interrupt or another process\n0.5 threads",
    ] {
        let escaped = said.replace('\n', "&#10;");
        assert!(page.contains(said) || page.contains(&escaped), "{said}");
    }
    assert!(page.contains("threads purger&lt;b&gt;") || page.contains("threads purger&#60;b&#62;"));
    assert!(!page.contains("purger<b>"), "names are escaped");
}

#[test]
fn without_waits_there_is_no_picture() {
    let alone = node(ChainLink::OnCore, 2.0, Vec::new());
    let clients = ChainLink::Clients { name: "worker".to_owned() };
    let chain = Some(node(clients, 2.0, vec![alone]));
    for chain in [chain, None] {
        let page = html::render(&Findings { chain, ..synthetic::findings() });
        assert!(!page.contains("Who waits for whom"));
    }
}
