/* Another thread takes the core of whoever holds the mutex, and the holder may run on no other.
   Treated: a mutex for each client; the thread does as before. */
#define _GNU_SOURCE
#include "specimen.h"

static struct {
	PADDED pthread_mutex_t mutex;
	unsigned long total;
} NAME(ledger)[MOST];

static cpu_set_t allowed;

/* On the which-th core that is allowed, counted round. */
static void NAME(stay)(unsigned which)
{
	cpu_set_t one;
	int last = -1;
	for (unsigned i = 0; i <= which % (unsigned)CPU_COUNT(&allowed); i++)
		do
			last++;
		while (!CPU_ISSET(last, &allowed));
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	must(!sched_setaffinity(0, sizeof one, &one), "one core");
}

APART static void *NAME(intrude)(void *nothing)
{
	NAME(stay)(0);
	while (!is_stopped()) {
		burn(options.size);
		pause_for(options.size);
	}
	return nothing;
}

void NAME(prepare)(void)
{
	must(!sched_getaffinity(0, sizeof allowed, &allowed), "cores");
	start_helper(NAME(intrude), NULL);
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

void NAME(operate)(struct client *me)
{
	if (!me->operations)
		NAME(stay)(me->number + 1);
	NAME(post)(me);
}
