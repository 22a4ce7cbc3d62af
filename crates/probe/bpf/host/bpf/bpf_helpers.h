/* Stands in for libbpf's header where the programs are compiled for the host: helpers are
 * functions of host.c, and a map knows its kind and sizes by the types in its declaration.
 */
#ifndef KNEEPOINT_HOST_HELPERS_H
#define KNEEPOINT_HOST_HELPERS_H

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define SEC(name) __attribute__((used))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) __typeof__(val) *name

struct store;
/* The first member of a declared map is never followed; it keeps the address of the storage. */
struct store *host_store(void **place, u32 kind, u32 most, u32 key_size, u32 value_size);
#define STORE(map)                                                                                 \
	host_store((void **)&(map)->type, sizeof *(map)->type / sizeof(int),                       \
		   sizeof *(map)->max_entries / sizeof(int), sizeof *(map)->key,                   \
		   sizeof *(map)->value)

void *host_lookup(struct store *store, const void *key);
long host_update(struct store *store, const void *key, const void *value, u64 flags);
long host_delete(struct store *store, const void *key);
#define bpf_map_lookup_elem(map, key) host_lookup(STORE(map), key)
#define bpf_map_update_elem(map, key, value, flags) host_update(STORE(map), key, value, flags)
#define bpf_map_delete_elem(map, key) host_delete(STORE(map), key)

struct task_struct;
u64 bpf_ktime_get_ns(void);
u32 bpf_get_prandom_u32(void);
u32 bpf_get_smp_processor_id(void);
u64 bpf_get_current_pid_tgid(void);
struct task_struct *bpf_get_current_task_btf(void);
long bpf_task_pt_regs(struct task_struct *task);
long bpf_probe_read_kernel(void *to, u32 size, const void *from);
long bpf_probe_read_user(void *to, u32 size, const void *from);
long host_output(const void *mark, u64 size);
void *host_reserve(u64 size);
#define bpf_perf_event_output(ctx, map, flags, mark, size) host_output(mark, size)
#define bpf_ringbuf_reserve(map, size, flags) host_reserve(size)
#define bpf_ringbuf_submit(record, flags) ((void)(record))

#endif
