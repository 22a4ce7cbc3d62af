/* A mutex that is held for a moment, many times in an operation. Treated: one for each client. */
#include "specimen.h"

enum { TIMES = 20 };

static struct {
	PADDED pthread_mutex_t mutex;
	unsigned long total;
} NAME(tally)[MOST];

void NAME(prepare)(void)
{
	plan.thinks_itself = true;
}

APART static void NAME(count)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_mutex_lock(&NAME(tally)[which].mutex);
	leave(me, 0);
	NAME(tally)[which].total += 3;
	burn(options.hold);
	pthread_mutex_unlock(&NAME(tally)[which].mutex);
}

void NAME(operate)(struct client *me)
{
	for (int i = 0; i < TIMES; i++) {
		NAME(count)(me);
		burn(options.think / TIMES);
	}
}
