/* Accounting of threads, cores, waits and idle stretches. */
#ifndef KNEEPOINT_ACCOUNT_H
#define KNEEPOINT_ACCOUNT_H

#include "reason.h"

/* Reads CLOCK_MONOTONIC at a wake-up, and what it is ahead of the run queue's clock: at most what is
 * found here, since something may have come between. The two drift by less than 1/2048. */
RARE u64 read_clock(struct control *c, u64 clock)
{
	u64 now = bpf_ktime_get_ns(), ahead = now - clock, old = c->ahead;
	u64 most = old + ((clock - c->ahead_at) >> 11) + 1000;
	c->ahead = old && (s64)(ahead - most) > 0 ? most : ahead;
	c->ahead_at = clock;
	return now;
}

/* CLOCK_MONOTONIC at the wake-up of `p` as the scheduler has just read it for the run queue, which
 * it has locked: reading the clock again would be most of what the program takes. At a switch this
 * cannot be had: there the scheduler goes by what it read at the wake-up that led to it. */
static __always_inline u64 time_of_wakeup(struct control *c, struct task_struct *p, int exactly)
{
	if (!bpf_core_field_exists(struct sched_entity, cfs_rq))
		return bpf_ktime_get_ns();
	u64 clock = p->se.cfs_rq->rq->clock, ahead = c->ahead;
	if (exactly || !ahead || clock - c->ahead_at > 1000000)
		return read_clock(c, clock);
	return clock + ahead;
}

/* Whether the core has switched to and from the system so often in the window that even a look at
 * who is woken counts: after the first 3,000 times, more than 30,000 times a second. */
static __always_inline int is_crowded(struct control *c, struct core *core)
{
	return core->switches > 3000 && core->switches * 33333 > since(c->window, core->ts);
}

/* One run in TIMED is timed. */
static __always_inline int is_timed(struct core *core)
{
	return core && !(++core->runs % TIMED);
}

/* What a thread belongs to. `core` remembers it for the processes it saw last, until a process
 * joins or leaves the system; 0 where there is no account to remember it in. */
static __always_inline u32 class_of(struct control *c, struct core *core, struct task_struct *p)
{
	if (p->pid == 0)
		return C_IDLE;
	if (p->flags & PF_KTHREAD)
		return C_KERNEL;
	u32 tgid = p->tgid;
	/* Never 0: the highest bit is set. */
	u64 *seen = core ? &core->classes[tgid % CLASS_CACHE] : 0;
	u64 about = (1ULL << 63) | (u64)(c->targets_changed & 0xfffffff) << 35 | tgid;
	if (seen && (*seen & ~(7ULL << 32)) == about)
		return *seen >> 32 & 7;
	u32 *known = bpf_map_lookup_elem(&targets, &tgid);
	u32 class = known ? *known : tgid == c->self_tgid ? C_KNEEPOINT : C_FOREIGN;
	if (seen)
		*seen = about | (u64)(class & 7) << 32;
	return class;
}

/* A process joined or left the system: what cores remember no longer holds. */
static __always_inline void forget_classes(struct control *c)
{
	__sync_fetch_and_add(&c->targets_changed, 1);
}

