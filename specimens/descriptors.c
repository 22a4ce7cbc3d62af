/* Clients that open and close in one table of descriptors. Treated: a table for each. */
#define _GNU_SOURCE
#include "specimen.h"
#include <sys/mman.h>

enum { TIMES = 10 };

static _Thread_local bool NAME(settled);
static int NAME(file);

void NAME(prepare)(void)
{
	NAME(file) = memfd_create("", 0);
	must(NAME(file) >= 0, "a file");
}

APART static void NAME(twice)(struct client *me)
{
	if (options.treated && !NAME(settled)) {
		must(!unshare(CLONE_FILES), "a table of descriptors");
		NAME(settled) = true;
	}
	enter(me);
	for (int i = 0; i < TIMES; i++) {
		int copy = dup(NAME(file));
		must(copy >= 0, "a descriptor");
		close(copy);
	}
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(twice)(me);
}
