//! The stack table, and what a stack says about where CPU time went.

use crate::frames::names::{
    Catalogue, ENTRY_AND_EXIT, INTERRUPT, PREEMPTION, in_kernel, is_unnamed,
};
use crate::frames::naming::{begins_in_machinery, naming_frames, working_function};
use kneepoint_vocab::findings::{LineKind, Name, Place};
use kneepoint_vocab::{CodeKind, Frame, SourceLine, StackId, StackRecord};
use std::collections::{BTreeMap, BTreeSet};

/// The call by which a thread gives up its core and stays runnable.
const YIELD: &str = "sched_yield";

/// Stacks by index.
pub(crate) struct Stacks<'a> {
    records: BTreeMap<StackId, &'a StackRecord>,
    /// Modules by the functions in them.
    modules: BTreeMap<&'a str, &'a str>,
    /// Source lines by function and module.
    sources: BTreeMap<(&'a str, &'a str), &'a SourceLine>,
    /// What names of functions mean in this run.
    pub(crate) known: Catalogue,
}

/// What code is said to lie in that a compiler wrote at run time.
const COMPILED: &str = "[anonymous]";

impl<'a> Stacks<'a> {
    pub(crate) fn new(records: &'a [StackRecord], known: Catalogue) -> Self {
        let mut modules: BTreeMap<&str, &str> = BTreeMap::new();
        for frame in records.iter().flat_map(|record| &record.frames) {
            let module = modules.entry(&frame.function).or_insert(&frame.module);
            *module = (*module).min(&frame.module);
        }
        let sources = records.iter().flat_map(|record| &record.sources);
        let sources = sources.map(|one| ((one.function.as_str(), one.module.as_str()), one));
        let sources = sources.collect();
        let records = records.iter().map(|record| (record.id, record)).collect();
        Self { records, modules, sources, known }
    }

    /// Frames, innermost first; none for an index that the table lacks.
    pub(crate) fn frames(&self, id: StackId) -> &'a [Frame] {
        self.records.get(&id).map_or(&[], |record| record.frames.as_slice())
    }

    /// The module that a function is in; of several the first by name, so that it is the same in
    /// every run.
    pub(crate) fn module_of(&self, function: &str) -> Option<&'a str> {
        self.modules.get(function).copied()
    }

    /// Where the source of a function lies.
    pub(crate) fn source(&self, function: &str, module: &str) -> Option<&'a SourceLine> {
        self.sources.get(&(function, module)).copied()
    }

    /// The builds of a module of this name that the run has seen.
    pub(crate) fn build_ids(&self, module: &str) -> Vec<String> {
        let all = self.records.values().flat_map(|record| &record.modules);
        let of = all.filter(|one| one.name == module).map(|one| one.build_id.clone());
        of.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// What a thread did that ran there. One that yields its core looks again as soon as it has
    /// one.
    pub(crate) fn code(&self, id: StackId) -> CodeKind {
        let Some(record) = self.records.get(&id) else { return CodeKind::Other };
        if self.yields(id) { CodeKind::Spin } else { record.code }
    }

    /// Whether a thread gives up its core there.
    pub(crate) fn yields(&self, id: StackId) -> bool {
        let in_call = |frame: &Frame| match in_kernel(frame) {
            true => self.known.system_call(&frame.function) == Some(YIELD),
            false => frame.function.trim_start_matches('_') == YIELD,
        };
        self.records.get(&id).is_some_and(|record| record.frames.iter().any(in_call))
    }

    /// Whether the stack reached the outermost frame, or one that begins a stack of its own.
    pub(crate) fn complete(&self, id: StackId) -> bool {
        self.records.get(&id).is_some_and(|record| {
            let outermost = record.frames.last();
            !record.truncated
                || outermost.is_some_and(|frame| self.known.is_outermost(&frame.function))
        })
    }

    /// Whether its outermost frame is code of a just-in-time compiler.
    pub(crate) fn ends_compiled(&self, id: StackId) -> bool {
        let outermost = self.records.get(&id).and_then(|record| record.frames.last());
        outermost.is_some_and(|frame| frame.module == COMPILED)
    }
}