/* This core's account; made anew for the window on its first event, from what it runs. */
static __always_inline struct core *this_core(struct control *c, struct task_struct *running)
{
	u32 zero = 0;
	struct core *core = bpf_map_lookup_elem(&cores, &zero);
	if (!core || core->generation == c->window)
		return core;
	u64 marks = core->marks, seed = core->seed;
	__builtin_memset(core, 0, sizeof *core);
	core->marks = marks;
	core->seed = seed ? seed : bpf_get_prandom_u32();
	core->ts = c->window;
	core->class = class_of(c, core, running);
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

/* Takes the first free place of those that a thread may have. */
RARE struct thread *claim(struct control *c, u32 tid)
{
	for (u32 probe = 0; probe < PROBES; probe++) {
		u32 slot = slot_of(tid, probe);
		struct thread *t = bpf_map_lookup_elem(&threads, &slot);
		if (!t)
			return 0;
		u64 old = t->owner;
		if (old >> 32 == c->number)
			continue;
		if (__sync_val_compare_and_swap(&t->owner, old, owner_of(c, tid)) == old)
			return t;
	}
	return 0;
}

RARE struct thread *begin(struct control *c, struct task_struct *p, u8 proven)
{
	u32 tid = p->pid;
	struct thread *t;
	/* Where a switch was missed, anybody may be seen to leave a core of the system. */
	if (class_of(c, 0, p) != C_SYSTEM) {
		count(N_ODD_SWITCH);
		return 0;
	}
	t = claim(c, tid);
	if (!t) {
		count(N_THREADS_FULL);
		return 0;
	}
	u64 born = p->start_time;
	__builtin_memset(&t->ts, 0, sizeof *t - sizeof t->owner);
	t->ts = t->birth = born > c->window ? born : c->window;
	t->expected = 1000000;
	t->nr = -1;
	t->tgid = p->tgid;
	t->state = proven;
	t->role = bpf_map_lookup_elem(&clients, &tid) ? 1 : 0;
	copy_comm(t->comm, p->comm);
	return t;
}

/* The entry of a thread of the system, made on its first event in the window; `proven` is the
 * state that this event shows it to have been in since then. */
static __always_inline struct thread *follow(struct control *c, struct task_struct *p, u8 proven)
{
	struct thread *t = find(c, p->pid);
	return t ? t : begin(c, p, proven);
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

/* Puts a part into the sum of all threads of the name, and frees it. */
RARE void flush_part(struct thread *t, struct wait_part *part)
{
	struct wait_key k;
	if (!part->used)
		return;
	copy_comm(k.comm, t->comm);
	k.object = part->object;
	k.nr = part->nr;
	k.op = part->op;
	k.reason = part->reason;
	k.role = t->role;
	part->used = 0;
	struct wait_value *v = bpf_map_lookup_elem(&waits, &k);
	if (!v) {
		if (!bpf_map_update_elem(&waits, &k, &part->sum, BPF_NOEXIST))
			return;
		v = bpf_map_lookup_elem(&waits, &k);
		if (!v) {
			count(N_WAITS_FULL);
			return;
		}
	}
	v->blocked += part->sum.blocked;
	v->count += part->sum.count;
	if (part->sum.longest > v->longest)
		v->longest = part->sum.longest;
	v->idle += part->sum.idle;
	for (int i = 0; i < 5; i++)
		v->holders[i] += part->sum.holders[i];
}

static __always_inline void flush_parts(struct thread *t)
{
	for (int i = 0; i < PARTS; i++)
		flush_part(t, &t->parts[i]);
}

/* Adds the wait of `t` that ends to the part for what it waited for. Most threads wait for the
 * same thing again and again; futexes, which are many, do not drive the others out. */
static __always_inline void add_wait(struct thread *t, u64 blocked, u64 idle)
{
	struct wait_part *part = &t->parts[t->reason == R_FUTEX];
	if (!part->used || part->object != t->object || part->nr != t->nr || part->op != t->op ||
	    part->reason != t->reason) {
		flush_part(t, part);
		__builtin_memset(part, 0, sizeof *part);
		part->object = t->object;
		part->nr = t->nr;
		part->op = t->op;
		part->reason = t->reason;
		part->used = 1;
	}
	part->sum.blocked += blocked;
	part->sum.count += 1;
	if (blocked > part->sum.longest)
		part->sum.longest = blocked;
	part->sum.idle += idle;
	if (t->holder <= H_UNKNOWN)
		part->sum.holders[t->holder] += blocked;
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
RARE void report_mark(struct thread *t, u64 blocked)
{
	struct wait_record *r = bpf_ringbuf_reserve(&records, sizeof *r, 0);
	if (!r) {
		count(N_RECORDS_LOST);
		return;
	}
	r->id = t->mark;
	r->p = t->mark_p;
	r->blocked = blocked;
	key_of(&r->key, t);
	r->behind = t->behind;
	bpf_ringbuf_submit(r, 1 /* no wake-up: read when the window ends */);
}

/* Keeps a wait for a lock that is over: whoever then waits for a lock of this thread has in part
 * waited for that one. */
static __always_inline void keep_past(struct thread *t, u64 end)
{
	if (t->reason != R_FUTEX && t->reason != R_KLOCK)
		return;
	t->past.object = t->object;
	t->past.begin = t->block_start;
	t->past.end = end;
	t->past.nr = t->nr;
	t->past.op = t->op;
	t->past.reason = t->reason;
}

static __always_inline void finish_wait(struct thread *t, u64 now, u64 idle)
{
	u64 end = t->wake_ts ? t->wake_ts : now, blocked = since(t->block_start, end);
	add_wait(t, blocked, idle);
	keep_past(t, end);
	t->expected = t->expected - t->expected / 4 + blocked / 4;
	if (t->mark)
		report_mark(t, blocked);
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
	} else { /* was not seen to leave a core: what it did since then is not known */
		count(N_ODD_SWITCH);
	}
	if (t->block_start)
		finish_wait(t, now, idle);
	t->state = RUN;
	t->preempted = 0;
	t->ts = now;
}

RARE void bury(struct control *c, struct task_struct *p, struct thread *t, u64 now)
{
	struct group_key k;
	struct group_value zero = {}, *v;
	u32 tgid = p->tgid;
	flush_parts(t);
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
	t->owner = 0;
	/* The last thread of a process: its number may soon be a stranger's, and a system that
	 * begets processes all the time must not fill the map with dead ones. */
	if (BPF_CORE_READ(p, signal, live.counter) == 0) {
		bpf_map_delete_elem(&targets, &tgid);
		forget_classes(c);
	}
}

/* 32 random bits, by a linear congruence (Knuth, The Art of Computer Programming 2, 3.3.4). */
static __always_inline u32 random_of(struct core *core)
{
	core->seed = core->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return core->seed >> 32;
}

/* The least probability of a stack, x 2^32. */
#define LEAST (1U << 20)

/* Takes the blocking thread's stack with a probability in proportion to the wait expected. */
static __always_inline void mark_block(u64 *ctx, struct control *c, struct core *core, u32 tid,
				       struct thread *t)
{
	u64 always_from = c->always_from, p = 1ULL << 32;
	if (!always_from)
		return;
	if (t->expected < always_from) {
		u32 drawn = random_of(core);
		if (drawn >= LEAST && drawn * always_from >= t->expected << 32)
			return;
		p = (t->expected << 32) / always_from;
		if (p < LEAST)
			p = LEAST;
	}
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

/* A thread that waited for a futex is put on a run queue. */
static __always_inline void note_release(struct thread *t, u64 now)
{
	u64 word = futex_of(t);
	struct futex *f = place_of(word);
	if (!f)
		return;
	if (f->word != word) {
		__builtin_memset(f, 0, sizeof *f);
		f->word = word;
	}
	f->released = now;
}

/* `h` gives the futex `f` back that `t` waits for: notes the time in which `h` waited for another
 * lock meanwhile, and had it if others wanted it when it gave it back. If nobody who waits for the
 * futex was woken since that began, it was not given back either: who gives it back now has held it
 * all the time. */
static __always_inline void note_holder(struct futex *f, struct thread *t, struct thread *h)
{
	u64 word = futex_of(t);
	u64 from = h->past.begin > t->block_start ? h->past.begin : t->block_start;
	if (h == t || h->past.end <= from || (f->word == word && f->released > from))
		return;
	if (f->word != word || f->inner.object != h->past.object) {
		u64 released = f->word == word ? f->released : 0;
		__builtin_memset(f, 0, sizeof *f);
		f->word = word;
		f->released = released;
		f->inner.object = h->past.object;
		f->inner.nr = h->past.nr;
		f->inner.op = h->past.op;
		f->inner.reason = h->past.reason;
	}
	u64 next = f->next & (TIMES - 1);
	f->times[next].from = from;
	f->times[next].to = h->past.end;
	f->next = next + 1;
}

/* The part of the futex wait of `t`, which `waker` ends, in which holders of the futex waited for
 * another lock themselves, or had it. */
static __always_inline void note_behind(struct control *c, struct thread *t, u32 waker)
{
	struct thread *h = find(c, waker);
	struct futex *f = place_of(futex_of(t));
	if (!f)
		return;
	if (h && h->past.end && h->past.object == t->object) {
		/* Who waited for this one, too, had it until now, and others wanted it. */
		h->past.end = bpf_ktime_get_ns();
	} else if (h) {
		note_holder(f, t, h);
	}
	if (!t->mark || f->word != futex_of(t))
		return;
	u64 length = 0;
	for (int i = 0; i < TIMES; i++) {
		u64 from = f->times[i].from, begin = t->block_start;
		length += since(from > begin ? from : begin, f->times[i].to);
	}
	t->behind = f->inner;
	t->behind.length = length;
}

RARE void mark_waker(u64 *ctx, struct control *c, struct thread *t)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	if (class_of(c, 0, waker) != C_SYSTEM || !wakes_on_purpose(waker, t->reason))
		return;
	if (t->reason == R_FUTEX)
		note_behind(c, t, waker->pid);
	if (!t->mark)
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
	core->switches += 1;
	if (!same_comm(t->comm, p->comm)) { /* only a running thread renames itself */
		flush_parts(t);
		copy_comm(t->comm, p->comm);
	}
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
		bury(c, p, t, now);
		return;
	}
	t->state = BLK;
	t->block_start = now;
	t->wake_ts = 0;
	t->mark = 0;
	t->behind.length = 0;
	classify(c, p, t, 1);
	mark_block(ctx, c, core, p->pid, t);
}

#endif
