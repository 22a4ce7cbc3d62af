//! Connections within the machine: which socket is the other end of which, and which descriptors a
//! thread waits for.

use super::process::descriptor;
use super::{numbers, open, text};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, sendto,
    socket_with,
};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;

/// `SOCK_DIAG_BY_FAMILY`, `NLM_F_REQUEST | NLM_F_DUMP`, `UDIAG_SHOW_PEER` and `UNIX_DIAG_PEER`.
const BY_FAMILY: u16 = 20;
const DUMP: u16 = 0x301;
const SHOW_PEER: u32 = 4;
const PEER: u16 = 2;
/// Lengths of a message's head, of what tells of a UNIX socket, and of an attribute's head.
const HEAD: usize = 16;
const SOCKET: usize = 16;
const ATTRIBUTE: usize = 4;
/// `poll` and `ppoll`, as `x86_64` counts.
const POLLS: [&str; 2] = ["7", "271"];
/// Bytes of a `struct pollfd`.
const POLLED: usize = 8;
/// More descriptors than this are not read.
const MOST: usize = 1 << 16;

/// The sockets that a process has open: inodes by descriptor.
#[must_use]
pub fn of(pid: u32) -> BTreeMap<i32, u64> {
    let open = numbers(&format!("{pid}/fd")).unwrap_or_default();
    let socket = |number: u32| {
        let target = descriptor(pid, number.into())?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some((i32::try_from(number).ok()?, inode.parse().ok()?))
    };
    open.into_iter().filter_map(socket).collect()
}

/// The descriptors that a thread waits for in `poll`; none where it is elsewhere, or may not be
/// looked at.
#[must_use]
pub fn awaited(pid: u32, tid: u32) -> Vec<i32> {
    polled(pid, tid).unwrap_or_default()
}

fn polled(pid: u32, tid: u32) -> Option<Vec<i32>> {
    let (at, count) = poll_call(&text(&format!("{pid}/task/{tid}/syscall")).ok()?)?;
    let mut bytes = vec![0; count * POLLED];
    open(&format!("{pid}/mem")).ok()?.read_exact_at(&mut bytes, at).ok()?;
    let descriptors = bytes.chunks_exact(POLLED).filter_map(|one| one.first_chunk::<4>());
    Some(descriptors.map(|bytes| i32::from_ne_bytes(*bytes)).collect())
}

/// Where the array of a waiting `poll` lies, and its length, from a `syscall` file: the call's
/// number and its arguments.
fn poll_call(text: &str) -> Option<(u64, usize)> {
    let mut words = text.split_ascii_whitespace();
    words.next().filter(|number| POLLS.contains(number))?;
    let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (at, count) = (number()?, usize::try_from(number()?).ok()?);
    (count <= MOST).then_some((at, count))
}

/// The other ends of all connections within this machine, UNIX sockets and TCP: inodes both ways.
/// What the kernel does not tell is left out.
#[must_use]
pub fn peers() -> BTreeMap<u64, u64> {
    let mut found = unix_peers().unwrap_or_default();
    let tables = ["net/tcp", "net/tcp6"].map(|file| text(file).unwrap_or_default());
    found.extend(tables.iter().flat_map(|table| tcp_peers(table)));
    found
}

/// By `sock_diag`, as `ss -x` does it (`unix_diag.h`).
fn unix_peers() -> rustix::io::Result<BTreeMap<u64, u64>> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG))?;
    let mut request = Vec::new();
    request.extend(40_u32.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(DUMP.to_ne_bytes());
    request.extend([0; 8]);
    // AF_UNIX, in any state, whatever its inode.
    request.extend([1, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend([0; 4]);
    request.extend(SHOW_PEER.to_ne_bytes());
    request.extend([0; 8]);
    let kernel = netlink::SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request, SendFlags::empty(), &kernel)?;
    let mut found = BTreeMap::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if length == 0 || !unix_answer(&buffer[..length], &mut found) {
            return Ok(found);
        }
    }
}

/// Adds what the messages of one answer tell; false where they are the last.
fn unix_answer(mut bytes: &[u8], found: &mut BTreeMap<u64, u64>) -> bool {
    while let Some(length) = u32_at(bytes, 0).and_then(|length| usize::try_from(length).ok()) {
        let Some(message) = bytes.get(HEAD..length) else { return false };
        if u16_at(bytes, 4) != Some(BY_FAMILY) {
            return false;
        }
        if let (Some(own), Some(peer)) = (u32_at(message, 4), attribute(message, PEER)) {
            found.insert(own.into(), peer.into());
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

/// The number in the attribute of this kind, behind what tells of a socket.
fn attribute(message: &[u8], wanted: u16) -> Option<u32> {
    let mut rest = message.get(SOCKET..)?;
    loop {
        let (length, kind) = (usize::from(u16_at(rest, 0)?), u16_at(rest, 2)?);
        if kind == wanted {
            return u32_at(rest, ATTRIBUTE);
        }
        rest = rest.get(length.max(ATTRIBUTE).next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// From the table of `/proc/net/tcp`: the ends of a connection have each other's addresses.
fn tcp_peers(table: &str) -> Vec<(u64, u64)> {
    let ends = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let inode = words.get(9)?.parse::<u64>().ok().filter(|inode| *inode > 0)?;
        Some(((words[1], words[2]), inode))
    });
    let ends: BTreeMap<(&str, &str), u64> = ends.collect();
    let peers = ends.iter().filter_map(|((own, other), inode)| {
        let peer = ends.get(&(*other, *own))?;
        Some((*inode, *peer))
    });
    peers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_ends_of_a_connection_know_each_other() {
        let (one, other) = UnixStream::pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let own = of(std::process::id());
        let inode = |descriptor: i32| own[&descriptor];
        let peers = peers();
        assert_eq!(peers.get(&inode(near.as_raw_fd())), Some(&inode(far.as_raw_fd())));
        assert_eq!(peers.get(&inode(far.as_raw_fd())), Some(&inode(near.as_raw_fd())));
        // A kernel without that module tells nothing of UNIX sockets.
        if unix_peers().is_ok_and(|found| !found.is_empty()) {
            assert_eq!(peers.get(&inode(one.as_raw_fd())), Some(&inode(other.as_raw_fd())));
            assert_eq!(peers.get(&inode(other.as_raw_fd())), Some(&inode(one.as_raw_fd())));
        }
    }

    #[test]
    fn a_waiting_call_tells_where_its_array_lies() {
        let waiting = "271 0x7f10 0x3 0x0 0x0 0x8 0x0 0x7ffe 0x7f00\n";
        assert_eq!(poll_call(waiting), Some((0x7f10, 3)));
        assert_eq!(poll_call("running\n"), None);
        assert_eq!(poll_call("0 0x7f10 0x3 0x0 0x0 0x0 0x0 0x7ffe 0x7f00\n"), None);
        assert_eq!(poll_call(&waiting.replace("0x3", "0xffffffff")), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..96)) {
            let _ = unix_answer(&bytes, &mut BTreeMap::new());
        }

        #[test]
        fn no_table_makes_it_panic(text in "([0-9A-F:]{1,9} |\n){0,60}") {
            let _ = tcp_peers(&text);
        }
    }
}
