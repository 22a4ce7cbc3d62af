/* Lines that all clients write to one stream of the C library. Treated: a stream for each. */
#include "specimen.h"

enum { TIMES = 20 };

static FILE *NAME(paper)[MOST];

void NAME(prepare)(void)
{
	for (unsigned i = 0; i < (options.treated ? options.clients : 1); i++) {
		NAME(paper)[i] = fopen("/dev/null", "w");
		must(NAME(paper)[i], "/dev/null");
	}
}

APART static void NAME(print)(struct client *me)
{
	char line[256];
	size_t length = options.size < sizeof line ? options.size : sizeof line;
	memset(line, 'a', sizeof line);
	enter(me);
	for (int i = 0; i < TIMES; i++)
		fwrite(line, 1, length, NAME(paper)[share_of(me)]);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(print)(me);
}
