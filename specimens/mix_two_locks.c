/* Two causes: two mutexes, one of which is held twice as long. Treated: both for each client. */
#include "specimen.h"

static struct {
	PADDED pthread_mutex_t mutex;
} NAME(north)[MOST], NAME(south)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(load)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_mutex_lock(&NAME(north)[which].mutex);
	leave(me, 0);
	burn(options.hold);
	pthread_mutex_unlock(&NAME(north)[which].mutex);
}

APART static void NAME(ship)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_mutex_lock(&NAME(south)[which].mutex);
	leave(me, 1);
	burn(options.hold / 2);
	pthread_mutex_unlock(&NAME(south)[which].mutex);
}

void NAME(operate)(struct client *me)
{
	NAME(load)(me);
	burn_about(me, options.think);
	NAME(ship)(me);
}
