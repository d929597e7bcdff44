/* The program's own text, which is page cache of the file that it runs from. */
#ifndef MEMLOAD_TEXT_H
#define MEMLOAD_TEXT_H

/* Read a byte of each of its pages. */
void read_text(void);

/*
 * Execute a copy of the program in a new file: the file's page cache is then charged to the program's own cgroup, not to
 * one that read the program before. Returns 0 in the copy, and -1 with errno if there is none.
 */
int run_copy(const char *path, char **argv);

#endif
