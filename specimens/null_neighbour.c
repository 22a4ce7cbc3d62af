/* Nothing is wrong with it: clients work, beside a program that does so too from time to time.
   Treated: the same. */
#include "specimen.h"

void NAME(prepare)(void)
{
}

APART static void NAME(work)(struct client *me)
{
	burn_about(me, options.hold);
}

/* With a size: that program, which works for so many microseconds and sleeps three times that. */
void NAME(operate)(struct client *me)
{
	NAME(work)(me);
	if (options.size > 1)
		pause_for(3 * options.hold);
}
