/* Clients of one process that give pages back and touch them again, in one mapping of a file.
   Treated: clients that are processes, each with a file of its own. */
#define _GNU_SOURCE
#include "specimen.h"
#include <sys/mman.h>

enum { PAGE = 4096 };

static struct {
	char *area;
} NAME(sheet)[MOST];

void NAME(prepare)(void)
{
	plan.processes = options.treated;
	for (unsigned i = 0; i < (options.treated ? options.clients : 1); i++) {
		int file = memfd_create("", 0);
		off_t extent = (off_t)options.size * PAGE;
		must(file >= 0 && !ftruncate(file, extent), "a file");
		NAME(sheet)[i].area =
			mmap(NULL, (size_t)extent, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		must(NAME(sheet)[i].area != MAP_FAILED, "memory");
	}
}

APART static void NAME(turn)(struct client *me)
{
	volatile char *area = NAME(sheet)[share_of(me)].area;
	enter(me);
	for (size_t at = 0; at < options.size; at++)
		area[at * PAGE] = 1;
	madvise((void *)area, (size_t)options.size * PAGE, MADV_DONTNEED);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(turn)(me);
}
