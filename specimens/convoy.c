/* A lock that is handed to the thread that has waited longest, which sleeps by then: no core works
   for anybody until it has come to one. Treated: who comes first takes it. */
#include "specimen.h"

struct waiter {
	struct waiter *next;
	pthread_cond_t given;
	bool has;
};

static struct {
	pthread_mutex_t guard;
	bool held;
	struct waiter *first, **last;
} NAME(queue) = {PTHREAD_MUTEX_INITIALIZER, false, NULL, NULL};

static pthread_mutex_t NAME(gate) = PTHREAD_MUTEX_INITIALIZER;

void NAME(prepare)(void)
{
	NAME(queue).last = &NAME(queue).first;
}

APART static void NAME(come)(void)
{
	struct waiter me = {NULL, PTHREAD_COND_INITIALIZER, false};
	pthread_mutex_lock(&NAME(queue).guard);
	if (NAME(queue).held) {
		*NAME(queue).last = &me;
		NAME(queue).last = &me.next;
		while (!me.has)
			pthread_cond_wait(&me.given, &NAME(queue).guard);
	}
	NAME(queue).held = true;
	pthread_mutex_unlock(&NAME(queue).guard);
}

APART static void NAME(go)(void)
{
	pthread_mutex_lock(&NAME(queue).guard);
	struct waiter *next = NAME(queue).first;
	if (next) {
		NAME(queue).first = next->next;
		if (!next->next)
			NAME(queue).last = &NAME(queue).first;
		next->has = true;
		pthread_cond_signal(&next->given);
	} else {
		NAME(queue).held = false;
	}
	pthread_mutex_unlock(&NAME(queue).guard);
}

APART static void NAME(settle)(struct client *me)
{
	enter(me);
	if (options.treated)
		pthread_mutex_lock(&NAME(gate));
	else
		NAME(come)();
	leave(me, 0);
	burn(options.hold);
	if (options.treated)
		pthread_mutex_unlock(&NAME(gate));
	else
		NAME(go)();
}

void NAME(operate)(struct client *me)
{
	NAME(settle)(me);
}
