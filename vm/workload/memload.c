/*
 * memload: uses memory in a stated way and reports what happened, one JSON object a line.
 *
 *   memload [--commands PATH] [--report PATH] [COMMAND [, COMMAND]...]
 *
 * Commands come from the arguments, separated by "," arguments, then line by line from the FIFO or file PATH of
 * --commands, or from standard input if there are neither commands in the arguments nor --commands. A FIFO is kept
 * open, so it may have many writers one after the other. Reports go to standard output and are appended to the
 * file of --report.
 *
 *   anon SIZE [step=SIZE] [rate=SIZE/s]              private anonymous memory
 *   file PATH SIZE [step=SIZE] [rate=SIZE/s] [how=write|mmap]   page cache of a new file
 *   tmpfs PATH SIZE [step=SIZE] [rate=SIZE/s] [how=write|mmap]  the same, and PATH must be on a tmpfs
 *   touch [ID]       read and write every page of one held region, or of all, and check what it holds
 *   free [ID|all]    give memory back and delete the file of one region, or of all
 *   hold [SECONDS]   do nothing for so long; without a number, for ever
 *   report           say what is held now
 *   exit CODE        end with this code (0 to 255)
 *
 * SIZE is a number of bytes with an optional suffix Ki, Mi or Gi. Regions are numbered from 1 in the order in which
 * they were asked for. Memory is allocated in steps (1Mi unless told), no faster than the rate, and really used: each
 * page is filled with its own pseudo-random bytes, in base pages, so no zero page, same-page merging, huge page or
 * compression makes it smaller. The program itself is locked in memory (start says lock_errno, 0 if it is): it does not
 * thrash when its cgroup is full.
 *
 * Each line has "event" and "ms" (since the start, monotonic); "command" counts commands from 1. Events: start; step
 * (bytes so far, of, max_us: the longest wait for one page or write in this step); done; error (what, errno; the
 * command had no further effect, what it had allocated stays held); held (report); exit. bytes is what is allocated,
 * touched or freed so far by the command.
 *
 * A command in the arguments that does not parse ends memload with code 2 before anything runs. TERM and INT end it at
 * once with 128 + signal, also as process 1 of a container. The end of the commands ends it with 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define MAX_REGIONS 64
#define MAX_WORDS 8
#define TMPFS_MAGIC 0x01021994

enum verb { ANON, FILE_CACHE, TMPFS, TOUCH, FREE, HOLD, REPORT, EXIT };
static const char *const verb_names[] = { "anon", "file", "tmpfs", "touch", "free", "hold", "report", "exit" };

struct command {
	enum verb verb;
	const char *path;
	uint64_t size, step, rate; /* bytes, bytes, bytes a second (0: no limit) */
	int map;                   /* how=mmap */
	uint64_t id;               /* 0: all */
	double seconds;            /* < 0: for ever */
	int code;
};

struct region {
	int used;
	char *map; /* NULL for a file that is written */
	int fd;    /* -1 for anonymous memory */
	char path[PATH_MAX];
	uint64_t bytes; /* allocated so far */
	uint64_t size;  /* asked for, in whole pages */
};

static struct region regions[MAX_REGIONS];
static int region_count, report_fd = -1;
static unsigned long command_count;
static uint64_t page_size;
static struct timespec started;

static double elapsed_since(const struct timespec *from)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - from->tv_sec) + (double)(now.tv_nsec - from->tv_nsec) / 1e9;
}

static void write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t done = write(fd, text, length);

		if (done < 0 && errno != EINTR)
			return; /* nobody listens: the memory is what matters */
		if (done > 0) {
			text += done;
			length -= (size_t)done;
		}
	}
}

