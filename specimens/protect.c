/* Clients of one process that change the protection of pages of their own. Treated: clients that
   are processes. */
#include "specimen.h"
#include <sys/mman.h>

enum { PAGE = 4096, BETWEEN = 16 };

static char *NAME(area);

void NAME(prepare)(void)
{
	size_t extent = (size_t)MOST * BETWEEN * PAGE;
	plan.processes = options.treated;
	NAME(area) = mmap(NULL, extent, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(NAME(area) != MAP_FAILED, "memory");
}

APART static void NAME(seal)(struct client *me)
{
	char *page = NAME(area) + (size_t)me->number * BETWEEN * PAGE;
	enter(me);
	must(!mprotect(page, PAGE, PROT_READ), "protection");
	must(!mprotect(page, PAGE, PROT_READ | PROT_WRITE), "protection");
	leave(me, 0);
	page[0]++;
}

void NAME(operate)(struct client *me)
{
	NAME(seal)(me);
}
