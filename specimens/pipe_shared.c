/* Clients that write to one pipe and read from it. Treated: a pipe for each. */
#include "specimen.h"

enum { LARGEST = 4096 };

static int NAME(tube)[MOST][2];

void NAME(prepare)(void)
{
	must(options.size <= LARGEST, "size");
	for (unsigned i = 0; i < (options.treated ? options.clients : 1); i++)
		must(!pipe(NAME(tube)[i]), "a pipe");
}

APART static void NAME(pass)(struct client *me)
{
	char text[LARGEST] = {0};
	const int *ends = NAME(tube)[share_of(me)];
	enter(me);
	must(write(ends[1], text, options.size) > 0, "a write");
	/* Others' bytes are as good. */
	must(read(ends[0], text, options.size) > 0, "a read");
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(pass)(me);
}
