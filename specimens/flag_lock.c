/* A lock of a flag and a condition that wakes all, for what is only read. Treated: a lock that
   readers share. */
#include "specimen.h"

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t freed;
	bool held;
} NAME(entry) = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static pthread_rwlock_t NAME(pass) = PTHREAD_RWLOCK_INITIALIZER;

void NAME(prepare)(void)
{
}

APART static void NAME(obtain)(void)
{
	pthread_mutex_lock(&NAME(entry).mutex);
	while (NAME(entry).held)
		pthread_cond_wait(&NAME(entry).freed, &NAME(entry).mutex);
	NAME(entry).held = true;
	pthread_mutex_unlock(&NAME(entry).mutex);
}

APART static void NAME(restore)(void)
{
	pthread_mutex_lock(&NAME(entry).mutex);
	NAME(entry).held = false;
	pthread_cond_broadcast(&NAME(entry).freed);
	pthread_mutex_unlock(&NAME(entry).mutex);
}

APART static void NAME(find)(struct client *me)
{
	enter(me);
	if (options.treated)
		pthread_rwlock_rdlock(&NAME(pass));
	else
		NAME(obtain)();
	leave(me, 0);
	burn(options.hold);
	if (options.treated)
		pthread_rwlock_unlock(&NAME(pass));
	else
		NAME(restore)();
}

void NAME(operate)(struct client *me)
{
	NAME(find)(me);
}
