/* Calls of futex for one word, which never sleep. Treated: a word for each client. */
#define _GNU_SOURCE
#include "specimen.h"
#include <linux/futex.h>
#include <sys/syscall.h>

enum { TIMES = 20 };

static struct {
	PADDED int word;
} NAME(flags)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(peek)(struct client *me)
{
	int *word = &NAME(flags)[share_of(me)].word;
	enter(me);
	for (int i = 0; i < TIMES; i++)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(peek)(me);
}
