/* Accounting of threads, cores, waits and idle stretches. */
#ifndef KNEEPOINT_ACCOUNT_H
#define KNEEPOINT_ACCOUNT_H

#include "reason.h"

static __always_inline u32 class_of(struct control *c, struct task_struct *p)
{
	if (p->pid == 0)
		return C_IDLE;
	if (p->flags & PF_KTHREAD)
		return C_KERNEL;
	u32 tgid = p->tgid;
	u32 *class = bpf_map_lookup_elem(&targets, &tgid);
	if (class)
		return *class;
	return tgid == c->self_tgid ? C_KNEEPOINT : C_FOREIGN;
}

/* This core's account; made anew for the window on its first event, from what it runs. */
static __always_inline struct core *this_core(struct control *c, struct task_struct *running)
{
	u32 zero = 0;
	struct core *core = bpf_map_lookup_elem(&cores, &zero);
	if (!core || core->generation == c->window)
		return core;
	u64 marks = core->marks;
	__builtin_memset(core, 0, sizeof *core);
	core->marks = marks;
	core->ts = c->window;
	core->class = class_of(c, running);
	if (core->class == C_IDLE)
		core->stretch_begin = c->window;
	core->generation = c->window;
	return core;
}

/* Charges what the core did until now and notes what it does next. */
static __always_inline void charge_core(struct core *core, u64 now, u32 next)
{
	u64 d = since(core->ts, now);
	u32 class = core->class;
	if (class < CLASSES)
		core->spent[class] += d;
	if (class == C_IDLE)
		core->stretch_idle += d;
	if (next == C_IDLE && !core->stretch_begin) {
		core->stretch_begin = now;
		core->stretch_idle = 0;
	}
	core->class = next;
	if (now > core->ts)
		core->ts = now;
}

static __always_inline struct thread *find(struct control *c, u32 tid)
{
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	return t && t->generation == c->window ? t : 0;
}

/* The entry of a thread of the system, made on its first event in the window; `proven` is the
 * state that this event shows it to have been in since then. */
static __always_inline struct thread *follow(struct control *c, struct task_struct *p, u8 proven)
{
	u32 tid = p->pid;
	struct thread *t = bpf_map_lookup_elem(&threads, &tid);
	if (t && t->generation == c->window)
		return t;
	struct thread fresh = {};
	u64 born = p->start_time;
	fresh.generation = c->window;
	fresh.ts = fresh.birth = born > c->window ? born : c->window;
	fresh.expected = 1000000;
	fresh.nr = -1;
	fresh.tgid = p->tgid;
	fresh.state = proven;
	fresh.role = bpf_map_lookup_elem(&clients, &tid) ? 1 : 0;
	copy_comm(fresh.comm, p->comm);
	if (bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY)) {
		count(N_THREADS_FULL);
		return 0;
	}
	return bpf_map_lookup_elem(&threads, &tid);
}

static __always_inline void key_of(struct wait_key *k, struct thread *t)
{
	copy_comm(k->comm, t->comm);
	k->object = t->object;
	k->nr = t->nr;
	k->op = t->op;
	k->reason = t->reason;
	k->role = t->role;
}

static __always_inline void add_wait(struct thread *t, struct wait_key *k, u64 blocked, u64 idle)
{
	struct wait_value *v = bpf_map_lookup_elem(&waits, k);
	if (!v) {
		struct wait_value zero = {};
		bpf_map_update_elem(&waits, k, &zero, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&waits, k);
		if (!v) {
			count(N_WAITS_FULL);
			return;
		}
	}
	v->blocked += blocked;
	v->count += 1;
	if (blocked > v->longest)
		v->longest = blocked;
	v->idle += idle;
	if (t->holder <= H_UNKNOWN)
		v->holders[t->holder] += 1;
}

/* Length of the overlap of [begin, end] with the core's open stretch, scaled by the share of it
 * in which the core was idle and not lent to a stranger. */
static __always_inline u64 idle_overlap(struct core *core, u64 begin, u64 end, u64 now)
{
	u64 from = begin > core->stretch_begin ? begin : core->stretch_begin;
	u64 length = since(core->stretch_begin, now), part = since(from, end);
	if (!length || !part)
		return 0;
	if (core->stretch_idle >= length)
		return part;
	return (part * ((core->stretch_idle << 16) / length)) >> 16;
}

/* Splits the open idle stretch: returns the part charged to the wait of `t`, books the rest. */
static __always_inline u64 charge_idle(struct core *core, struct thread *t, u64 now)
{
	u64 to_wait = 0, to_scheduler = 0, idle = core->stretch_idle;
	if (!core->stretch_begin || !core->watched)
		return 0;
	if (t->block_start) {
		u64 woken = t->wake_ts ? t->wake_ts : now;
		to_wait = idle_overlap(core, t->block_start, woken, now);
		to_scheduler = idle_overlap(core, woken, now, now);
	} else {
		to_scheduler = idle_overlap(core, t->ts, now, now);
	}
	if (to_wait > idle)
		to_wait = idle;
	if (to_scheduler > idle - to_wait)
		to_scheduler = idle - to_wait;
	core->idle_scheduler += to_scheduler;
	core->idle_uncharged += idle - to_wait - to_scheduler;
	core->stretch_begin = 0;
	core->stretch_idle = 0;
	return to_wait;
}

