/* Counters of clients that lie in one cache line. Treated: each in a line of its own. */
#include "specimen.h"

enum { TIMES = 50, WORDS = LINE / sizeof(unsigned long) };

static PADDED _Atomic unsigned long NAME(tally)[MOST * WORDS];

void NAME(prepare)(void)
{
}

APART static void NAME(add)(struct client *me)
{
	unsigned which = options.treated ? me->number * WORDS : me->number;
	enter(me);
	for (int i = 0; i < TIMES; i++)
		atomic_fetch_add(&NAME(tally)[which], 1);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(add)(me);
}
