/* Readers hold a reader-writer lock while they wait for something; it prefers them, so writers
   wait until nobody reads. Treated: a lock for each client. */
#include "specimen.h"

static struct {
	PADDED pthread_rwlock_t lock;
	unsigned long value;
} NAME(sheet)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(look)(unsigned which)
{
	pthread_rwlock_rdlock(&NAME(sheet)[which].lock);
	pause_for(options.hold);
	pthread_rwlock_unlock(&NAME(sheet)[which].lock);
}

APART static void NAME(change)(struct client *me, unsigned which)
{
	enter(me);
	pthread_rwlock_wrlock(&NAME(sheet)[which].lock);
	leave(me, 0);
	NAME(sheet)[which].value++;
	pause_for(options.hold / 2);
	pthread_rwlock_unlock(&NAME(sheet)[which].lock);
}

void NAME(operate)(struct client *me)
{
	unsigned which = share_of(me);
	NAME(look)(which);
	if (draw(me) % 2)
		NAME(change)(me, which);
}
