/* The sandbox's first process: holds the namespaces, reaps orphans, and exits on a signal. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int number)
{
	(void)number;
	_exit(0);
}

static void reap(int number)
{
	(void)number;
	while (waitpid(-1, 0, WNOHANG) > 0)
		;
}

int main(void)
{
	struct sigaction on_end = { .sa_handler = end };
	struct sigaction on_child = { .sa_handler = reap, .sa_flags = SA_NOCLDSTOP | SA_RESTART };

	if (sigaction(SIGINT, &on_end, 0) || sigaction(SIGTERM, &on_end, 0) || sigaction(SIGCHLD, &on_child, 0))
		return 1;
	for (;;)
		pause();
}
