/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The four loads of the demo. Each runs as one process per CPU (two for the
 * spinners without a limit), pinned there, and keeps its own account of how long it was kept
 * from its work: the known answer that the pressure files are held against.
 */
#ifndef DEMO_LOAD_H
#define DEMO_LOAD_H

#include <stdint.h>

#define MS 1000000ull
#define SEC (1000 * MS)
#define PAGE 4096ul

/*
 * What one process knows about itself, times in ns. Lives in memory shared with
 * the director, who reads it after the exit.
 */
struct account {
	int cpu;
	uint64_t runnable;	/* since when; written by the director */
	uint64_t end;		/* of the load */
	uint64_t inside;	/* wall clock inside the operation that may stall */
	uint64_t inside_run;	/* of which on the CPU */
	uint64_t alone;		/* part of inside before company arrived */
	uint64_t alone_run;
};

uint64_t now(void);
uint64_t cpu_time(void);
void sleep_until(uint64_t t);
void calculate(unsigned long rounds);

void spin(struct account *own, uint64_t until);
void read_disk(struct account *own, const char *device, uint64_t company,
	       uint64_t until);

/* A working set, used in a circle. */
struct set {
	unsigned long number;	/* of pages */
	unsigned long cache;	/* file pages beside it */
	unsigned long cache_at;	/* the first of them */
	unsigned long work;	/* between two uses, in rounds of calculation */
	unsigned long next;
	unsigned char *pages;
};

/* What the kernel counted since the boot. */
struct pages {
	unsigned long returned;	/* read back from swap */
	unsigned long known;	/* of which it knew as part of a working set */
};

void count_pages(struct pages *pages);
void set_fill(struct set *set, const char *cached, const char *cgroup);
void set_sweep(struct set *set, int sweeps, const char *cgroup);
void set_use(struct account *own, struct set *set, uint64_t until);

#endif
