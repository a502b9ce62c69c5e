// SPDX-License-Identifier: GPL-2.0
/* What tasks and CPUs did: see psi_task.h. */
#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "psi_util.h"

/* ---- Delays, from taskstats ---- */

#define MSG_SIZE	4096

/* One request or reply of generic netlink. */
union message {
	struct {
		struct nlmsghdr nl;
		struct genlmsghdr genl;
		char attrs[];
	};
	char bytes[MSG_SIZE];
};

static struct nlattr *attr_next(struct nlattr *attr)
{
	return (struct nlattr *)((char *)attr + NLA_ALIGN(attr->nla_len));
}

static void *attr_data(struct nlattr *attr)
{
	return (char *)attr + NLA_HDRLEN;
}

/* The attribute of @type among those from @attr to @end. */
static struct nlattr *attr_find(struct nlattr *attr, const void *end, int type)
{
	for (; (const void *)(attr + 1) <= end && attr->nla_len >= NLA_HDRLEN;
	     attr = attr_next(attr))
		if ((attr->nla_type & NLA_TYPE_MASK) == type)
			return attr;
	psi_die("taskstats: attribute %d is missing in the reply", type);
}

/* Sends @cmd with one attribute to @family. The reply replaces @msg. */
static void transact(union message *msg, int family, int cmd, int type, const void *data, int len)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	struct nlattr *attr;
	ssize_t got;
	int fd;

	memset(msg, 0, sizeof(*msg));
	msg->nl.nlmsg_type = family;
	msg->nl.nlmsg_flags = NLM_F_REQUEST;
	msg->genl.cmd = cmd;
	msg->genl.version = 1;
	attr = (struct nlattr *)msg->attrs;
	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + len;
	memcpy(attr_data(attr), data, len);
	msg->nl.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN) + NLA_ALIGN(attr->nla_len);

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	if (fd < 0)
		psi_die("netlink: %s (needs CONFIG_TASKSTATS)", strerror(errno));
	if (sendto(fd, msg, msg->nl.nlmsg_len, 0, (void *)&kernel, sizeof(kernel)) < 0)
		psi_die("netlink: %s", strerror(errno));
	got = recv(fd, msg, sizeof(*msg), 0);
	if (got < (ssize_t)sizeof(msg->nl) || !NLMSG_OK(&msg->nl, got))
		psi_die("netlink: a broken reply");
	if (msg->nl.nlmsg_type == NLMSG_ERROR)
		psi_die("netlink: %s (needs CONFIG_TASKSTATS)",
			strerror(-*(int *)NLMSG_DATA(&msg->nl)));
	close(fd);
}

static struct nlattr *reply_attr(union message *msg, int type)
{
	return attr_find((struct nlattr *)msg->attrs, msg->bytes + msg->nl.nlmsg_len, type);
}

static int taskstats_family(void)
{
	static const char name[] = TASKSTATS_GENL_NAME;
	static union message msg;
	static int family;

	if (!family) {
		transact(&msg, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME,
			 name, sizeof(name));
		family = *(__u16 *)attr_data(reply_attr(&msg, CTRL_ATTR_FAMILY_ID));
	}
	return family;
}

void task_delays_on(void)
{
	write_file("/proc/sys/kernel/task_delayacct", "1");
}

void task_clock_read(pid_t pid, struct task_clock *tc)
{
	static union message msg;
	struct taskstats stats;
	struct nlattr *aggr;
	__u32 id = pid;

	transact(&msg, taskstats_family(), TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_PID,
		 &id, sizeof(id));
	aggr = reply_attr(&msg, TASKSTATS_TYPE_AGGR_PID);
	memcpy(&stats, attr_data(attr_find(attr_data(aggr), attr_next(aggr),
					   TASKSTATS_TYPE_STATS)), sizeof(stats));

	tc->run = stats.cpu_run_virtual_total;
	tc->wait = stats.cpu_delay_total;
	tc->io = stats.blkio_delay_total;
	tc->reclaim = stats.freepages_delay_total;
	tc->thrash = stats.thrashing_delay_total;
	tc->compact = stats.compact_delay_total;
	tc->irq = stats.irq_delay_total;
}

struct task_clock task_clock_since(pid_t pid, const struct task_clock *before)
{
	struct task_clock tc;

	task_clock_read(pid, &tc);
	tc.run -= before->run;
	tc.wait -= before->wait;
	tc.io -= before->io;
	tc.reclaim -= before->reclaim;
	tc.thrash -= before->thrash;
	tc.compact -= before->compact;
	tc.irq -= before->irq;
	return tc;
}

__u64 task_awake_ns(pid_t pid)
{
	struct task_clock tc;

	task_clock_read(pid, &tc);
	return tc.run + tc.irq + tc.wait;
}

/* ---- Run and wait, from schedstat ---- */

