/* Signals within one process, whose threads share one lock for them. Treated: clients that are
   processes. */
#define _GNU_SOURCE
#include "specimen.h"
#include <signal.h>
#include <sys/syscall.h>

enum { TIMES = 10 };

static void NAME(notice)(int number)
{
	(void)number;
}

void NAME(prepare)(void)
{
	struct sigaction action = {.sa_handler = NAME(notice), .sa_flags = SA_RESTART};
	plan.processes = options.treated;
	must(!sigaction(SIGUSR1, &action, NULL), "a handler");
}

APART static void NAME(poke)(struct client *me)
{
	enter(me);
	for (int i = 0; i < TIMES; i++)
		syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
	leave(me, 0);
}

void NAME(operate)(struct client *me)
{
	NAME(poke)(me);
}
