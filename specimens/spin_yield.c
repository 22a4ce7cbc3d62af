/* A spin lock that yields its core between two looks. Treated: a lock for each client. */
#include "specimen.h"

static struct {
	PADDED atomic_flag held;
} NAME(seat)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(obtain)(unsigned which)
{
	while (atomic_flag_test_and_set_explicit(&NAME(seat)[which].held, memory_order_acquire))
		sched_yield();
}

APART static void NAME(change)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	NAME(obtain)(which);
	leave(me, 0);
	burn(options.hold);
	atomic_flag_clear_explicit(&NAME(seat)[which].held, memory_order_release);
}

void NAME(operate)(struct client *me)
{
	NAME(change)(me);
}
