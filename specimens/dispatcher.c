/* One thread that every request goes through. Treated: such a thread for each client. */
#include "specimen.h"

static struct desk {
	PADDED pthread_mutex_t mutex;
	pthread_cond_t came, done[MOST];
	unsigned queue[MOST];
	unsigned long first, last;
	bool answered[MOST];
} NAME(office)[MOST];

APART static void *NAME(serve)(void *which)
{
	struct desk *desk = &NAME(office)[(unsigned long)which];
	pthread_mutex_lock(&desk->mutex);
	for (;;) {
		while (desk->first == desk->last)
			pthread_cond_wait(&desk->came, &desk->mutex);
		unsigned client = desk->queue[desk->first++ % MOST];
		pthread_mutex_unlock(&desk->mutex);
		burn(options.hold);
		pthread_mutex_lock(&desk->mutex);
		desk->answered[client] = true;
		pthread_cond_signal(&desk->done[client]);
	}
	return NULL;
}

void NAME(prepare)(void)
{
	for (unsigned long i = 0; i < (options.treated ? options.clients : 1); i++)
		start_helper(NAME(serve), (void *)i);
}

APART static void NAME(request)(struct client *me)
{
	struct desk *desk = &NAME(office)[share_of(me)];
	enter(me);
	pthread_mutex_lock(&desk->mutex);
	desk->queue[desk->last++ % MOST] = me->number;
	pthread_cond_signal(&desk->came);
	while (!desk->answered[me->number])
		pthread_cond_wait(&desk->done[me->number], &desk->mutex);
	desk->answered[me->number] = false;
	pthread_mutex_unlock(&desk->mutex);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(request)(me);
}
