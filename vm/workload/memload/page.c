#define _GNU_SOURCE
#include "page.h"

#include <time.h>
#include <unistd.h>

#include "report.h"

#define LARGEST_PAGE 65536 /* of any Linux we know */

uint64_t page_bytes(void)
{
	static uint64_t known;

	if (!known)
		known = (uint64_t)sysconf(_SC_PAGESIZE);
	return known;
}

/* What touch and read verify: the first bytes, which are unique to this page of this region. */
static uint64_t first_word(int id, uint64_t offset)
{
	return ((uint64_t)id << 48 ^ offset) * 0x9e3779b97f4a7c15ULL | 1;
}

/* Plain loops: under emulation a division or a call per word costs several times as much as the rest. */
static void fill_page(uint64_t *page, const struct region *region, uint64_t offset)
{
	const uint64_t *end = page + page_bytes() / sizeof *page;
	const size_t repeat = region->repeat;
	uint64_t x = first_word(region->id, offset);

	while (page < end) {
		for (size_t i = 0; i < repeat; i++)
			*page++ = x;
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
}

int put_page(struct region *region, uint64_t offset)
{
	static uint64_t scratch[LARGEST_PAGE / sizeof(uint64_t)];

	if (region->map) {
		fill_page((uint64_t *)(void *)(region->map + offset), region, offset);
		return 0;
	}
	fill_page(scratch, region, offset);
	return pwrite(region->fd, scratch, page_bytes(), (off_t)offset) == (ssize_t)page_bytes() ? 0 : -1;
}

/* Read the page's first word, and write it back if requested: 0, or -1. */
static int take_word(struct region *region, uint64_t offset, int give_back, uint64_t *word)
{
	if (region->map) {
		volatile uint64_t *page = (volatile uint64_t *)(void *)(region->map + offset);

		*word = *page;
		if (give_back)
			*page = *word;
		return 0;
	}
	if (pread(region->fd, word, sizeof *word, (off_t)offset) != sizeof *word)
		return -1;
	return !give_back || pwrite(region->fd, word, sizeof *word, (off_t)offset) == sizeof *word ? 0 : -1;
}

static int look_at_page(struct region *region, uint64_t offset, int give_back)
{
	uint64_t word = 0;

	if (take_word(region, offset, give_back, &word))
		return -1;
	return word == first_word(region->id, offset) ? 0 : 1;
}

int touch_page(struct region *region, uint64_t offset)
{
	return look_at_page(region, offset, 1);
}

int read_page(struct region *region, uint64_t offset)
{
	return look_at_page(region, offset, 0);
}

int timed(int (*act)(struct region *, uint64_t), struct region *region, uint64_t offset, double *longest)
{
	struct timespec began;
	double took;
	int state;

	clock_gettime(CLOCK_MONOTONIC, &began);
	state = act(region, offset);
	took = elapsed_since(&began);
	if (took > *longest)
		*longest = took;
	return state;
}
