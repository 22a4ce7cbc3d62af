/* A lock that spins for a while before it sleeps, mostly in vain. Treated: a lock for each
   client. */
#define _GNU_SOURCE
#include "specimen.h"
#include <linux/futex.h>
#include <sys/syscall.h>

/* 0 free, 1 held, 2 held and waited for. */
static struct {
	PADDED _Atomic int state;
} NAME(seat)[MOST];

void NAME(prepare)(void)
{
}

APART static void NAME(obtain)(_Atomic int *state)
{
	int seen = 0;
	for (unsigned looks = 0; looks < options.size; looks++) {
		seen = 0;
		if (atomic_compare_exchange_strong(state, &seen, 1))
			return;
		__builtin_ia32_pause();
	}
	while (atomic_exchange(state, 2))
		syscall(SYS_futex, state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

APART static void NAME(restore)(_Atomic int *state)
{
	if (atomic_exchange(state, 0) == 2)
		syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

APART static void NAME(change)(struct client *me)
{
	_Atomic int *state = &NAME(seat)[share_of(me)].state;
	enter(me);
	NAME(obtain)(state);
	leave(me, 0);
	burn(options.hold);
	NAME(restore)(state);
}

void NAME(operate)(struct client *me)
{
	NAME(change)(me);
}
