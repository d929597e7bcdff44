#define _GNU_SOURCE
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "page.h"

#define SELF "/proc/self/exe"

extern const char __executable_start, etext; /* of the linker */

void read_text(void)
{
	const volatile char *page = &__executable_start;

	for (; page < &etext; page += page_bytes())
		(void)*page;
}

static int is_copy(const char *path)
{
	char self[PATH_MAX];
	ssize_t length = readlink(SELF, self, sizeof self - 1);

	return length > 0 && (size_t)length == strlen(path) && !strncmp(self, path, (size_t)length);
}

static int copy_to(int out)
{
	struct stat program;
	int in = open(SELF, O_RDONLY | O_CLOEXEC), state = -1;
	off_t at = 0;

	if (in < 0)
		return -1;
	if (!fstat(in, &program)) {
		while (at < program.st_size && sendfile(out, in, &at, (size_t)(program.st_size - at)) > 0)
			;
		/* Dirty pages could not be reclaimed: they would have to be written first. */
		state = at < program.st_size ? -1 : fsync(out);
	}
	close(in);
	return state;
}

int run_copy(const char *path, char **argv)
{
	int out, state;

	if (is_copy(path))
		return 0;
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
	if (out < 0)
		return -1;
	state = copy_to(out);
	if (close(out) || state)
		return -1;
	execv(path, argv);
	return -1;
}
