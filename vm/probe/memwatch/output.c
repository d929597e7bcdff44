#define _GNU_SOURCE
#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A thrashing guest may be unreachable for minutes. Lines that do not fit are dropped and counted. */
#define MOST (64u << 20)

static char *buffer;
static size_t used, room, line_start;
static unsigned long lost;
static int too_long;

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void append(const char *bytes, size_t length)
{
	if (used + length > MOST) {
		too_long = 1;
		return;
	}
	if (used + length > room) {
		size_t larger = (used + length) * 2 + 4096;
		char *moved = realloc(buffer, larger);

		if (!moved) {
			too_long = 1;
			return;
		}
		buffer = moved;
		room = larger;
	}
	memcpy(buffer + used, bytes, length);
	used += length;
}

void add(const char *format, ...)
{
	char text[512];
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (length > 0)
		append(text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

void add_text(const char *text, size_t length)
{
	append("\"", 1);
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c == '\n')
			append("\\n", 2);
		else if (c < ' ' || c > '~' || c == '"' || c == '\\')
			add("\\u%04x", c);
		else
			append(text + i, 1);
	}
	append("\"", 1);
}

void begin_line(void)
{
	line_start = used;
	too_long = 0;
	add("{\"at\":%.6f,\"lost\":%lu", now(), lost);
}

void end_line(void)
{
	append("}\n", 2);
	if (too_long) {
		used = line_start;
		lost++;
	}
}

size_t waiting(void)
{
	return used;
}

int flush_output(void)
{
	ssize_t done = write(STDOUT_FILENO, buffer, used);

	if (done < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	memmove(buffer, buffer + done, used - (size_t)done);
	used -= (size_t)done;
	return 0;
}
