/* The maps. All are preallocated: allocating inside these programs loses lock events. */
#ifndef KNEEPOINT_MAPS_H
#define KNEEPOINT_MAPS_H

#include "wire.h"

#define MAP(name, kind, n, k, v)                                                                   \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, n);                                                            \
		__type(key, k);                                                                    \
		__type(value, v);                                                                  \
	} name SEC(".maps")

MAP(control, BPF_MAP_TYPE_ARRAY, 1, u32, struct control);
MAP(counters, BPF_MAP_TYPE_PERCPU_ARRAY, COUNTERS, u32, u64);
MAP(cores, BPF_MAP_TYPE_PERCPU_ARRAY, 1, u32, struct core);
MAP(targets, BPF_MAP_TYPE_HASH, 8192, u32, u32);	/* tgid -> enum class */
MAP(clients, BPF_MAP_TYPE_HASH, 16384, u32, u32);	/* tid -> 1 */
MAP(threads, BPF_MAP_TYPE_HASH, 16384, u32, struct thread);
MAP(waits, BPF_MAP_TYPE_PERCPU_HASH, 16384, struct wait_key, struct wait_value);
MAP(exited, BPF_MAP_TYPE_PERCPU_HASH, 1024, struct group_key, struct group_value);

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

static __always_inline u64 since(u64 then, u64 now)
{
	return now > then ? now - then : 0;
}

static __always_inline void copy_comm(char *to, const char *from)
{
	((u64 *)to)[0] = ((const u64 *)from)[0];
	((u64 *)to)[1] = ((const u64 *)from)[1];
}

#endif
