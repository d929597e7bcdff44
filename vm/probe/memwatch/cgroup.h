/* The cgroups that are watched: their files, and what tells that something happened in them. */
#ifndef CGROUP_H
#define CGROUP_H

#include <poll.h>

/* Watch this folder and every folder below it, now and later; of each, these files (words, count of them). */
void watch_tree(const char *folder, int count, char **files);

/* Folders that have come to be since the last look are watched from now on. */
void find_new(void);

/* Read the files of every cgroup, the slow ones if it is time or `whole`, and say what changed. why: what woke us. */
void sample(const char *why, int whole);

/* What to wait for: fills at most `most` entries, and says how many. */
int events(struct pollfd *fds, int most);

#endif
