/* Clients of one process that map memory, touch it and give it back. Treated: clients that are
   processes, each with memory of its own. */
#include "specimen.h"
#include <sys/mman.h>

enum { PAGE = 4096 };

void NAME(prepare)(void)
{
	plan.processes = options.treated;
}

APART static void NAME(scratch)(struct client *me)
{
	size_t extent = (size_t)options.size * PAGE;
	enter(me);
	char *area = mmap(NULL, extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(area != MAP_FAILED, "memory");
	for (size_t at = 0; at < extent; at += PAGE)
		area[at] = 1;
	munmap(area, extent);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(scratch)(me);
}
