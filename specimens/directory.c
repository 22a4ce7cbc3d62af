/* Clients that make and remove entries of one directory. Treated: a directory for each. */
#define _GNU_SOURCE
#include "specimen.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static char NAME(top)[32];

static void NAME(wipe)(void)
{
	char name[64];
	for (unsigned i = 0; i < options.clients; i++)
		for (unsigned of = 0; of < options.clients; of++) {
			snprintf(name, sizeof name, "%s/%u/%u", NAME(top), i, of);
			unlink(name);
		}
	for (unsigned i = 0; i < options.clients; i++) {
		snprintf(name, sizeof name, "%s/%u", NAME(top), i);
		rmdir(name);
	}
	rmdir(NAME(top));
}

void NAME(prepare)(void)
{
	char name[64];
	snprintf(NAME(top), sizeof NAME(top), "/dev/shm/%.8s-XXXXXX", program_invocation_short_name);
	must(mkdtemp(NAME(top)), NAME(top));
	plan.clear = NAME(wipe);
	for (unsigned i = 0; i < (options.treated ? options.clients : 1); i++) {
		snprintf(name, sizeof name, "%s/%u", NAME(top), i);
		must(!mkdir(name, 0700), name);
	}
}

APART static void NAME(enlist)(struct client *me)
{
	char name[64];
	snprintf(name, sizeof name, "%s/%u/%u", NAME(top), share_of(me), me->number);
	enter(me);
	int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
	must(file >= 0, name);
	close(file);
	unlink(name);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(enlist)(me);
}
