/* Dates of the C library, which keeps its time zone under a lock. Treated: as much work as one
   takes a client alone. */
#include "specimen.h"
#include <time.h>

enum { TIMES = 20, TRIED = 1000 };

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
	NAME(alone) = work_of(NAME(stamp), TRIED);
}

void NAME(operate)(struct client *me)
{
	if (options.treated)
		burn(NAME(alone));
	else
		NAME(stamp)(me);
}
