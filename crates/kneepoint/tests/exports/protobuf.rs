//! Reads messages of protocol buffers by field numbers, knowing nothing of what was to be written.

/// A field as it was found.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a>(Vec<(u64, Value<'a>)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("a number goes on");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return value;
        }
    }
    panic!("a number of more than 64 bits");
}

impl<'a> Fields<'a> {
    pub(crate) fn of(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Value::Number(varint(&mut bytes)),
                2 => {
                    let length = usize::try_from(varint(&mut bytes)).unwrap();
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    Value::Bytes(value)
                }
                other => panic!("type {other}"),
            };
            fields.push((key >> 3, value));
        }
        Self(fields)
    }

    fn bytes(&self, field: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(number, value)| match value {
            Value::Bytes(bytes) if *number == field => Some(*bytes),
            _ => None,
        })
    }

    /// A number; 0 where it is not there.
    pub(crate) fn number(&self, field: u64) -> u64 {
        let found = self.0.iter().find_map(|(number, value)| match value {
            Value::Number(value) if *number == field => Some(*value),
            _ => None,
        });
        found.unwrap_or(0)
    }

    pub(crate) fn messages(&self, field: u64) -> Vec<Fields<'a>> {
        self.bytes(field).map(Fields::of).collect()
    }

    pub(crate) fn texts(&self, field: u64) -> Vec<&'a str> {
        self.bytes(field).map(|bytes| std::str::from_utf8(bytes).expect("UTF-8")).collect()
    }

    /// A packed list of numbers.
    pub(crate) fn packed(&self, field: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        for mut bytes in self.bytes(field) {
            while !bytes.is_empty() {
                numbers.push(varint(&mut bytes));
            }
        }
        numbers
    }
}
