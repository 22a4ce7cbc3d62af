/* One thread makes the work of all clients, and is at its limit, as a load generator of one thread
   is. Treated: such a thread for each client. */
#include "specimen.h"

enum { DEPTH = 64 }; /* work that may wait */

static struct belt {
	PADDED pthread_mutex_t mutex;
	pthread_cond_t filled, emptied;
	unsigned waiting;
} NAME(works)[MOST];

APART static void NAME(make)(void)
{
	burn(options.hold);
}

APART static void *NAME(feed)(void *which)
{
	struct belt *belt = &NAME(works)[(unsigned long)which];
	while (!is_stopped()) {
		NAME(make)();
		pthread_mutex_lock(&belt->mutex);
		while (belt->waiting == DEPTH)
			pthread_cond_wait(&belt->emptied, &belt->mutex);
		belt->waiting++;
		pthread_cond_signal(&belt->filled);
		pthread_mutex_unlock(&belt->mutex);
	}
	return NULL;
}

void NAME(prepare)(void)
{
	for (unsigned long i = 0; i < (options.treated ? options.clients : 1); i++)
		start_helper(NAME(feed), (void *)i);
}

APART static void NAME(take)(struct client *me)
{
	struct belt *belt = &NAME(works)[share_of(me)];
	enter(me);
	pthread_mutex_lock(&belt->mutex);
	while (!belt->waiting)
		pthread_cond_wait(&belt->filled, &belt->mutex);
	belt->waiting--;
	pthread_cond_signal(&belt->emptied);
	pthread_mutex_unlock(&belt->mutex);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(take)(me);
}
