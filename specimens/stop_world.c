/* A thread in the background that stops all clients from time to time, and works. Treated: it
   works beside them. */
#include "specimen.h"

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t parked, released;
	unsigned waiting;
	_Atomic bool wanted;
} NAME(post) = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER,
	0, false};

APART static void NAME(sweep)(void)
{
	burn(options.hold);
}

static void *NAME(tend)(void *nothing)
{
	while (!is_stopped()) {
		pause_for(options.hold / 2);
		if (options.treated) {
			NAME(sweep)();
			continue;
		}
		pthread_mutex_lock(&NAME(post).mutex);
		atomic_store(&NAME(post).wanted, true);
		while (NAME(post).waiting < options.clients)
			pthread_cond_wait(&NAME(post).parked, &NAME(post).mutex);
		pthread_mutex_unlock(&NAME(post).mutex);
		NAME(sweep)();
		pthread_mutex_lock(&NAME(post).mutex);
		atomic_store(&NAME(post).wanted, false);
		pthread_cond_broadcast(&NAME(post).released);
		pthread_mutex_unlock(&NAME(post).mutex);
	}
	return nothing;
}

void NAME(prepare)(void)
{
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

void NAME(operate)(struct client *me)
{
	if (atomic_load_explicit(&NAME(post).wanted, memory_order_acquire))
		NAME(rest)(me);
}