/* One line: {"event":EVENT,"ms":N,FORMAT...}. */
__attribute__((format(printf, 2, 3))) static void say(const char *event, const char *format, ...)
{
	char line[2 * PATH_MAX];
	va_list args;
	int length = snprintf(line, sizeof line, "{\"event\":\"%s\",\"ms\":%.3f,", event, elapsed_since(&started) * 1e3);

	va_start(args, format);
	length += vsnprintf(line + length, sizeof line - (size_t)length - 3, format, args);
	va_end(args);
	if (length > (int)sizeof line - 3)
		length = (int)sizeof line - 3;
	memcpy(line + length, "}\n", 2);
	write_all(STDOUT_FILENO, line, (size_t)length + 2);
	if (report_fd >= 0)
		write_all(report_fd, line, (size_t)length + 2);
}

static int failed(const char *what, int error)
{
	say("error", "\"command\":%lu,\"what\":\"%s\",\"errno\":%d,\"error\":\"%s\"", command_count, what, error,
	    error ? strerror(error) : "");
	return -1;
}

static void on_signal(int number)
{
	_exit(128 + number);
}

/* ---- parsing */

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

static int parse_option(struct command *command, const char *word)
{
	if (!strncmp(word, "step=", 5))
		return parse_size(word + 5, &command->step) || command->step == 0 ? -1 : 0;
	if (!strncmp(word, "rate=", 5))
		return parse_size(word + 5, &command->rate);
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
	return 0;
}

static int parse_number(const char *text, double *number)
{
	char *end;

	*number = strtod(text, &end);
	return *text >= '0' && *text <= '9' && !*end && *number < 1e9 ? 0 : -1;
}

/* 0, or -1 if these words are no command. The command keeps pointers into the words. */
static int parse(struct command *command, int count, char **words)
{
	double number = 0;
	int verb = 0;

	memset(command, 0, sizeof *command);
	command->step = 1 << 20;
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
	if (count == 1)
		return 0;
	if (verb <= FREE && !strcmp(words[1], "all"))
		return 0;
	if (parse_number(words[1], &number))
		return -1;
	if (verb != HOLD && number != (double)(uint64_t)number)
		return -1;
	if (verb <= FREE)
		command->id = (uint64_t)number;
	command->seconds = number;
	command->code = (int)number;
	return (verb == EXIT && number > 255) || (verb <= FREE && number < 1) ? -1 : 0;
}

/* ---- using memory */

/* Fill a page with bytes that only this page of this region has; the first word is what touch looks for. */
static uint64_t first_word(int id, uint64_t offset)
{
	return ((uint64_t)id << 48 ^ offset) * 0x9e3779b97f4a7c15ULL | 1;
}

