/* An allocator that has one arena for all threads, and blocks too large for its threads' caches.
   Treated: an arena for each. */
#include "specimen.h"
#include <malloc.h>

enum { BLOCKS = 16 };

void NAME(prepare)(void)
{
	if (!options.treated)
		must(mallopt(M_ARENA_MAX, 1), "one arena");
}

APART static void NAME(build)(struct client *me)
{
	char *blocks[BLOCKS];
	enter(me);
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(options.size + draw(me) % options.size);
		must(blocks[i], "memory");
		blocks[i][0] = 1;
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(build)(me);
}
