//! Messages of protocol buffers, as far as profiles need them: numbers, texts, messages, and lists
//! of these (protobuf.dev/programming-guides/encoding).

/// Types on the wire.
const VARINT: u64 = 0;
const LENGTH: u64 = 2;

/// A message under construction. Fields come in the order in which they are added.
#[derive(Clone, Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// A number; 0 is what a field has that is not there.
    pub(super) fn number(mut self, field: u64, value: u64) -> Self {
        if value > 0 {
            self.key(field, VARINT);
            self.varint(value);
        }
        self
    }

    /// A text, also an empty one.
    pub(super) fn text(self, field: u64, value: &str) -> Self {
        self.bytes(field, value.as_bytes())
    }

    /// Several texts of one field, empty ones included.
    pub(super) fn texts(self, field: u64, values: &[String]) -> Self {
        values.iter().fold(self, |all, one| all.text(field, one))
    }

    /// A message within this one.
    pub(super) fn message(self, field: u64, value: &Self) -> Self {
        self.bytes(field, &value.0)
    }

    /// Several messages of one field.
    pub(super) fn messages(self, field: u64, values: impl IntoIterator<Item = Self>) -> Self {
        values.into_iter().fold(self, |all, one| all.message(field, &one))
    }

    /// A list of numbers, zeros included.
    pub(super) fn numbers(self, field: u64, values: impl IntoIterator<Item = u64>) -> Self {
        let mut packed = Self::default();
        values.into_iter().for_each(|value| packed.varint(value));
        self.bytes(field, &packed.0)
    }

    /// Its bytes.
    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }

    fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.key(field, LENGTH);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn key(&mut self, field: u64, kind: u64) {
        self.varint((field << 3) | kind);
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut value: u64) {
        loop {
            let low = (value & 0x7f) as u8;
            value >>= 7;
            if value == 0 {
                return self.0.push(low);
            }
            self.0.push(low | 0x80);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the encoding's own description.
    #[test]
    fn the_bytes_are_those_of_the_description() {
        assert_eq!(Message::default().number(1, 150).done(), [0x08, 0x96, 0x01]);
        let text = Message::default().text(2, "testing").done();
        assert_eq!(text, [0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g']);
        let inner = Message::default().number(1, 150);
        let outer = Message::default().message(3, &inner).done();
        assert_eq!(outer, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let packed = Message::default().numbers(6, [3, 270, 86_942]).done();
        assert_eq!(packed, [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        assert!(Message::default().number(1, 0).done().is_empty());
    }
}
