/* memload's output: one JSON object per line, on standard output and in the file of --report. */
#ifndef MEMLOAD_REPORT_H
#define MEMLOAD_REPORT_H

#include <time.h>

/* The number of the command that is being run, from 1; 0 before the first. */
extern unsigned long command_number;

/* Start the clock of all lines. */
void report_from_now(void);

/*
 * Milliseconds since then in which the calling thread slept: it neither ran nor waited for a CPU. Below 0 if the kernel
 * does not report how long it waited for one. For the thread that started the clock.
 */
double slept_ms(void);

/* Append every line to this file too: 0, or -1 with errno. */
int report_to(const char *path);

/* One line: {"event":EVENT,"ms":N,FORMAT...}. */
__attribute__((format(printf, 2, 3))) void say(const char *event, const char *format, ...);

/* The line of an error of the command that is being run; error is an errno, or 0 for none. Always -1. */
int failed(const char *what, int error);

/* Seconds of the monotonic clock. */
double elapsed_since(const struct timespec *from);

#endif
