/* Nothing is wrong: there are fewer clients than cores could serve, since each spends its time
   outside. Treated: the same. */
#include "specimen.h"

void NAME(prepare)(void)
{
}

APART static void NAME(serve)(struct client *me)
{
	burn_about(me, options.hold);
}

void NAME(operate)(struct client *me)
{
	pause_for(options.size);
	NAME(serve)(me);
}
