/* Nothing is wrong: clients work, and share nothing. Treated: the same. */
#include "specimen.h"

void NAME(prepare)(void)
{
}

APART static void NAME(work)(struct client *me)
{
	burn_about(me, options.hold);
}

void NAME(operate)(struct client *me)
{
	NAME(work)(me);
}
