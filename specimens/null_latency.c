/* Nothing is wrong: clients wait for something outside, each by itself. Treated: the same. */
#include "specimen.h"

void NAME(prepare)(void)
{
}

APART static void NAME(ask)(void)
{
	pause_for(options.hold);
}

void NAME(operate)(struct client *me)
{
	(void)me;
	NAME(ask)();
}
