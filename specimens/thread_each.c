/* A thread that is made for each operation. Treated: as much work as that takes one client alone. */
#include "specimen.h"

enum { TRIED = 200 };

static double NAME(alone); /* us */

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

void NAME(prepare)(void)
{
	NAME(alone) = work_of(NAME(launch), TRIED);
}

void NAME(operate)(struct client *me)
{
	if (options.treated)
		burn(NAME(alone));
	else
		NAME(launch)(me);
}
