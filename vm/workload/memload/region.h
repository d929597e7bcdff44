/* Regions: the memory that is held, numbered from 1 in the order in which it was asked for. */
#ifndef MEMLOAD_REGION_H
#define MEMLOAD_REGION_H

#include "command.h"

/* Run one command of these verbs, and say what came of it: 0, or -1. */
int allocate(const struct command *command);
int look_at_regions(const struct command *command);
int free_regions(const struct command *command);
int report_held(void);

#endif