/// What CPU time is distinguished by: a user function, or an entry into the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) kind: LineKind,
    pub(crate) name: Name,
    /// The lock whose work this is, by wait group.
    pub(crate) lock: Option<usize>,
}

/// The function that a stack taken on a core counts for.
///
/// Kernel time goes to the way into the kernel (a system call, a page fault, an interrupt):
/// that is what the program asked for, while the innermost kernel function changes with the
/// kernel's version. User time goes to the innermost user frame that is more than an operation on
/// a word, but that of a runtime's own work to this work.
pub(crate) fn function_of(known: Catalogue, frames: &[Frame]) -> Function {
    if let Some(entry) = way_in(known, frames).map(str::to_owned) {
        let name = match known.kernel_work(&kernel_functions(frames)) {
            Some(work) if work.alone => Name::Kernel(work.name.clone()),
            Some(work) => Name::KernelWork { work: work.name.clone(), entry },
            None => Name::Kernel(entry),
        };
        return Function { kind: LineKind::Kernel, name, lock: None };
    }
    let working = working_function(known, frames);
    let name = working
        .and_then(|frame| in_lock(known, frame, frames))
        .or_else(|| known.runtime_work(frames).map(Name::from))
        .or_else(|| working.map(own))
        .unwrap_or(Name::UnknownFunction);
    Function { kind: LineKind::ExtraCpu, name, lock: None }
}

/// A function by its name. Addresses of one compiled function are as many as its instructions.
fn own(working: &Frame) -> Name {
    if working.module == COMPILED && is_unnamed(&working.function) {
        return Name::CompiledCode;
    }
    Name::Own(working.function.clone())
}

/// The lock whose own function `working` is: time in it is the lock's, and the lock is known by the
/// function that wants it.
fn in_lock(known: Catalogue, working: &Frame, frames: &[Frame]) -> Option<Name> {
    let word = known.kind(&working.function).filter(|word| known.is_lock(word))?;
    let caller = naming_frames(known, frames).into_iter().next()?;
    let named = begins_in_machinery(known, frames) && caller != working.function;
    named.then(|| Name::object(word, Place::In(caller)))
}

/// The way into the kernel of a stack that is in it, or in a function of the C library that only
/// makes a call. A clock that cannot interrupt the kernel on its way out ticks in that function, as
/// soon as it may: the time is the call's, as is that of entry and exit around it.
pub(crate) fn way_in(known: Catalogue, frames: &[Frame]) -> Option<&str> {
    let kernel = kernel_functions(frames);
    let wrapped = || {
        let mut user = frames.iter().filter(|frame| !in_kernel(frame));
        known.wrapped_call(user.find(|frame| !known.is_primitive(&frame.function))?)
    };
    if kernel.is_empty() {
        return wrapped();
    }
    match kernel_entry(known, &kernel) {
        ENTRY_AND_EXIT => wrapped().or(Some(ENTRY_AND_EXIT)),
        entry => Some(entry),
    }
}

/// The functions of the kernel in a stack, innermost first.
fn kernel_functions(frames: &[Frame]) -> Vec<&str> {
    frames.iter().filter(|frame| in_kernel(frame)).map(|frame| frame.function.as_str()).collect()
}

