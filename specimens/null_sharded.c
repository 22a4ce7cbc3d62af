/* Nothing is wrong: there are so many locks that two clients hardly ever want one. Treated: a lock
   for each client. */
#include "specimen.h"

enum { PARTS = 4096 };

static struct {
	PADDED pthread_mutex_t mutex;
	unsigned long value;
} NAME(part)[PARTS];

void NAME(prepare)(void)
{
}

APART static void NAME(update)(struct client *me)
{
	unsigned which = options.treated ? me->number : (unsigned)(draw(me) % PARTS);
	pthread_mutex_lock(&NAME(part)[which].mutex);
	burn(options.hold);
	NAME(part)[which].value++;
	pthread_mutex_unlock(&NAME(part)[which].mutex);
}

void NAME(operate)(struct client *me)
{
	NAME(update)(me);
}
