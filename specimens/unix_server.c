/* A server of one thread behind sockets. Treated: a thread for each client. */
#include "specimen.h"
#include <poll.h>
#include <sys/socket.h>

/* Ends of clients and of the server. */
static int NAME(wires)[MOST][2];

APART static void NAME(answer)(int line)
{
	char question;
	if (recv(line, &question, 1, 0) != 1)
		return;
	burn(options.hold);
	must(send(line, &question, 1, 0) == 1, "an answer");
}

static void *NAME(attend)(void *first)
{
	unsigned from = (unsigned)(unsigned long)first;
	unsigned count = options.treated ? 1 : options.clients;
	struct pollfd lines[MOST];
	for (unsigned i = 0; i < count; i++)
		lines[i] = (struct pollfd){.fd = NAME(wires)[from + i][1], .events = POLLIN};
	while (poll(lines, count, -1) >= 0)
		for (unsigned i = 0; i < count; i++)
			if (lines[i].revents)
				NAME(answer)(lines[i].fd);
	return NULL;
}

void NAME(prepare)(void)
{
	for (unsigned i = 0; i < options.clients; i++)
		must(!socketpair(AF_UNIX, SOCK_STREAM, 0, NAME(wires)[i]), "a socket");
	for (unsigned long i = 0; i < (options.treated ? options.clients : 1); i++)
		start_helper(NAME(attend), (void *)i);
}

APART static void NAME(ask)(struct client *me)
{
	char question = 'a';
	enter(me);
	must(send(NAME(wires)[me->number][0], &question, 1, 0) == 1, "a question");
	must(recv(NAME(wires)[me->number][0], &question, 1, 0) == 1, "an answer");
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(ask)(me);
}
