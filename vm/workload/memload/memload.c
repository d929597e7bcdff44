/*
 * memload: uses memory as commanded and reports what happened, one JSON object per line.
 *
 *   memload [--commands PATH] [--report PATH] [--own-text PATH] [COMMAND [, COMMAND]...]
 *
 * Commands come from the arguments, separated by "," arguments, then line by line from the FIFO or file PATH of
 * --commands, or from standard input if there are neither commands in the arguments nor --commands. A FIFO is kept
 * open, so it may have many writers one after the other. Reports go to standard output and are appended to the
 * file of --report.
 *
 *   anon SIZE [PACE] [threads=N | within=SECONDS] [needs=text]
 *                                                    private anonymous memory, used by N threads in parallel, or as much
 *                                                    as it gets within SECONDS; needs=text: before each page every page
 *                                                    of the program's own text is read; the text is not locked in memory
 *                                                    from then on
 *   file PATH SIZE [PACE] [how=write|mmap]           page cache of a new file
 *   tmpfs PATH SIZE [PACE] [how=write|mmap]          the same, and PATH must be on a tmpfs
 *   touch [ID]       read and write every page of one held region, or of all, and check its content
 *   read [ID]        the same without writing: no page becomes dirty
 *   free [ID|all]    free the memory and delete the file of one region, or of all
 *   hold [SECONDS]   do nothing for SECONDS; without a number, for ever
 *   report           report the memory held now
 *   exit CODE        end with this code (0 to 255)
 *
 * PACE is [step=SIZE] [rate=SIZE/s] [fill=random|runs]. SIZE is a number of bytes with an optional suffix Ki, Mi or
 * Gi. Regions are numbered from 1 in the order of their commands. Memory is allocated in steps (default 1Mi), no faster
 * than the rate, and really used: each page is filled with its own pseudo-random words, in base
 * pages, so no zero page, same-page merging, huge page or compression makes it smaller. With fill=runs each word of 8
 * bytes is repeated 16 times, and compression makes a page about eight times smaller. Threads (default 1, at most 64)
 * get equal parts of the memory. The program itself is locked in memory (start says lock_errno, 0 if
 * it is), up to the first command that needs=text: it does not thrash when its cgroup is full. With --own-text it
 * copies itself to the new file PATH, an absolute path on a disk, and executes the copy: its text is then charged to its
 * own cgroup, whichever cgroup read the program before.
 *
 * Each line has "event" and "ms" (since the start, monotonic); "command" counts commands from 1. Events: start; step
 * (bytes so far, of, max_us: the longest wait for one page or write in this step, thread: which of several); done;
 * error (what, errno; the command had no further effect, and its allocated memory stays held); held (report); exit.
 * bytes is the memory allocated, touched or freed so far by the command. Events of allocations have slept_ms, if the
 * kernel counts it: the part of "ms" in which the first thread neither ran nor waited for a CPU, with its rate pauses.
 *
 * A command in the arguments that does not parse ends memload with code 2 before anything runs. TERM and INT end it at
 * once with 128 + signal, also as process 1 of a container. The end of the commands ends it with 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "page.h"
#include "region.h"
#include "report.h"
#include "text.h"

#define MAX_WORDS 8

static int hold(double seconds)
{
	struct timespec left = { .tv_sec = (time_t)seconds };

	say("step", "\"command\":%lu,\"verb\":\"hold\"", command_number);
	while (seconds < 0)
		pause();
	left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
	while (nanosleep(&left, &left) && errno == EINTR)
		;
	say("done", "\"command\":%lu,\"verb\":\"hold\"", command_number);
	return 0;
}

static int run(const struct command *command)
{
	command_number++;
	switch (command->verb) {
	case ANON:
	case FILE_CACHE:
	case TMPFS:
		return allocate(command);
	case TOUCH:
	case READ:
		return look_at_regions(command);
	case FREE:
		return free_regions(command);
	case HOLD:
		return hold(command->seconds);
	case REPORT:
		return report_held();
	case EXIT:
		say("exit", "\"command\":%lu,\"code\":%d", command_number, command->code);
		exit(command->code);
	}
	return -1;
}

static void run_stream(FILE *stream)
{
	char line[2 * PATH_MAX], *words[MAX_WORDS + 1];
	struct command command;

	while (fgets(line, sizeof line, stream)) {
		int count = 0;
		char *state = NULL;

		for (char *word = strtok_r(line, " \t\n", &state); word && count <= MAX_WORDS;
		     word = strtok_r(NULL, " \t\n", &state))
			words[count++] = word;
		if (count == 0)
			continue;
		if (count > MAX_WORDS || parse(&command, count, words)) {
			command_number++;
			failed("not a command", 0);
			continue;
		}
		run(&command);
	}
}

/* Run the commands between the "," arguments, or only see whether they parse. */
static int run_arguments(int count, char **words, int really)
{
	struct command command;
	int status = 0;

	for (int first = 0, next; first < count; first = next + 1) {
		for (next = first; next < count && strcmp(words[next], ","); next++)
			;
		if (parse(&command, next - first, words + first)) {
			fprintf(stderr, "memload: the command that begins with '%s' does not parse\n",
				first < count ? words[first] : "");
			return -1;
		}
		if (really)
			status |= run(&command);
	}
	return status;
}

/*
 * Keep the program itself in memory: 0, or why not. Its pages may be charged to its own cgroup; at the limit they would
 * be reclaimed and read back endlessly, which the kernel counts as progress, so that it kills nothing for minutes.
 */
static int lock_program(void)
{
	return mlockall(MCL_CURRENT) ? errno : 0;
}

static void on_signal(int number)
{
	_exit(128 + number);
}

static void take_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL); /* process 1 has no default action for signals */
	sigaction(SIGINT, &action, NULL);
	signal(SIGCHLD, SIG_IGN); /* process 1 inherits orphans: reap them */
	signal(SIGPIPE, SIG_IGN);
}

/* The options before the commands; the index of the first word behind them, or -1 with a message. */
static int parse_options(int argc, char **argv, const char **commands, const char **own_text)
{
	int next = 1;

	for (; next + 1 < argc && !strncmp(argv[next], "--", 2); next += 2) {
		if (!strcmp(argv[next], "--commands")) {
			*commands = argv[next + 1];
		} else if (!strcmp(argv[next], "--own-text")) {
			*own_text = argv[next + 1];
		} else if (strcmp(argv[next], "--report")) {
			break;
		} else if (report_to(argv[next + 1])) {
			perror(argv[next + 1]);
			return -1;
		}
	}
	return next;
}

int main(int argc, char **argv)
{
	const char *commands = NULL, *own_text = NULL;
	int next, fd;
	FILE *stream;

	report_from_now();
	take_signals();
	next = parse_options(argc, argv, &commands, &own_text);
	if (next < 0 || run_arguments(argc - next, argv + next, 0))
		return 2;
	if (own_text && run_copy(own_text, argv)) {
		perror(own_text);
		return 2;
	}
	say("start", "\"pid\":%d,\"page_size\":%llu,\"lock_errno\":%d", (int)getpid(),
	    (unsigned long long)page_bytes(), lock_program());
	run_arguments(argc - next, argv + next, 1);
	if (!commands && next < argc)
		return 0;
	/* Reading and writing: the end of one writer is then not the end of the FIFO. */
	fd = commands ? open(commands, O_RDWR | O_CLOEXEC) : STDIN_FILENO;
	stream = fd < 0 ? NULL : fdopen(fd, "r");
	if (!stream) {
		failed("open the commands", errno);
		return 2;
	}
	run_stream(stream);
	return 0;
}
