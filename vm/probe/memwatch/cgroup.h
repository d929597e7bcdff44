/* The watched cgroups: their files, and the events that report changes. */
#ifndef CGROUP_H
#define CGROUP_H

#include <poll.h>

/* Watch this folder and every present and future folder below it; of each, these files (words, count of them). */
void watch_tree(const char *folder, int count, char **files);

/* Start watching folders created since the last look. */
void find_new(void);

/* Read the files of every cgroup, the slow ones if due or `whole`, and report changes. why: what woke memwatch. */
void sample(const char *why, int whole);

/* What to poll: fills at most `most` entries and returns their number. */
int events(struct pollfd *fds, int most);

#endif
