/* A library to be loaded before a program: calls that only ask for another scheduling policy or
   priority succeed and do nothing. */
#include <pthread.h>
#include <sched.h>

int pthread_setschedparam(pthread_t thread, int policy, const struct sched_param *parameters) {
    (void)thread;
    (void)policy;
    (void)parameters;
    return 0;
}

int sched_setscheduler(pid_t process, int policy, const struct sched_param *parameters) {
    (void)process;
    (void)policy;
    (void)parameters;
    return 0;
}
