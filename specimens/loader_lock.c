/* Walks through the list of loaded libraries, which has a lock. Treated: through a copy of it for
   each client. */
#define _GNU_SOURCE
#include "specimen.h"
#include <link.h>

enum { TIMES = 10, LONGEST = 64 };

static struct dl_phdr_info NAME(copy)[LONGEST];
static int NAME(length);

APART static int NAME(see)(struct dl_phdr_info *one, size_t size, void *sum)
{
	(void)size;
	*(unsigned long *)sum += one->dlpi_phnum;
	burn(options.hold);
	return 0;
}

static int NAME(keep)(struct dl_phdr_info *one, size_t size, void *nothing)
{
	(void)size, (void)nothing;
	if (NAME(length) < LONGEST)
		NAME(copy)[NAME(length)++] = *one;
	return 0;
}

void NAME(prepare)(void)
{
	dl_iterate_phdr(NAME(keep), NULL);
}

APART static void NAME(search)(struct client *me)
{
	unsigned long sum = 0;
	enter(me);
	for (int i = 0; i < TIMES; i++) {
		if (!options.treated)
			dl_iterate_phdr(NAME(see), &sum);
		for (int at = 0; options.treated && at < NAME(length); at++)
			NAME(see)(&NAME(copy)[at], sizeof NAME(copy)[at], &sum);
	}
	leave(me, 0);
	me->random ^= sum;
}

void NAME(operate)(struct client *me)
{
	NAME(search)(me);
}
