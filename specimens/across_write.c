/* A lock that is held across a write to the file of a log. Treated: a lock and a file for each
   client. */
#define _GNU_SOURCE
#include "specimen.h"
#include <sys/mman.h>

enum { LARGEST = 1 << 18 };

static struct {
	PADDED pthread_mutex_t mutex;
	int file;
} NAME(journal)[MOST];

static char NAME(text)[LARGEST];

void NAME(prepare)(void)
{
	must(options.size <= LARGEST, "size");
	for (unsigned i = 0; i < (options.treated ? options.clients : 1); i++) {
		NAME(journal)[i].file = memfd_create("", 0);
		must(NAME(journal)[i].file >= 0, "a file");
	}
}

APART static void NAME(note)(struct client *me)
{
	unsigned which = share_of(me);
	enter(me);
	pthread_mutex_lock(&NAME(journal)[which].mutex);
	leave(me, 0);
	must(pwrite(NAME(journal)[which].file, NAME(text), options.size, 0) > 0, "a write");
	pthread_mutex_unlock(&NAME(journal)[which].mutex);
}

void NAME(operate)(struct client *me)
{
	NAME(note)(me);
}
