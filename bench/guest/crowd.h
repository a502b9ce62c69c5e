/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Many groups with tasks that wake up once a second.
 */
#ifndef CROWD_H
#define CROWD_H

#include <stdbool.h>
#include <stdint.h>

struct crowd {
	unsigned int groups;
	unsigned int tasks;	/* in each group, which wake up at the same time */
	uint64_t work;		/* instructions of each, each time */
	bool spread;		/* those of a group wake up one after the other, each on its CPU */
};

void crowd_start(const struct crowd *crowd);
/* Wake-ups so far. */
unsigned long crowd_wakeups(void);
/* Its tasks do nothing until they are thawed. */
void crowd_freeze(const struct crowd *crowd, bool frozen);
void crowd_end(const struct crowd *crowd);

#endif /* CROWD_H */
