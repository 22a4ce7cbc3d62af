/* A lock that is looked at again after a sleep, as long as it is held. Treated: a mutex. */
#include "specimen.h"

static atomic_flag NAME(taken) = ATOMIC_FLAG_INIT;
static pthread_mutex_t NAME(slot) = PTHREAD_MUTEX_INITIALIZER;

void NAME(prepare)(void)
{
}

APART static void NAME(obtain)(struct client *me)
{
	enter(me);
	if (options.treated)
		pthread_mutex_lock(&NAME(slot));
	else
		while (atomic_flag_test_and_set(&NAME(taken)))
			pause_for(options.size);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(obtain)(me);
	burn(options.hold);
	if (options.treated)
		pthread_mutex_unlock(&NAME(slot));
	else
		atomic_flag_clear(&NAME(taken));
}