__u64 task_wait_ns(pid_t pid)
{
	unsigned long long run, wait;
	char path[64], buf[128];

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	if (read_file(path, buf, sizeof(buf)) < 0)
		psi_die("%s: %s (needs CONFIG_SCHEDSTATS)", path, strerror(errno));
	if (sscanf(buf, "%llu %llu", &run, &wait) != 2)
		psi_die("%s: cannot parse \"%s\"", path, buf);
	return wait;
}

void cpu_clock_read(int cpu, struct cpu_clock *cc)
{
	unsigned long long run, wait;
	char line[512];
	FILE *file;
	int nr;

	cc->run = 0;
	cc->wait = 0;
	file = fopen("/proc/schedstat", "re");
	if (!file)
		psi_die("/proc/schedstat: %s (needs CONFIG_SCHEDSTATS)", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "cpu%d %*u %*u %*u %*u %*u %*u %llu %llu", &nr, &run, &wait) != 3)
			continue;
		if (cpu >= 0 && cpu != nr)
			continue;
		cc->run += run;
		cc->wait += wait;
	}
	fclose(file);
}

/* ---- Threads of the kernel ---- */

#define PF_KTHREAD	0x00200000
#define MAX_PID		262144
#define MAX_KTHREADS	4096

/* Whether a task, by its directory in /proc, is a thread of the kernel. */
static bool is_kthread(const char *dir)
{
	char path[64], buf[1024], *at;
	unsigned int flags;

	snprintf(path, sizeof(path), "%s/stat", dir);
	if (read_file(path, buf, sizeof(buf)) < 0)
		return false;
	at = strrchr(buf, ')');
	if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1)
		psi_die("%s: cannot parse \"%s\"", path, buf);
	return flags & PF_KTHREAD;
}

int kernel_threads(const char *pattern, pid_t *pids, int most)
{
	char comm[64], *dir;
	glob_t found;
	int nr = 0;

	if (glob("/proc/[0-9]*/comm", 0, NULL, &found))
		psi_die("/proc: no tasks");
	for (size_t i = 0; i < found.gl_pathc && nr < most; i++) {
		dir = found.gl_pathv[i];
		if (read_file(dir, comm, sizeof(comm)) <= 0)
			continue;
		comm[strcspn(comm, "\n")] = '\0';
		*strrchr(dir, '/') = '\0';
		if (!fnmatch(pattern, comm, 0) && is_kthread(dir))
			pids[nr++] = atoi(dir + strlen("/proc/"));
	}
	globfree(&found);
	return nr;
}

__u64 psi_threads_wait_ns(void)
{
	static const char * const patterns[] = { "psi", "psi_watch*", "psi_fold*" };
	pid_t pids[16];
	__u64 sum = 0;

	for (int p = 0; p < 3; p++)
		for (int nr = kernel_threads(patterns[p], pids, 16); nr; nr--)
			sum += task_wait_ns(pids[nr - 1]);
	return sum;
}

/* Switches to one task so far, 0 if it is gone. */
static __u64 switches_of(pid_t pid)
{
	unsigned long long voluntary, other;
	char path[64], buf[4096], *at;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (read_file(path, buf, sizeof(buf)) < 0)
		return 0;
	at = strstr(buf, "\nvoluntary_ctxt_switches:");
	if (!at || sscanf(at, "\nvoluntary_ctxt_switches: %llu nonvoluntary_ctxt_switches: %llu",
			  &voluntary, &other) != 2)
		psi_die("%s: cannot parse it", path);
	return voluntary + other;
}

/**
 * struct switches - switches to some threads so far
 * @sum: of all of them, also of those that have ended
 * @last: by pid, the count when the thread was last seen
 */
struct switches {
	__u64 sum;
	__u64 last[MAX_PID];
};

static __u64 switches_of_threads(struct switches *switches, const char *pattern)
{
	static pid_t pids[MAX_KTHREADS];
	int nr = kernel_threads(pattern, pids, MAX_KTHREADS);

	for (int i = 0; i < nr; i++) {
		__u64 now = switches_of(pids[i]), *last = &switches->last[pids[i]];

		if (pids[i] >= MAX_PID)
			psi_die("pid %d: there is no room for it", pids[i]);
		/* Fewer than before: the thread ended, and a new one has its pid. */
		switches->sum += now < *last ? now : now - *last;
		*last = now;
	}
	return switches->sum;
}

__u64 kthread_switches(void)
{
	static struct switches switches;

	return switches_of_threads(&switches, "*");
}

__u64 monitor_switches(void)
{
	static struct switches switches;

	return switches_of_threads(&switches, "psi_watch*");
}

__u64 rt_monitor_switches(void)
{
	static struct switches switches;

	return switches_of_threads(&switches, "psi_watch_rt");
}

__u64 rt_monitor_ran_ns(void)
{
	char path[64];
	pid_t pid;

	if (kernel_threads("psi_watch_rt", &pid, 1) != 1)
		psi_die("there is no psi_watch_rt");
	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	return file_number(path, "");
}
