/* Two causes: a mutex, and one file that all write to. Treated: a mutex and a file for each
   client. */
#define _GNU_SOURCE
#include "specimen.h"
#include <sys/mman.h>

enum { LARGEST = 1 << 18 };

static struct {
	PADDED pthread_mutex_t mutex;
	int file;
} NAME(account)[MOST];

static char NAME(text)[LARGEST];

void NAME(prepare)(void)
{
	must(options.size <= LARGEST, "size");
	for (unsigned i = 0; i < (options.treated ? options.clients : 1); i++) {
		NAME(account)[i].file = memfd_create("", 0);
		must(NAME(account)[i].file >= 0, "a file");
	}
}

APART static void NAME(post)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_mutex_lock(&NAME(account)[which].mutex);
	leave(me, 0);
	burn(options.hold);
	pthread_mutex_unlock(&NAME(account)[which].mutex);
}

APART static void NAME(store)(struct client *me)
{
	enter(me);
	must(pwrite(NAME(account)[share_of(me)].file, NAME(text), options.size, 0) > 0, "a write");
	leave(me, 1);
}

void NAME(operate)(struct client *me)
{
	NAME(post)(me);
	NAME(store)(me);
}
