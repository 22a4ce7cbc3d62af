/* Clients that walk through more memory than caches hold. Treated: as much work as the walk takes
   one client alone, without memory. */
#include "specimen.h"
#include <sys/mman.h>

enum { STEP = 64, PASS = 4096 };

static double NAME(alone); /* us */
static unsigned long NAME(extent); /* bytes for each client */
static unsigned char *NAME(field);

APART static unsigned long NAME(walk)(struct client *me)
{
	unsigned char *own = NAME(field) + me->number * NAME(extent);
	unsigned long from = draw(me) * STEP % (NAME(extent) - PASS * STEP), sum = 0;
	enter(me);
	for (unsigned long i = 0; i < PASS; i++)
		sum += own[from + i * STEP]++;
	leave(me, 0);
	return sum;
}

void NAME(prepare)(void)
{
	NAME(extent) = (unsigned long)options.size << 20;
	unsigned long all = NAME(extent) * options.clients;
	NAME(field) = mmap(NULL, all, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	must(NAME(field) != MAP_FAILED, "memory");
	long begun = now(), took;
	unsigned long passes = 0, sum = 0;
	while ((took = now() - begun) < 20000000 && ++passes)
		sum += NAME(walk)(client_of(0));
	client_of(0)->random += sum % 2;
	NAME(alone) = (double)took / 1e3 / (double)passes;
	begun = now();
	burn(10000);
	/* A microsecond of work is one of a certain core only. */
	NAME(alone) *= 10000 / ((double)(now() - begun) / 1e3);
}

void NAME(operate)(struct client *me)
{
	if (options.treated)
		burn(NAME(alone));
	else
		me->own = (void *)NAME(walk)(me);
}
