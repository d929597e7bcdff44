/*
 * memwatch: reads interface files of cgroups whenever they change, and reports changes, one JSON object per line.
 *
 * It reads commands from standard input, one per line, with words separated by tabs, and exits at its end:
 *
 *   tree FOLDER FILE...   watch this folder and all present and future folders below it; of each, these files; one
 *                         with a ~ before it is read at most once a second, and for requested looks
 *   tail NAME PATH PATIENT  report text appended to this file, once it exists; lines that contain PATIENT wait for
 *                         the clock
 *   to PATH TEXT          write this text as a line to a FIFO that has a reader
 *   every MS              look at least this often (default: 100 ms)
 *   look NUMBER           look now, report all changes, then report this number
 *
 * It looks whenever the kernel reports a change in memory.events, memory.swap.events or cgroup.events, when tasks stall
 * for memory (a memory.pressure trigger), when a folder is created or removed, when a line is appended to a followed file
 * that may not wait, and by the clock. The program is locked in memory, has real-time priority, and is the last that the
 * kernel would kill; unread output waits in memory.
 *
 * Each line has "at" (seconds, monotonic) and "lost" (lines that did not fit). The others:
 *
 *   cgroup, why, files    files that changed since the last line of this folder, with their text; null: no such file.
 *                         why: new, clock, event, asked, or gone
 *   tail, text            text appended to a file
 *   looked                the number of a requested look
 *   failed, path, errno   a command that failed
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cgroup.h"
#include "output.h"

#define MAX_WORDS 40
#define MAX_TAILS 64
#define MAX_FDS 2048

/* Least seconds between two looks on kernel events: a counter may rise thousands of times a second. */
#define LEAST_APART 0.01

struct tail {
	char name[PATH_MAX], path[PATH_MAX], patient[256];
	off_t seen; /* no line before this offset has to be reported at once */
	int fd;
};

static struct tail *tails[MAX_TAILS];
static int tail_count;
static int appended = -1; /* inotify: reports appended text */
static int period_ms = 100;

static void failed(const char *what, const char *path)
{
	int error = errno;

	begin_line();
	add(",\"failed\":\"%s\",\"errno\":%d,\"path\":", what, error);
	add_text(path, strlen(path));
	end_line();
}

static void add_tail(const char *name, const char *path, const char *patient)
{
	struct tail *tail = tail_count < MAX_TAILS ? calloc(1, sizeof *tail) : NULL;

	if (!tail) {
		failed("tail", path);
		return;
	}
	snprintf(tail->name, sizeof tail->name, "%s", name);
	snprintf(tail->path, sizeof tail->path, "%s", path);
	snprintf(tail->patient, sizeof tail->patient, "%s", patient);
	tail->fd = -1;
	tails[tail_count++] = tail;
}

static void read_tails(void)
{
	char text[4096];
	ssize_t length;

	for (int i = 0; i < tail_count; i++) {
		struct tail *tail = tails[i];

		if (tail->fd < 0 && (tail->fd = open(tail->path, O_RDONLY | O_CLOEXEC)) >= 0)
			inotify_add_watch(appended, tail->path, IN_MODIFY);
		while (tail->fd >= 0 && (length = read(tail->fd, text, sizeof text)) > 0) {
			begin_line();
			add(",\"tail\":");
			add_text(tail->name, strlen(tail->name));
			add(",\"text\":");
			add_text(text, (size_t)length);
			end_line();
		}
	}
}

/* Whether a file has an unread line that may not wait; an incomplete line may not. */
static int is_urgent(struct tail *tail)
{
	static char text[65536];
	off_t said = tail->fd < 0 ? 0 : lseek(tail->fd, 0, SEEK_CUR);
	ssize_t length;

	if (tail->seen < said)
		tail->seen = said;
	while (tail->fd >= 0 && (length = pread(tail->fd, text, sizeof text - 1, tail->seen)) > 0) {
		char *rest = text, *line;

		text[length] = '\0';
		tail->seen += length;
		while ((line = strsep(&rest, "\n")))
			if (*line && !strstr(line, tail->patient))
				return 1;
	}
	return 0;
}

