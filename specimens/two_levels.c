/* Half of the clients hold a lock while they wait for another one, which all take. Treated: the
   inner lock is each client's own. */
#include "specimen.h"

static struct {
	PADDED pthread_mutex_t mutex;
} NAME(inside)[MOST];

static pthread_mutex_t NAME(outside) = PTHREAD_MUTEX_INITIALIZER;

void NAME(prepare)(void)
{
}

APART static void NAME(fetch)(struct client *me, bool timed)
{
	unsigned which = share_of(me);
	if (timed)
		enter(me);
	pthread_mutex_lock(&NAME(inside)[which].mutex);
	if (timed)
		leave(me, 0);
	burn(options.hold);
	pthread_mutex_unlock(&NAME(inside)[which].mutex);
}

APART static void NAME(merge)(struct client *me)
{
	enter(me);
	pthread_mutex_lock(&NAME(outside));
	leave(me, 0);
	NAME(fetch)(me, false);
	pthread_mutex_unlock(&NAME(outside));
}

void NAME(operate)(struct client *me)
{
	if (me->number % 2)
		NAME(merge)(me);
	else
		NAME(fetch)(me, true);
}