/* A stretch that ended with a thread for which there was no entry: nobody is charged. */
static __always_inline void close_stretch(struct core *core)
{
	if (!core->stretch_begin)
		return;
	core->idle_uncharged += core->stretch_idle;
	core->stretch_begin = 0;
	core->stretch_idle = 0;
}

/* Tells user space how long the sampled wait lasted. */
static __always_inline void report_mark(struct thread *t, struct wait_key *k, u64 blocked)
{
	struct wait_record *r = bpf_ringbuf_reserve(&records, sizeof *r, 0);
	if (!r) {
		count(N_RECORDS_LOST);
		return;
	}
	r->id = t->mark;
	r->p = t->mark_p;
	r->blocked = blocked;
	r->key = *k;
	bpf_ringbuf_submit(r, 1 /* no wake-up: read when the window ends */);
}

static __always_inline void finish_wait(struct thread *t, u64 now, u64 idle)
{
	struct wait_key k;
	u64 end = t->wake_ts ? t->wake_ts : now, blocked = since(t->block_start, end);
	key_of(&k, t);
	add_wait(t, &k, blocked, idle);
	t->expected = t->expected - t->expected / 4 + blocked / 4;
	if (t->mark)
		report_mark(t, &k, blocked);
	t->mark = 0;
	t->block_start = 0;
	t->wake_ts = 0;
}

/* `t` gets the core. */
static __always_inline void enter(struct core *core, struct thread *t, u64 now)
{
	u64 d = since(t->ts, now), idle = charge_idle(core, t, now);
	if (t->state == BLK) {
		count(N_MISSED_WAKE);
		t->blocked += d;
	} else if (t->state == RQ && t->preempted) {
		t->rq_preempted += d;
	} else if (t->state == RQ) {
		t->rq_woken += d;
	}
	if (t->block_start)
		finish_wait(t, now, idle);
	t->state = RUN;
	t->preempted = 0;
	t->ts = now;
}

static __always_inline void bury(struct task_struct *p, struct thread *t, u64 now)
{
	struct group_key k;
	struct group_value zero = {}, *v;
	u32 tid = p->pid, tgid = p->tgid;
	copy_comm(k.comm, t->comm);
	k.role = t->role;
	v = bpf_map_lookup_elem(&exited, &k);
	if (!v) {
		bpf_map_update_elem(&exited, &k, &zero, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&exited, &k);
	}
	if (v) {
		v->threads += 1;
		v->existed += since(t->birth, now);
		v->run += t->run;
		v->rq_woken += t->rq_woken;
		v->rq_preempted += t->rq_preempted;
		v->blocked += t->blocked;
		v->switches += t->switches;
	} else {
		count(N_EXITED_FULL);
	}
	bpf_map_delete_elem(&threads, &tid);
	/* The last thread of a process: its number may soon be a stranger's, and a system that
	 * begets processes all the time must not fill the map with dead ones. */
	if (BPF_CORE_READ(p, signal, live.counter) == 0)
		bpf_map_delete_elem(&targets, &tgid);
}

/* Takes the blocking thread's stack with a probability in proportion to the wait expected. */
static __always_inline void mark_block(u64 *ctx, struct control *c, struct core *core, u32 tid,
				       struct thread *t)
{
	u64 always_from = c->always_from, p = 1ULL << 32;
	if (!always_from)
		return;
	if (t->expected < always_from)
		p = (t->expected << 32) / always_from;
	if (p < 1ULL << 22)
		p = 1ULL << 22;
	if (bpf_get_prandom_u32() >= p)
		return;
	struct mark m = { .p = p, .kind = MARK_BLOCK, .tid = tid };
	core->marks += 1;
	m.id = ((u64)(bpf_get_smp_processor_id() + 1) << 40) | (core->marks & 0xffffffffffULL);
	if (bpf_perf_event_output(ctx, &stack_events, BPF_F_CURRENT_CPU, &m, sizeof m)) {
		count(N_MARKS_LOST);
		return;
	}
	count(N_MARKS);
	t->mark = m.id;
	t->mark_p = p;
}

static __always_inline void mark_waker(u64 *ctx, struct control *c, struct thread *t)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	if (class_of(c, waker) != C_SYSTEM || !wakes_on_purpose(waker, t->reason))
		return;
	struct mark m = { .id = t->mark, .p = t->mark_p, .kind = MARK_WAKER, .tid = waker->pid };
	if (bpf_perf_event_output(ctx, &stack_events, BPF_F_CURRENT_CPU, &m, sizeof m))
		count(N_MARKS_LOST);
}

/* `t` leaves the core. */
static __always_inline void leave(u64 *ctx, struct control *c, struct core *core,
				  struct task_struct *p, struct thread *t, u64 now, int preempt,
				  u32 prev_state)
{
	u64 d = since(t->ts, now);
	count(N_SWITCHES);
	copy_comm(t->comm, p->comm); /* only a running thread renames itself */
	if (t->state == RUN) {
		t->run += d;
	} else {
		count(N_ODD_SWITCH);
		t->run += d;
		if (t->block_start)
			finish_wait(t, t->ts, 0);
	}
	t->switches += 1;
	t->ts = now;
	if (preempt || prev_state == 0) {
		t->state = RQ;
		t->preempted = 1;
		return;
	}
	if (prev_state & 0x80 /* TASK_DEAD */) {
		bury(p, t, now);
		return;
	}
	t->state = BLK;
	t->block_start = now;
	t->wake_ts = 0;
	t->mark = 0;
	classify(p, t, 1);
	mark_block(ctx, c, core, p->pid, t);
}

#endif
