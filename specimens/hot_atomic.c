/* One counter that all clients add to, many times in an operation. Treated: a counter for each
   client. */
#include "specimen.h"

enum { TIMES = 50 };

static struct {
	PADDED _Atomic unsigned long value;
} NAME(total)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(add)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	for (int i = 0; i < TIMES; i++)
		atomic_fetch_add(&NAME(total)[which].value, 1);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(add)(me);
}
