/* Clients that make a directory which is there already: the call fails each time, and takes a lock
   of the directory above. Treated: another directory above for each client. */
#define _GNU_SOURCE
#include "specimen.h"
#include <errno.h>
#include <sys/stat.h>

enum { TIMES = 5 };

static char NAME(top)[32];
static char NAME(place)[MOST][64];

static void NAME(wipe)(void)
{
	for (unsigned i = 0; i < (options.treated ? options.clients : 1); i++) {
		rmdir(NAME(place)[i]);
		*strrchr(NAME(place)[i], '/') = 0;
		rmdir(NAME(place)[i]);
	}
	rmdir(NAME(top));
}

void NAME(prepare)(void)
{
	snprintf(NAME(top), sizeof NAME(top), "/dev/shm/%.8s-XXXXXX", program_invocation_short_name);
	must(mkdtemp(NAME(top)), NAME(top));
	plan.clear = NAME(wipe);
	for (unsigned i = 0; i < (options.treated ? options.clients : 1); i++) {
		char *leaf = NAME(place)[i];
		snprintf(leaf, sizeof NAME(place)[i], "%s/%u", NAME(top), i);
		must(!mkdir(leaf, 0700), leaf);
		snprintf(leaf, sizeof NAME(place)[i], "%s/%u/a", NAME(top), i);
		must(!mkdir(leaf, 0700), leaf);
	}
}

APART static void NAME(ensure)(struct client *me)
{
	enter(me);
	for (int i = 0; i < TIMES; i++)
		mkdir(NAME(place)[share_of(me)], 0700);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(ensure)(me);
}
