/* A pool of few permits, whose holders sleep. Treated: one for each client. */
#include "specimen.h"
#include <semaphore.h>

static sem_t NAME(desk);

void NAME(prepare)(void)
{
	must(!sem_init(&NAME(desk), 0, options.treated ? MOST : options.size), "a semaphore");
}

APART static void NAME(borrow)(struct client *me)
{
	enter(me);
	while (sem_wait(&NAME(desk)))
		;
	leave(me, 0);
}

APART static void NAME(ask)(struct client *me)
{
	NAME(borrow)(me);
	pause_for(options.hold);
	sem_post(&NAME(desk));
}

void NAME(operate)(struct client *me)
{
	NAME(ask)(me);
}
