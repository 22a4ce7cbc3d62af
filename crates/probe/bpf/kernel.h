/* The kernel's types as far as this program needs them, without any kernel header.
 *
 * Structures marked PAI are matched by field name against the running kernel's BTF when the
 * program is loaded (CO-RE), so only the fields used are listed and their order is free.
 */
#ifndef KNEEPOINT_KERNEL_H
#define KNEEPOINT_KERNEL_H

typedef unsigned char u8, __u8;
typedef signed char __s8;
typedef unsigned short u16, __u16, __be16, __le16, __sum16;
typedef signed short __s16;
typedef unsigned int u32, __u32, __be32, __le32, __wsum;
typedef int s32, __s32;
typedef unsigned long long u64, __u64, __be64, __le64;
typedef long long s64, __s64;

#define PAI __attribute__((preserve_access_index))

struct rw_semaphore {
	u64 count_only;
} PAI;
struct spin_only {
	u32 value;
};
struct sighand_struct {
	struct spin_only siglock;
} PAI;
struct mm_struct {
	struct rw_semaphore mmap_lock;
} PAI;
struct inode {
	u16 i_mode;
	struct rw_semaphore i_rwsem;
} PAI;
struct mutex {
	u64 owner_only;
} PAI;
struct file {
	struct inode *f_inode;
	struct mutex f_pos_lock;
} PAI;
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} PAI;
#define OPEN_FIRST 64
struct files_struct {
	struct fdtable *fdt;
	struct fdtable fdtab;
	struct file *fd_array[OPEN_FIRST];
} PAI;
struct atomic_count {
	int counter;
};
struct signal_struct {
	struct atomic_count live;
} PAI;
struct rq {
	u64 clock;
} PAI;
struct cfs_rq {
	struct rq *rq;
} PAI;
struct sched_entity {
	struct cfs_rq *cfs_rq;
} PAI;
struct task_struct {
	struct sched_entity se;
	int pid, tgid;
	unsigned int flags;
	unsigned int in_iowait : 1;
	u64 start_time;
	char comm[16];
	struct mm_struct *mm;
	struct files_struct *files;
	struct signal_struct *signal;
} PAI;

#define PF_KTHREAD 0x00200000

struct hrtimer {
	void *function;
} PAI;

/* Saved user registers of x86-64. */
struct pt_regs {
	u64 r10, dx, si, di, orig_ax;
} PAI;

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_F_CURRENT_CPU 0xffffffffULL

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#endif
