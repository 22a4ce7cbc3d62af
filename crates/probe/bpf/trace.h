/* With -DTRACE the programs also write down what they are called with and when, in the order in
 * which they run: tests/proof/record.rs makes fixtures of it. The object of Kneepoint has none.
 */
#ifndef KNEEPOINT_TRACE_H
#define KNEEPOINT_TRACE_H

enum traced_what { T_BLOCKED = 1, T_PREEMPTED, T_DEAD, T_WAKEUP, T_NEW, T_EDGE };

/* A thread of the kernel has this bit in the number of its process. */
#define T_KERNEL (1U << 31)

#ifdef TRACE
struct traced {
	u64 at, born;
	u32 cpu, what, a, a_of, b, b_of;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
} trace SEC(".maps");

static __always_inline u32 process_of(struct task_struct *p)
{
	return (u32)p->tgid | (p->flags & PF_KTHREAD ? T_KERNEL : 0);
}

static __always_inline void trace_two(u64 at, u32 what, struct task_struct *a, struct task_struct *b)
{
	struct traced *t = bpf_ringbuf_reserve(&trace, sizeof *t, 0);
	if (!t)
		return;
	t->at = at;
	t->born = a->start_time;
	t->cpu = bpf_get_smp_processor_id();
	t->what = what;
	t->a = a->pid;
	t->a_of = process_of(a);
	t->b = b->pid;
	t->b_of = process_of(b);
	bpf_ringbuf_submit(t, 1);
}

static __always_inline u32 traced_leave(int preempt, u32 prev_state)
{
	return preempt || !prev_state ? T_PREEMPTED : prev_state & 0x80 ? T_DEAD : T_BLOCKED;
}
#else
#define trace_two(at, what, a, b)
#endif

#endif
