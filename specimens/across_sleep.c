/* A lock that is held while its holder sleeps. Treated: a lock for each client. */
#include "specimen.h"

static struct {
	PADDED pthread_mutex_t mutex;
} NAME(folder)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(refresh)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_mutex_lock(&NAME(folder)[which].mutex);
	leave(me, 0);
	pause_for(options.hold);
	pthread_mutex_unlock(&NAME(folder)[which].mutex);
}

void NAME(operate)(struct client *me)
{
	NAME(refresh)(me);
}
