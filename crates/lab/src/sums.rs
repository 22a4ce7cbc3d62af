//! What a file of a run directory holds, in figures: noted at the run's end, compared on opening.

use kneepoint_vocab::FileSum;
use sha2::{Digest as _, Sha256};

/// The figures of a file that grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summing {
    lines: u64,
    bytes: u64,
    hash: Sha256,
}

impl Summing {
    /// The next of its bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.lines += bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
    }

    /// Line feeds so far.
    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The figures of what was added.
    pub(crate) fn sum(self) -> FileSum {
        let digest = self.hash.finalize();
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        FileSum { lines: self.lines, bytes: self.bytes, sha256 }
    }
}

/// The figures of a whole file.
pub(crate) fn of(bytes: &[u8]) -> FileSum {
    let mut summing = Summing::default();
    summing.add(bytes);
    summing.sum()
}

/// How a file differs from what was noted of it; nothing where it does not.
pub(crate) fn difference(name: &str, noted: &FileSum, found: &FileSum) -> Option<String> {
    if noted == found {
        return None;
    }
    Some(if noted.lines == found.lines {
        format!("{name} is not what was written: {} bytes of {}", found.bytes, noted.bytes)
    } else {
        format!("{name} is not what was written: {} lines of {}", found.lines, noted.lines)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grew_has_the_figures_of_the_whole() {
        let mut grown = Summing::default();
        grown.add(b"ab");
        grown.add(b"c");
        let sum = grown.sum();
        assert_eq!(sum, of(b"abc"));
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!((sum.lines, sum.bytes, sum.sha256.as_str()), (0, 3, expected));
    }

    #[test]
    fn a_difference_is_reported_in_lines_where_they_differ() {
        let [one, two, other] = [&b"a\n"[..], b"a\nb\n", b"b\n"].map(of);
        assert_eq!(difference("f", &one, &one), None);
        assert_eq!(
            difference("f", &two, &one).as_deref(),
            Some("f is not what was written: 1 lines of 2")
        );
        assert!(
            difference("f", &one, &other).is_some_and(|reported| reported.contains("2 bytes of 2"))
        );
    }
}
