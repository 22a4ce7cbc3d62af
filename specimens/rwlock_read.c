/* Readers of one reader-writer lock, which all write its count of readers. Treated: a lock for
   each client. */
#include "specimen.h"

enum { TIMES = 20 };

static struct {
	PADDED pthread_rwlock_t lock;
	unsigned long value;
} NAME(table)[MOST];

void NAME(prepare)(void)
{
}

APART static unsigned long NAME(find)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_rwlock_rdlock(&NAME(table)[which].lock);
	unsigned long found = NAME(table)[which].value;
	pthread_rwlock_unlock(&NAME(table)[which].lock);
	leave(me, 0);
	return found;
}

void NAME(operate)(struct client *me)
{
	for (int i = 0; i < TIMES; i++)
		me->random += NAME(find)(me);
}
