#define _GNU_SOURCE
#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define RUN 16 /* equal words of 8 bytes in a row with fill=runs */

static const char *const verb_names[] = { "anon", "file", "tmpfs", "touch", "read", "free", "hold", "report", "exit" };

const char *verb_name(enum verb verb)
{
	return verb_names[verb];
}

static int parse_size(const char *text, uint64_t *size)
{
	char *end;
	unsigned shift = 0;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	*size = strtoull(text, &end, 10);
	if (!strncmp(end, "Ki", 2))
		shift = 10;
	else if (!strncmp(end, "Mi", 2))
		shift = 20;
	else if (!strncmp(end, "Gi", 2))
		shift = 30;
	if (shift)
		end += 2;
	if (!strcmp(end, "/s"))
		end += 2;
	if (errno || *end || *size > (uint64_t)LONG_MAX >> shift)
		return -1;
	*size <<= shift;
	return 0;
}

static int parse_number(const char *text, double *number)
{
	char *end;

	*number = strtod(text, &end);
	return *text >= '0' && *text <= '9' && !*end && *number < 1e9 ? 0 : -1;
}

static int parse_filling(struct command *command, const char *text)
{
	int runs = !strcmp(text, "runs");

	command->repeat = runs ? RUN : 1;
	return runs || !strcmp(text, "random") ? 0 : -1;
}

static int parse_threads(struct command *command, const char *text)
{
	uint64_t count;

	if (parse_size(text, &count) || text[strspn(text, "0123456789")] || count < 1 || count > MAX_THREADS)
		return -1;
	command->threads = (unsigned)count;
	return 0;
}

static int parse_option(struct command *command, const char *word)
{
	if (!strncmp(word, "step=", 5))
		return parse_size(word + 5, &command->step) || command->step == 0 ? -1 : 0;
	if (!strncmp(word, "rate=", 5))
		return parse_size(word + 5, &command->rate);
	if (!strncmp(word, "threads=", 8) && command->verb == ANON)
		return parse_threads(command, word + 8);
	if (!strncmp(word, "within=", 7) && command->verb == ANON)
		return parse_number(word + 7, &command->within) || command->within <= 0 ? -1 : 0;
	if (!strcmp(word, "needs=text") && command->verb == ANON)
		return command->text = 1, 0;
	if (!strncmp(word, "fill=", 5))
		return parse_filling(command, word + 5);
	if (!strcmp(word, "how=mmap") && command->path)
		command->map = 1;
	else if (strcmp(word, "how=write") || !command->path)
		return -1;
	return 0;
}

static int parse_allocation(struct command *command, int count, char **words)
{
	int next = 1;

	if (command->verb != ANON) {
		if (count <= next)
			return -1;
		command->path = words[next++];
	}
	if (count <= next || parse_size(words[next++], &command->size) || command->size == 0)
		return -1;
	for (; next < count; next++)
		if (parse_option(command, words[next]))
			return -1;
	return command->within > 0 && command->threads > 1 ? -1 : 0; /* what one has left out is amid the rest */
}

/* The one word that may follow the other verbs: a region's id or all, seconds, an exit code. */
static int parse_argument(struct command *command, const char *word)
{
	double number = 0;
	int of_region = command->verb == TOUCH || command->verb == READ || command->verb == FREE;

	if (of_region && !strcmp(word, "all"))
		return 0;
	if (parse_number(word, &number))
		return -1;
	if (command->verb == HOLD) {
		command->seconds = number;
		return 0;
	}
	if (number != (double)(uint64_t)number)
		return -1;
	if (of_region) {
		command->id = (uint64_t)number;
		return number < 1 ? -1 : 0;
	}
	command->code = (int)number;
	return number > 255 ? -1 : 0;
}

int parse(struct command *command, int count, char **words)
{
	int verb = 0;

	memset(command, 0, sizeof *command);
	command->step = 1 << 20;
	command->repeat = 1;
	command->threads = 1;
	command->seconds = -1;
	while (verb <= EXIT && (count < 1 || strcmp(words[0], verb_names[verb])))
		verb++;
	if (verb > EXIT)
		return -1;
	command->verb = (enum verb)verb;
	if (verb <= TMPFS)
		return parse_allocation(command, count, words);
	if (count > 2 || (verb == EXIT && count != 2) || (verb == REPORT && count > 1))
		return -1;
	return count == 1 ? 0 : parse_argument(command, words[1]);
}
