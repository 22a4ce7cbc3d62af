/* Stands in for libbpf's header: on the host the kernel's structures are those of kernel.h. */
#ifndef KNEEPOINT_HOST_CORE_READ_H
#define KNEEPOINT_HOST_CORE_READ_H

#define READ_ONE(from, a) ((from)->a)
#define READ_TWO(from, a, b) ((from)->a->b)
#define READ_CHOSEN(a, b, chosen, ...) chosen
#define BPF_CORE_READ(from, ...) READ_CHOSEN(__VA_ARGS__, READ_TWO, READ_ONE)(from, __VA_ARGS__)
#define BPF_CORE_READ_BITFIELD(from, field) ((from)->field)
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)
#define bpf_core_field_exists(type, field) 1

#endif
