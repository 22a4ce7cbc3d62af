/* Two causes: a mutex, and an allocator with one arena. Treated: a mutex and an arena for each
   client. */
#include "specimen.h"
#include <malloc.h>

enum { BLOCKS = 16 };

static struct {
	PADDED pthread_mutex_t mutex;
	unsigned long total;
} NAME(ledger)[MOST];

void NAME(prepare)(void)
{
	if (!options.treated)
		must(mallopt(M_ARENA_MAX, 1), "one arena");
}

APART static void NAME(post)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_mutex_lock(&NAME(ledger)[which].mutex);
	leave(me, 0);
	burn(options.hold);
	NAME(ledger)[which].total++;
	pthread_mutex_unlock(&NAME(ledger)[which].mutex);
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
	leave(me, 1);
}

void NAME(operate)(struct client *me)
{
	NAME(post)(me);
	NAME(build)(me);
}
