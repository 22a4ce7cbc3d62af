//! Records of a perf event ring, parsed from plain bytes.
//!
//! Layouts are those of `perf_event_open(2)`, for the one `sample_type` that this crate asks for:
//! IP, TID, TIME, CPU, CALLCHAIN, optionally RAW, then REGS_USER and STACK_USER.

/// User registers that are asked for: AX BX CX DX SI DI BP SP IP FLAGS CS SS R8..R15.
pub(crate) const REGISTERS: u64 = 0x00ff_0fff;
const REGISTER_COUNT: usize = REGISTERS.count_ones() as usize;
const BP: usize = 6;
const SP: usize = 7;
const IP: usize = 8;

const LOST: u32 = 2;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const HEADER: usize = 8;

/// Callchain entries from here on are context marks (`PERF_CONTEXT_*`), not addresses.
const CONTEXT_MARKS: u64 = u64::MAX - 4094;
/// `PERF_CONTEXT_USER`: user addresses follow.
const USER_MARK: u64 = u64::MAX - 511;

/// What one record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A stack was taken.
    Sample(Sample<'a>),
    /// This many records did not fit into the ring.
    Lost(u64),
    /// The kernel paused the event because it came too often.
    Throttle,
    /// A process or thread was born.
    Fork {
        /// Process of the child.
        pid: u32,
        /// Process of the parent.
        parent: u32,
    },
    /// A kind that is of no use here.
    Other,
}

/// The registers that unwinding needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserRegisters {
    /// Instruction pointer.
    pub(crate) ip: u64,
    /// Stack pointer; the stack copy begins there.
    pub(crate) sp: u64,
    /// Frame pointer, by convention only.
    pub(crate) bp: u64,
}

/// One stack as the kernel copied it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    /// Process.
    pub(crate) pid: u32,
    /// Thread.
    pub(crate) tid: u32,
    /// When, in ns of CLOCK_MONOTONIC.
    pub(crate) time: u64,
    /// Kernel addresses, innermost first.
    pub(crate) kernel: Vec<u64>,
    /// User addresses as the kernel found them along frame pointers, innermost first: right only
    /// where code keeps these.
    pub(crate) user: Vec<u64>,
    /// Payload of a BPF program or tracepoint; empty where the event has none.
    pub(crate) raw: &'a [u8],
    /// Absent for a kernel thread and for a 32-bit process.
    pub(crate) registers: Option<UserRegisters>,
    /// Bytes from the stack pointer upwards, only those that were really copied.
    pub(crate) stack: &'a [u8],
}

/// A record that is not laid out as asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a perf record of type {kind} and {size} bytes ends early")]
pub(crate) struct RecordError {
    kind: u32,
    size: usize,
}

/// Cuts the first record off `bytes`: its bytes, header included, and what follows.
///
/// `None` at the end, also where the rest is no whole record.
pub(crate) fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let size = usize::from(u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?));
    (HEADER..=bytes.len()).contains(&size).then(|| bytes.split_at(size))
}

/// Parses one whole record; `raw` says whether the event has the RAW field.
///
/// # Errors
/// Where a field reaches beyond the record's end.
pub(crate) fn parse_record(bytes: &[u8], raw: bool) -> Result<Record<'_>, RecordError> {
    let mut fields = Fields { rest: bytes };
    let kind = fields.u32().unwrap_or(0);
    parse_fields(&mut fields, kind, raw).ok_or(RecordError { kind, size: bytes.len() })
}

fn parse_fields<'a>(fields: &mut Fields<'a>, kind: u32, raw: bool) -> Option<Record<'a>> {
    fields.take(HEADER - 4)?;
    Some(match kind {
        SAMPLE => Record::Sample(parse_sample(fields, raw)?),
        LOST => {
            fields.u64()?;
            Record::Lost(fields.u64()?)
        }
        LOST_SAMPLES => Record::Lost(fields.u64()?),
        THROTTLE => Record::Throttle,
        FORK => Record::Fork { pid: fields.u32()?, parent: fields.u32()? },
        _ => Record::Other,
    })
}

fn parse_sample<'a>(fields: &mut Fields<'a>, raw: bool) -> Option<Sample<'a>> {
    fields.u64()?;
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let time = fields.u64()?;
    fields.u64()?;
    let (kernel, user) = parse_callchain(fields)?;
    let raw = if raw {
        let length = usize::try_from(fields.u32()?).ok()?;
        fields.take(length)?
    } else {
        &[]
    };
    let registers = parse_registers(fields)?;
    let stack = parse_stack(fields)?;
    Some(Sample { pid, tid, time, kernel, user, raw, registers, stack })
}

/// Kernel addresses and user addresses.
fn parse_callchain(fields: &mut Fields<'_>) -> Option<(Vec<u64>, Vec<u64>)> {
    let length = usize::try_from(fields.u64()?).ok()?;
    let bytes = fields.take(length.checked_mul(8)?)?;
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let user = words.iter().position(|word| *word == USER_MARK).unwrap_or(words.len());
    let addresses = |words: &[u64]| words.iter().copied().filter(|a| *a < CONTEXT_MARKS).collect();
    Some((addresses(&words[..user]), addresses(&words[user..])))
}