/// The way into the kernel: a system call before a page fault before an interrupt, since a fault
/// inside a call belongs to it. Where the compiler left none of their names, the outermost kernel
/// function that has one of its own.
pub(crate) fn kernel_entry<'a>(known: Catalogue, functions: &[&'a str]) -> &'a str {
    let outermost_first = || functions.iter().rev().copied();
    if let Some(call) = outermost_first().find_map(|function| known.system_call(function)) {
        return call;
    }
    if outermost_first().any(|function| known.is_page_fault(function)) {
        return "page fault";
    }
    if outermost_first().any(|function| known.is_interrupt(function)) {
        return INTERRUPT;
    }
    let named =
        outermost_first().find(|function| !known.is_entry(function) && !is_unnamed(function));
    match named {
        Some(function) if known.is_switching(function) => PREEMPTION,
        Some(function) => function,
        None => ENTRY_AND_EXIT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::names::KERNEL;

    fn known() -> Catalogue {
        Catalogue::built_in()
    }

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
    fn a_stack_that_a_runtime_begins_is_whole() {
        let record = |id: u32, outermost: (&str, &str)| StackRecord {
            id: StackId(id),
            frames: stack(&[("work", "app"), outermost]),
            truncated: true,
            code: CodeKind::Other,
            sources: Vec::new(),
            modules: Vec::new(),
        };
        let records = [
            record(0, ("runtime.goexit.abi0", "app")),
            record(1, ("serve", "app")),
            record(2, ("Shop.serve", COMPILED)),
        ];
        let stacks = Stacks::new(&records, known());
        assert!(stacks.complete(StackId(0)));
        assert!(!stacks.complete(StackId(1)) && !stacks.ends_compiled(StackId(1)));
        assert!(!stacks.complete(StackId(2)) && stacks.ends_compiled(StackId(2)));
    }

    #[test]
    fn time_in_a_function_that_only_makes_a_call_is_the_call_s() {
        let of = |frames: &[(&str, &str)]| function_of(known(), &stack(frames)).name.to_string();
        for wrapper in ["read", "__read", "__GI___libc_read", "__read_nocancel"] {
            assert_eq!(of(&[(wrapper, "libc.so.6"), ("serve", "app")]), "kernel: read");
        }
        let leaves = [("do_syscall_64", KERNEL), ("__libc_recv", "libc.so.6"), ("serve", "app")];
        assert_eq!(of(&leaves), "kernel: recvfrom");
        let cancelled = [("__syscall_cancel", "libc.so.6"), ("write", "libc.so.6")];
        assert_eq!(of(&cancelled), "kernel: write");
        assert_eq!(of(&[("read", "app"), ("serve", "app")]), "read");
        assert_eq!(of(&[("clock_gettime", "[vdso]"), ("serve", "app")]), "clock_gettime");
        assert_eq!(of(&[("memcpy", "libc.so.6"), ("serve", "app")]), "memcpy");
    }

    #[test]
    fn addresses_of_compiled_code_are_one_piece_of_work() {
        let at = |function| function_of(known(), &stack(&[(function, COMPILED)])).name;
        assert_eq!(at("[anonymous]+0x10"), at("[anonymous]+0x9f0"));
        assert_eq!(at("Shop.serve"), Name::from("Shop.serve"));
    }

    #[test]
    fn a_runtime_s_own_work_is_one_whichever_functions_do_it() {
        let of = |frames: &[(&str, &str)]| function_of(known(), &stack(frames)).name.to_string();
        let marks = [("runtime.scanobject", "app"), ("runtime.gcBgMarkWorker", "app")];
        let helps = [("runtime.greyobject", "app"), ("runtime.gcAssistAlloc", "app"), ("f", "app")];
        assert_eq!(of(&marks), of(&helps));
        assert_eq!(of(&marks), "garbage collection of Go");
        let copies = [("copy_to_survivor_space", "libjvm.so"), ("GangWorker::loop", "libjvm.so")];
        assert_eq!(of(&copies), "garbage collection of Java");
        assert_eq!(of(&[("runtime.mallocgc", "app"), ("main.work", "app")]), "runtime.mallocgc");
    }

    #[test]
    fn time_in_a_lock_s_own_function_is_that_lock_s() {
        let of = |frames: &[(&str, &str)]| function_of(known(), &stack(frames)).name.to_string();
        let read = [
            ("__pthread_rwlock_rdlock_full64", "libc.so.6"),
            ("pthread_rwlock_rdlock", "libc.so.6"),
            ("lookup", "app"),
            ("main", "app"),
        ];
        assert_eq!(of(&read), "reader-writer lock in lookup");
        assert_eq!(of(&read[2..]), "lookup");
        let yields = [("sched_yield", "libc.so.6"), ("obtain", "app"), ("main", "app")];
        assert_eq!(of(&yields), "obtain");
        let shootdown = [
            ("smp_call_function_many_cond", "[kernel]"),
            ("flush_tlb_mm_range", "[kernel]"),
            ("__x64_sys_mprotect", "[kernel]"),
            ("mprotect", "libc.so.6"),
        ];
        assert_eq!(of(&shootdown), "kernel: TLB shootdown in mprotect");
        assert_eq!(of(&shootdown[2..]), "kernel: mprotect");
        let send = [("do_send_sig_info", "[kernel]"), ("__x64_sys_tgkill", "[kernel]")];
        let handle = [("get_signal", "[kernel]"), ("arch_do_signal_or_restart", "[kernel]")];
        let back = [("restore_sigcontext", "[kernel]"), ("__do_sys_rt_sigreturn", "[kernel]")];
        for signal in [&send, &handle, &back] {
            assert_eq!(of(signal), "kernel: signal delivery");
        }
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
        assert_eq!(function_of(known(), &futex).name.to_string(), "kernel: futex");
        let fault_in_call = stack(&[
            ("exc_page_fault", KERNEL),
            ("copy_to_user", KERNEL),
            ("__x64_sys_pread64", KERNEL),
        ]);
        assert_eq!(function_of(known(), &fault_in_call).name.to_string(), "kernel: pread64");
        let fault = stack(&[
            ("clear_page", KERNEL),
            ("asm_exc_page_fault", KERNEL),
            ("memset", "libc.so.6"),
        ]);
        assert_eq!(function_of(known(), &fault).name.to_string(), "kernel: page fault");
        let irq = stack(&[("handle_softirqs", KERNEL), ("asm_sysvec_call_function", KERNEL)]);
        assert_eq!(function_of(known(), &irq).name.to_string(), "kernel: interrupt");
        let bare = stack(&[("do_syscall_64", KERNEL), ("entry_SYSCALL_64_after_hwframe", KERNEL)]);
        assert_eq!(function_of(known(), &bare).name.to_string(), "kernel: entry and exit");
    }

    #[test]
    fn no_kernel_function_is_other() {
        let read = stack(&[("pipe_read", KERNEL), ("vfs_read", KERNEL), ("ksys_read", KERNEL)]);
        assert_eq!(function_of(known(), &read).name.to_string(), "kernel: read");
        let tail = stack(&[
            ("copy_page_to_iter", KERNEL),
            ("vfs_read", KERNEL),
            ("do_syscall_64", KERNEL),
            ("entry_SYSCALL_64_after_hwframe", KERNEL),
        ]);
        assert_eq!(function_of(known(), &tail).name.to_string(), "kernel: vfs_read");
    }

    #[test]
    fn operations_on_words_are_their_caller_s() {
        let spin = stack(&[("core::sync::atomic::atomic_load<u32>", "app"), ("Fifo::lock", "app")]);
        assert_eq!(function_of(known(), &spin).name.to_string(), "Fifo::lock");
    }

    #[test]
    fn user_time_goes_to_the_innermost_function() {
        let user = stack(&[("spin", "app"), ("work", "app"), ("main", "app")]);
        assert_eq!(
            function_of(known(), &user),
            Function { kind: LineKind::ExtraCpu, name: Name::from("spin"), lock: None }
        );
        assert_eq!(function_of(known(), &[]).name.to_string(), "unknown function");
    }
}
