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

#include "growth.h"
#include "page.h"
#include "report.h"

#define MAX_REGIONS 64
#define TMPFS_MAGIC 0x01021994

static struct region regions[MAX_REGIONS];
static int region_count;

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
	/* Anonymous memory is reserved, so that an impossible size fails at once. */
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

/* ---- commands */

int allocate(const struct command *command)
{
	struct region *region = &regions[region_count];
	char asleep[48] = "";
	double slept;

	if (region_count == MAX_REGIONS)
		return failed("too many regions", 0);
	region_count++; /* a failed region keeps its number, so that numbers are predictable */
	if (open_region(region, command)) {
		close_region(region);
		return -1;
	}
	region->used = 1;
	region->id = region_count;
	region->repeat = command->repeat;
	if (grow(region, command))
		return -1;
	slept = slept_ms();
	if (slept >= 0)
		snprintf(asleep, sizeof asleep, ",\"slept_ms\":%.3f", slept);
	say("done", "\"command\":%lu,\"verb\":\"%s\",\"id\":%d,\"bytes\":%llu%s", command_number,
	    verb_name(command->verb), region->id, (unsigned long long)region->bytes, asleep);
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

int look_at_regions(const struct command *command)
{
	int (*look)(struct region *, uint64_t) = command->verb == READ ? read_page : touch_page;
	uint64_t bytes = 0, wrong = 0;
	double longest = 0;

	if (command->id && !next_chosen(command, NULL))
		return failed("no such region", 0);
	for (struct region *region = NULL; (region = next_chosen(command, region));) {
		for (uint64_t offset = 0; offset < region->bytes; offset += page_bytes()) {
			int state = timed(look, region, offset, &longest);

			if (state < 0)
				return failed(verb_name(command->verb), errno);
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
