// SPDX-License-Identifier: GPL-2.0
/*
 * A hundred thousand cgroups are made and removed: nothing is left of them
 *
 * In batches of a thousand. Of each batch, by the number of the cgroup:
 *
 *	0 mod 10	a task runs there for a moment, from its fork to its end
 *	1 mod 10	a pressure file is open when it is removed, and dead afterwards
 *	2 mod 10	a trigger is armed when it is removed: its waiter is told
 *	3 mod 10	somebody read its exact pressure
 *	4 mod 10	a task of it was held by a limit, where there are controllers
 *	the others	nothing
 *
 * Every tenth batch has the controllers for cpu, memory and io.
 *
 * What they leave is the difference between two moments at which no cgroup is there: after
 * the first batches, when caches of the allocators are warm, and at the end. A cgroup is
 * freed after a grace period of RCU, by a work item; the fold holds one for two periods, and
 * the kernel looks every 20 s whether somebody still asks about one. Both moments come
 * after these.
 *
 * Bound: 20 bytes for each cgroup. The smallest thing of PSI that a group has of its own,
 * a mask of CPUs, is 8 bytes with its share of a slab, so all but this one would show even
 * if every fourth cgroup left it only; and what the allocators keep half empty is less.
 */
#include <fcntl.h>
#include <glob.h>
#include <poll.h>

#include "psi_stat.h"
#include "scale.h"

#define BATCH		1000
#define WARM		15	/* batches */
#define BOUND		20	/* bytes for a cgroup */

static unsigned long made, ran, read_exact, dead, told, held;

/* A task spins there for so long, from its fork to its end. */
static void run_in(int nr, __u64 ns)
{
	pid_t pid = group_fork(nr);

	if (!pid) {
		spin_for(&ns);
		_exit(0);
	}
	reap(pid);
	ran++;
}

/* A task that may run for 1 ms of 10. */
static void hold_in(int nr)
{
	write_file(path_of(nr, "cpu.max"), "1000 10000");
	/* Ask while it has no task: all that comes is measured. */
	psi_stat_total(path_of(nr, "cgroup.pressure.stat"), "cpu.limit.some");
	run_in(nr, 5 * NSEC_PER_MSEC);
	held += psi_stat_total(path_of(nr, "cgroup.pressure.stat"), "cpu.limit.some") > 5000;
}

/* What happens in a cgroup; returns a file of it that stays open, or -1. */
static int use(int nr, bool controllers)
{
	switch (nr % 10) {
	case 0:
		run_in(nr, 20 * NSEC_PER_USEC);
		break;
	case 1:
		return open_file(path_of(nr, "cpu.pressure"), O_RDWR);
	case 2:
		return trigger_arm(path_of(nr, "memory.pressure"), "some 50000 1000000");
	case 3:
		psi_stat_total(path_of(nr, "cgroup.pressure.stat"), "io.exact.some");
		run_in(nr, 20 * NSEC_PER_USEC);
		read_exact++;
		break;
	case 4:
		if (controllers)
			hold_in(nr);
	}
	return -1;
}

/* A file whose cgroup is gone. */
static void judge(int nr, int fd)
{
	char buf[256];

	if (nr % 10 == 2) {
		expect(poll_fd(fd, POLLPRI, 0) == NO_TRIGGER, "%d: the waiter is not told", nr);
		told++;
	}
	expect(read(fd, buf, sizeof(buf)) < 0 && errno == ENODEV, "%d: a file can be read", nr);
	dead++;
	close(fd);
}

static void run_batch(int batch)
{
	bool controllers = batch % 10 == 0;
	static int fd[BATCH];

	if (batch % 10 < 2)
		cgroup_write(TOP, "cgroup.subtree_control", controllers ? "+cpu +memory +io" :
			     "-cpu -memory -io");
	for (int i = 0; i < BATCH; i++) {
		group_make(batch * BATCH + i);
		fd[i] = use(batch * BATCH + i, controllers);
	}
	for (int i = 0; i < BATCH; i++) {
		/* The kernel may still be at the end of a task. */
		while (rmdir(path_of(batch * BATCH + i, "")))
			if (errno != EBUSY)
				psi_die("rmdir: %s", strerror(errno));
		if (fd[i] >= 0)
			judge(batch * BATCH + i, fd[i]);
	}
	made += BATCH;
}

/* ---- Memory ---- */

static const char * const kinds[] = { "MemAvailable:", "Slab:", "Percpu:", "KernelStack:" };

#define NR_KINDS	ARRAY_SIZE(kinds)

/* Gives back what the allocators keep half empty. */
static void shrink(void)
{
	glob_t found;

	write_file("/proc/sys/vm/drop_caches", "3");
	if (glob("/sys/kernel/slab/*/shrink", 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		write_file(found.gl_pathv[i], "1");
	globfree(&found);
}

/* In bytes, when all is freed that will be. */
static void memory_read(long long *bytes)
{
	for (int tries = 0; tries < 30; tries++) {
		if (!file_number(CGROUP_ROOT "/cgroup.stat", "nr_dying_descendants"))
			break;
		sleep_for(PERIOD);
	}
	sleep_for(15 * PERIOD);
	shrink();
	sleep_for(PERIOD);
	for (size_t i = 0; i < NR_KINDS; i++)
		bytes[i] = file_number("/proc/meminfo", kinds[i]) << 10;
}

static void test_memory(const long long *before, int groups)
{
	long long now[NR_KINDS];

	memory_read(now);
	for (size_t i = 0; i < NR_KINDS; i++) {
		long long more = i ? now[i] - before[i] : before[i] - now[i];

		ksft_print_msg("figures: %s %s by %lld kB, %.2f bytes for a cgroup\n", kinds[i],
			       i ? "grew" : "fell", more / 1024, (double)more / groups);
		expect(more <= (long long)BOUND * groups, "%s is not back", kinds[i]);
	}
	test_result("memory is back");
}

int main(int argc, char **argv)
{
	int batches = scale_begin(argc, argv, 6, (WARM + 1) * BATCH, 10000000) / BATCH;
	long long before[NR_KINDS];

	cpus_use(cpus_possible());
	cgroup_create(TOP, "");
	cgroup_write(CGROUP_ROOT, "cgroup.subtree_control", "+cpu +memory +io");
	for (int batch = 0; batch < batches + WARM; batch++) {
		if (batch == WARM)
			memory_read(before);
		run_batch(batch < WARM ? batch : batch - WARM);
		if (batch % 10 == 9)
			ksft_print_msg("%lu cgroups came and went, %llu s\n", made,
				       now_ns() / NSEC_PER_SEC);
	}
	ksft_print_msg("figures: %lu cgroups made and removed, tasks in %lu, exact pressure read in %lu\n",
		       made, ran, read_exact);
	ksft_print_msg("figures: %lu held by a limit, %lu files open at the end, %lu with a trigger\n",
		       held, dead, told);
	expect(told, "no waiter was told");
	test_result("files of a removed cgroup are dead, and waiters are told");
	test_memory(before, batches * BATCH);
	expect(held, "none was held");
	test_result("limits held some of them");
	expect(!file_number(CGROUP_ROOT "/cgroup.stat", "nr_dying_descendants"), "one is");
	test_result("no cgroup is still dying");
	test_no_trigger();
	cgroup_remove(TOP);
	test_no_leak();
	ksft_finished();
}
