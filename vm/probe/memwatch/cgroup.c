#define _GNU_SOURCE
#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "output.h"

#define MAX_TREES 64
#define MAX_FILES 32
#define MAX_CGROUPS 512
#define LARGEST_FILE 8192

/* Stalls of 10 ms within half a second, the shortest window that the kernel takes. */
#define PRESSURE_TRIGGER "some 10000 500000"

/* Large files, such as memory.stat, are expensive for the kernel: read once a second, and for requested looks. */
#define SLOW_MARK '~'
#define SLOW_APART 1.0

/* Files appear late if a controller is enabled for an existing cgroup. */
#define MAY_COME 5.0

struct tree {
	char folder[PATH_MAX];
	int count;
	char *files[MAX_FILES];
	int slow[MAX_FILES];
};

struct cgroup {
	char folder[PATH_MAX];
	const struct tree *tree;
	int fds[MAX_FILES];   /* -1: no such file */
	char *texts[MAX_FILES]; /* last reported text; NULL: none yet */
	int trigger;	      /* of memory.pressure, or -1 */
	double since;	      /* when it was found */
	double slow_look;     /* when the slow files were last read */
	int said;
	int gone;
};

static struct tree trees[MAX_TREES];
static int tree_count;
static struct cgroup *cgroups[MAX_CGROUPS];
static int cgroup_count;
static int inotify = -1;
static int is_blind; /* some folder has no inotify watch for new folders below */

static int known(const struct tree *tree, const char *folder)
{
	for (int i = 0; i < cgroup_count; i++)
		if (cgroups[i]->tree == tree && !cgroups[i]->gone && !strcmp(cgroups[i]->folder, folder))
			return 1;
	return 0;
}

static int open_trigger(int folder)
{
	int fd = openat(folder, "memory.pressure", O_RDWR | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0 && write(fd, PRESSURE_TRIGGER, sizeof PRESSURE_TRIGGER) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Open files that are not open yet: -1 if the folder is missing. */
static int open_files(struct cgroup *cgroup)
{
	int folder = open(cgroup->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder < 0)
		return -1;
	for (int i = 0; i < cgroup->tree->count; i++)
		if (cgroup->fds[i] < 0)
			cgroup->fds[i] = openat(folder, cgroup->tree->files[i], O_RDONLY | O_CLOEXEC);
	if (cgroup->trigger < 0)
		cgroup->trigger = open_trigger(folder);
	close(folder);
	return 0;
}

static void watch_cgroup(const struct tree *tree, const char *folder)
{
	struct cgroup *cgroup = cgroup_count < MAX_CGROUPS ? calloc(1, sizeof *cgroup) : NULL;

	if (!cgroup)
		return;
	snprintf(cgroup->folder, sizeof cgroup->folder, "%s", folder);
	cgroup->tree = tree;
	cgroup->trigger = -1;
	cgroup->since = now();
	for (int i = 0; i < tree->count; i++)
		cgroup->fds[i] = -1;
	if (open_files(cgroup)) {
		free(cgroup);
		return;
	}
	cgroups[cgroup_count++] = cgroup;
	if (inotify < 0)
		inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	is_blind |= inotify_add_watch(inotify, folder, IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR) < 0;
}

static void find_below(const struct tree *tree, const char *folder)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *list;

	if (!known(tree, folder))
		watch_cgroup(tree, folder);
	list = opendir(folder);
	while (list && (entry = readdir(list))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < sizeof path)
			find_below(tree, path);
	}
	if (list)
		closedir(list);
}

void watch_tree(const char *folder, int count, char **files)
{
	struct tree *tree;

	if (tree_count == MAX_TREES || count > MAX_FILES || strlen(folder) >= sizeof tree->folder) {
		begin_line();
		add(",\"failed\":\"tree\",\"path\":");
		add_text(folder, strlen(folder));
		end_line();
		return;
	}
	tree = &trees[tree_count++];
	strcpy(tree->folder, folder);
	tree->count = count;
	for (int i = 0; i < count; i++) {
		tree->slow[i] = files[i][0] == SLOW_MARK;
		tree->files[i] = strdup(files[i] + tree->slow[i]);
	}
	find_below(tree, tree->folder);
	sample("asked", 0);
}

/* Whether its folder was missing: no event reports its creation. */
static int is_missing(const struct tree *tree)
{
	return !known(tree, tree->folder);
}