/* Whether appended text requires a look. Which file it was does not matter: there are few. */
static int asks_for_look(void)
{
	char skipped[4096];
	int asks = 0;

	while (read(appended, skipped, sizeof skipped) > 0)
		;
	for (int i = 0; i < tail_count; i++)
		asks |= is_urgent(tails[i]);
	return asks;
}

/* A FIFO without a reader is an error at once; do not wait. */
static void write_line(const char *path, char *text)
{
	size_t length = strlen(text);
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	text[length] = '\n'; /* the line's own end was cut off, so there is room */
	if (fd < 0 || write(fd, text, length + 1) != (ssize_t)length + 1)
		failed("to", path);
	if (fd >= 0)
		close(fd);
}

static void look_now(const char *number)
{
	find_new();
	sample("asked", 1);
	read_tails();
	begin_line();
	add(",\"looked\":%d", atoi(number));
	end_line();
}

static void obey(char *line)
{
	char *words[MAX_WORDS], *rest = line;
	int count = 0;

	while (rest && count < MAX_WORDS)
		words[count++] = strsep(&rest, "\t");
	if (count > 2 && !strcmp(words[0], "tree"))
		watch_tree(words[1], count - 2, words + 2);
	else if (count == 4 && !strcmp(words[0], "tail"))
		add_tail(words[1], words[2], words[3]);
	else if (count == 3 && !strcmp(words[0], "to"))
		write_line(words[1], words[2]);
	else if (count == 2 && !strcmp(words[0], "look"))
		look_now(words[1]);
	else if (count == 2 && !strcmp(words[0], "every") && atoi(words[1]) > 0)
		period_ms = atoi(words[1]);
	else {
		errno = EINVAL;
		failed("command", words[0]);
	}
}

/* Whole lines of the input; 0 at its end. */
static int take_commands(void)
{
	static char input[65536];
	static size_t held;
	ssize_t length = read(STDIN_FILENO, input + held, sizeof input - 1 - held);
	char *start = input, *end;

	if (length <= 0)
		return length < 0 && errno == EINTR;
	held += (size_t)length;
	while ((end = memchr(start, '\n', held - (size_t)(start - input)))) {
		*end = '\0';
		obey(start);
		start = end + 1;
	}
	held -= (size_t)(start - input);
	memmove(input, start, held);
	return held < sizeof input - 1;
}

/* Run before everything else and survive OOM kills: memwatch must report what happened to the others. */
static void come_first(void)
{
	struct sched_param first = { .sched_priority = 1 };
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		(void)!write(fd, "-1000", 5);
		close(fd);
	}
	sched_setscheduler(0, SCHED_FIFO, &first);
	mlockall(MCL_CURRENT | MCL_FUTURE);
}

int main(void)
{
	static struct pollfd fds[MAX_FDS];
	double next = now();

	signal(SIGPIPE, SIG_IGN);
	come_first();
	appended = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
	for (;;) {
		int left, count, happened = 0;

		fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = waiting() ? STDOUT_FILENO : -1, .events = POLLOUT };
		fds[2] = (struct pollfd){ .fd = appended, .events = POLLIN };
		count = 3 + events(fds + 3, MAX_FDS - 3);
		left = (int)((next - now()) * 1000);
		if (poll(fds, (nfds_t)count, left > 0 ? left : 0) < 0 && errno != EINTR)
			return 1;
		if (fds[0].revents && !take_commands())
			return 0;
		for (int i = 3; i < count; i++)
			happened |= fds[i].revents != 0;
		if (fds[2].revents)
			happened |= asks_for_look();
		if (happened || now() >= next) {
			find_new();
			sample(happened ? "event" : "clock", 0);
			read_tails();
			next = now() + period_ms / 1000.0;
		}
		if (waiting() && flush_output())
			return 0;
		if (happened)
			usleep((useconds_t)(LEAST_APART * 1e6));
	}
}
