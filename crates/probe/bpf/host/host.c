/* The programs on the host: the same lines as in the kernel, behind stand-ins for maps, helpers and
 * the few structures that they read. Events come as an array; those marked as not seen change what
 * runs and what registers hold, and no program is told.
 */
#include <stdlib.h>
#include <string.h>
#include <threads.bpf.c>

#define CPUS 4
#define TASKS 256
#define PROCESSES 16
#define FILES 6
#define WORDS 64
#define USER 0x10000ULL
#define BUCKETS 1024
#define KEPT 8192
/* The clock of the run queues counts from elsewhere. */
#define BEHIND 4711

/* What happens; proof/event.rs mirrors it. */
enum what {
	E_OPEN, E_EDGE, E_CLOSE, E_SWITCH, E_WAKEUP, E_WAKING, E_NEW, E_FORK, E_LOCK, E_UNLOCK,
	E_CALL, E_IOWAIT, E_RENAME, E_WORD, E_LIVE, E_BORN, E_TARGET, E_CLIENT, E_TICK,
};

struct event {
	u64 at;
	u32 what, cpu, seen, a, b, c;
	u64 w[4];
};

struct described {
	u32 tid, tgid, process, kernel;
	char comm[16];
};

struct taken {
	u64 id, p, at;
	u32 tid, kind;
};

static struct host_task {
	struct task_struct task;
	struct pt_regs regs;
} tasks[TASKS];
static struct mm_struct memories[PROCESSES];
static struct signal_struct signals[PROCESSES];
static struct inode inodes[FILES];
static struct file files[FILES], *table[OPEN_FIRST];
static struct fdtable descriptors = { .max_fds = FILES + 2, .fd = table };
static struct rq queue;
static struct cfs_rq queued = { .rq = &queue };
static struct files_struct opened = { .fdt = &descriptors };
static u32 current[CPUS], words[WORDS], cpu;
static u64 now, chance;

/* Maps. */

struct entry {
	u32 next, used;
	char bytes[];
};

struct store {
	struct store *other;
	u32 kind, most, key, value, lanes, filled, spare, changed;
	size_t step;
	char *bytes;
	u32 *buckets, *touched;
	u8 *marked;
};
static struct store *stores;

static int is_hash(struct store *s)
{
	return s->kind == BPF_MAP_TYPE_HASH || s->kind == BPF_MAP_TYPE_PERCPU_HASH;
}

struct store *host_store(void **place, u32 kind, u32 most, u32 key, u32 value)
{
	if (*place)
		return *place;
	struct store *s = calloc(1, sizeof *s);
	s->kind = kind;
	s->most = most;
	s->key = (key + 7) & ~7U;
	s->value = (value + 7) & ~7U;
	s->lanes = kind == BPF_MAP_TYPE_PERCPU_ARRAY || kind == BPF_MAP_TYPE_PERCPU_HASH ? CPUS : 1;
	s->step = (size_t)s->value * s->lanes;
	if (is_hash(s)) {
		s->step += sizeof(struct entry) + s->key;
		s->buckets = calloc(BUCKETS, sizeof(u32));
	} else {
		s->touched = calloc(most, sizeof(u32));
		s->marked = calloc(most, 1);
	}
	s->bytes = calloc((size_t)most + 1, s->step);
	s->key = key;
	s->other = stores;
	stores = s;
	return *place = s;
}

static struct entry *entry_of(struct store *s, u32 number)
{
	return (void *)(s->bytes + number * s->step);
}

static void *value_of(struct store *s, struct entry *e, u32 lane)
{
	return e->bytes + ((s->key + 7) & ~7U) + (size_t)lane * s->value;
}

static u32 bucket_of(struct store *s, const void *key)
{
	u32 hash = 2166136261U;
	for (u32 i = 0; i < s->key; i++)
		hash = (hash ^ ((const u8 *)key)[i]) * 16777619U;
	return hash % BUCKETS;
}

static struct entry *found(struct store *s, const void *key)
{
	for (u32 n = s->buckets[bucket_of(s, key)]; n; n = entry_of(s, n)->next)
		if (!memcmp(entry_of(s, n)->bytes, key, s->key))
			return entry_of(s, n);
	return 0;
}

void *host_lookup(struct store *s, const void *key)
{
	u32 lane = s->lanes > 1 ? cpu : 0;
	if (is_hash(s)) {
		struct entry *e = found(s, key);
		return e ? value_of(s, e, lane) : 0;
	}
	u32 index = *(const u32 *)key;
	if (index >= s->most)
		return 0;
	if (!s->marked[index]) {
		s->marked[index] = 1;
		s->touched[s->changed++] = index;
	}
	return s->bytes + index * s->step + (size_t)lane * s->value;
}

long host_update(struct store *s, const void *key, const void *value, u64 flags)
{
	struct entry *e = found(s, key);
	if (e && flags == BPF_NOEXIST)
		return -17;
	if (!e) {
		u32 bucket = bucket_of(s, key), number = s->spare;
		if (number)
			s->spare = entry_of(s, number)->next;
		else if (s->filled < s->most)
			number = ++s->filled;
		else
			return -7;
		e = entry_of(s, number);
		memset(e, 0, s->step);
		memcpy(e->bytes, key, s->key);
		e->used = 1;
		e->next = s->buckets[bucket];
		s->buckets[bucket] = number;
	}
	memcpy(value_of(s, e, s->lanes > 1 ? cpu : 0), value, s->value);
	return 0;
}