/// The outer `None` is a broken record, the inner one a thread without 64-bit user registers.
#[allow(clippy::option_option, reason = "broken and absent are two things")]
fn parse_registers(fields: &mut Fields<'_>) -> Option<Option<UserRegisters>> {
    const ABI_NONE: u64 = 0;
    const ABI_64: u64 = 2;
    let abi = fields.u64()?;
    if abi == ABI_NONE {
        return Some(None);
    }
    let mut all = [0; REGISTER_COUNT];
    for register in &mut all {
        *register = fields.u64()?;
    }
    Some((abi == ABI_64).then_some(UserRegisters { ip: all[IP], sp: all[SP], bp: all[BP] }))
}

fn parse_stack<'a>(fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let size = usize::try_from(fields.u64()?).ok()?;
    if size == 0 {
        return Some(&[]);
    }
    let copied = fields.take(size)?;
    let valid = usize::try_from(fields.u64()?).ok()?;
    copied.get(..valid)
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Built {
        kernel: Vec<u64>,
        raw: Option<Vec<u8>>,
        abi: u64,
        stack: Vec<u8>,
        valid: usize,
    }

    fn sample_bytes(built: &Built) -> Vec<u8> {
        let mut body: Vec<u8> = Vec::new();
        let mut word = |w: u64| body.extend(w.to_ne_bytes());
        word(0xffff_8000_0000_1234);
        word(u64::from(7_u32) | u64::from(8_u32) << 32);
        word(99);
        word(1);
        word(built.kernel.len() as u64);
        built.kernel.iter().for_each(|address| word(*address));
        if let Some(raw) = &built.raw {
            body.extend(u32::try_from(raw.len()).unwrap().to_ne_bytes());
            body.extend(raw);
        }
        body.extend(built.abi.to_ne_bytes());
        if built.abi != 0 {
            (0..REGISTER_COUNT as u64).for_each(|r| body.extend((1000 + r).to_ne_bytes()));
        }
        body.extend((built.stack.len() as u64).to_ne_bytes());
        if !built.stack.is_empty() {
            body.extend(&built.stack);
            body.extend((built.valid as u64).to_ne_bytes());
        }
        record_bytes(SAMPLE, &body)
    }

    fn record_bytes(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(u16::try_from(HEADER + body.len()).unwrap().to_ne_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn context_marks_are_no_addresses() {
        let mark = (-128_i64).cast_unsigned();
        let built = Built { kernel: vec![mark, 5, 6], raw: None, abi: 0, stack: vec![], valid: 0 };
        let bytes = sample_bytes(&built);
        let Ok(Record::Sample(sample)) = parse_record(&bytes, false) else { panic!("no sample") };
        assert_eq!(sample.kernel, [5, 6]);
        assert_eq!((sample.user.len(), sample.registers), (0, None));
        let user = (-512_i64).cast_unsigned();
        let built = Built { kernel: vec![mark, 5, 6, user, 7, 8], ..built };
        let bytes = sample_bytes(&built);
        let Ok(Record::Sample(sample)) = parse_record(&bytes, false) else { panic!("no sample") };
        assert_eq!((sample.kernel, sample.user), (vec![5, 6], vec![7, 8]));
    }

    #[test]
    fn lost_and_fork_records() {
        let mut body = 1_u64.to_ne_bytes().to_vec();
        body.extend(17_u64.to_ne_bytes());
        assert_eq!(parse_record(&record_bytes(LOST, &body), false), Ok(Record::Lost(17)));
        let fork: Vec<u8> = [31_u32, 30, 33, 32].iter().flat_map(|w| w.to_ne_bytes()).collect();
        let bytes = record_bytes(FORK, &fork);
        let parsed = parse_record(&bytes, false);
        assert_eq!(parsed, Ok(Record::Fork { pid: 31, parent: 30 }));
    }

    proptest! {
        #[test]
        fn a_sample_comes_back_as_it_was_built(
            kernel in prop::collection::vec(0..CONTEXT_MARKS, 0..20),
            raw in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
            stack in prop::collection::vec(any::<u8>(), 0..512),
            cut in 0.0..=1.0_f64,
        ) {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a share of a small length"
            )]
            let valid = (stack.len() as f64 * cut) as usize;
            let built = Built { kernel, raw, abi: 2, stack, valid };
            let bytes = sample_bytes(&built);
            let expected = Sample {
                pid: 7, tid: 8, time: 99, kernel: built.kernel.clone(), user: Vec::new(),
                raw: built.raw.as_deref().unwrap_or_default(),
                registers: Some(UserRegisters { ip: 1008, sp: 1007, bp: 1006 }),
                stack: &built.stack[..valid],
            };
            let parsed = parse_record(&bytes, built.raw.is_some());
            prop_assert_eq!(parsed, Ok(Record::Sample(expected)));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), raw: bool) {
            let _ = parse_record(&bytes, raw);
            let mut rest = &bytes[..];
            while let Some((record, after)) = split_record(rest) {
                prop_assert!(!record.is_empty());
                rest = after;
            }
        }

        #[test]
        fn records_are_cut_at_their_own_sizes(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..20)
        ) {
            let records: Vec<_> = bodies.iter().map(|body| record_bytes(99, body)).collect();
            let joined = records.concat();
            let mut rest = &joined[..];
            let mut found = Vec::new();
            while let Some((record, after)) = split_record(rest) {
                found.push(record.to_vec());
                rest = after;
            }
            prop_assert_eq!(found, records);
        }
    }
}
