/* A lock that is handed to the thread that has waited longest, which sleeps by then: no core works
   for anybody until it has come to one. Treated: a lock for each client. */
#include "specimen.h"

struct waiter {
	struct waiter *next;
	pthread_cond_t given;
	bool has;
};

static struct line {
	PADDED pthread_mutex_t guard;
	bool held;
	struct waiter *first, **last;
} NAME(queue)[MOST];

void NAME(prepare)(void)
{
	for (unsigned i = 0; i < MOST; i++)
		NAME(queue)[i].last = &NAME(queue)[i].first;
}

APART static void NAME(come)(struct line *line)
{
	struct waiter me = {NULL, PTHREAD_COND_INITIALIZER, false};
	pthread_mutex_lock(&line->guard);
	if (line->held) {
		*line->last = &me;
		line->last = &me.next;
		while (!me.has)
			pthread_cond_wait(&me.given, &line->guard);
	}
	line->held = true;
	pthread_mutex_unlock(&line->guard);
}

APART static void NAME(go)(struct line *line)
{
	pthread_mutex_lock(&line->guard);
	struct waiter *next = line->first;
	if (next) {
		line->first = next->next;
		if (!next->next)
			line->last = &line->first;
		next->has = true;
		pthread_cond_signal(&next->given);
	} else {
		line->held = false;
	}
	pthread_mutex_unlock(&line->guard);
}

APART static void NAME(settle)(struct client *me)
{
	struct line *line = &NAME(queue)[share_of(me)];
	enter(me);
	NAME(come)(line);
	leave(me, 0);
	burn(options.hold);
	NAME(go)(line);
}

void NAME(operate)(struct client *me)
{
	NAME(settle)(me);
}
