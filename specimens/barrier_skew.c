/* Phases that end at a barrier; one client has most of the work of each. Treated: the same work,
   in equal parts. */
#include "specimen.h"

static pthread_barrier_t NAME(line);

void NAME(prepare)(void)
{
	plan.thinks_itself = true;
	must(!pthread_barrier_init(&NAME(line), NULL, options.clients), "a barrier");
}

APART static void NAME(meet)(struct client *me)
{
	enter(me);
	pthread_barrier_wait(&NAME(line));
	leave(me, 0);
}

APART static void NAME(phase)(struct client *me)
{
	if (options.treated)
		burn(options.think + options.hold);
	else
		burn(options.think + (me->number ? 0 : options.hold * options.clients));
	NAME(meet)(me);
}

void NAME(operate)(struct client *me)
{
	NAME(phase)(me);
}
