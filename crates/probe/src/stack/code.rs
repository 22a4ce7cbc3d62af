//! What the code does where a running thread was found, by its instructions.
//!
//! A sample's address is that of the next instruction: what took long is the one before it. A loop
//! waits (spins) where it pauses, or where all it does is to read, again and again, memory whose
//! address stays, and to compare: nothing it computes is kept but what that memory holds.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
};
use kneepoint_vocab::CodeKind;
use std::collections::BTreeSet;

/// A loop of more bytes does more than wait.
const LONGEST_LOOP: u64 = 256;
/// A longer loop does more than to try one change again.
const LONGEST_RETRY: u64 = 2048;
/// Instructions between a change that may fail and the jump back, at most.
const MOST_BETWEEN: usize = 8;
/// Bytes of code behind the address that are looked at: a loop ends behind it.
pub(super) const BEHIND: u64 = LONGEST_RETRY;
/// A function's bytes before the address that are decoded at most.
pub(super) const BEFORE: u64 = 1 << 16;

/// What the code at `address` does; `bytes` begin at `start`, which is where an instruction begins.
pub(super) fn kind_of(bytes: &[u8], start: u64, address: u64) -> CodeKind {
    let code: Vec<Instruction> =
        Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter().collect();
    let Some(at) = code.iter().position(|one| one.ip() == address) else {
        return CodeKind::Other;
    };
    let mut look = InstructionInfoFactory::new();
    if loops_around(&code, address).any(|body| waits(&body, &mut look)) {
        return CodeKind::Spin;
    }
    let latest = &code[at.saturating_sub(1)..=at];
    if latest.iter().any(is_atomic) {
        CodeKind::Atomic
    } else if retries(&code, address) {
        CodeKind::Retry
    } else if latest.iter().any(|one| touches_memory(one, &mut look)) {
        CodeKind::Memory
    } else {
        CodeKind::Other
    }
}

/// Whether a call at `address` is part of a change that is tried again; `bytes` as there.
pub(super) fn is_retried(bytes: &[u8], start: u64, address: u64) -> bool {
    let code: Vec<Instruction> =
        Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter().collect();
    retries(&code, address)
}

/// Bytes that the longest call takes.
pub(super) const LONGEST_CALL: u64 = 7;