void find_new(void)
{
	char skipped[4096];
	int comes = is_blind;

	/* Which folder it was does not matter: there are few, and all are scanned. */
	while (inotify >= 0 && read(inotify, skipped, sizeof skipped) > 0)
		comes = 1;
	for (int i = 0; i < tree_count; i++)
		if (comes || is_missing(&trees[i]))
			find_below(&trees[i], trees[i].folder);
}

static void give_up(struct cgroup *cgroup)
{
	cgroup->gone = 1;
	for (int i = 0; i < cgroup->tree->count; i++) {
		if (cgroup->fds[i] >= 0)
			close(cgroup->fds[i]);
		free(cgroup->texts[i]);
	}
	if (cgroup->trigger >= 0)
		close(cgroup->trigger);
	begin_line();
	add(",\"cgroup\":");
	add_text(cgroup->folder, strlen(cgroup->folder));
	add(",\"why\":\"gone\",\"files\":{}");
	end_line();
}

/* A file's text: its length, or -1 if it is missing. A removed cgroup answers ENODEV. */
static ssize_t text_of(int fd, char *text, int *removed)
{
	ssize_t length = fd < 0 ? -1 : pread(fd, text, LARGEST_FILE, 0);

	if (fd >= 0 && length < 0 && errno == ENODEV)
		*removed = 1;
	return length;
}

/* A line with the changes of one cgroup; no line without changes. whole: read its slow files, too. */
static void sample_one(struct cgroup *cgroup, const char *why, int whole)
{
	static char texts[MAX_FILES][LARGEST_FILE + 1];
	ssize_t lengths[MAX_FILES];
	int removed = 0, changed = 0, first = 1;

	whole |= now() - cgroup->slow_look >= SLOW_APART;
	if (whole)
		cgroup->slow_look = now();
	if (cgroup->said && now() - cgroup->since < MAY_COME)
		open_files(cgroup);
	for (int i = 0; i < cgroup->tree->count; i++) {
		lengths[i] = -1;
		if (whole || !cgroup->tree->slow[i])
			lengths[i] = text_of(cgroup->fds[i], texts[i], &removed);
		texts[i][lengths[i] < 0 ? 0 : lengths[i]] = '\0';
		changed |= lengths[i] >= 0 && (!cgroup->texts[i] || strcmp(texts[i], cgroup->texts[i]) != 0);
	}
	if (removed) {
		give_up(cgroup);
		return;
	}
	if (cgroup->said && !changed)
		return;
	begin_line();
	add(",\"cgroup\":");
	add_text(cgroup->folder, strlen(cgroup->folder));
	add(",\"why\":\"%s\",\"files\":{", cgroup->said ? why : "new");
	for (int i = 0; i < cgroup->tree->count; i++) {
		const char *name = cgroup->tree->files[i];

		if (lengths[i] < 0 ? cgroup->said : cgroup->texts[i] && !strcmp(texts[i], cgroup->texts[i]))
			continue;
		add("%s", first ? "" : ",");
		first = 0;
		add_text(name, strlen(name));
		add(":");
		if (lengths[i] < 0) {
			add("null");
			continue;
		}
		add_text(texts[i], (size_t)lengths[i]);
		free(cgroup->texts[i]);
		cgroup->texts[i] = strdup(texts[i]);
	}
	add("}");
	end_line();
	cgroup->said = 1;
}

void sample(const char *why, int whole)
{
	for (int i = 0; i < cgroup_count; i++)
		if (!cgroups[i]->gone)
			sample_one(cgroups[i], why, whole);
}

/* Files for which the kernel wakes pollers on a change. */
static int notifies(const char *file)
{
	return !strcmp(file, "memory.events") || !strcmp(file, "memory.swap.events") || !strcmp(file, "cgroup.events");
}

int events(struct pollfd *fds, int most)
{
	int count = 0;

	if (inotify >= 0 && count < most)
		fds[count++] = (struct pollfd){ .fd = inotify, .events = POLLIN };
	for (int i = 0; i < cgroup_count; i++) {
		const struct cgroup *cgroup = cgroups[i];

		if (cgroup->gone)
			continue;
		if (cgroup->trigger >= 0 && count < most)
			fds[count++] = (struct pollfd){ .fd = cgroup->trigger, .events = POLLPRI };
		for (int file = 0; file < cgroup->tree->count; file++)
			if (cgroup->fds[file] >= 0 && notifies(cgroup->tree->files[file]) && count < most)
				fds[count++] = (struct pollfd){ .fd = cgroup->fds[file], .events = POLLPRI };
	}
	return count;
}
