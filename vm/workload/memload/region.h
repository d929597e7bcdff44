/* Regions: the held memory, numbered from 1 in the order of commands. */
#ifndef MEMLOAD_REGION_H
#define MEMLOAD_REGION_H

#include "command.h"

/* Run one command of these verbs, and report the result: 0, or -1. */
int allocate(const struct command *command);
int look_at_regions(const struct command *command);
int free_regions(const struct command *command);
int report_held(void);

#endif
