/* Lines for whoever listens, kept in memory while nobody reads them. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stddef.h>

/* Seconds of the monotonic clock. */
double now(void);

/* One line: {"at":NOW, then what the other calls add, then end_line(). */
void begin_line(void);
void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Text as a JSON string, with its quotes. Bytes that are not printable ASCII are escaped, each for itself. */
void add_text(const char *text, size_t length);
void end_line(void);

/* How many bytes wait to be written; write as many as are taken. -1 once nobody listens any more. */
size_t waiting(void);
int flush_output(void);

#endif
