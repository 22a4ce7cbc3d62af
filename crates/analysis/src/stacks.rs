//! The stack table, and what a stack says about where CPU time went.

use kneepoint_vocab::findings::LineKind;
use kneepoint_vocab::{Frame, StackId, StackRecord};
use std::collections::BTreeMap;

/// Base name under which kernel frames are recorded.
pub(crate) const KERNEL: &str = "[kernel]";

/// Stacks by index.
pub(crate) struct Stacks<'a>(BTreeMap<StackId, &'a StackRecord>);

impl<'a> Stacks<'a> {
    pub(crate) fn new(records: &'a [StackRecord]) -> Self {
        Self(records.iter().map(|record| (record.id, record)).collect())
    }

    /// Frames, innermost first; none for an index that the table lacks.
    pub(crate) fn frames(&self, id: StackId) -> &'a [Frame] {
        self.0.get(&id).map_or(&[], |record| record.frames.as_slice())
    }

    /// Whether the stack reached the outermost frame.
    pub(crate) fn complete(&self, id: StackId) -> bool {
        self.0.get(&id).is_some_and(|record| !record.truncated)
    }
}

/// What CPU time is told apart by: a user function, or an entry into the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) kind: LineKind,
    pub(crate) label: String,
    /// The lock whose work this is, by wait group.
    pub(crate) lock: Option<usize>,
}

/// The function that a stack taken on a core counts for.
///
/// Kernel time goes to the way into the kernel (a system call, a page fault, an interrupt):
/// that is what the program asked for, while the innermost kernel function changes with the
/// kernel's version. User time goes to the innermost user frame.
pub(crate) fn function_of(frames: &[Frame]) -> Function {
    let kernel: Vec<&str> =
        frames.iter().filter(|f| f.module == KERNEL).map(|f| f.function.as_str()).collect();
    if !kernel.is_empty() {
        return Function { kind: LineKind::Kernel, label: kernel_entry(&kernel), lock: None };
    }
    let label = frames.first().map_or("unknown function", |frame| frame.function.as_str());
    Function { kind: LineKind::Inflated, label: label.to_owned(), lock: None }
}

/// A system call before a page fault before an interrupt: a fault inside a call belongs to it.
fn kernel_entry(functions: &[&str]) -> String {
    let outermost_first = || functions.iter().rev().copied();
    if let Some(call) = outermost_first().find_map(system_call) {
        return format!("kernel: {call}");
    }
    if outermost_first().any(is_page_fault) {
        return "kernel: page fault".to_owned();
    }
    if outermost_first().any(is_interrupt) {
        return "kernel: interrupt".to_owned();
    }
    "kernel: other".to_owned()
}

/// `__x64_sys_futex` and its like on other architectures -> `futex`.
fn system_call(function: &str) -> Option<&str> {
    const PREFIXES: [&str; 6] =
        ["__x64_sys_", "__arm64_sys_", "__ia32_sys_", "__riscv_sys_", "__se_sys_", "__do_sys_"];
    PREFIXES.iter().find_map(|prefix| function.strip_prefix(prefix)).filter(|name| !name.is_empty())
}

fn is_page_fault(function: &str) -> bool {
    ["exc_page_fault", "do_user_addr_fault", "handle_mm_fault", "do_page_fault", "do_mem_abort"]
        .iter()
        .any(|part| function.contains(part))
}

fn is_interrupt(function: &str) -> bool {
    [
        "sysvec_",
        "common_interrupt",
        "irq_exit",
        "handle_softirqs",
        "do_softirq",
        "el0_irq",
        "el1_irq",
    ]
    .iter()
    .any(|part| function.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(&str, &str)]) -> Vec<Frame> {
        frames
            .iter()
            .map(|(function, module)| Frame {
                function: (*function).to_owned(),
                module: (*module).to_owned(),
            })
            .collect()
    }

    #[test]
    fn kernel_time_goes_to_the_way_in() {
        let futex = stack(&[
            ("try_to_wake_up", KERNEL),
            ("futex_wake", KERNEL),
            ("__x64_sys_futex", KERNEL),
            ("do_syscall_64", KERNEL),
            ("pthread_mutex_unlock", "libc.so.6"),
        ]);
        assert_eq!(function_of(&futex).label, "kernel: futex");
        let fault_in_call = stack(&[
            ("exc_page_fault", KERNEL),
            ("copy_to_user", KERNEL),
            ("__x64_sys_pread64", KERNEL),
        ]);
        assert_eq!(function_of(&fault_in_call).label, "kernel: pread64");
        let fault = stack(&[
            ("clear_page", KERNEL),
            ("asm_exc_page_fault", KERNEL),
            ("memset", "libc.so.6"),
        ]);
        assert_eq!(function_of(&fault).label, "kernel: page fault");
        let irq = stack(&[("handle_softirqs", KERNEL), ("asm_sysvec_call_function", KERNEL)]);
        assert_eq!(function_of(&irq).label, "kernel: interrupt");
        let other = stack(&[("ret_from_fork", KERNEL)]);
        assert_eq!(function_of(&other).label, "kernel: other");
    }

    #[test]
    fn user_time_goes_to_the_innermost_function() {
        let user = stack(&[("spin", "app"), ("work", "app"), ("main", "app")]);
        assert_eq!(
            function_of(&user),
            Function { kind: LineKind::Inflated, label: "spin".to_owned(), lock: None }
        );
        assert_eq!(function_of(&[]).label, "unknown function");
    }
}
