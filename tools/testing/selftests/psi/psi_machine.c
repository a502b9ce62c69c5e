// SPDX-License-Identifier: GPL-2.0
/* The machine: see psi_machine.h. */
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "psi_util.h"

/* ---- Tasks on CPUs ---- */

int try_pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(pid, sizeof(set), &set) ? errno : 0;
}

void pin_to(int cpu)
{
	int error = try_pin(0, cpu);

	if (error)
		psi_die("cannot run on CPU %d: %s", cpu, strerror(error));
}

void set_policy(pid_t pid, int policy, int prio)
{
	bool rt = policy == SCHED_FIFO || policy == SCHED_RR;
	struct sched_param param = { .sched_priority = rt ? prio : 0 };

	if (sched_setscheduler(pid, policy, &param))
		psi_die("sched_setscheduler: %s", strerror(errno));
	if (!rt && setpriority(PRIO_PROCESS, pid, prio))
		psi_die("setpriority: %s", strerror(errno));
}

void set_cap_sys_resource(bool on, bool effective_only)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	const __u32 bit = CAP_TO_MASK(CAP_SYS_RESOURCE);
	struct __user_cap_data_struct *word = &data[CAP_TO_INDEX(CAP_SYS_RESOURCE)];

	if (syscall(SYS_capget, &header, data))
		psi_die("capget: %s", strerror(errno));
	word->effective = on ? word->effective | bit : word->effective & ~bit;
	if (!effective_only)
		word->permitted = on ? word->permitted | bit : word->permitted & ~bit;
	if (syscall(SYS_capset, &header, data))
		psi_die("capset: %s", strerror(errno));
}

/* ---- CPUs ---- */

int cpus_possible(void)
{
	return sysconf(_SC_NPROCESSORS_CONF);
}

void cpu_online(int cpu, bool on)
{
	char path[64], state[8];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	if (read_file(path, state, sizeof(state)) < 0) {
		/* The boot CPU has no such file. */
		if (on && errno == ENOENT)
			return;
		psi_die("%s: %s (needs CONFIG_HOTPLUG_CPU)", path, strerror(errno));
	}
	if ((state[0] == '1') != on)
		write_file(path, on ? "1" : "0");
}

/*
 * Two housekeepers wake up periodically, and each wake-up waits for its CPU a
 * little: kcompactd for proactive compaction every 500 ms, the statistics of
 * memory every second. In virtual time, where instructions are slow, that is
 * 0.05 % cpu some. A kernel for one CPU has no such statistics.
 */
static void silence_housekeepers(void)
{
	const char *interval = "/proc/sys/vm/stat_interval";

	write_file("/proc/sys/vm/compaction_proactiveness", "0");
	if (!access(interval, F_OK))
		write_file(interval, "3600");
}

bool kernel_is_preempt_rt(void)
{
	struct utsname name;

	return !uname(&name) && strstr(name.version, "PREEMPT_RT");
}

/*
 * The threads of PREEMPT_RT that serve timers and devices come before the
 * tasks of a test, so a starved task is still woken in time.
 */
static void raise_service_threads(void)
{
	static const char * const patterns[] = { "ktimers/*", "ksoftirqd/*", "irq/*" };
	pid_t pids[256];

	if (!kernel_is_preempt_rt())
		return;
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		for (int nr = kernel_threads(patterns[i], pids, ARRAY_SIZE(pids)); nr; nr--)
			set_policy(pids[nr - 1], SCHED_FIFO, 98);
}

void cpus_use(int nr)
{
	int possible = cpus_possible();

	silence_housekeepers();
	raise_service_threads();
	if (nr > possible)
		psi_die("the test wants %d CPUs, the machine has %d", nr, possible);
	for (int cpu = 0; cpu < possible; cpu++)
		cpu_online(cpu, cpu < nr);
}

/* ---- Limits of real-time tasks ---- */

#define RT_RUNTIME	"/proc/sys/kernel/sched_rt_runtime_us"
#define FAIR_SERVER	"/sys/kernel/debug/sched/fair_server"
#define RCU_SILENT	"/sys/module/rcupdate/parameters/rcu_cpu_stall_suppress"

static void fair_server_path(char *path, size_t size, int cpu)
{
	snprintf(path, size, FAIR_SERVER "/cpu%d/runtime", cpu);
}

/* How many CPUs are online and have a place in struct rt_limits. */
static int nr_fair_servers(void)
{
	const int most = sizeof(((struct rt_limits *)0)->fair_server) /
			 sizeof(((struct rt_limits *)0)->fair_server[0]);
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus < most ? cpus : most;
}

void rt_limits_lift(struct rt_limits *limits)
{
	char path[128];

	read_text(RT_RUNTIME, limits->runtime, sizeof(limits->runtime));
	write_file(RT_RUNTIME, "-1");
	/* A kernel for one CPU may have no such parameter. */
	if (read_file(RCU_SILENT, limits->rcu_silent, sizeof(limits->rcu_silent)) < 0)
		*limits->rcu_silent = '\0';
	else
		write_file(RCU_SILENT, "1");
	for (int cpu = 0; cpu < nr_fair_servers(); cpu++) {
		fair_server_path(path, sizeof(path), cpu);
		read_text(path, limits->fair_server[cpu], sizeof(limits->fair_server[cpu]));
		write_file(path, "0");
	}
}

void rt_limits_restore(const struct rt_limits *limits)
{
	char path[128];

	for (int cpu = 0; cpu < nr_fair_servers(); cpu++) {
		fair_server_path(path, sizeof(path), cpu);
		write_file(path, limits->fair_server[cpu]);
	}
	if (*limits->rcu_silent)
		write_file(RCU_SILENT, limits->rcu_silent);
	write_file(RT_RUNTIME, limits->runtime);
}
