/* One page of a region: filled with content unique to it, and verified later. */
#ifndef MEMLOAD_PAGE_H
#define MEMLOAD_PAGE_H

#include <limits.h>
#include <stdint.h>

struct region {
	int used;
	int id;
	char *map; /* NULL for a file that is written */
	int fd;    /* -1 for anonymous memory */
	char path[PATH_MAX];
	uint64_t bytes; /* allocated so far */
	uint64_t size;  /* asked for, in whole pages */
	unsigned repeat; /* how often each word of a page is repeated in a row */
};

/* Bytes of a base page. */
uint64_t page_bytes(void);

/* Fill the page at this offset: 0, or -1 if it could not be written. Of a file by one thread alone. */
int put_page(struct region *region, uint64_t offset);

/* Read and write back the first word of a page: both the fault and what the page holds count. 1 if it is wrong. */
int touch_page(struct region *region, uint64_t offset);

/* The same without writing, so that the page does not become dirty. */
int read_page(struct region *region, uint64_t offset);

/* Do this to a page and keep the longest wait, in seconds. */
int timed(int (*act)(struct region *, uint64_t), struct region *region, uint64_t offset, double *longest);

#endif
