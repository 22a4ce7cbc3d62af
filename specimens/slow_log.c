/* Each operation flushes its own part of a log to a slow device, one after the other; a sleep
   stands for the device. Treated: one flush for all that wait for one. */
#include "specimen.h"

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t ended;
	unsigned long wanted, flushed;
	bool busy;
} NAME(record) = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, false};

void NAME(prepare)(void)
{
}

APART static void NAME(flush)(void)
{
	pause_for(options.hold);
}

APART static void NAME(commit)(struct client *me)
{
	enter(me);
	pthread_mutex_lock(&NAME(record).mutex);
	leave(me, 0);
	if (!options.treated) {
		NAME(flush)();
		pthread_mutex_unlock(&NAME(record).mutex);
		return;
	}
	unsigned long mine = ++NAME(record).wanted;
	while (NAME(record).flushed < mine) {
		if (NAME(record).busy) {
			pthread_cond_wait(&NAME(record).ended, &NAME(record).mutex);
			continue;
		}
		unsigned long upto = NAME(record).wanted;
		NAME(record).busy = true;
		pthread_mutex_unlock(&NAME(record).mutex);
		NAME(flush)();
		pthread_mutex_lock(&NAME(record).mutex);
		NAME(record).busy = false;
		NAME(record).flushed = upto;
		pthread_cond_broadcast(&NAME(record).ended);
	}
	pthread_mutex_unlock(&NAME(record).mutex);
}

void NAME(operate)(struct client *me)
{
	NAME(commit)(me);
}
