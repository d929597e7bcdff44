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
static int report_fd = -1;

void report_from_now(void)
{
	clock_gettime(CLOCK_MONOTONIC, &started);
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
			return; /* nobody listens: the memory is what matters */
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
