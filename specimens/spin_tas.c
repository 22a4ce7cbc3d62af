/* A test-and-set spin lock, of which nobody gives up a core. Treated: a mutex. */
#include "specimen.h"

static _Atomic bool NAME(word);
static pthread_mutex_t NAME(door) = PTHREAD_MUTEX_INITIALIZER;

void NAME(prepare)(void)
{
}

APART static void NAME(obtain)(void)
{
	while (atomic_exchange_explicit(&NAME(word), true, memory_order_acquire))
		while (atomic_load_explicit(&NAME(word), memory_order_relaxed))
			__builtin_ia32_pause();
}

APART static void NAME(change)(struct client *me)
{
	enter(me);
	if (options.treated)
		pthread_mutex_lock(&NAME(door));
	else
		NAME(obtain)();
	leave(me, 0);
	burn(options.hold);
	if (options.treated)
		pthread_mutex_unlock(&NAME(door));
	else
		atomic_store_explicit(&NAME(word), false, memory_order_release);
}

void NAME(operate)(struct client *me)
{
	NAME(change)(me);
}
