/* What every specimen shares: a closed loop of clients, work of a given length, and sections that
   are timed in a run of their own. README.md says how a specimen is written. */
#ifndef SPECIMEN_H
#define SPECIMEN_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Names of functions and objects are drawn at build, into a header of the build's folder, so that
   no symbol says what is wrong with a specimen. */
#ifdef NAMES
#include NAMES
#define NAME(role) NAME_##role
#else
#define NAME(role) role
#endif

/* A function of its own in every form of build: stacks show it, and the score looks for it. */
#ifdef __clang__
#define APART __attribute__((noinline))
#else
#define APART __attribute__((noipa))
#endif

enum {
	LINE = 128,     /* a cache line and the one that is fetched with it */
	MOST = 256,     /* clients */
	SECTIONS = 2,   /* causes that one specimen can have */
	EVERY = 8,      /* one of so many operations is timed, where they are at all */
	ROUNDS = 600    /* of work in a microsecond, on a core of 2020 or so */
};

struct section {
	unsigned long entered;
	long wall, cpu; /* ns */
};

struct client {
	_Alignas(LINE) unsigned number;
	unsigned long random;
	_Atomic unsigned long operations;
	_Atomic bool ended;
	bool timed; /* this operation is */
	long wall, cpu;
	struct section sections[SECTIONS];
	void *own; /* what a specimen keeps for a client */
};

struct options {
	unsigned clients;
	double seconds; /* 0: until stopped */
	double think;   /* us of work of an operation that nobody shares */
	double hold;    /* us of what is shared */
	unsigned size;
	unsigned long seed;
	bool treated, timed;
};

extern struct options options;

/* What a specimen may set in its `prepare`. */
struct plan {
	bool processes;      /* each client is a process */
	bool thinks_itself;  /* the loop does not think before an operation */
	void (*clear)(void); /* called at the end */
};

extern struct plan plan;

/* A specimen's own: once before clients begin, and an operation of a client. */
void NAME(prepare)(void);
void NAME(operate)(struct client *me);

/* Ends the program with a word unless `good`. */
void must(bool good, const char *what);
bool is_stopped(void);
long now(void); /* ns */
void start_helper(void *(*what)(void *), void *argument);
void pause_for(double us);
struct client *client_of(unsigned number);

/* Microseconds of work that take as much CPU as a call of `what`, by so many calls. */
double work_of(void (*what)(struct client *), unsigned calls);

void section_begin(struct client *me);
void section_end(struct client *me, unsigned which);

/* Around what a client waits, spins or pays for; `which` is the place of its cause in the TOML. */
static inline void enter(struct client *me)
{
	if (me->timed)
		section_begin(me);
}

static inline void leave(struct client *me, unsigned which)
{
	if (me->timed)
		section_end(me, which);
}

/* Numbers of a client's own. */
static inline unsigned long draw(struct client *me)
{
	me->random = me->random * 6364136223846793005UL + 1442695040888963407UL;
	return me->random >> 33;
}

/* Work on a core for so many microseconds. */
static inline void burn(double us)
{
	unsigned long x = 1;
	for (unsigned long i = (unsigned long)(us * ROUNDS); i; i--) {
		x = x * 6364136223846793005UL + 1442695040888963407UL;
		__asm__ volatile("" : "+r"(x));
	}
}

/* The same from half of it to one and a half, so that clients do not march in step. */
static inline void burn_about(struct client *me, double us)
{
	burn(us * (0.5 + (double)(draw(me) & 0xffff) / 0x10000));
}

/* Which of the objects a client uses: the one of all, or its own in the treated twin. */
static inline unsigned share_of(const struct client *me)
{
	return options.treated ? me->number : 0;
}

#define PADDED _Alignas(LINE)

#endif
