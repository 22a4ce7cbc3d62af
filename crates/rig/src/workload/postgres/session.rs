//! The control connection: PostgreSQL's own protocol, just enough of it for simple queries.
//!
//! A connection that stays open answers in a fraction of a millisecond, where starting psql for
//! each question would take longer than a slice's lead-in.

use anyhow::{Context as _, bail};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Version 3.0 of the protocol, in the form that a start-up message has it.
const PROTOCOL: i32 = 3 << 16;
/// Longest message that is read, in bytes.
const LONGEST: usize = 16 << 20;

/// The rows of an answer; a NULL is an empty text.
pub(super) type Rows = Vec<Vec<String>>;

/// A connection over the UNIX socket, where the server asks for no password.
#[derive(Debug)]
pub(super) struct Session {
    stream: UnixStream,
}

impl Session {
    /// Connects; the server may take `timeout` for each answer.
    ///
    /// # Errors
    /// Nobody listens there, or the server does not let anybody in yet.
    pub(super) fn open(
        socket: &Path,
        user: &str,
        database: &str,
        timeout: Duration,
    ) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("{}: nobody listens", socket.display()))?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut session = Self { stream };
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        for text in ["user", user, "database", database, "application_name", "kneepoint", ""] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        session.send(None, &body)?;
        session.answer()?;
        Ok(session)
    }

    /// Asks for rows.
    ///
    /// # Errors
    /// The server refuses, does not answer in time, or is gone.
    pub(super) fn query(&mut self, statement: &str) -> anyhow::Result<Rows> {
        let mut body = statement.as_bytes().to_vec();
        body.push(0);
        self.send(Some(b'Q'), &body)?;
        self.answer()
    }

    /// Asks for one number.
    ///
    /// # Errors
    /// Like [`Session::query`], and where the answer is none.
    pub(super) fn number(&mut self, statement: &str) -> anyhow::Result<u64> {
        let rows = self.query(statement)?;
        let answer = rows.first().and_then(|row| row.first());
        answer
            .and_then(|text| text.parse().ok())
            .with_context(|| format!("PostgreSQL answered {answer:?}, no number, to: {statement}"))
    }

    fn send(&mut self, kind: Option<u8>, body: &[u8]) -> anyhow::Result<()> {
        let length = i32::try_from(body.len() + 4).context("the statement is too long")?;
        let mut message: Vec<u8> = kind.into_iter().collect();
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(body);
        self.stream.write_all(&message).context("PostgreSQL takes no more statements")
    }

    /// Reads until the server is ready for the next query.
    fn answer(&mut self) -> anyhow::Result<Rows> {
        let (mut rows, mut refusal) = (Vec::new(), None);
        loop {
            match (self.receive(), &refusal) {
                (Ok((b'D', body)), _) => {
                    rows.push(row(&body).context("PostgreSQL sent a malformed row")?);
                }
                (Ok((b'E', body)), _) => refusal = Some(refusal_in(&body)),
                (Ok((b'R', body)), _) if body != [0; 4] => {
                    bail!("PostgreSQL asks for a password on its UNIX socket");
                }
                (Ok((b'Z', _)), None) => return Ok(rows),
                // A connection that is refused at start-up is closed without another word.
                (Ok((b'Z', _)) | Err(_), Some(refusal)) => {
                    bail!("PostgreSQL refuses: {refusal}");
                }
                (Ok(_), _) => {}
                (Err(error), None) => return Err(error),
            }
        }
    }

    fn receive(&mut self) -> anyhow::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).context("PostgreSQL does not answer")?;
        let [kind, length @ ..] = head;
        let length = i32::from_be_bytes(length).checked_sub(4);
        let length = length.and_then(|length| usize::try_from(length).ok());
        let Some(length) = length.filter(|length| *length <= LONGEST) else {
            bail!("PostgreSQL sent a malformed message");
        };
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).context("PostgreSQL does not answer")?;
        Ok((kind, body))
    }
}

/// The columns of a `DataRow` message: their number, then length and bytes of each.
fn row(body: &[u8]) -> Option<Vec<String>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let count = u16::from_be_bytes(*count);
    let mut columns = Vec::new();
    for _ in 0..count {
        let (length, after) = rest.split_first_chunk::<4>()?;
        // A negative length means NULL.
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
        let (bytes, after) = after.split_at_checked(length)?;
        columns.push(String::from_utf8_lossy(bytes).into_owned());
        rest = after;
    }
    Some(columns)
}

/// Severity, code and message of an `ErrorResponse`: fields that a letter names.
fn refusal_in(body: &[u8]) -> String {
    let fields = body.split(|byte| *byte == 0).filter_map(|field| field.split_first());
    let text = |wanted: u8| {
        let found = fields.clone().find(|(kind, _)| **kind == wanted);
        found.map(|(_, text)| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    };
    format!("{} {}: {}", text(b'S'), text(b'C'), text(b'M'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_row_is_its_columns_and_a_torn_one_is_none() {
        let whole = [0, 3, 0, 0, 0, 2, b'4', b'2', 255, 255, 255, 255, 0, 0, 0, 0];
        assert_eq!(row(&whole).unwrap(), ["42", "", ""]);
        for length in 0..whole.len() {
            assert_eq!(row(&whole[..length]), None, "{length}");
        }
        assert_eq!(row(&[0, 1, 127, 255, 255, 255]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            body in proptest::collection::vec(proptest::num::u8::ANY, 0..64)
        ) {
            if let Some(columns) = row(&body) {
                proptest::prop_assert!(columns.len() <= usize::from(u16::MAX));
            }
            proptest::prop_assert!(refusal_in(&body).contains(": "));
        }
    }

    #[test]
    fn a_refusal_tells_its_code() {
        let body = b"SFATAL\0C57P03\0Mthe database system is starting up\0\0";
        let wanted = "FATAL 57P03: the database system is starting up";
        assert_eq!(refusal_in(body), wanted);
        assert_eq!(refusal_in(b""), " : ");
    }

    /// What a session makes of a peer that answers its start-up message with these bytes.
    fn opened(answer: &'static [u8]) -> String {
        let folder = tempfile::TempDir::new().unwrap();
        let socket = folder.path().join("s");
        let listener = UnixListener::bind(&socket).unwrap();
        let peer = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut rest = vec![0; u32::from_be_bytes(length) as usize - 4];
            stream.read_exact(&mut rest).unwrap();
            assert!(rest.starts_with(&PROTOCOL.to_be_bytes()));
            assert!(rest.ends_with(b"\0\0"));
            stream.write_all(answer).unwrap();
        });
        let outcome = Session::open(&socket, "me", "mine", Duration::from_secs(20));
        peer.join().unwrap();
        outcome.map_or_else(|error| format!("{error:#}"), |_| "open".to_owned())
    }

    #[test]
    fn whoever_answers_oddly_is_no_server() {
        assert_eq!(opened(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"), "open");
        assert!(opened(b"R\0\0\0\x08\0\0\0\x03").contains("asks for a password"));
        assert!(opened(b"E\0\0\0\x10C57P03\0Mno\0\0").contains("57P03: no"));
        assert!(opened(b"HTTP/1.1 400 Bad Request\r\n").contains("malformed message"));
        assert!(opened(b"").contains("does not answer"));
        assert!(opened(b"Z\xff\xff\xff\xff").contains("malformed message"));
    }
}
