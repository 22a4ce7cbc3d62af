/* What the programs and user space exchange. collector/wire.rs mirrors every structure; a test
 * there compares sizes. No structure has implicit padding.
 */
#ifndef KNEEPOINT_WIRE_H
#define KNEEPOINT_WIRE_H

#include "kernel.h"

enum state { UNKNOWN, RUN, RQ, BLK };

enum reason {
	R_FUTEX = 1,
	R_KLOCK,
	R_DEVICE,
	R_PIPE,
	R_SOCKET,
	R_POLL,
	R_TIMER,
	R_FAULT,
	R_FILE,
	R_PROCESS,
	R_OTHER,
	R_ANON,
};

/* What a core runs. */
enum class { C_IDLE, C_SYSTEM, C_GENERATOR, C_KNEEPOINT, C_FOREIGN, C_KERNEL, CLASSES };

enum holder { H_NONE, H_RUN, H_RQ, H_BLK, H_UNKNOWN };

enum { MARK_BLOCK = 1, MARK_WAKER = 2, MARK_TICK = 3 };

/* Bits of wait_key.op beside the futex operation. */
#define OP_TIMED 0x8000
/* Bits of wait_key.op for kernel locks beside the contention flags. */
#define OP_MMAP_LOCK 0x4000
#define OP_INODE_RWSEM 0x2000	/* of the file that the call names */
#define OP_FILE_POSITION 0x1000	/* the same */

struct control {
	u64 window;		/* begin of the window, CLOCK_MONOTONIC ns; names its generation */
	u64 ahead;		/* of the run queues' clock is CLOCK_MONOTONIC; 0: not known yet */
	u64 ahead_at;		/* when that was found, by the run queues' clock */
	u64 always_from;		/* waits expected to be this long are always sampled; 0: no stacks */
	u64 tick;		/* address of the scheduler tick's handler; 0: no stacks on cores */
	u32 tick_share;		/* share of ticks to take a stack at, x 2^32 */
	u32 active;
	u32 self_tgid;
	u32 number;		/* of the window, from 1 on: names its entries in `threads` */
	u32 targets_changed;	/* how often `targets` did, in the window */
	u32 pad;
};

enum counter {
	N_THREADS_FULL,
	N_WAITS_FULL,
	N_EXITED_FULL,
	N_MISSED_WAKE,		/* ran without having been seen to wake */
	N_ODD_SWITCH,		/* left a core without having been seen to enter it */
	N_STALE_LOCK,
	N_RECORDS_LOST,
	N_MARKS,
	N_MARKS_LOST,
	N_CLASSES_FULL,
	N_TICKS,		/* that found a thread of the system */
	COUNTERS,
};

struct wait_value {
	u64 blocked, count, longest, idle;
	u64 holders[5];		/* blocked, by what the holder did when the wait began */
};

/* The waits of one thread for one thing, until another takes the place. */
struct wait_part {
	u64 object;
	s32 nr;
	u16 op;
	u8 reason, used;
	struct wait_value sum;
};

#define PARTS 2

/* A wait that is over, of one who may hold a lock by now. */
struct past_wait {
	u64 object;
	u64 begin, end;		/* end 0: there was none; when it gave it back, where others wait */
	s32 nr;
	u16 op;
	u8 reason, pad;
};

/* The part of a wait for a lock in which its holders waited themselves, and what for. */
struct behind {
	u64 object;
	u64 length;		/* ns; 0: in none, as far as is known */
	s32 nr;
	u16 op;
	u8 reason, pad;
};

/* The last times in which who held a futex was known to wait for another lock, or to have it. */
#define TIMES 4
struct futex {
	u64 word;		/* as futex_of() names it */
	u64 released;		/* when a thread that waited for it was last woken */
	struct behind inner;	/* what holders waited for; its length is not used */
	u64 next;		/* place of the next time */
	struct { u64 from, to; } times[TIMES];
};

struct thread {
	u64 owner;		/* number of the window << 32 | tid; 0: free */
	u64 ts;			/* begin of the present state */
	u64 birth;		/* begin of its life within the window */
	u64 run, rq_woken, rq_preempted, blocked;
	u64 switches;
	u64 block_start, wake_ts;	/* pending wait: 0 = none; wake_ts 0 = not yet woken */
	u64 object;
	u64 expected;		/* moving mean of its waits, ns */
	u64 mark, mark_p;	/* sampled pending wait */
	char comm[16];
	u64 locks[4];
	u32 lock_flags[4];
	struct wait_part parts[PARTS];
	struct past_wait past;	/* its last wait for a lock */
	struct behind behind;	/* of the pending wait */
	s32 nr;
	u32 tgid;
	u16 op;
	u8 state, reason, role, preempted, holder, depth;
};

struct wait_key {
	char comm[16];
	u64 object;
	s32 nr;
	u16 op;
	u8 reason, role;
};

struct group_key {
	char comm[16];
	u64 role;
};

struct group_value {
	u64 threads, existed, run, rq_woken, rq_preempted, blocked, switches;
};

#define CLASS_CACHE 16
struct core {
	u64 generation;
	u64 ts;
	u64 spent[CLASSES];
	u64 idle_scheduler, idle_uncharged;
	u64 stretch_begin, stretch_idle;	/* begin 0: none open */
	u64 marks;
	u64 class;
	u64 watched;		/* the window is about this core: its idle time is charged */
	u64 switches;		/* of threads of the system */
	u64 wakings, unseen;	/* wake-ups by this core, and those not looked at for whom wakes */
	u64 runs;		/* of the programs on_switch and on_wakeup */
	u64 timed;		/* ns that one in TIMED of these took */
	u64 seed;		/* of its random numbers */
	u64 classes[CLASS_CACHE];	/* of processes seen last, see class_of() */
};

/* A prime, lest of programs that run by turns always the same is timed. */
#define TIMED 61

struct mark {
	u64 id, p;
	u32 kind, tid;
};

struct wait_record {
	u64 id, p, blocked;
	struct wait_key key;
	struct behind behind;
};

#endif
