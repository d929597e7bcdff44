#define _GNU_SOURCE
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

unsigned long command_number;

static struct timespec started;
static double started_awake;
static int report_fd = -1;

/* Seconds that this thread ran or waited for a CPU, or below 0. A kernel that counts no waits has 0 turns. */
static double awake(void)
{
	unsigned long long waited = 0, turns = 0;
	struct timespec ran;
	FILE *schedstat = fopen("/proc/thread-self/schedstat", "re");

	if (schedstat) {
		if (fscanf(schedstat, "%*u %llu %llu", &waited, &turns) != 2)
			turns = 0;
		fclose(schedstat);
	}
	if (!turns || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran))
		return -1;
	return (double)ran.tv_sec + ((double)ran.tv_nsec + (double)waited) / 1e9;
}

void report_from_now(void)
{
	started_awake = awake();
	clock_gettime(CLOCK_MONOTONIC, &started);
}

double slept_ms(void)
{
	double elapsed = elapsed_since(&started), now_awake = awake(), slept;

	if (started_awake < 0 || now_awake < 0)
		return -1;
	slept = (elapsed - (now_awake - started_awake)) * 1e3;
	return slept > 0 ? slept : 0;
}

int report_to(const char *path)
{
	report_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	return report_fd < 0 ? -1 : 0;
}

double elapsed_since(const struct timespec *from)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - from->tv_sec) + (double)(now.tv_nsec - from->tv_nsec) / 1e9;
}

static void write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t done = write(fd, text, length);

		if (done < 0 && errno != EINTR)
			return; /* no reader: only the memory matters */
		if (done > 0) {
			text += done;
			length -= (size_t)done;
		}
	}
}

void say(const char *event, const char *format, ...)
{
	char line[2 * PATH_MAX];
	va_list args;
	int length = snprintf(line, sizeof line, "{\"event\":\"%s\",\"ms\":%.3f,", event, elapsed_since(&started) * 1e3);

	va_start(args, format);
	length += vsnprintf(line + length, sizeof line - (size_t)length - 3, format, args);
	va_end(args);
	if (length > (int)sizeof line - 3)
		length = (int)sizeof line - 3;
	memcpy(line + length, "}\n", 2);
	write_all(STDOUT_FILENO, line, (size_t)length + 2);
	if (report_fd >= 0)
		write_all(report_fd, line, (size_t)length + 2);
}

int failed(const char *what, int error)
{
	say("error", "\"command\":%lu,\"what\":\"%s\",\"errno\":%d,\"error\":\"%s\"", command_number, what, error,
	    error ? strerror(error) : "");
	return -1;
}
