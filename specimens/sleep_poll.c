/* A lock that is looked at again after a sleep, as long as it is held. Treated: a lock for each
   client. */
#include "specimen.h"

static struct {
	PADDED atomic_flag taken;
} NAME(slot)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(obtain)(struct client *me)
{
	enter(me);
	while (atomic_flag_test_and_set(&NAME(slot)[share_of(me)].taken))
		pause_for(options.size);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(obtain)(me);
	burn(options.hold);
	atomic_flag_clear(&NAME(slot)[share_of(me)].taken);
}
