#define _GNU_SOURCE
#include "growth.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "report.h"
#include "text.h"

#define STACK_BYTES (128 << 10) /* a line of a report takes 8 KiB of it */

/* One thread's part of a region: the pages from next to end. */
struct part {
	struct region *region;
	const struct command *command;
	const struct timespec *began;
	unsigned thread; /* from 1; 0: the only one */
	uint64_t next, end;
	int state;
};

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void keep_pace(const struct timespec *from, uint64_t bytes, uint64_t rate)
{
	double ahead = rate ? (double)bytes / (double)rate - elapsed_since(from) : 0;
	struct timespec pause = { .tv_sec = (time_t)ahead };

	pause.tv_nsec = (long)((ahead - (double)pause.tv_sec) * 1e9);
	if (ahead > 0)
		nanosleep(&pause, NULL);
}

static int is_over(const struct part *part)
{
	return part->command->within > 0 && elapsed_since(part->began) >= part->command->within;
}

/* The next step's pages: 0, or -1 if one failed; the step's other pages still count. */
static int use_step(struct part *part, uint64_t *used, double *longest)
{
	uint64_t step = part->command->step;
	uint64_t end = part->end - part->next > step ? part->next + step : part->end;

	for (; part->next < end && !is_over(part); part->next += page_bytes(), *used += page_bytes()) {
		if (part->command->text)
			read_text();
		if (timed(put_page, part->region, part->next, longest))
			return -1;
	}
	return 0;
}

static void say_step(const struct part *part, double longest)
{
	const struct region *region = part->region;
	char thread[32] = "";

	if (part->thread)
		snprintf(thread, sizeof thread, ",\"thread\":%u", part->thread);
	say("step", "\"command\":%lu,\"verb\":\"%s\",\"id\":%d,\"bytes\":%llu,\"of\":%llu,\"max_us\":%.0f%s",
	    command_number, verb_name(part->command->verb), region->id, (unsigned long long)region->bytes,
	    (unsigned long long)region->size, longest * 1e6, thread);
}

static void *use_part(void *given)
{
	struct part *part = given;

	while (!part->state && part->next < part->end && !is_over(part)) {
		uint64_t used = 0, bytes;
		double longest = 0;

		part->state = use_step(part, &used, &longest);
		pthread_mutex_lock(&counting);
		bytes = part->region->bytes += used;
		if (part->state)
			failed("write", errno);
		else
			say_step(part, longest);
		pthread_mutex_unlock(&counting);
		keep_pace(part->began, bytes, part->command->rate);
	}
	return NULL;
}

/* Whole pages, as many for each, and what is left over for the last one. */
static void share_out(struct part *parts, struct region *region, const struct command *command,
		      const struct timespec *began)
{
	uint64_t each = region->size / page_bytes() / command->threads * page_bytes();

	for (unsigned i = 0; i < command->threads; i++)
		parts[i] = (struct part){ .region = region, .command = command, .began = began, .thread = i + 1,
					  .next = i * each, .end = (i + 1) * each };
	parts[command->threads - 1].end = region->size;
}

static int grow_together(struct region *region, const struct command *command, const struct timespec *began)
{
	struct part parts[MAX_THREADS];
	pthread_t threads[MAX_THREADS];
	pthread_attr_t small;
	unsigned started = 0;
	int refused = 0, state = 0;

	share_out(parts, region, command, began);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, STACK_BYTES);
	while (started < command->threads && !refused)
		if (!(refused = pthread_create(&threads[started], &small, use_part, &parts[started])))
			started++;
	pthread_attr_destroy(&small);
	for (unsigned i = 0; i < started; i++) {
		pthread_join(threads[i], NULL);
		state |= parts[i].state;
	}
	return refused ? failed("start a thread", refused) : state;
}

int grow(struct region *region, const struct command *command)
{
	struct timespec began;
	struct part whole = { .region = region, .command = command, .began = &began, .end = region->size };

	if (command->text)
		munlockall();
	clock_gettime(CLOCK_MONOTONIC, &began);
	if (command->threads > 1)
		return grow_together(region, command, &began);
	use_part(&whole);
	return whole.state;
}
