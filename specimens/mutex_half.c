/* Most of each operation under one mutex. Treated: a mutex for each client. */
#include "specimen.h"

static struct {
	PADDED pthread_mutex_t mutex;
	unsigned long total;
} NAME(ledger)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(post)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_mutex_lock(&NAME(ledger)[which].mutex);
	leave(me, 0);
	burn(options.hold);
	NAME(ledger)[which].total++;
	pthread_mutex_unlock(&NAME(ledger)[which].mutex);
}

void NAME(operate)(struct client *me)
{
	NAME(post)(me);
}