long host_delete(struct store *s, const void *key)
{
	u32 *link = &s->buckets[bucket_of(s, key)];
	for (; *link; link = &entry_of(s, *link)->next) {
		struct entry *e = entry_of(s, *link);
		u32 number = *link;
		if (memcmp(e->bytes, key, s->key))
			continue;
		*link = e->next;
		e->used = 0;
		e->next = s->spare;
		s->spare = number;
		return 0;
	}
	return -2;
}

static void empty(struct store *s)
{
	if (is_hash(s)) {
		memset(s->buckets, 0, BUCKETS * sizeof(u32));
		memset(s->bytes, 0, (s->filled + 1) * s->step);
		s->filled = s->spare = 0;
		return;
	}
	for (u32 i = 0; i < s->changed; i++) {
		memset(s->bytes + s->touched[i] * s->step, 0, s->step);
		s->marked[s->touched[i]] = 0;
	}
	s->changed = 0;
}

/* Helpers. */

static struct taken kept_marks[KEPT];
static struct wait_record kept_records[KEPT];
static u32 marks_kept, records_kept;

u64 bpf_ktime_get_ns(void) { return now; }
u32 bpf_get_smp_processor_id(void) { return cpu; }
struct task_struct *bpf_get_current_task_btf(void) { return &tasks[current[cpu]].task; }
long bpf_task_pt_regs(struct task_struct *task) { return (long)&((struct host_task *)task)->regs; }

u32 bpf_get_prandom_u32(void)
{
	chance = chance * 6364136223846793005ULL + 1442695040888963407ULL;
	return chance >> 32;
}

u64 bpf_get_current_pid_tgid(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	return (u64)task->tgid << 32 | (u32)task->pid;
}

long bpf_probe_read_kernel(void *to, u32 size, const void *from)
{
	memcpy(to, from, size);
	return 0;
}

long bpf_probe_read_user(void *to, u32 size, const void *from)
{
	u64 offset = (u64)from - USER;
	if (offset > sizeof words - size)
		return -14;
	memcpy(to, (char *)words + offset, size);
	return 0;
}

long host_output(const void *mark, u64 size)
{
	const struct mark *m = mark;
	if (marks_kept == KEPT)
		return -28;
	kept_marks[marks_kept++] =
		(struct taken){ .id = m->id, .p = m->p, .at = now, .tid = m->tid, .kind = m->kind };
	return size == sizeof *m ? 0 : -7;
}

void *host_reserve(u64 size)
{
	return records_kept < KEPT && size == sizeof *kept_records ? &kept_records[records_kept++] : 0;
}

/* Events. */

static struct control *words_of_control(void)
{
	return control_words();
}

static void open_window(const struct event *e)
{
	struct control *c = words_of_control();
	u32 number = c->number + 1;
	empty(STORE(&waits));
	empty(STORE(&exited));
	marks_kept = records_kept = 0;
	memset(c, 0, sizeof *c);
	c->window = e->at;
	c->always_from = e->w[0];
	c->tick = 1;
	c->tick_share = 1U << 30;
	c->self_tgid = e->a;
	c->number = number;
	c->active = 1;
}

static void set_target(u32 tgid, u32 class)
{
	if (class)
		bpf_map_update_elem(&targets, &tgid, &class, BPF_ANY);
	else
		bpf_map_delete_elem(&targets, &tgid);
}

static void set_client(u32 tid, u32 is)
{
	if (is)
		bpf_map_update_elem(&clients, &tid, &is, BPF_ANY);
	else
		bpf_map_delete_elem(&clients, &tid);
}

static void set_call(const struct event *e)
{
	struct pt_regs *g = &tasks[e->a].regs;
	g->orig_ax = (u64)(long long)(s32)e->b;
	g->di = e->w[0];
	g->si = e->w[1];
	g->dx = e->w[2];
	g->r10 = e->w[3];
}

static void program(const struct event *e)
{
	struct hrtimer timer = { .function = (void *)1 };
	u64 ctx[4] = { (u64)&tasks[e->a].task, (u64)&tasks[e->b].task };
	switch (e->what) {
	case E_SWITCH: {
		u64 args[4] = { e->w[0], ctx[0], ctx[1], e->c };
		on_switch(args);
		break;
	}
	case E_WAKEUP: on_wakeup(ctx); break;
	case E_WAKING: on_waking(ctx); break;
	case E_NEW: on_new(ctx); break;
	case E_FORK: on_fork(ctx); break;
	case E_LOCK: ctx[0] = e->w[0]; ctx[1] = e->b; on_contention_begin(ctx); break;
	case E_UNLOCK: ctx[0] = e->w[0]; on_contention_end(ctx); break;
	case E_TICK: ctx[0] = (u64)&timer; on_tick(ctx); break;
	case E_EDGE: on_edge(ctx); break;
	}
}

