/* Every so many operations a thread in the background stops all clients and clears up after them,
   as a collector of garbage does. Treated: each client clears up after its own. */
#include "specimen.h"

enum { BATCH = 16 }; /* operations that a client counts at a time */

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t parked, released;
	unsigned waiting;
	_Atomic long left; /* operations until the next time */
	_Atomic bool wanted;
} NAME(post) = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
	0, 0, false};

APART static void NAME(sweep)(void)
{
	burn(options.hold);
	atomic_fetch_add(&NAME(post).left, options.size);
}

APART static void *NAME(tend)(void *nothing)
{
	pthread_mutex_lock(&NAME(post).mutex);
	while (!nothing) {
		while (!atomic_load(&NAME(post).wanted) || NAME(post).waiting < options.clients)
			pthread_cond_wait(&NAME(post).parked, &NAME(post).mutex);
		pthread_mutex_unlock(&NAME(post).mutex);
		NAME(sweep)();
		pthread_mutex_lock(&NAME(post).mutex);
		atomic_store(&NAME(post).wanted, false);
		pthread_cond_broadcast(&NAME(post).released);
	}
	return nothing;
}

void NAME(prepare)(void)
{
	atomic_store(&NAME(post).left, options.size);
	start_helper(NAME(tend), NULL);
}

APART static void NAME(rest)(struct client *me)
{
	enter(me);
	pthread_mutex_lock(&NAME(post).mutex);
	NAME(post).waiting++;
	pthread_cond_signal(&NAME(post).parked);
	while (atomic_load(&NAME(post).wanted))
		pthread_cond_wait(&NAME(post).released, &NAME(post).mutex);
	NAME(post).waiting--;
	pthread_mutex_unlock(&NAME(post).mutex);
	leave(me, 0);
}

/* Of the client that used up what was left. */
APART static void NAME(call)(void)
{
	pthread_mutex_lock(&NAME(post).mutex);
	atomic_store(&NAME(post).wanted, true);
	pthread_cond_signal(&NAME(post).parked);
	pthread_mutex_unlock(&NAME(post).mutex);
}

void NAME(operate)(struct client *me)
{
	if (options.treated) {
		if (me->operations % options.size == options.size - 1)
			NAME(sweep)();
		return;
	}
	if (me->operations % BATCH == BATCH - 1) {
		long before = atomic_fetch_sub(&NAME(post).left, BATCH);
		if (before > 0 && before <= BATCH)
			NAME(call)();
	}
	if (atomic_load_explicit(&NAME(post).wanted, memory_order_acquire))
		NAME(rest)(me);
}