/// Whether the last of these bytes are a near call: `E8` with a distance of four bytes, or `FF /2`
/// with an operand of up to five more.
pub(super) fn ends_with_a_call(bytes: &[u8]) -> bool {
    let from_end = |back: usize| bytes.len().checked_sub(back).and_then(|at| bytes.get(at));
    let relative = from_end(5) == Some(&0xe8);
    let indirect = |length: usize| {
        from_end(length) == Some(&0xff)
            && from_end(length - 1).is_some_and(|operand| operand >> 3 & 7 == 2)
    };
    relative || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

/// Short loops that hold `address`, each with what comes back to its begin: between that and the
/// jump back may stand how the function ends where the wait does.
fn loops_around(code: &[Instruction], address: u64) -> impl Iterator<Item = Vec<Instruction>> {
    let jumps = code.iter().enumerate().filter(move |(_, one)| {
        let (from, to) = (one.ip(), one.near_branch_target());
        is_jump(one) && to <= address && address <= from && from - to <= LONGEST_LOOP
    });
    jumps.filter_map(move |(last, jump)| {
        let target = jump.near_branch_target();
        let first = code[..=last].iter().position(|one| one.ip() == target)?;
        let within = |one: &&Instruction| leads_back(code, one.ip(), jump);
        let body: Vec<Instruction> = code[first..=last].iter().filter(within).copied().collect();
        body.iter().any(|one| one.ip() == address).then_some(body)
    })
}

fn is_jump(one: &Instruction) -> bool {
    matches!(one.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
        && matches!(
            one.op0_kind(),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
        )
}

fn is_pause(one: &Instruction) -> bool {
    matches!(one.code(), Code::Pause | Code::Tpause_r32 | Code::Tpause_r64)
}

/// A read-modify-write that no other core can come between; `xchg` with memory always is one.
fn is_atomic(one: &Instruction) -> bool {
    one.has_lock_prefix()
        || one.mnemonic() == Mnemonic::Xchg
            && (one.op0_kind() == OpKind::Memory || one.op1_kind() == OpKind::Memory)
}

fn is_on_stack(base: Register) -> bool {
    matches!(base, Register::RSP | Register::RBP)
}

fn touches_memory(one: &Instruction, look: &mut InstructionInfoFactory) -> bool {
    // A loaded address touches nothing, a call and a return touch the stack.
    one.flow_control() == FlowControl::Next
        && look
            .info(one)
            .used_memory()
            .iter()
            .any(|memory| memory.access() != OpAccess::NoMemAccess && !is_on_stack(memory.base()))
}

/// Whether a loop does nothing but wait for memory to change.
fn waits(body: &[Instruction], look: &mut InstructionInfoFactory) -> bool {
    let plain = |one: &Instruction| is_jump(one) || one.flow_control() == FlowControl::Next;
    if !body.iter().all(plain) {
        return false;
    }
    if body.iter().any(is_pause) {
        return body.iter().all(|one| passes_time(one, look));
    }
    let steady = steady_registers(body, look);
    let mut reads = false;
    for one in body {
        if !is_jump(one) && !only_looks(one) {
            return false;
        }
        let takes = matches!(one.mnemonic(), Mnemonic::Xchg | Mnemonic::Bts | Mnemonic::Btr)
            || one.mnemonic() == Mnemonic::Cmpxchg && expects_a_constant(body);
        if is_atomic(one) && !takes {
            return false;
        }
        for memory in look.info(one).used_memory() {
            if memory.access() == OpAccess::NoMemAccess {
                continue;
            }
            let stays =
                [memory.base(), memory.index()].into_iter().all(|part| is_steady(part, &steady));
            let writes = !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead);
            if !stays || writes && !is_atomic(one) && !is_on_stack(memory.base()) {
                return false;
            }
            reads |= !is_on_stack(memory.base());
        }
    }
    reads
}

/// Whether `address` is in a loop that computes a word anew from what it held, and begins again
/// where the word has changed meanwhile.
fn retries(code: &[Instruction], address: u64) -> bool {
    let near = |one: &Instruction| one.ip().abs_diff(address) <= LONGEST_RETRY;
    let changes = code.iter().enumerate().filter(|(_, one)| {
        one.has_lock_prefix() && one.mnemonic() == Mnemonic::Cmpxchg && near(one)
    });
    changes.filter_map(|(at, _)| back_if_failed(&code[at + 1..])).any(|jump| {
        let (from, to) = (jump.ip(), jump.near_branch_target());
        let around = to <= address && address <= from && from - to <= LONGEST_RETRY;
        around && leads_back(code, address, jump)
    })
}

/// Whether what runs at `address` comes to a jump back without its target in between, as all of
/// its natural loop does (Aho and others 2006, section 9.6.6). Between target and jump may stand
/// what the compiler has moved there.
fn leads_back(code: &[Instruction], address: u64, jump: &Instruction) -> bool {
    let index = |at: u64| code.binary_search_by_key(&at, Instruction::ip).ok();
    let mut seen = BTreeSet::new();
    // The address may lie within an instruction.
    let begin = code.partition_point(|one| one.ip() <= address).checked_sub(1);
    let mut next: Vec<u64> = begin.map(|index| code[index].ip()).into_iter().collect();
    while let Some(at) = next.pop() {
        if at == jump.ip() {
            return true;
        }
        let Some(one) = index(at).filter(|_| seen.insert(at)).map(|index| &code[index]) else {
            continue;
        };
        let follows = match one.flow_control() {
            FlowControl::UnconditionalBranch => is_jump(one).then(|| one.near_branch_target()),
            FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => None,
            _ => Some(one.next_ip()),
        };
        let branch = (one.flow_control() == FlowControl::ConditionalBranch)
            .then(|| one.near_branch_target());
        let header = jump.near_branch_target();
        next.extend(follows.into_iter().chain(branch).filter(|at| *at != header));
    }
    false
}

/// The jump back behind a change that may fail. What stands between only keeps whether it did; a
/// jump forward is a lock's slow path.
fn back_if_failed(behind: &[Instruction]) -> Option<&Instruction> {
    use Mnemonic as M;
    for one in behind.iter().take(MOST_BETWEEN) {
        match one.mnemonic() {
            M::Mov | M::Movzx | M::Sete | M::Setne | M::Test | M::Nop => {}
            M::Je | M::Jne if is_jump(one) => {
                return (one.near_branch_target() < one.ip()).then_some(one);
            }
            _ => return None,
        }
    }
    None
}

/// What may stand in a loop that pauses: it counts the rounds, or makes the pause longer.
fn passes_time(one: &Instruction, look: &mut InstructionInfoFactory) -> bool {
    use Mnemonic as M;
    let counts = matches!(
        one.mnemonic(),
        M::Add
            | M::Sub
            | M::Inc
            | M::Dec
            | M::Shl
            | M::Not
            | M::Neg
            | M::Cmova
            | M::Cmovae
            | M::Cmovb
            | M::Cmovbe
            | M::Cmove
            | M::Cmovne
            | M::Imul
    );
    let writes = |memory: &iced_x86::UsedMemory| {
        let reads = [OpAccess::Read, OpAccess::CondRead, OpAccess::NoMemAccess];
        !reads.contains(&memory.access()) && !is_on_stack(memory.base())
    };
    is_jump(one)
        || is_pause(one)
        || is_atomic(one)
        || (counts || only_looks(one)) && !look.info(one).used_memory().iter().any(writes)
}

/// What may stand in a loop that waits: moves and tests, and what makes a word's bits readable.
fn only_looks(one: &Instruction) -> bool {
    use Mnemonic as M;
    let by_constant = matches!(
        one.op1_kind(),
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    );
    match one.mnemonic() {
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Cmp | M::Test | M::Bt | M::Nop => true,
        M::Xchg | M::Cmpxchg | M::Bts | M::Btr => true,
        M::Sete | M::Setne | M::Setb | M::Setae | M::Seta | M::Setbe => true,
        M::Lea | M::Endbr64 | M::Cdqe => true,
        M::Xor => one.op0_register() == one.op1_register() || by_constant,
        M::And | M::Or | M::Shr => by_constant,
        _ => false,
    }
}

/// Whether what `cmpxchg` compares with is set anew to a constant in every round: then it takes a
/// word that is free, as a lock does; else it tries again what another core came between.
fn expects_a_constant(body: &[Instruction]) -> bool {
    body.iter().any(|one| {
        let into = one.op0_register().full_register() == Register::RAX;
        let immediate = one.mnemonic() == Mnemonic::Mov && one.op1_kind() != OpKind::Memory;
        let zero = one.mnemonic() == Mnemonic::Xor && one.op0_register() == one.op1_register();
        into && (immediate && one.op1_kind() != OpKind::Register || zero)
    })
}

fn is_steady(part: Register, steady: &BTreeSet<Register>) -> bool {
    part == Register::None || part == Register::RIP || steady.contains(&part.full_register())
}

/// Registers whose value is the same in every round, unless what others may write changes: not
/// written at all, or only loaded from what is the same.
fn steady_registers(body: &[Instruction], look: &mut InstructionInfoFactory) -> BTreeSet<Register> {
    let mut writers: Vec<(Register, bool, Vec<Register>)> = Vec::new();
    for one in body {
        let info = look.info(one);
        let is_load = matches!(one.mnemonic(), Mnemonic::Mov | Mnemonic::Lea);
        let read: Vec<Register> = info
            .used_registers()
            .iter()
            .filter(|used| matches!(used.access(), OpAccess::Read | OpAccess::CondRead))
            .map(|used| used.register().full_register())
            .collect();
        for used in info.used_registers() {
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead) {
                writers.push((used.register().full_register(), is_load, read.clone()));
            }
        }
    }
    let written: BTreeSet<Register> = writers.iter().map(|(register, ..)| *register).collect();
    let mut steady: BTreeSet<Register> =
        Register::values().filter(|one| one.is_gpr64() && !written.contains(one)).collect();
    loop {
        let more: Vec<Register> = written
            .iter()
            .filter(|register| !steady.contains(register))
            .filter(|register| {
                let mut own = writers.iter().filter(|(into, ..)| into == *register);
                own.all(|(_, load, from)| *load && from.iter().all(|one| is_steady(*one, &steady)))
            })
            .copied()
            .collect();
        if more.is_empty() {
            return steady;
        }
        steady.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_their_last_bytes() {
        // call rel32; call rax; call [rax+8]; call [rip+0x10]; call [rax+rbx*8+0x100]
        for call in [
            &[0xe8, 1, 0, 0, 0][..],
            &[0xff, 0xd0],
            &[0xff, 0x50, 8],
            &[0xff, 0x15, 0x10, 0, 0, 0],
            &[0xff, 0x94, 0xd8, 0, 1, 0, 0],
        ] {
            assert!(ends_with_a_call(call), "{call:x?}");
            assert!(!ends_with_a_call(&[call, &[0x90; 8]].concat()), "{call:x?}");
        }
        // push [rax]; jmp [rax]
        assert!(!ends_with_a_call(&[0xff, 0x30]) && !ends_with_a_call(&[0xff, 0x20]));
        assert!(!ends_with_a_call(&[]));
    }

    const START: u64 = 0x1000;

    /// The kind at each instruction of `bytes`.
    fn kinds(bytes: &[u8]) -> Vec<CodeKind> {
        let code = Decoder::with_ip(64, bytes, START, DecoderOptions::NONE).into_iter();
        code.map(|one| kind_of(bytes, START, one.ip())).collect()
    }

    use CodeKind::{Atomic, Memory, Other, Retry, Spin};

    #[test]
    fn a_loop_that_pauses_spins() {
        // mov $1,%eax; xchg %al,(%rdi); test %al,%al; je +9 (ret); cmpb $0,(%rdi); je -11;
        // pause; jmp -9; ret
        let bytes = [
            0xb8, 1, 0, 0, 0, 0x86, 0x07, 0x84, 0xc0, 0x74, 0x09, 0x80, 0x3f, 0, 0x74, 0xf0, 0xf3,
            0x90, 0xeb, 0xf7, 0xc3,
        ];
        assert_eq!(kinds(&bytes), [Spin, Spin, Spin, Spin, Spin, Spin, Spin, Spin, Other]);
    }

    #[test]
    fn a_loop_around_the_end_of_its_function_spins() {
        // mov %ecx,%eax; lock cmpxchg %edx,(%rbx); jne +2; pop %rbx; ret; pause; lea 1(%rsi),%eax;
        // mov %eax,%esi; cmp %rdi,%rax; jb -22; ret
        let bytes = [
            0x89, 0xc8, 0xf0, 0x0f, 0xb1, 0x13, 0x75, 0x02, 0x5b, 0xc3, 0xf3, 0x90, 0x8d, 0x46, 1,
            0x89, 0xc6, 0x48, 0x39, 0xf8, 0x72, 0xea, 0xc3,
        ];
        let found = kinds(&bytes);
        assert_eq!(found[..3], [Spin; 3]);
        assert_eq!(found[3..5].iter().filter(|it| **it == Spin).count(), 0, "{found:?}");
        assert_eq!(found[5..10], [Spin; 5]);
    }

    #[test]
    fn a_loop_that_works_too_does_not_spin_for_its_pause() {
        // pause; mov %rax,(%rdi); sub $1,%ecx; jne -10; ret
        let bytes = [0xf3, 0x90, 0x48, 0x89, 0x07, 0x83, 0xe9, 1, 0x75, 0xf6, 0xc3];
        assert_eq!(kinds(&bytes), [Other, Memory, Memory, Other, Other]);
        // pause; sub $1,%ecx; jne -7; ret
        let delay = [0xf3, 0x90, 0x83, 0xe9, 1, 0x75, 0xf9, 0xc3];
        assert_eq!(kinds(&delay), [Spin, Spin, Spin, Other]);
    }

    #[test]
    fn a_loop_that_looks_at_one_word_spins_and_one_that_follows_a_list_does_not() {
        // mov (%rdi),%eax; cmp %esi,%eax; jne -6; ret
        let ticket = [0x8b, 0x07, 0x39, 0xf0, 0x75, 0xfa, 0xc3];
        assert_eq!(kinds(&ticket), [Spin, Spin, Spin, Other]);
        // mov (%rax),%rax; test %rax,%rax; jne -8; ret
        let list = [0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0, 0x75, 0xf8, 0xc3];
        assert_eq!(kinds(&list), [Memory, Memory, Other, Other]);
    }

    #[test]
    fn test_and_set_without_a_pause_spins() {
        // mov $1,%edx; mov %edx,%eax; xchg %al,(%rdi); test %al,%al; jne -8; ret
        let bytes = [0xba, 1, 0, 0, 0, 0x89, 0xd0, 0x86, 0x07, 0x84, 0xc0, 0x75, 0xf8, 0xc3];
        assert_eq!(kinds(&bytes), [Other, Spin, Spin, Spin, Spin, Other]);
        // xor %eax,%eax; lock cmpxchg %edx,(%rdi); jne -8; ret
        let compare = [0x31, 0xc0, 0xf0, 0x0f, 0xb1, 0x17, 0x75, 0xf8, 0xc3];
        assert_eq!(kinds(&compare), [Spin, Spin, Spin, Other]);
    }

    #[test]
    fn counters_and_retried_changes_are_atomic_and_no_spinning() {
        // lock addq $1,(%rdi); sub $1,%eax; jne -10; ret
        let counter = [0xf0, 0x48, 0x83, 0x07, 1, 0x83, 0xe8, 1, 0x75, 0xf6, 0xc3];
        assert_eq!(kinds(&counter), [Atomic, Atomic, Other, Other]);
        // mov (%rdi),%rax; lea 1(%rax),%rdx; lock cmpxchg %rdx,(%rdi); jne -15; ret
        let retried =
            [0x48, 0x8b, 0x07, 0x48, 0x8d, 0x50, 1, 0xf0, 0x48, 0x0f, 0xb1, 0x17, 0x75, 0xf2, 0xc3];
        assert_eq!(kinds(&retried), [Retry, Retry, Atomic, Atomic, Other]);
    }

    #[test]
    fn all_that_is_computed_for_a_change_is_retried_with_it() {
        // mov (%rdi),%rax; mov %rax,%rdx; imul $3,%rdx,%rdx; lock cmpxchg %rdx,(%rdi); sete %cl;
        // movzbl %cl,%ecx; test %ecx,%ecx; je -26; ret
        let computed = [
            0x48, 0x8b, 0x07, 0x48, 0x89, 0xc2, 0x48, 0x6b, 0xd2, 3, 0xf0, 0x48, 0x0f, 0xb1, 0x17,
            0x0f, 0x94, 0xc1, 0x0f, 0xb6, 0xc9, 0x85, 0xc9, 0x74, 0xe7, 0xc3,
        ];
        assert_eq!(kinds(&computed)[..3], [Retry; 3]);
        assert_eq!(kinds(&computed)[8], Other, "the change is done");
        let within = |at: u64| is_retried(&computed, START, START + at);
        assert!(within(9) && within(22) && !within(24), "within instructions");
        // add $1,%rcx; mov %rax,%rdx; lock cmpxchg %rdx,(%rdi); jne +5; cmp %rsi,%rcx; jne -20; ret
        let taken = [
            0x48, 0x83, 0xc1, 1, 0x48, 0x89, 0xc2, 0xf0, 0x48, 0x0f, 0xb1, 0x17, 0x75, 0x05, 0x48,
            0x39, 0xf1, 0x75, 0xed, 0xc3,
        ];
        assert!(!kinds(&taken).contains(&Retry), "a loop that takes a lock in every round");
        // mov (%rdi),%rax; jmp +5; imul $3,%rdx,%rdx; ret; lock cmpxchg %rdx,(%rdi); jne -17; ret
        let moved = [
            0x48, 0x8b, 0x07, 0xeb, 0x05, 0x48, 0x6b, 0xd2, 3, 0xc3, 0xf0, 0x48, 0x0f, 0xb1, 0x17,
            0x75, 0xef, 0xc3,
        ];
        let around = [Retry, Retry, Other, Other, Atomic, Atomic, Other];
        assert_eq!(kinds(&moved), around, "what stands between is not of the loop");
    }

    #[test]
    fn work_is_work_whatever_loop_it_is_in() {
        // imul $3,%rax,%rax; add $1,%rax; sub $1,%ecx; jne -13; ret
        let burn = [0x48, 0x6b, 0xc0, 3, 0x48, 0x83, 0xc0, 1, 0x83, 0xe9, 1, 0x75, 0xf3, 0xc3];
        assert_eq!(kinds(&burn), [Other; 5]);
        // add (%rdi),%rax; add $8,%rdi; cmp %rsi,%rdi; jne -12; ret
        let sum = [0x48, 0x03, 0x07, 0x48, 0x83, 0xc7, 8, 0x48, 0x39, 0xf7, 0x75, 0xf4, 0xc3];
        assert_eq!(kinds(&sum), [Memory, Memory, Other, Other, Other]);
        // addl $1,-4(%rbp); mov -4(%rbp),%eax; cmp 0x10(%rip),%eax; jl -15; ret
        let counted =
            [0x83, 0x45, 0xfc, 1, 0x8b, 0x45, 0xfc, 0x3b, 0x05, 0x10, 0, 0, 0, 0x7c, 0xf1, 0xc3];
        assert_eq!(kinds(&counted), [Other, Other, Memory, Memory, Other]);
    }

    #[test]
    fn a_call_in_a_loop_and_bytes_that_are_no_code_say_nothing() {
        // call +0; testb $1,(%rdi); jne -10; ret
        let calls = [0xe8, 0, 0, 0, 0, 0xf6, 0x07, 1, 0x75, 0xf6, 0xc3];
        assert_eq!(kinds(&calls), [Other, Memory, Memory, Other]);
        assert_eq!(kind_of(&[], START, START), Other);
        assert_eq!(kind_of(&[0x06; 16], START, START), Other);
        assert_eq!(kind_of(&calls, START, START + 1), Other, "within an instruction");
    }
}