static void fill_page(uint64_t *page, int id, uint64_t offset)
{
	uint64_t x = first_word(id, offset);

	for (size_t i = 0; i < page_size / sizeof *page; i++) {
		page[i] = x;
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
}

static int put_page(struct region *region, int id, uint64_t offset, uint64_t *scratch)
{
	if (region->map) {
		fill_page((uint64_t *)(void *)(region->map + offset), id, offset);
		return 0;
	}
	fill_page(scratch, id, offset);
	return pwrite(region->fd, scratch, page_size, (off_t)offset) == (ssize_t)page_size ? 0 : -1;
}

static void keep_pace(const struct timespec *from, uint64_t bytes, uint64_t rate)
{
	double ahead = rate ? (double)bytes / (double)rate - elapsed_since(from) : 0;
	struct timespec pause = { .tv_sec = (time_t)ahead };

	pause.tv_nsec = (long)((ahead - (double)pause.tv_sec) * 1e9);
	if (ahead > 0)
		nanosleep(&pause, NULL);
}

static int open_region(struct region *region, const struct command *command)
{
	struct statfs fs;
	int flags = MAP_PRIVATE | MAP_ANONYMOUS; /* reserved, so that a hopeless size is refused and not tried */

	region->fd = -1;
	region->size = (command->size + page_size - 1) / page_size * page_size;
	if (command->path) {
		if (strlen(command->path) >= sizeof region->path)
			return failed("path too long", ENAMETOOLONG);
		region->fd = open(command->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (region->fd < 0)
			return failed("open", errno);
		strcpy(region->path, command->path);
		if (command->verb == TMPFS && (fstatfs(region->fd, &fs) || fs.f_type != TMPFS_MAGIC))
			return failed("the path is not on a tmpfs", 0);
		if (!command->map)
			return 0;
		if (ftruncate(region->fd, (off_t)region->size))
			return failed("ftruncate", errno);
		flags = MAP_SHARED;
	}
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

static int allocate(const struct command *command)
{
	static uint64_t scratch[65536 / sizeof(uint64_t)]; /* the largest base page of any Linux we know */
	struct region *region = &regions[region_count];
	struct timespec began, page_began;
	int id = region_count + 1;

	if (region_count == MAX_REGIONS)
		return failed("too many regions", 0);
	region_count++; /* a region that could not be had keeps its number, so numbers can be known beforehand */
	if (open_region(region, command)) {
		close_region(region);
		return -1;
	}
	region->used = 1;
	clock_gettime(CLOCK_MONOTONIC, &began);
	while (region->bytes < region->size) {
		uint64_t end = region->size - region->bytes > command->step ? region->bytes + command->step : region->size;
		double longest = 0;

		while (region->bytes < end) {
			double took;

			clock_gettime(CLOCK_MONOTONIC, &page_began);
			if (put_page(region, id, region->bytes, scratch))
				return failed("write", errno);
			took = elapsed_since(&page_began);
			longest = took > longest ? took : longest;
			region->bytes += page_size;
		}
		say("step", "\"command\":%lu,\"verb\":\"%s\",\"id\":%d,\"bytes\":%llu,\"of\":%llu,\"max_us\":%.0f",
		    command_count, verb_names[command->verb], id, (unsigned long long)region->bytes,
		    (unsigned long long)region->size, longest * 1e6);
		keep_pace(&began, region->bytes, command->rate);
	}
	say("done", "\"command\":%lu,\"verb\":\"%s\",\"id\":%d,\"bytes\":%llu", command_count,
	    verb_names[command->verb], id, (unsigned long long)region->bytes);
	return 0;
}

/* Read and write back the first word of a page: both the fault and what the page holds count. */
static int touch_page(struct region *region, int id, uint64_t offset)
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
	return word == first_word(id, offset) ? 0 : 1;
}

static int chosen(const struct command *command, int index)
{
	return regions[index].used && (command->id == 0 || command->id == (uint64_t)index + 1);
}

static int touch_or_free(const struct command *command)
{
	struct timespec began;
	uint64_t bytes = 0, wrong = 0;
	double longest = 0;
	int found = 0;

	for (int i = 0; i < region_count; i++) {
		struct region *region = &regions[i];

		if (!chosen(command, i))
			continue;
		found = 1;
		bytes += region->bytes;
		if (command->verb == FREE) {
			close_region(region);
			continue;
		}
		for (uint64_t offset = 0; offset < region->bytes; offset += page_size) {
			int state;
			double took;

			clock_gettime(CLOCK_MONOTONIC, &began);
			state = touch_page(region, i + 1, offset);
			if (state < 0)
				return failed("touch", errno);
			wrong += (uint64_t)state;
			took = elapsed_since(&began);
			longest = took > longest ? took : longest;
		}
	}
	if (!found && command->id)
		return failed("no such region", 0);
	say("done", "\"command\":%lu,\"verb\":\"%s\",\"id\":%llu,\"bytes\":%llu,\"wrong_pages\":%llu,\"max_us\":%.0f",
	    command_count, verb_names[command->verb], (unsigned long long)command->id, (unsigned long long)bytes,
	    (unsigned long long)wrong, longest * 1e6);
	return 0;
}

static int hold(double seconds)
{
	struct timespec left = { .tv_sec = (time_t)seconds };

	say("step", "\"command\":%lu,\"verb\":\"hold\"", command_count);
	while (seconds < 0)
		pause();
	left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
	while (nanosleep(&left, &left) && errno == EINTR)
		;
	say("done", "\"command\":%lu,\"verb\":\"hold\"", command_count);
	return 0;
}

static int report(void)
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
	say("held", "\"command\":%lu,\"regions\":%d,\"bytes\":%llu,\"resident\":%llu", command_count, count,
	    (unsigned long long)bytes, (unsigned long long)resident * page_size);
	return 0;
}

static int run(const struct command *command)
{
	command_count++;
	switch (command->verb) {
	case ANON:
	case FILE_CACHE:
	case TMPFS:
		return allocate(command);
	case TOUCH:
	case FREE:
		return touch_or_free(command);
	case HOLD:
		return hold(command->seconds);
	case REPORT:
		return report();
	case EXIT:
		say("exit", "\"command\":%lu,\"code\":%d", command_count, command->code);
		exit(command->code);
	}
	return -1;
}

/* ---- where commands come from */

static void run_stream(FILE *stream)
{
	char line[2 * PATH_MAX], *words[MAX_WORDS + 1];
	struct command command;

	while (fgets(line, sizeof line, stream)) {
		int count = 0;
		char *state = NULL;

		for (char *word = strtok_r(line, " \t\n", &state); word && count <= MAX_WORDS;
		     word = strtok_r(NULL, " \t\n", &state))
			words[count++] = word;
		if (count == 0)
			continue;
		if (count > MAX_WORDS || parse(&command, count, words)) {
			command_count++;
			failed("not a command", 0);
			continue;
		}
		run(&command);
	}
}

/* Run the commands between the "," arguments, or only see whether they parse. */
static int run_arguments(int count, char **words, int really)
{
	struct command command;
	int status = 0;

	for (int first = 0, next; first < count; first = next + 1) {
		for (next = first; next < count && strcmp(words[next], ","); next++)
			;
		if (parse(&command, next - first, words + first)) {
			fprintf(stderr, "memload: the command that begins with '%s' does not parse\n",
				first < count ? words[first] : "");
			return -1;
		}
		if (really)
			status |= run(&command);
	}
	return status;
}

/*
 * Keep the program itself in memory: 0, or why not. Its pages may be charged to its own cgroup; at the limit they would
 * be reclaimed and read back without end, which the kernel takes for progress, so that nothing is killed for minutes.
 */
static int lock_program(void)
{
	return mlockall(MCL_CURRENT) ? errno : 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	const char *commands = NULL;
	int next = 1;

	clock_gettime(CLOCK_MONOTONIC, &started);
	page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	sigaction(SIGTERM, &action, NULL); /* process 1 has no default action for signals */
	sigaction(SIGINT, &action, NULL);
	signal(SIGCHLD, SIG_IGN); /* process 1 inherits orphans: reap them */
	signal(SIGPIPE, SIG_IGN);
	for (; next + 1 < argc && !strncmp(argv[next], "--", 2); next += 2) {
		if (!strcmp(argv[next], "--commands"))
			commands = argv[next + 1];
		else if (!strcmp(argv[next], "--report"))
			report_fd = open(argv[next + 1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		else
			break;
		if (!strcmp(argv[next], "--report") && report_fd < 0) {
			perror(argv[next + 1]);
			return 2;
		}
	}
	if (run_arguments(argc - next, argv + next, 0))
		return 2;
	say("start", "\"pid\":%d,\"page_size\":%llu,\"lock_errno\":%d", (int)getpid(), (unsigned long long)page_size,
	    lock_program());
	run_arguments(argc - next, argv + next, 1);
	if (commands || next == argc) {
		/* Reading and writing: the end of one writer is then not the end of the FIFO. */
		int fd = commands ? open(commands, O_RDWR | O_CLOEXEC) : STDIN_FILENO;
		FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");

		if (!stream) {
			failed("open the commands", errno);
			return 2;
		}
		run_stream(stream);
	}
	return 0;
}
