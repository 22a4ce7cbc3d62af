/* Thread-time and core-time accounting on the scheduler's tracepoints.
 *
 * Every thread of the system under test is running, runnable or blocked; every core runs the
 * system, the generator, Kneepoint, a thread of the kernel, somebody else, or nothing. Both sums
 * are kept here, event by event, and user space adds the intervals that are open when the window
 * ends. What a thread waits for is read from its saved user registers, so no system call is
 * traced.
 */
#include "wire.h"
#include "maps.h"
#include "reason.h"
#include "account.h"
#include "trace.h"

SEC("tp_btf/sched_switch")
int on_switch(u64 *ctx)
{
	struct control *c = control_words();
	if (!c || !c->active)
		return 0;
	int preempt = (u8)ctx[0];
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 prev_state = ctx[3];
	u64 now = bpf_ktime_get_ns();
	struct core *core = this_core(c, prev);
	if (!core)
		return 0;
	trace_two(now, traced_leave(preempt, prev_state), prev, next);
	u32 next_class = class_of(c, core, next);
	struct thread *t;

	if (core->class == C_SYSTEM && (t = follow(c, prev, RUN)))
		leave(ctx, c, core, prev, t, now, preempt, prev_state);
	charge_core(core, now, next_class);
	if (next_class == C_SYSTEM) {
		if ((t = follow(c, next, RQ)))
			enter(core, t, now);
		close_stretch(core);
	}
	if (is_timed(core))
		core->timed += since(now, bpf_ktime_get_ns());
	return 0;
}

/* This core's account where the window has one. */
static __always_inline struct core *known_core(struct control *c)
{
	u32 zero = 0;
	struct core *core = bpf_map_lookup_elem(&cores, &zero);
	return core && core->generation == c->window ? core : 0;
}

static __always_inline void woken(struct control *c, struct task_struct *p, u8 proven, u64 now)
{
	struct thread *t = find(c, p->pid);
	if (!t) {
		t = follow(c, p, proven);
		if (!t)
			return;
		if (proven == BLK) {
			t->block_start = t->ts;
			classify(c, p, t, 0);
		}
	}
	if (t->state != BLK)
		return;
	if (t->reason == R_FUTEX)
		note_release(t, now);
	t->blocked += since(t->ts, now);
	t->wake_ts = now;
	t->ts = now;
	t->state = RQ;
	t->preempted = 0;
}

static __always_inline int wake(struct task_struct *p, u8 proven)
{
	struct control *c = control_words();
	if (!c || !c->active)
		return 0;
	struct core *core = known_core(c);
	if (class_of(c, core, p) != C_SYSTEM)
		return 0;
	int timed = is_timed(core);
	u64 now = time_of_wakeup(c, p, timed);
	trace_two(now, proven == RQ ? T_NEW : T_WAKEUP, p, p);
	woken(c, p, proven, now);
	if (timed)
		core->timed += since(now, bpf_ktime_get_ns());
	return 0;
}

/* A wait ends when the thread is put on a run queue, not when the waker decides to do so: the
 * way there (an interrupt to an idle core, often) is the price of having waited. It also runs
 * under the queue's lock, so it never overtakes the switch that began the wait. */
SEC("tp_btf/sched_wakeup")
int on_wakeup(u64 *ctx)
{
	return wake((void *)ctx[0], BLK);
}

/* The waker's own context: where its stack can be taken. */
SEC("tp_btf/sched_waking")
int on_waking(u64 *ctx)
{
	struct control *c = control_words();
	if (!c || !c->active)
		return 0;
	struct core *core = known_core(c);
	if (core) {
		core->wakings += 1;
		if (is_crowded(c, core)) {
			core->unseen += 1;
			return 0;
		}
	}
	struct task_struct *p = (void *)ctx[0];
	struct thread *t = find(c, p->pid);
	if (!t || t->state != BLK || !(t->mark || t->reason == R_FUTEX))
		return 0;
	if (class_of(c, core, p) == C_SYSTEM)
		mark_waker(ctx, c, t);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int on_new(u64 *ctx)
{
	return wake((void *)ctx[0], RQ);
}

/* Children of followed processes are followed, in and between windows. */
SEC("tp_btf/sched_process_fork")
int on_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = parent->tgid, to = child->tgid;
	if (from == to)
		return 0;
	u32 *class = bpf_map_lookup_elem(&targets, &from);
	if (class) {
		u32 copy = *class;
		if (bpf_map_update_elem(&targets, &to, &copy, BPF_ANY))
			count(N_CLASSES_FULL);
		struct control *c = control_words();
		if (c)
			forget_classes(c);
	}
	return 0;
}

