/* A census: how often each lock is taken, by probes in the functions that take locks and give them
 * back; and how often each system call is made, and how it ends.
 *
 * A probe costs some microseconds, so this is for a window of its own with few clients. It is no
 * clock for that reason: most locks are held for less. How long, user space finds by looking at
 * their words.
 */
#include "kernel.h"
#include "census.h"
#include "map.h"

struct pt_regs___user {
	u64 sp, di, orig_ax;
} PAI;

MAP(census, BPF_MAP_TYPE_ARRAY, 1, u32, struct census);
MAP(held, BPF_MAP_TYPE_HASH, 65536, struct held_key, struct held);
MAP(uses, BPF_MAP_TYPE_HASH, 16384, struct use_key, struct use);
MAP(callers, BPF_MAP_TYPE_HASH, 8192, u32, u32);	/* tgid -> 1 */
MAP(calls, BPF_MAP_TYPE_HASH, 4096, struct call_key, u64);

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 1024);
} stack_events SEC(".maps");

static __always_inline struct census *open_census(void)
{
	u32 zero = 0;
	struct census *c = bpf_map_lookup_elem(&census, &zero);
	return c && c->active ? c : 0;
}

/* Stacks are taken at the first time and at every doubling of the count, so that a lock that is
 * taken from many places has stacks of several. */
static __always_inline void take_stack(void *ctx, struct census *c, struct use *use, u64 n, u32 tid)
{
	if (n & (n - 1) || __sync_fetch_and_add(&c->stacks, 1) >= MOST_STACKS)
		return;
	struct mark m = { .id = use->id, .p = (1ULL << 33) / (n + 1), .kind = MARK_TAKEN, .tid = tid };
	if (n == 1)
		m.p = 1ULL << 32;
	if (bpf_perf_event_output(ctx, &stack_events, BPF_F_CURRENT_CPU, &m, sizeof m))
		__sync_fetch_and_add(&c->stacks_lost, 1);
}

static __always_inline struct use *use_of(struct census *c, struct use_key *key)
{
	struct use *use = bpf_map_lookup_elem(&uses, key);
	if (use)
		return use;
	struct use new = { .id = __sync_fetch_and_add(&c->last_id, 1) + 1 };
	if (bpf_map_update_elem(&uses, key, &new, BPF_NOEXIST))
		__sync_fetch_and_add(&c->uses_lost, 1);
	return bpf_map_lookup_elem(&uses, key);
}

static __always_inline int take(void *ctx, u32 how)
{
	struct census *c = open_census();
	if (!c)
		return 0;
	struct pt_regs___user *g = ctx;
	u64 id = bpf_get_current_pid_tgid();
	struct held_key key = { .lock = g->di, .tid = (u32)id };
	struct held *before = bpf_map_lookup_elem(&held, &key);
	if (before && !(before->how & TRIED)) {
		/* Taken again by who has it: held until given back as often. */
		if (how & TRIED)
			return 0;
		before->depth += 1;
		return 0;
	}
	struct held now = { .how = how };
	bpf_probe_read_user(&now.caller, sizeof now.caller, (void *)g->sp);
	struct use_key of = { .lock = key.lock, .caller = now.caller, .tgid = id >> 32, .how = how & KIND };
	struct use *use = use_of(c, &of);
	if (!use)
		return 0;
	u64 n = __sync_fetch_and_add(&use->begun, 1) + 1;
	take_stack(ctx, c, use, n, key.tid);
	if (bpf_map_update_elem(&held, &key, &now, BPF_ANY))
		__sync_fetch_and_add(&c->held_lost, 1);
	return 0;
}

SEC("uprobe")
int on_give_back(void *ctx)
{
	struct census *c = open_census();
	if (!c)
		return 0;
	struct pt_regs___user *g = ctx;
	u64 lock = g->di, id = bpf_get_current_pid_tgid();
	struct held_key key = { .lock = lock, .tid = (u32)id };
	struct held *had = bpf_map_lookup_elem(&held, &key);
	if (!had)
		return 0;
	if (had->depth) {
		had->depth -= 1;
		return 0;
	}
	struct use_key of = {
		.lock = lock, .caller = had->caller, .tgid = id >> 32, .how = had->how & KIND
	};
	struct use *use = bpf_map_lookup_elem(&uses, &of);
	if (use)
		__sync_fetch_and_add(&use->count, 1);
	bpf_map_delete_elem(&held, &key);
	return 0;
}

SEC("uprobe")
int on_lock(void *ctx)
{
	return take(ctx, A_MUTEX);
}

/* It may not get it: what is not given back does not count. */
SEC("uprobe")
int on_try(void *ctx)
{
	return take(ctx, A_MUTEX | TRIED);
}

SEC("uprobe")
int on_write(void *ctx)
{
	return take(ctx, BY_WRITER);
}

SEC("uprobe")
int on_try_write(void *ctx)
{
	return take(ctx, BY_WRITER | TRIED);
}

SEC("uprobe")
int on_read(void *ctx)
{
	return take(ctx, BY_READER);
}

SEC("uprobe")
int on_try_read(void *ctx)
{
	return take(ctx, BY_READER | TRIED);
}

/* What a call returns to be made again has no outcome yet. */
#define FIRST_RESTART 512
#define LAST_ERROR 4095

SEC("tp_btf/sys_exit")
int on_call(u64 *ctx)
{
	struct census *c = open_census();
	if (!c)
		return 0;
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	if (!bpf_map_lookup_elem(&callers, &tgid))
		return 0;
	struct pt_regs___user *g = (void *)ctx[0];
	s64 result = ctx[1];
	struct call_key key = { .nr = g->orig_ax };
	if (result < 0 && result >= -LAST_ERROR)
		key.error = -result;
	if (key.error >= FIRST_RESTART)
		return 0;
	u64 *n = bpf_map_lookup_elem(&calls, &key);
	if (!n) {
		u64 none = 0;
		bpf_map_update_elem(&calls, &key, &none, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&calls, &key);
		if (!n)
			return 0;
	}
	__sync_fetch_and_add(n, 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
