/* As many places as there are cores; who leaves one wakes everybody who waits for one. Treated:
   there is a place for everybody. */
#define _GNU_SOURCE
#include "specimen.h"

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t left;
	int places;
} NAME(room) = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

void NAME(prepare)(void)
{
	cpu_set_t allowed;
	must(!sched_getaffinity(0, sizeof allowed, &allowed), "cores");
	NAME(room).places = options.treated ? MOST : CPU_COUNT(&allowed);
}

APART static void NAME(join)(struct client *me)
{
	enter(me);
	pthread_mutex_lock(&NAME(room).mutex);
	while (!NAME(room).places)
		pthread_cond_wait(&NAME(room).left, &NAME(room).mutex);
	NAME(room).places--;
	pthread_mutex_unlock(&NAME(room).mutex);
	leave(me, 0);
}

APART static void NAME(depart)(void)
{
	pthread_mutex_lock(&NAME(room).mutex);
	NAME(room).places++;
	pthread_cond_broadcast(&NAME(room).left);
	pthread_mutex_unlock(&NAME(room).mutex);
}

void NAME(operate)(struct client *me)
{
	NAME(join)(me);
	burn_about(me, options.hold);
	NAME(depart)();
}
