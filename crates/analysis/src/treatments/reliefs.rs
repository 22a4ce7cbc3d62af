//! Which kinds of causes of a run can be relieved from outside, by variants that fit any program.

use crate::frames::names::Catalogue;
use kneepoint_vocab::Relief;
use kneepoint_vocab::findings::Cause;

/// Each kind of relief that one of these causes asks for, in their order, with the names of those
/// causes.
#[must_use]
pub fn reliefs<'a>(causes: impl Iterator<Item = &'a Cause>) -> Vec<(Relief, Vec<String>)> {
    let mut all: Vec<(Relief, Vec<String>)> = Vec::new();
    for cause in causes {
        let Some(relief) = Catalogue::built_in().relief(&cause.key) else { continue };
        match all.iter_mut().find(|(known, _)| *known == relief) {
            Some((_, names)) => names.push(cause.name.to_string()),
            None => all.push((relief, vec![cause.name.to_string()])),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_vocab::CauseKey;
    use kneepoint_vocab::findings::CauseKind;

    #[test]
    fn causes_ask_for_what_relieves_them() {
        for (kind, frame, relief) in [
            (CauseKind::Lock, "malloc", Some(Relief::Malloc)),
            (CauseKind::Function, "_int_malloc", Some(Relief::Malloc)),
            (CauseKind::Lock, "sqlite3BtreeEnter", None),
            (CauseKind::KernelLock, "mmap_lock (__vm_munmap)", Some(Relief::Faults)),
            (CauseKind::Kernel, "page fault", Some(Relief::Faults)),
            (CauseKind::Other, "a page fault", Some(Relief::Faults)),
            (CauseKind::Device, "page fault", None),
            (CauseKind::Scheduler, "scheduler", Some(Relief::WakeUps)),
            (CauseKind::Generator, "malloc", None),
        ] {
            let known = Catalogue::built_in();
            assert_eq!(known.relief(&CauseKey::new(kind, frame, "")), relief, "{kind:?} {frame}");
        }
    }
}
