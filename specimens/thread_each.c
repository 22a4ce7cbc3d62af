/* A thread that is made for each operation, in one process. Treated: clients that are
   processes. */
#include "specimen.h"

void NAME(prepare)(void)
{
	plan.processes = options.treated;
}

static void *NAME(job)(void *nothing)
{
	burn(options.hold);
	return nothing;
}

APART static void NAME(launch)(struct client *me)
{
	pthread_t thread;
	enter(me);
	must(!pthread_create(&thread, NULL, NAME(job), NULL), "a thread");
	pthread_join(thread, NULL);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(launch)(me);
}