static void happen(const struct event *e)
{
	now = e->at;
	queue.clock = now - BEHIND;
	cpu = e->cpu;
	switch (e->what) {
	case E_OPEN: open_window(e); break;
	case E_CLOSE: words_of_control()->active = 0; break;
	case E_TARGET: set_target(e->a, e->b); break;
	case E_CLIENT: set_client(e->a, e->b); break;
	case E_CALL: set_call(e); break;
	case E_IOWAIT: tasks[e->a].task.in_iowait = e->b; break;
	case E_RENAME: memcpy(tasks[e->a].task.comm, e->w, 16); break;
	case E_WORD: words[e->a % WORDS] = e->b; break;
	case E_LIVE: signals[e->a].live.counter = e->b; break;
	case E_BORN: tasks[e->a].task.start_time = e->at; break;
	default:
		if (e->seen)
			program(e);
	}
	if (e->what == E_SWITCH)
		current[cpu] = e->b;
}

/* What Rust calls. */

void host_begin(const struct described *described, u32 count, u64 seed)
{
	static const u16 modes[FILES] = { 0140000, 0010000, 0, 0100000, 0020000, 0140000 };
	for (struct store *s = stores; s; s = s->other)
		empty(s);
	memset(tasks, 0, sizeof tasks);
	memset(words, 0, sizeof words);
	chance = seed;
	for (u32 i = 0; i < FILES; i++) {
		inodes[i].i_mode = modes[i];
		files[i].f_inode = &inodes[i];
		table[i] = opened.fd_array[i] = &files[i];
	}
	/* Half of the machines have the table that a process begins with. */
	opened.fdtab = (struct fdtable){ .max_fds = FILES + 2, .fd = opened.fd_array };
	opened.fdt = seed % 2 ? &descriptors : &opened.fdtab;
	for (u32 i = 0; i < PROCESSES; i++)
		signals[i].live.counter = 1;
	for (u32 i = 0; i < CPUS; i++)
		current[i] = i;
	for (u32 i = 0; i < count; i++) {
		struct task_struct *t = &tasks[i].task;
		t->se.cfs_rq = &queued;
		t->pid = described[i].tid;
		t->tgid = described[i].tgid;
		t->flags = described[i].kernel ? PF_KTHREAD : 0;
		t->mm = &memories[described[i].process];
		t->signal = &signals[described[i].process];
		t->files = &opened;
		memcpy(t->comm, described[i].comm, 16);
		tasks[i].regs.orig_ax = -1;
	}
}

void host_run(const struct event *events, u64 count)
{
	for (u64 i = 0; i < count; i++)
		happen(&events[i]);
}

/* Address of a lock: of memory a, of inode a, of the position of file a, or any other. */
u64 host_lock(u32 kind, u32 a)
{
	switch (kind) {
	case 0: return (u64)&memories[a].mmap_lock;
	case 1: return (u64)&inodes[a].i_rwsem;
	case 2: return (u64)&files[a].f_pos_lock;
	}
	return 0x7000000 + 64 * a;
}

u32 host_threads(struct thread *out, u32 most)
{
	struct store *s = STORE(&threads);
	u32 number = words_of_control()->number, count = 0;
	for (u32 i = 0; i < s->changed; i++) {
		struct thread *t = (void *)(s->bytes + s->touched[i] * s->step);
		if (t->owner >> 32 == number && count < most)
			out[count++] = *t;
	}
	return count;
}

static u32 copy_all(struct store *s, char *keys, char *values, u32 most)
{
	u32 count = 0;
	for (u32 n = 1; n <= s->filled; n++) {
		struct entry *e = entry_of(s, n);
		for (u32 lane = 0; e->used && lane < s->lanes && count < most; lane++, count++) {
			memcpy(keys + count * s->key, e->bytes, s->key);
			memcpy(values + count * s->value, value_of(s, e, lane), s->value);
		}
	}
	return count;
}

u32 host_waits(struct wait_key *keys, struct wait_value *values, u32 most)
{
	return copy_all(STORE(&waits), (char *)keys, (char *)values, most);
}

u32 host_exited(struct group_key *keys, struct group_value *values, u32 most)
{
	return copy_all(STORE(&exited), (char *)keys, (char *)values, most);
}

void host_core(u32 number, struct core *out)
{
	u32 zero = 0;
	cpu = number;
	*out = *(struct core *)bpf_map_lookup_elem(&cores, &zero);
}

u64 host_counter(u32 which)
{
	u64 sum = 0;
	for (cpu = 0; cpu < CPUS; cpu++)
		sum += *(u64 *)bpf_map_lookup_elem(&counters, &which);
	cpu = 0;
	return sum;
}

u32 host_marks(struct taken *out, u32 most)
{
	u32 count = marks_kept < most ? marks_kept : most;
	memcpy(out, kept_marks, count * sizeof *out);
	return count;
}

u32 host_records(struct wait_record *out, u32 most)
{
	u32 count = records_kept < most ? records_kept : most;
	memcpy(out, kept_records, count * sizeof *out);
	return count;
}
