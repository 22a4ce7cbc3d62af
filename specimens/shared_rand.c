/* Random numbers of the C library, which has one state for all. Treated: a state for each
   client. */
#define _GNU_SOURCE
#include "specimen.h"

enum { TIMES = 50 };

static struct {
	PADDED struct random_data state;
	char room[128];
} NAME(dice)[MOST];

void NAME(prepare)(void)
{
	for (unsigned i = 0; i < MOST; i++)
		initstate_r(i + 1, NAME(dice)[i].room, sizeof NAME(dice)[i].room, &NAME(dice)[i].state);
}

APART static void NAME(throw)(struct client *me)
{
	unsigned long sum = 0;
	enter(me);
	for (int i = 0; i < TIMES; i++) {
		int one = 0;
		if (options.treated)
			random_r(&NAME(dice)[me->number].state, &one);
		else
			one = rand();
		sum += (unsigned)one;
	}
	leave(me, 0);
	me->random ^= sum;
}

void NAME(operate)(struct client *me)
{
	NAME(throw)(me);
}
