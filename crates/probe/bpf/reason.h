/* Why a thread blocks, from its saved user registers. System call numbers are x86-64's. */
#ifndef KNEEPOINT_REASON_H
#define KNEEPOINT_REASON_H

#include "maps.h"

#define SPIN_FLAG 1

/* linux/futex.h */
#define FUTEX_LOCK_PI 6
#define FUTEX_LOCK_PI2 13
#define FUTEX_PRIVATE 128
#define FUTEX_CLOCK 256
#define FUTEX_TID 0x3fffffff

/* The open file of a descriptor; 0 where there is none. */
static __always_inline struct file *file_of_fd(struct task_struct *p, u32 fd)
{
	struct file *file = 0;
	struct fdtable *table = p->files->fdt;
	if (fd >= table->max_fds)
		return 0;
	if (bpf_probe_read_kernel(&file, sizeof file, table->fd + fd))
		return 0;
	return file;
}

/* The mode of the file of a descriptor; of the first few, which lie in the table that a process
 * begins with, by plain loads: the verifier wants them at constant places, and takes long for each. */
static __always_inline u16 mode_of_fd(struct task_struct *p, u32 fd, int *is_open)
{
	struct files_struct *files = p->files;
	u64 first = (u64)files + bpf_core_field_offset(struct files_struct, fdtab);
	struct file *file = 0;
	*is_open = 1;
	if (fd < 8 && (u64)files->fdt == first) {
#define AT(n) case n: file = files->fd_array[n]; break
		switch (fd) {
		AT(0); AT(1); AT(2); AT(3); AT(4); AT(5); AT(6); AT(7);
		}
#undef AT
		if (file)
			return file->f_inode->i_mode;
	}
	file = file_of_fd(p, fd);
	if (file)
		return BPF_CORE_READ(file, f_inode, i_mode);
	*is_open = 0;
	return 0;
}

static __always_inline u8 reason_of_fd(struct task_struct *p, u32 fd)
{
	int is_open;
	u16 mode = mode_of_fd(p, fd, &is_open);
	if (!is_open)
		return R_OTHER;
	switch (mode & 0170000) {
	case 0140000:
		return R_SOCKET;
	case 0010000:
		return R_PIPE;
	case 0:
		return R_ANON;
	}
	return R_FILE;
}

/* What the thread is doing that has the lock: the word of one that passes priority on names it
 * itself, by the kernel's rules, else the C library's owner field beside the word does. */
static __always_inline u8 holder_of(struct control *c, u64 word, u32 op)
{
	u32 command = op & ~(FUTEX_PRIVATE | FUTEX_CLOCK), owner = 0;
	int passes_on = command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2;
	if (bpf_probe_read_user(&owner, sizeof owner, (void *)(passes_on ? word : word + 8)))
		return H_UNKNOWN;
	if (passes_on)
		owner &= FUTEX_TID;
	if (!owner)
		return H_UNKNOWN;
	struct thread *h = find(c, owner);
	if (!h)
		return H_UNKNOWN;
	return h->state == RUN ? H_RUN : h->state == RQ ? H_RQ : h->state == BLK ? H_BLK : H_UNKNOWN;
}

static __always_inline u8 reason_of_poll(struct task_struct *p, struct pt_regs *g, int is_current)
{
	s32 fd;
	if (is_current && g->si == 1 && !bpf_probe_read_user(&fd, sizeof fd, (void *)g->di) && fd >= 0) {
		u8 reason = reason_of_fd(p, fd);
		return reason == R_OTHER || reason == R_ANON ? R_POLL : reason;
	}
	return R_POLL;
}

static __always_inline void futex_wait(struct control *c, struct thread *t, struct pt_regs *g,
				       int is_current)
{
	t->reason = R_FUTEX;
	t->object = g->di;
	t->op = ((u16)g->si & 0x3fff) | (g->r10 ? OP_TIMED : 0);
	t->holder = is_current ? holder_of(c, g->di, g->si) : H_UNKNOWN;
}

