/* The quick fix of 2007 for a server that asked for priorities which it could not have: the call succeeds and does
 * nothing. It cured nothing, for the call was not what threads waited for. */
#include <sched.h>
int sched_setscheduler(int pid, int policy, const struct sched_param *param)
{
	(void)pid, (void)policy, (void)param;
	return 0;
}
