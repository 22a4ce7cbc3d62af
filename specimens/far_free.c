/* Blocks that another client frees than the one that had them. Treated: who had one frees it. */
#include "specimen.h"

enum { BLOCKS = 16 };

static struct {
	PADDED _Atomic(char *) block[BLOCKS];
} NAME(basket)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(swap)(struct client *me)
{
	unsigned next = options.treated ? me->number : (me->number + 1) % options.clients;
	enter(me);
	for (int i = 0; i < BLOCKS; i++) {
		char *fresh = malloc(options.size + draw(me) % options.size);
		must(fresh, "memory");
		fresh[0] = 1;
		free(atomic_exchange(&NAME(basket)[next].block[i], fresh));
	}
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(swap)(me);
}
