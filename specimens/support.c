/* The closed loop of clients that every specimen runs in. */
#define _GNU_SOURCE
#include "specimen.h"
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

struct options options = {.clients = 1, .seconds = 1, .think = 4, .hold = 4, .size = 1, .seed = 1};
struct plan plan;

/* In memory that processes share. */
static struct shared {
	_Atomic bool stopped;
	struct client clients[MOST];
} *shared;

static sigset_t ends;

void must(bool good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

bool is_stopped(void)
{
	return atomic_load_explicit(&shared->stopped, memory_order_relaxed);
}

static long clock_of(clockid_t which)
{
	struct timespec at;
	clock_gettime(which, &at);
	return at.tv_sec * 1000000000L + at.tv_nsec;
}

long now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

static struct timespec span(double seconds)
{
	long whole = (long)seconds;
	return (struct timespec){whole, (long)((seconds - (double)whole) * 1e9)};
}

void pause_for(double us)
{
	struct timespec length = span(us / 1e6);
	nanosleep(&length, NULL);
}

struct client *client_of(unsigned number)
{
	return &shared->clients[number];
}

void start_helper(void *(*what)(void *), void *argument)
{
	pthread_t thread;
	errno = pthread_create(&thread, NULL, what, argument);
	must(!errno, "a thread");
	pthread_detach(thread);
}

double work_of(void (*what)(struct client *), unsigned calls)
{
	long begun = clock_of(CLOCK_PROCESS_CPUTIME_ID);
	for (unsigned i = 0; i < calls; i++)
		what(client_of(0));
	long called = clock_of(CLOCK_PROCESS_CPUTIME_ID);
	burn(10000);
	/* A microsecond of work is one of a certain core only. */
	return 10000 * (double)(called - begun) / calls /
		(double)(clock_of(CLOCK_PROCESS_CPUTIME_ID) - called);
}

void section_begin(struct client *me)
{
	me->wall = now();
	me->cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
}

void section_end(struct client *me, unsigned which)
{
	struct section *section = &me->sections[which];
	section->cpu += clock_of(CLOCK_THREAD_CPUTIME_ID) - me->cpu;
	section->wall += now() - me->wall;
	section->entered++;
}

static void *client(void *argument)
{
	struct client *me = argument;
	while (!is_stopped()) {
		unsigned long done = atomic_load_explicit(&me->operations, memory_order_relaxed);
		me->timed = options.timed && done % EVERY == 0;
		if (!plan.thinks_itself)
			burn_about(me, options.think);
		NAME(operate)(me);
		atomic_store_explicit(&me->operations, done + 1, memory_order_relaxed);
	}
	atomic_store(&me->ended, true);
	return NULL;
}

static void start(struct client *me)
{
	if (!plan.processes) {
		start_helper(client, me);
		return;
	}
	pid_t child = fork();
	must(child >= 0, "a process");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		client(me);
		_exit(0);
	}
}

static void read_options(int count, char **words)
{
	static const struct option known[] = {
		{"clients", required_argument, NULL, 't'}, {"seconds", required_argument, NULL, 's'},
		{"think", required_argument, NULL, 'k'},   {"hold", required_argument, NULL, 'h'},
		{"size", required_argument, NULL, 'z'},    {"seed", required_argument, NULL, 'r'},
		{"treated", no_argument, NULL, 'T'},       {"truth", no_argument, NULL, 'U'},
		{NULL, 0, NULL, 0},
	};
	for (int flag; (flag = getopt_long(count, words, "t:s:", known, NULL)) != -1;) {
		switch (flag) {
		case 't': options.clients = (unsigned)atoi(optarg); break;
		case 's': options.seconds = atof(optarg); break;
		case 'k': options.think = atof(optarg); break;
		case 'h': options.hold = atof(optarg); break;
		case 'z': options.size = (unsigned)atoi(optarg); break;
		case 'r': options.seed = strtoul(optarg, NULL, 10); break;
		case 'T': options.treated = true; break;
		case 'U': options.timed = true; break;
		default: exit(2);
		}
	}
	if (optind < count || options.clients < 1 || options.clients > MOST || !(options.seconds >= 0)) {
		fprintf(stderr, "usage: %s -t CLIENTS -s SECONDS [--think US] [--hold US] [--size N] "
			"[--seed N] [--treated] [--truth]\n", words[0]);
		exit(2);
	}
}

/* Until the time is over or somebody wants the end. */
static void await_end(long begun)
{
	for (;;) {
		double left = options.seconds - (double)(now() - begun) / 1e9;
		if (options.seconds > 0 && left <= 0)
			return;
		struct timespec length = span(options.seconds > 0 ? left : 3600);
		if (sigtimedwait(&ends, NULL, &length) > 0)
			return;
	}
}

static double cpu_used(void)
{
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		(double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static int cores(void)
{
	cpu_set_t allowed;
	CPU_ZERO(&allowed);
	sched_getaffinity(0, sizeof allowed, &allowed);
	return CPU_COUNT(&allowed);
}

/* What the clients measured themselves, as one line of JSON. */
static void print_truth(unsigned long operations, double seconds, double cpu, int of)
{
	printf("{\"operations\":%lu,\"seconds\":%.6f,\"cpu\":%.6f,\"cores\":%d,\"sections\":[",
		operations, seconds, cpu, of);
	for (unsigned which = 0; which < SECTIONS; which++) {
		struct section all = {0};
		for (unsigned i = 0; i < options.clients; i++) {
			const struct section *one = &shared->clients[i].sections[which];
			all.entered += one->entered;
			all.wall += one->wall;
			all.cpu += one->cpu;
		}
		printf("%s{\"entered\":%lu,\"wall\":%.6f,\"cpu\":%.6f}", which ? "," : "",
			EVERY * all.entered, EVERY * (double)all.wall / 1e9, EVERY * (double)all.cpu / 1e9);
	}
	printf("]}\n");
}

/* Lets clients leave what they are in, so that nothing is cleared under their hands. */
static void await_clients(void)
{
	for (int look = 0; look < 100; look++) {
		unsigned running = 0;
		for (unsigned i = 0; i < options.clients; i++)
			running += !atomic_load(&shared->clients[i].ended);
		if (!running)
			return;
		pause_for(1000);
	}
}

int main(int count, char **words)
{
	read_options(count, words);
	int of = cores();
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(shared != MAP_FAILED, "memory");
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	pthread_sigmask(SIG_BLOCK, &ends, NULL);
	for (unsigned i = 0; i < MOST; i++) {
		shared->clients[i].number = i;
		shared->clients[i].random = options.seed * 2862933555777941757UL + i;
	}
	NAME(prepare)();
	long begun = now();
	double before = cpu_used();
	for (unsigned i = 0; i < options.clients; i++)
		start(&shared->clients[i]);
	await_end(begun);
	unsigned long operations = 0;
	for (unsigned i = 0; i < options.clients; i++)
		operations += atomic_load(&shared->clients[i].operations);
	double seconds = (double)(now() - begun) / 1e9, cpu = cpu_used() - before;
	atomic_store(&shared->stopped, true);
	if (options.timed)
		print_truth(operations, seconds, cpu, of);
	else
		printf("%.1f operations/s\n", (double)operations / seconds);
	fflush(stdout);
	if (plan.clear) {
		await_clients();
		plan.clear();
	}
	/* Some clients may wait for ever. */
	_exit(0);
}