static __always_inline void by_call(struct control *c, struct task_struct *p, struct thread *t,
				    struct pt_regs *g, int is_current)
{
	switch (t->nr) {
	case 202:
		futex_wait(c, t, g, is_current);
		return;
	case 455: /* futex_wait(addr, val, mask, flags, timeout) */
		t->reason = R_FUTEX;
		t->object = g->di;
		t->op = 9;
		return;
	case 449: /* futex_waitv: several words */
		t->reason = R_FUTEX;
		t->op = 9 | OP_TIMED;
		return;
	case 0: case 1: case 17: case 18: case 19: case 20:
		t->reason = reason_of_fd(p, g->di);
		return;
	case 42: case 43: case 288: case 44: case 45: case 46: case 47: case 299: case 307:
		t->reason = R_SOCKET;
		return;
	case 7: case 271:
		t->reason = reason_of_poll(p, g, is_current);
		return;
	case 23: case 270: case 232: case 281: case 441: case 208: case 426: case 34: case 128:
		t->reason = R_POLL;
		return;
	case 35: case 230:
		t->reason = R_TIMER;
		return;
	case 61: case 247:
		t->reason = R_PROCESS;
		return;
	case 26: case 74: case 75: case 162: case 277: case 306:
		t->reason = R_FILE;
		return;
	}
	t->reason = R_OTHER;
}

/* Whether a call works on one open file, and by which of its arguments. */
static __always_inline int descriptor_of(s32 nr, struct pt_regs *g, u32 *fd)
{
	switch (nr) {
	case 0: case 1: case 8: case 17: case 18: case 19: case 20: case 40: case 74: case 75:
	case 77: case 187: case 217: case 277: case 285: case 295: case 296: case 327: case 328:
		*fd = g->di;
		return 1;
	case 326: /* copy_file_range: what it writes to */
		*fd = g->dx;
		return 1;
	}
	return 0;
}

/* Which lock of the process or of its file a sleeping lock of the kernel is, as bits of op. */
RARE u16 identity_of(struct task_struct *p, struct pt_regs *g, s32 nr, u64 lock)
{
	u32 fd;
	struct mm_struct *mm = p->mm;
	if (mm && lock == (u64)mm + bpf_core_field_offset(struct mm_struct, mmap_lock))
		return OP_MMAP_LOCK;
	if (!descriptor_of(nr, g, &fd))
		return 0;
	struct file *file = file_of_fd(p, fd);
	if (!file)
		return 0;
	if (bpf_core_field_exists(struct file, f_pos_lock) &&
	    lock == (u64)file + bpf_core_field_offset(struct file, f_pos_lock))
		return OP_FILE_POSITION;
	u64 inode = (u64)BPF_CORE_READ(file, f_inode);
	if (lock == inode + bpf_core_field_offset(struct inode, i_rwsem))
		return OP_INODE_RWSEM;
	return 0;
}

/* Fills the identity of the wait that `task` begins (is_current) or is found in. */
static __always_inline void classify(struct control *c, struct task_struct *task, struct thread *t,
				     int is_current)
{
	struct pt_regs *g = (void *)bpf_task_pt_regs(task);
	u32 depth = t->depth;
	s32 nr = (s32)g->orig_ax;

	t->holder = H_NONE;
	if (nr == 219 && !depth && !BPF_CORE_READ_BITFIELD(task, in_iowait)) {
		/* restart_syscall: the arguments of the call that goes on are lost, its kind is not */
		return;
	}
	t->object = 0;
	t->op = 0;
	t->nr = nr;
	if (depth > 0 && depth <= 4) {
		u64 lock = t->locks[(depth - 1) & 3];
		t->reason = R_KLOCK;
		t->object = lock;
		t->op = t->lock_flags[(depth - 1) & 3] & 0xff;
		t->op |= identity_of(task, g, nr, lock);
	} else if (BPF_CORE_READ_BITFIELD(task, in_iowait)) {
		t->reason = R_DEVICE;
	} else if (nr < 0) {
		t->reason = R_FAULT;
	} else {
		by_call(c, task, t, g, is_current);
	}
}

/* Whether the running thread wakes on purpose: inside a call that can end such a wait. An
 * interrupt that merely borrowed it leaves other registers. */
static __always_inline int wakes_on_purpose(struct task_struct *waker, u8 reason)
{
	struct pt_regs *g = (void *)bpf_task_pt_regs(waker);
	s32 nr = (s32)g->orig_ax;
	if (nr < 0)
		return 0;
	if (reason != R_FUTEX)
		return reason != R_TIMER && reason != R_DEVICE;
	u32 op = g->si & 0x7f;
	return nr == 60 || nr == 231 || nr == 454 ||
	       (nr == 202 && op != 0 && op != 9 && op != 6 && op != 13);
}

#endif
