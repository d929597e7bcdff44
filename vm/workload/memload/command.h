/* A command's words, parsed. memload.c lists the commands. */
#ifndef MEMLOAD_COMMAND_H
#define MEMLOAD_COMMAND_H

#include <stdint.h>

#define MAX_THREADS 64

enum verb { ANON, FILE_CACHE, TMPFS, TOUCH, READ, FREE, HOLD, REPORT, EXIT };

struct command {
	enum verb verb;
	const char *path;
	uint64_t size, step, rate; /* bytes, bytes, bytes a second (0: no limit) */
	int map;                   /* how=mmap */
	unsigned repeat;           /* of each word of a page: 1 for fill=random */
	unsigned threads;          /* that use anonymous memory in parallel */
	double within;             /* seconds until anonymous memory is enough; 0: all of it */
	int text;                  /* whether each page of it needs all of the program's text */
	uint64_t id;               /* 0: all */
	double seconds;            /* < 0: for ever */
	int code;
};

/* A verb as it is written. */
const char *verb_name(enum verb verb);

/* 0, or -1 if these words are not a command. The command keeps pointers into the words. */
int parse(struct command *command, int count, char **words);

#endif
