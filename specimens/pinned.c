/* Clients that may all run on one core only. Treated: on any. */
#define _GNU_SOURCE
#include "specimen.h"

void NAME(prepare)(void)
{
	cpu_set_t allowed, one;
	must(!sched_getaffinity(0, sizeof allowed, &allowed), "cores");
	CPU_ZERO(&one);
	for (int core = 0; !CPU_COUNT(&one) && core < CPU_SETSIZE; core++)
		if (CPU_ISSET(core, &allowed))
			CPU_SET(core, &one);
	if (!options.treated)
		must(!sched_setaffinity(0, sizeof one, &one), "one core");
}

APART static void NAME(work)(struct client *me)
{
	burn_about(me, options.hold);
}

void NAME(operate)(struct client *me)
{
	NAME(work)(me);
}
