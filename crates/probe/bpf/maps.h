/* The maps. All are preallocated: allocating inside these programs loses lock events. */
#ifndef KNEEPOINT_MAPS_H
#define KNEEPOINT_MAPS_H

#include "map.h"
#include "wire.h"

MAP(control, BPF_MAP_TYPE_ARRAY, 1, u32, struct control);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, COUNTERS, u32, u64);
MAP(cores, BPF_MAP_TYPE_PERCPU_ARRAY, 1, u32, struct core);
MAP(targets, BPF_MAP_TYPE_HASH, 8192, u32, u32);	/* tgid -> enum class */
MAP(clients, BPF_MAP_TYPE_HASH, 16384, u32, u32);	/* tid -> 1 */
MAP(waits, BPF_MAP_TYPE_PERCPU_HASH, 16384, struct wait_key, struct wait_value);
MAP(exited, BPF_MAP_TYPE_PERCPU_HASH, 1024, struct group_key, struct group_value);

/* Entries are found by the thread's number, see slot_of() in account.h: an element of an array is
 * found in two instructions, and every event needs one. */
#define THREADS 32768
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, THREADS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

/* Futexes that were given back, by a hash of the word; those of a place drive each other out. */
MAP(futexes, BPF_MAP_TYPE_ARRAY, 4096, u32, struct futex);

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, 1024);
} stack_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} records SEC(".maps");

static __always_inline struct control *control_words(void)
{
	u32 zero = 0;
	return bpf_map_lookup_elem(&control, &zero);
}

static __always_inline void count(u32 what)
{
	u64 *n = bpf_map_lookup_elem(&counters, &what);
	if (n)
		*n += 1;
}

/* Where the entry of a thread may lie: first at its own place, which it shares with nobody while
 * numbers of threads stay below THREADS, then at seven others. */
#define PROBES 8
static __always_inline u32 slot_of(u32 tid, u32 probe)
{
	if (!probe)
		return tid & (THREADS - 1);
	return ((tid * 2654435761U >> 16) + probe) & (THREADS - 1);
}

static __always_inline u64 owner_of(struct control *c, u32 tid)
{
	return (u64)c->number << 32 | tid;
}

/* The futex that a thread waits for. A private one is its process's: forked processes have others at
 * the same address. */
#define FUTEX_PRIVATE 128
static __always_inline u64 futex_of(struct thread *t)
{
	return t->op & FUTEX_PRIVATE ? t->object ^ (u64)t->tgid << 42 : t->object;
}

/* The place of a futex, which may be another's. */
static __always_inline struct futex *place_of(u64 word)
{
	u32 place = ((u32)(word >> 2) ^ (u32)(word >> 32)) * 2654435761U >> 20;
	return bpf_map_lookup_elem(&futexes, &place);
}

/* Rare work is kept out of the way of the frequent. */
#define RARE static __attribute__((noinline))

RARE struct thread *find_elsewhere(u32 tid, u64 owner)
{
	for (u32 probe = 1; probe < PROBES; probe++) {
		u32 slot = slot_of(tid, probe);
		struct thread *t = bpf_map_lookup_elem(&threads, &slot);
		if (t && t->owner == owner)
			return t;
	}
	return 0;
}

/* The entry of a thread in this window; 0 where it has none. */
static __always_inline struct thread *find(struct control *c, u32 tid)
{
	u64 owner = owner_of(c, tid);
	u32 slot = slot_of(tid, 0);
	struct thread *t = bpf_map_lookup_elem(&threads, &slot);
	if (t && t->owner == owner)
		return t;
	return find_elsewhere(tid, owner);
}

static __always_inline u64 since(u64 then, u64 now)
{
	return now > then ? now - then : 0;
}

static __always_inline int same_comm(const char *a, const char *b)
{
	return ((const u64 *)a)[0] == ((const u64 *)b)[0] && ((const u64 *)a)[1] == ((const u64 *)b)[1];
}

static __always_inline void copy_comm(char *to, const char *from)
{
	((u64 *)to)[0] = ((const u64 *)from)[0];
	((u64 *)to)[1] = ((const u64 *)from)[1];
}

#endif
