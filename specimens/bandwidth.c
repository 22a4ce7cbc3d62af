/* Clients that walk through more memory than caches hold. Treated: as much work as the walk takes
   one client alone, without memory. */
#include "specimen.h"
#include <sys/mman.h>

enum { STEP = 64, PASS = 4096, TRIED = 200 };

static double NAME(alone); /* us */
static unsigned long NAME(extent); /* bytes for each client */
static unsigned char *NAME(field);

APART static void NAME(walk)(struct client *me)
{
	unsigned char *own = NAME(field) + me->number * NAME(extent);
	unsigned long from = draw(me) * STEP % (NAME(extent) - PASS * STEP), sum = 0;
	enter(me);
	for (unsigned long i = 0; i < PASS; i++)
		sum += own[from + i * STEP]++;
	leave(me, 0);
	me->own = (void *)sum;
}

void NAME(prepare)(void)
{
	NAME(extent) = (unsigned long)options.size << 20;
	unsigned long all = NAME(extent) * options.clients;
	NAME(field) = mmap(NULL, all, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	must(NAME(field) != MAP_FAILED, "memory");
	NAME(alone) = work_of(NAME(walk), TRIED);
}

void NAME(operate)(struct client *me)
{
	if (options.treated)
		burn(NAME(alone));
	else
		NAME(walk)(me);
}
