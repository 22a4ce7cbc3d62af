/* What the programs of the census and user space exchange. census/wire.rs mirrors every structure;
 * a test there compares sizes. No structure has implicit padding.
 */
#ifndef KNEEPOINT_CENSUS_H
#define KNEEPOINT_CENSUS_H

#define MARK_TAKEN 4

/* How a lock was taken. */
enum { A_MUTEX, BY_WRITER, BY_READER };
#define KIND 0xff
#define TRIED 0x100

/* Stacks that a window takes at most. */
#define MOST_STACKS 2048

struct census {
	u64 last_id;
	u64 stacks, stacks_lost;
	u64 uses_lost, held_lost;
	u64 active;
};

struct held_key {
	u64 lock;
	u32 tid, pad;
};

struct held {
	u64 caller;
	u32 how, depth;
};

/* Uses of one lock from one place. */
struct use_key {
	u64 lock, caller;
	u32 tgid, how;
};

struct use {
	u64 id;			/* names it in marks */
	u64 begun;		/* how often it was asked for, */
	u64 count;		/* and given back */
};

struct mark {
	u64 id, p;
	u32 kind, tid;
};

/* System calls of one number with one outcome. */
struct call_key {
	s32 nr;
	u32 error;		/* 0: it succeeded */
};

#endif
