/* How a map is written down. */
#ifndef KNEEPOINT_MAP_H
#define KNEEPOINT_MAP_H

#include "kernel.h"

#define MAP(name, kind, n, k, v)                                                                   \
	struct {                                                                                   \
		__uint(type, kind);                                                                \
		__uint(max_entries, n);                                                            \
		__type(key, k);                                                                    \
		__type(value, v);                                                                  \
	} name SEC(".maps")

#endif
