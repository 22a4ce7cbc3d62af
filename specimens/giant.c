/* One lock round every call of a library, whatever it is about. Treated: a lock for each
   client. */
#include "specimen.h"

static struct {
	PADDED pthread_mutex_t mutex;
} NAME(library)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(come)(struct client *me)
{
	enter(me);
	pthread_mutex_lock(&NAME(library)[share_of(me)].mutex);
	leave(me, 0);
}

static void NAME(go)(struct client *me)
{
	pthread_mutex_unlock(&NAME(library)[share_of(me)].mutex);
}

APART static void NAME(insert)(struct client *me)
{
	NAME(come)(me);
	burn_about(me, options.hold / 2);
	NAME(go)(me);
}

APART static void NAME(find)(struct client *me)
{
	NAME(come)(me);
	burn_about(me, options.hold / 4);
	NAME(go)(me);
}

APART static void NAME(list)(struct client *me)
{
	NAME(come)(me);
	burn_about(me, options.hold / 4);
	NAME(go)(me);
}

void NAME(operate)(struct client *me)
{
	NAME(insert)(me);
	NAME(find)(me);
	NAME(list)(me);
}
