//! The census's structures as user space reads them; `bpf/census.h` is the original.

use crate::sys::Wire;

/// `struct census`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Control {
    pub(super) last_id: u64,
    pub(super) stacks: u64,
    pub(super) stacks_lost: u64,
    pub(super) uses_lost: u64,
    pub(super) held_lost: u64,
    pub(super) active: u64,
}

/// `struct held_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeldKey {
    pub(super) lock: u64,
    pub(super) tid: u32,
    pub(super) pad: u32,
}

/// `struct held`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) caller: u64,
    pub(super) how: u32,
    pub(super) depth: u32,
}

/// [`UseKey::how`].
pub(super) mod kind {
    pub(crate) const MUTEX: u32 = 0;
    /// Of a reader-writer lock, which others may hold too.
    pub(crate) const BY_READER: u32 = 2;
}

/// `struct use_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UseKey {
    pub(super) lock: u64,
    pub(super) caller: u64,
    pub(super) process: u32,
    pub(super) how: u32,
}

/// `struct use`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) id: u64,
    pub(super) begun: u64,
    pub(super) count: u64,
}

/// `struct call_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallKey {
    pub(super) number: i32,
    pub(super) error: u32,
}

// SAFETY: for each: repr(C), integers only, and no padding, because the fields are ordered by
// falling alignment; the test below compares the sizes.
unsafe impl Wire for Control {}
// SAFETY: as above.
unsafe impl Wire for HeldKey {}
// SAFETY: as above.
unsafe impl Wire for Held {}
// SAFETY: as above.
unsafe impl Wire for UseKey {}
// SAFETY: as above.
unsafe impl Wire for Use {}
// SAFETY: as above.
unsafe impl Wire for CallKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_structure_has_padding() {
        assert_eq!(size_of::<Control>(), 48);
        assert_eq!(size_of::<HeldKey>(), 16);
        assert_eq!(size_of::<Held>(), 16);
        assert_eq!(size_of::<UseKey>(), 24);
        assert_eq!(size_of::<Use>(), 24);
        assert_eq!(size_of::<CallKey>(), 8);
    }
}
