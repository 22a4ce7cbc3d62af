/* Clients that write to one file. Treated: a file for each. */
#define _GNU_SOURCE
#include "specimen.h"
#include <sys/mman.h>

enum { LARGEST = 1 << 18 };

static int NAME(file)[MOST];
static char NAME(text)[LARGEST];

void NAME(prepare)(void)
{
	must(options.size <= LARGEST, "size");
	for (unsigned i = 0; i < (options.treated ? options.clients : 1); i++) {
		NAME(file)[i] = memfd_create("", 0);
		must(NAME(file)[i] >= 0, "a file");
	}
}

APART static void NAME(store)(struct client *me)
{
	enter(me);
	must(pwrite(NAME(file)[share_of(me)], NAME(text), options.size, 0) > 0, "a write");
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(store)(me);
}
