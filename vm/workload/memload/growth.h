/* Growing a region to its size, by one thread or by several in parallel. */
#ifndef MEMLOAD_GROWTH_H
#define MEMLOAD_GROWTH_H

#include "command.h"
#include "page.h"

/* Use all of a region, in steps and no faster than the command's rate, and report each step: 0, or -1. */
int grow(struct region *region, const struct command *command);

#endif