/* The entry of the thread on this core, where the system has the core. */
static __always_inline struct thread *current_thread(struct control *c)
{
	struct core *core = known_core(c);
	if (!core || core->class != C_SYSTEM)
		return 0;
	return find(c, (u32)bpf_get_current_pid_tgid());
}

/* A waiter for a kernel lock: remembers which, for the wait that may follow. */
SEC("tp_btf/contention_begin")
int on_contention_begin(u64 *ctx)
{
	/* Who spins does not block, and its core is busy: the stacks taken on it tell of that. */
	if (ctx[1] & SPIN_FLAG)
		return 0;
	struct control *c = control_words();
	if (!c || !c->active)
		return 0;
	struct thread *t = current_thread(c);
	if (!t)
		return 0;
	u64 lock = ctx[0];
	u32 depth = t->depth;
	if (depth && t->locks[(depth - 1) & 3] == lock) {
		t->lock_flags[(depth - 1) & 3] = (u32)ctx[1];
		return 0;
	}
	if (depth < 4) {
		t->locks[depth & 3] = lock;
		t->lock_flags[depth & 3] = (u32)ctx[1];
		t->depth = depth + 1;
	}
	return 0;
}

SEC("tp_btf/contention_end")
int on_contention_end(u64 *ctx)
{
	struct control *c = control_words();
	if (!c || !c->active)
		return 0;
	struct thread *t = current_thread(c);
	if (!t || !t->depth)
		return 0;
	u64 lock = ctx[0];
	u32 depth = t->depth;
	if (t->locks[(depth - 1) & 3] == lock) {
		t->depth = depth - 1;
	} else if (depth > 1 && t->locks[(depth - 2) & 3] == lock) {
		t->depth = depth - 2;
		count(N_STALE_LOCK);
	}
	return 0;
}

/* Stacks of what runs are taken at the scheduler's own tick, which interrupts a busy core anyway. A
 * timer of our own would interrupt it once more each time; where a lock is passed on quickly, each
 * interruption of its holder costs many times its own length. */
SEC("tp_btf/hrtimer_expire_entry")
int on_tick(u64 *ctx)
{
	struct control *c = control_words();
	if (!c || !c->active || !c->tick)
		return 0;
	struct hrtimer *timer = (void *)ctx[0];
	if ((u64)timer->function != c->tick)
		return 0;
	struct core *core = known_core(c);
	if (!core || core->class != C_SYSTEM)
		return 0;
	count(N_TICKS);
	if (bpf_get_prandom_u32() > c->tick_share)
		return 0;
	struct mark m = { .p = 1ULL << 32, .kind = MARK_TICK };
	m.tid = bpf_get_current_task_btf()->pid;
	if (bpf_perf_event_output(ctx, &stack_events, BPF_F_CURRENT_CPU, &m, sizeof m))
		count(N_MARKS_LOST);
	return 0;
}

/* Run by user space on every core that a window is about when it opens, so that no core and no
 * thread that computes through the whole window stays unseen. */
SEC("raw_tp/sched_switch")
int on_edge(void *ctx __attribute__((unused)))
{
	struct control *c = control_words();
	if (!c || !c->active)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct core *core = this_core(c, task);
	if (!core)
		return 0;
	trace_two(c->window, T_EDGE, task, task);
	core->watched = 1;
	if (core->class == C_SYSTEM)
		follow(c, task, RUN);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
