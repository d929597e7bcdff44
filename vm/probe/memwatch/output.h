/* Output lines, kept in memory until the reader takes them. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stddef.h>

/* Seconds of the monotonic clock. */
double now(void);

/* One line: {"at":NOW, then what the other calls add, then end_line(). */
void begin_line(void);
void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Text as a JSON string, with its quotes. Each byte that is not printable ASCII is escaped. */
void add_text(const char *text, size_t length);
void end_line(void);

/* Write as many bytes as the reader takes; the number of bytes that wait. -1 once the reader has closed. */
size_t waiting(void);
int flush_output(void);

#endif
