#define _GNU_SOURCE
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "report.h"

#define MAX_REGIONS 64
#define LARGEST_PAGE 65536 /* of any Linux we know */
#define TMPFS_MAGIC 0x01021994

struct region {
	int used;
	int id;
	char *map; /* NULL for a file that is written */
	int fd;    /* -1 for anonymous memory */
	char path[PATH_MAX];
	uint64_t bytes; /* allocated so far */
	uint64_t size;  /* asked for, in whole pages */
};

static struct region regions[MAX_REGIONS];
static int region_count;

uint64_t page_bytes(void)
{
	static uint64_t known;

	if (!known)
		known = (uint64_t)sysconf(_SC_PAGESIZE);
	return known;
}

/* ---- one page */

/* What touch looks for: the first of the bytes that only this page of this region has. */
static uint64_t first_word(int id, uint64_t offset)
{
	return ((uint64_t)id << 48 ^ offset) * 0x9e3779b97f4a7c15ULL | 1;
}

static void fill_page(uint64_t *page, int id, uint64_t offset)
{
	uint64_t x = first_word(id, offset);

	for (size_t i = 0; i < page_bytes() / sizeof *page; i++) {
		page[i] = x;
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
}

static int put_page(struct region *region, uint64_t offset)
{
	static uint64_t scratch[LARGEST_PAGE / sizeof(uint64_t)];

	if (region->map) {
		fill_page((uint64_t *)(void *)(region->map + offset), region->id, offset);
		return 0;
	}
	fill_page(scratch, region->id, offset);
	return pwrite(region->fd, scratch, page_bytes(), (off_t)offset) == (ssize_t)page_bytes() ? 0 : -1;
}

/* Read and write back the first word of a page: both the fault and what the page holds count. 1 if it is wrong. */
static int touch_page(struct region *region, uint64_t offset)
{
	uint64_t word = 0;

	if (region->map) {
		volatile uint64_t *page = (volatile uint64_t *)(void *)(region->map + offset);

		word = *page;
		*page = word;
	} else if (pread(region->fd, &word, sizeof word, (off_t)offset) != sizeof word ||
		   pwrite(region->fd, &word, sizeof word, (off_t)offset) != sizeof word) {
		return -1;
	}
	return word == first_word(region->id, offset) ? 0 : 1;
}

/* Do this to a page and keep the longest wait, in seconds. */
static int timed(int (*act)(struct region *, uint64_t), struct region *region, uint64_t offset, double *longest)
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

/* ---- one region */

static int open_file(struct region *region, const struct command *command)
{
	struct statfs fs;

	if (strlen(command->path) >= sizeof region->path)
		return failed("path too long", ENAMETOOLONG);
	region->fd = open(command->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (region->fd < 0)
		return failed("open", errno);
	strcpy(region->path, command->path);
	if (command->verb == TMPFS && (fstatfs(region->fd, &fs) || fs.f_type != TMPFS_MAGIC))
		return failed("the path is not on a tmpfs", 0);
	if (command->map && ftruncate(region->fd, (off_t)region->size))
		return failed("ftruncate", errno);
	return 0;
}

static int open_region(struct region *region, const struct command *command)
{
	/* Anonymous memory is reserved, so that a hopeless size is refused and not tried. */
	int flags = command->path ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;

	region->fd = -1;
	region->size = (command->size + page_bytes() - 1) / page_bytes() * page_bytes();
	if (command->path && open_file(region, command))
		return -1;
	if (command->path && !command->map)
		return 0;
	region->map = mmap(NULL, region->size, PROT_READ | PROT_WRITE, flags, region->fd, 0);
	if (region->map == MAP_FAILED) {
		region->map = NULL;
		return failed("mmap", errno);
	}
	madvise(region->map, region->size, MADV_NOHUGEPAGE);
	return 0;
}

static void close_region(struct region *region)
{
	if (region->map)
		munmap(region->map, region->size);
	if (region->fd >= 0)
		close(region->fd);
	if (region->path[0])
		unlink(region->path);
	memset(region, 0, sizeof *region);
	region->fd = -1;
}

/* The next step's pages: 0, or -1 if one could not be had. */
static int grow_region(struct region *region, uint64_t step, double *longest)
{
	uint64_t end = region->size - region->bytes > step ? region->bytes + step : region->size;

	while (region->bytes < end) {
		if (timed(put_page, region, region->bytes, longest))
			return failed("write", errno);
		region->bytes += page_bytes();
	}
	return 0;
}

static void keep_pace(const struct timespec *from, uint64_t bytes, uint64_t rate)
{
	double ahead = rate ? (double)bytes / (double)rate - elapsed_since(from) : 0;
	struct timespec pause = { .tv_sec = (time_t)ahead };

	pause.tv_nsec = (long)((ahead - (double)pause.tv_sec) * 1e9);
	if (ahead > 0)
		nanosleep(&pause, NULL);
}

/* ---- commands */

int allocate(const struct command *command)
{
	const char *verb = verb_name(command->verb);
	struct region *region = &regions[region_count];
	struct timespec began;

	if (region_count == MAX_REGIONS)
		return failed("too many regions", 0);
	region_count++; /* a region that could not be had keeps its number, so numbers can be known beforehand */
	if (open_region(region, command)) {
		close_region(region);
		return -1;
	}
	region->used = 1;
	region->id = region_count;
	clock_gettime(CLOCK_MONOTONIC, &began);
	while (region->bytes < region->size) {
		double longest = 0;

		if (grow_region(region, command->step, &longest))
			return -1;
		say("step", "\"command\":%lu,\"verb\":\"%s\",\"id\":%d,\"bytes\":%llu,\"of\":%llu,\"max_us\":%.0f",
		    command_number, verb, region->id, (unsigned long long)region->bytes,
		    (unsigned long long)region->size, longest * 1e6);
		keep_pace(&began, region->bytes, command->rate);
	}
	say("done", "\"command\":%lu,\"verb\":\"%s\",\"id\":%d,\"bytes\":%llu", command_number, verb, region->id,
	    (unsigned long long)region->bytes);
	return 0;
}

/* The next region that the command is for, or NULL. */
static struct region *next_chosen(const struct command *command, const struct region *after)
{
	for (int i = after ? (int)(after - regions) + 1 : 0; i < region_count; i++)
		if (regions[i].used && (command->id == 0 || command->id == (uint64_t)i + 1))
			return &regions[i];
	return NULL;
}

static int done(const struct command *command, uint64_t bytes, uint64_t wrong, double longest)
{
	say("done", "\"command\":%lu,\"verb\":\"%s\",\"id\":%llu,\"bytes\":%llu,\"wrong_pages\":%llu,\"max_us\":%.0f",
	    command_number, verb_name(command->verb), (unsigned long long)command->id, (unsigned long long)bytes,
	    (unsigned long long)wrong, longest * 1e6);
	return 0;
}

int touch_regions(const struct command *command)
{
	uint64_t bytes = 0, wrong = 0;
	double longest = 0;

	if (command->id && !next_chosen(command, NULL))
		return failed("no such region", 0);
	for (struct region *region = NULL; (region = next_chosen(command, region));) {
		for (uint64_t offset = 0; offset < region->bytes; offset += page_bytes()) {
			int state = timed(touch_page, region, offset, &longest);

			if (state < 0)
				return failed("touch", errno);
			wrong += (uint64_t)state;
		}
		bytes += region->bytes;
	}
	return done(command, bytes, wrong, longest);
}

int free_regions(const struct command *command)
{
	uint64_t bytes = 0;

	if (command->id && !next_chosen(command, NULL))
		return failed("no such region", 0);
	for (struct region *region = NULL; (region = next_chosen(command, region));) {
		bytes += region->bytes;
		close_region(region);
	}
	return done(command, bytes, 0, 0);
}

int report_held(void)
{
	uint64_t bytes = 0;
	unsigned long resident = 0;
	int count = 0;
	FILE *statm = fopen("/proc/self/statm", "re");

	if (!statm || fscanf(statm, "%*u %lu", &resident) != 1)
		resident = 0;
	if (statm)
		fclose(statm);
	for (int i = 0; i < region_count; i++) {
		count += regions[i].used;
		bytes += regions[i].bytes;
	}
	say("held", "\"command\":%lu,\"regions\":%d,\"bytes\":%llu,\"resident\":%llu", command_number, count,
	    (unsigned long long)bytes, (unsigned long long)resident * page_bytes());
	return 0;
}
