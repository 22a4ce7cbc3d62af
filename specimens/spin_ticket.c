/* A spin lock with numbers: when the next one has lost its core, nobody gets on. Treated: a
   mutex. */
#include "specimen.h"

static struct {
	_Atomic unsigned next, served;
} NAME(counter);

static pthread_mutex_t NAME(door) = PTHREAD_MUTEX_INITIALIZER;

void NAME(prepare)(void)
{
}

APART static void NAME(obtain)(void)
{
	unsigned mine = atomic_fetch_add(&NAME(counter).next, 1);
	while (atomic_load_explicit(&NAME(counter).served, memory_order_acquire) != mine)
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
		atomic_fetch_add(&NAME(counter).served, 1);
}

void NAME(operate)(struct client *me)
{
	NAME(change)(me);
}
