/* Clients that share a pool of two connections: usage: permits CLIENTS SECONDS */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static sem_t pool;
static atomic_ulong done;
static atomic_int stop;

static void query(void)
{
	struct timespec answer = {0, 1000000};
	nanosleep(&answer, 0);
}

static void borrow_connection(void)
{
	while (sem_wait(&pool))
		;
}

static void *client(void *number)
{
	volatile unsigned long key = (unsigned long)number;
	while (!atomic_load(&stop)) {
		for (int i = 0; i < 20000; i++)
			key = key * 6364136223846793005UL + 1;
		borrow_connection();
		query();
		sem_post(&pool);
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
	sem_init(&pool, 0, 2);
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
