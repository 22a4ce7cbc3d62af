/* Clients that look for a free slot with a sleep between two looks: usage: polling CLIENTS SECONDS */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_flag slot = ATOMIC_FLAG_INIT;
static atomic_ulong done;
static atomic_int stop;

static void work(volatile unsigned long *key, int rounds)
{
	for (int i = 0; i < rounds; i++)
		*key = *key * 6364136223846793005UL + 1;
}

__attribute__((noinline)) static void await_slot(void)
{
	struct timespec pause = {0, 200000};
	while (atomic_flag_test_and_set(&slot))
		nanosleep(&pause, 0);
}

static void *client(void *number)
{
	volatile unsigned long key = (unsigned long)number;
	while (!atomic_load(&stop)) {
		work(&key, 10000);
		await_slot();
		work(&key, 30000);
		atomic_flag_clear(&slot);
		atomic_fetch_add(&done, 1);
	}
	return 0;
}

int main(int count, char **words)
{
	int clients = count > 1 ? atoi(words[1]) : 1, seconds = count > 2 ? atoi(words[2]) : 1;
	pthread_t threads[256];
	if (clients > 256)
		return 2;
	for (long i = 0; i < clients; i++)
		pthread_create(&threads[i], 0, client, (void *)(i + 1));
	sleep(seconds);
	unsigned long counted = atomic_load(&done);
	atomic_store(&stop, 1);
	for (int i = 0; i < clients; i++)
		pthread_join(threads[i], 0);
	printf("%.1f operations/s\n", (double)counted / seconds);
	return 0;
}
