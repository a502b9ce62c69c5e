// SPDX-License-Identifier: GPL-2.0
/* The delays of tasks: see psi_delays.h. */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/taskstats.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "psi_delays.h"
#include "psi_util.h"

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
