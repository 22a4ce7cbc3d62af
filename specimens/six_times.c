/* A lock that is taken six times for one request. Treated: one for each client. */
#include "specimen.h"

enum { TIMES = 6 };

static struct {
	PADDED pthread_mutex_t mutex;
	unsigned long uses;
} NAME(handle)[MOST];

void NAME(prepare)(void)
{
	plan.thinks_itself = true;
}

APART static void NAME(step)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_mutex_lock(&NAME(handle)[which].mutex);
	leave(me, 0);
	burn(options.hold / TIMES);
	NAME(handle)[which].uses++;
	pthread_mutex_unlock(&NAME(handle)[which].mutex);
}

void NAME(operate)(struct client *me)
{
	for (int i = 0; i < TIMES; i++) {
		NAME(step)(me);
		burn_about(me, options.think / TIMES);
	}
}
