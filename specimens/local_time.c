/* Dates of the C library, which keeps its time zone under a lock. Treated: as much work as one
   takes a client alone. */
#include "specimen.h"
#include <time.h>

enum { TIMES = 20 };

static double NAME(alone); /* us */

APART static void NAME(stamp)(struct client *me)
{
	struct tm parts;
	enter(me);
	for (int i = 0; i < TIMES; i++) {
		time_t at = (time_t)(1700000000 + draw(me) % 100000000);
		me->own = localtime_r(&at, &parts) ? me->own : NULL;
	}
	leave(me, 0);
}

void NAME(prepare)(void)
{
	setenv("TZ", "UTC0", 1);
	tzset();
	long begun = now();
	for (int i = 0; i < 1000; i++)
		NAME(stamp)(client_of(0));
	NAME(alone) = (double)(now() - begun) / 1e6;
	begun = now();
	burn(10000);
	/* A microsecond of work is one of a certain core only. */
	NAME(alone) *= 10000 / ((double)(now() - begun) / 1e3);
}

void NAME(operate)(struct client *me)
{
	if (options.treated)
		burn(NAME(alone));
	else
		NAME(stamp)(me);
}
