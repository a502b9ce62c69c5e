// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations on cgroups, tasks and pressure files, against a model
 *
 * The model:
 *
 *    group   a cgroup: whether it exists, is switched on, its last totals
 *    file    an open file: its group, whether it is the statistics file, how it was opened,
 *            whether dead or armed
 *    desc    a descriptor of this process; several may share a file
 *    holder  a child that inherited all descriptors: it keeps files open
 *    task    a holder that spins, naps or reads in a group
 *    item    a file in the epoll instance
 *
 * An operation makes one system call and compares the result with the model.
 * Whether a trigger has fired depends on time. So of such results the test
 * checks what must never be: an event for less stall than the threshold, a
 * second event too soon, a total that goes backwards or grows faster than time.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

#include "psi_fuzz.h"
#include "psi_leak.h"
#include "psi_stat.h"
#include "psi_switches.h"
#include "psi_work.h"

#define ALWAYS		(POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM)
#define BROKEN		(POLLERR | POLLPRI)

#define NR_GROUPS	10
#define NR_FILES	64
#define NR_DESCS	24
#define NR_HOLDERS	3
#define NR_TASKS	6
#define DEPTH		5
#define PATH_SIZE	128
#define LONGEST_FILE	PSI_STAT_MAX

/* The first two always exist. */
enum { ROOT, TOP };

/**
 * struct seen - the last reading of a pressure file
 * @valid: there was one
 * @at: when, before the read
 * @some: its totals in us
 * @full: see @some
 */
struct seen {
	bool valid;
	__u64 at;
	__u64 some;
	__u64 full;
};

/**
 * struct stat_seen - the last reading of a statistics file
 * @asked: when the first one began, 0 before
 * @at: when the last one began
 * @stat: what it was
 */
struct stat_seen {
	__u64 asked;
	__u64 at;
	struct psi_stat stat;
};

/**
 * struct group - a cgroup
 * @exists: it exists
 * @off: its cgroup.pressure is 0
 * @parent: index of its parent
 * @depth: below the top
 * @path: its directory
 * @seen: last readings of its files
 * @stat_seen: of its statistics file
 */
struct group {
	bool exists;
	bool off;
	int parent;
	int depth;
	char path[PATH_SIZE];
	struct seen seen[NR_FUZZ_RESOURCES];
	struct stat_seen stat_seen;
};

/**
 * struct file - an open file
 * @refs: descriptors of this process and of holders; 0: not in use
 * @group: its group; files of /proc belong to the root's
 * @readable: open for reading
 * @target: its properties for a write
 * @text: the trigger that it has
 * @armed_at: when it was armed
 * @base: the total at that time, or a little less, in us
 * @events: number of events collected
 * @pos: offset of the next read, -1 if unknown
 * @stream: bytes read since @pos was 0
 */
struct file {
	int refs;
	int group;
	bool readable;
	struct target target;
	struct meaning text;
	__u64 armed_at;
	__u64 base;
	unsigned int events;
	int pos;
	char stream[LONGEST_FILE];
};

struct desc {
	int fd;
	struct file *file;
};

struct holder {
	pid_t pid;
	struct file *files[NR_DESCS];
};

/**
 * struct item - a file in the epoll instance
 * @file: the file, NULL: not in use
 * @events: that epoll waits for
 * @owed: the file has died since; epoll must report that once, also with
 *     EPOLLET
 */
struct item {
	struct file *file;
	unsigned int events;
	bool owed;
};

struct task {
	struct holder holder;
	int group;
};

static struct group groups[NR_GROUPS];
static struct file open_files[NR_FILES];
static struct desc descs[NR_DESCS];
static struct holder holders[NR_HOLDERS];
static struct item items[NR_DESCS];
static struct task tasks[NR_TASKS];
static const char *disk_node;
static int epoll_fd;
static bool irq_accounted;

static const char * const names[NR_FUZZ_RESOURCES] = { "cpu", "memory", "io", "irq" };

/* ---- Choices ---- */

#define choose(array, condition)					\
({									\
	size_t __nr = ARRAY_SIZE(array), __start = fuzz_below(__nr), __i; \
	typeof(&(array)[0]) it = NULL, __found = NULL;			\
									\
	for (__i = 0; __i < __nr && !__found; __i++) {			\
		it = &(array)[(__start + __i) % __nr];			\
		if (condition)						\
			__found = it;					\
	}								\
	__found;							\
})

static bool has_tasks(const struct group *group)
{
	for (int i = 0; i < NR_TASKS; i++)
		if (tasks[i].holder.pid && &groups[tasks[i].group] == group)
			return true;
	return false;
}

static bool has_children(const struct group *group)
{
	for (int i = TOP + 1; i < NR_GROUPS; i++)
		if (groups[i].exists && &groups[groups[i].parent] == group)
			return true;
	return false;
}

/* ---- Files ---- */

static const char *file_name(const struct target *target)
{
	return target->stat ? "stat" : names[target->resource];
}

static void file_path(const struct group *group, const struct target *target, char *path,
		      size_t size)
{
	if (!target->cgroup)
		snprintf(path, size, PSI_DIR "/%s", file_name(target));
	else if (target->stat)
		snprintf(path, size, "%s" CGROUP_STAT, group->path);
	else
		snprintf(path, size, "%s/%s.pressure", group->path, file_name(target));
}

/* Whether the file says that there is no time of interrupts. */
static bool has_no_text(const struct target *target)
{
	return !target->stat && target->resource == FUZZ_IRQ && !irq_accounted;
}

/* Checks a reading of a file against the reading before. */
static void check_reading(struct group *group, enum fuzz_resource resource, const struct psi *psi,
			  __u64 start, const char *how)
{
	struct seen *seen = &group->seen[resource];
	/* PSI uses another clock, and rounds in another way. */
	__u64 most = (now_ns() - seen->at) / 1000 + 100;
	bool is_irq = resource == FUZZ_IRQ;

	if (seen->valid && (psi->full.total < seen->full || psi->some.total < seen->some))
		fuzz_fail("%s: %s.pressure of %s goes backwards: %llu %llu, was %llu %llu", how,
			  names[resource], group->path, psi->some.total, psi->full.total,
			  seen->some, seen->full);
	if (seen->valid && (psi->full.total - seen->full > most ||
			    psi->some.total - seen->some > most))
		fuzz_fail("%s: %s.pressure of %s jumps: %llu %llu, was %llu %llu %llu us ago", how,
			  names[resource], group->path, psi->some.total, psi->full.total,
			  seen->some, seen->full, most);
	if (!is_irq && psi->full.total > psi->some.total)
		fuzz_fail("%s: %s.pressure of %s: full %llu is above some %llu", how,
			  names[resource], group->path, psi->full.total, psi->some.total);
	if (psi->some.present == is_irq)
		fuzz_fail("%s: %s.pressure of %s has the wrong lines", how, names[resource],
			  group->path);
	if (group == &groups[ROOT] && resource == FUZZ_CPU && psi->full.total)
		fuzz_fail("the system has cpu full");
	seen->valid = true;
	seen->at = start;
	seen->some = psi->some.total;
	seen->full = psi->full.total;
}

/* What is wrong with a text, if anything. */
static const char *text_error(const struct target *target, const char *text, size_t len)
{
	struct psi_stat stat;
	struct psi psi;

	if (target->stat)
		return psi_stat_parse(text, len, &stat);
	return psi_parse(text, len, &psi);
}

/* Checks a line of the statistics file against the reading before. */
static void check_line(const struct group *group, const struct psi_line *line,
		       const struct psi_line *before, __u64 most, int resource, int kind,
		       const char *how)
{
	if (line->total < before->total || line->total - before->total > most)
		fuzz_fail("%s: statistics of %s, resource %d, kind %d: %llu, was %llu %llu us ago",
			  how, group->path, resource, kind, line->total, before->total, most);
}

/* The same for all of it, and its lines against each other. */
static void check_stat(struct group *group, const struct psi_stat *stat, __u64 start,
		       const char *how)
{
	struct stat_seen *seen = &group->stat_seen;
	__u64 most = (now_ns() - seen->at) / 1000 + 100;
	const char *error = psi_stat_contradiction(stat);

	if (error)
		fuzz_fail("%s: statistics of %s: %s", how, group->path, error);
	for (int r = 0; r < NR_RESOURCES; r++) {
		for (int k = 0; k < NR_KINDS; k++) {
			const struct psi *of = &stat->of[r][k], *before = &seen->stat.of[r][k];

			if (seen->asked) {
				check_line(group, &of->some, &before->some, most, r, k, how);
				check_line(group, &of->full, &before->full, most, r, k, how);
			}
			if (group == &groups[ROOT] && r == RES_CPU && of->full.total)
				fuzz_fail("the system has cpu full");
		}
	}
	if (stat->irq.present != irq_accounted)
		fuzz_fail("%s: statistics of %s: the line of irq", how, group->path);
	if (!seen->asked)
		seen->asked = start;
	seen->at = start;
	seen->stat = *stat;
}

static void check_text(const struct file *file, const char *text, size_t len, __u64 start,
		       const char *how)
{
	struct group *group = &groups[file->group];
	enum fuzz_resource resource = file->target.resource;
	const char *error = text_error(&file->target, text, len);
	struct psi_stat stat;
	struct psi psi;

	if (error)
		fuzz_fail("%s: %s of %s: %s: %s", how, file_name(&file->target), group->path,
			  error, text_quote(text, len));
	if (file->target.stat) {
		psi_stat_parse(text, len, &stat);
		check_stat(group, &stat, start, how);
		return;
	}
	psi_parse(text, len, &psi);
	check_reading(group, resource, &psi, start, how);
}

/* The total of the line that a trigger is about, in us. */
static __u64 stat_total(const struct psi_stat *stat, const struct meaning *text)
{
	const struct psi *psi;

	if (text->resource == FUZZ_IRQ)
		return stat->irq.total;
	psi = &stat->of[text->resource][text->kind];
	return text->full ? psi->full.total : psi->some.total;
}

/*
 * The total of a trigger's line, in us; false if the file cannot be read, or if the
 * line is only measured since the trigger was armed.
 */
static bool total_now(const struct file *file, __u64 *total)
{
	static char text[LONGEST_FILE];
	struct group *group = &groups[file->group];
	__u64 start = now_ns();
	struct psi psi;
	char path[200];
	size_t len;

	file_path(group, &file->target, path, sizeof(path));
	if ((file->target.cgroup && group->off) || file->target.dead)
		return false;
	len = read_text(path, text, sizeof(text));
	check_text(file, text, len, start, "total");
	if (file->target.stat) {
		*total = stat_total(&group->stat_seen.stat, &file->text);
		return file->text.kind == FUZZ_PLAIN ||
		       file->armed_at > group->stat_seen.asked + ASKED_SOON;
	}
	psi_parse(text, len, &psi);
	*total = file->text.full ? psi.full.total : psi.some.total;
	return true;
}

static void file_put(struct file *file)
{
	if (--file->refs)
		return;
	/* The last close removes the file from the epoll instance. */
	for (int i = 0; i < NR_DESCS; i++)
		if (items[i].file == file)
			items[i].file = NULL;
}

/* The open files of a group die. */
static void files_die(int group)
{
	for (int i = 0; i < NR_FILES; i++) {
		struct file *file = &open_files[i];

		if (!file->refs || !file->target.cgroup || file->group != group ||
		    file->target.dead)
			continue;
		file->target.dead = true;
		for (int j = 0; j < NR_DESCS; j++)
			if (items[j].file == file && file->target.armed)
				items[j].owed = true;
	}
}

/* ---- System calls on a descriptor, made here or in a child ---- */

enum what { READ, PREAD, LSEEK, WRITE, POLL, SELECT, NR_WHAT };

static const char * const what_names[NR_WHAT] = {
	"read", "pread", "lseek", "write", "poll", "select"
};

/**
 * struct call - a system call and its result
 * @what: which
 * @fd: on which descriptor
 * @len: number of bytes
 * @off: offset
 * @events: for poll
 * @timeout: for poll, in ms
 * @start: when it began
 * @ret: its return value
 * @error: errno
 * @revents: events that poll or select reported
 * @buf: bytes that were read
 * @text: to write
 */
struct call {
	enum what what;
	int fd;
	size_t len;
	off_t off;
	short events;
	int timeout;
	__u64 start;
	ssize_t ret;
	int error;
	short revents;
	char buf[LONGEST_FILE];
	struct fuzz_text text;
};

static struct call *call;

static ssize_t do_select(void)
{
	struct timeval now = { 0, 0 };
	fd_set set;
	ssize_t ret;

	FD_ZERO(&set);
	FD_SET(call->fd, &set);
	ret = select(call->fd + 1, NULL, NULL, &set, &now);
	call->revents = ret > 0 && FD_ISSET(call->fd, &set) ? POLLPRI : 0;
	return ret;
}

static void call_make(void)
{
	struct pollfd pfd = { .fd = call->fd, .events = call->events };

	errno = 0;
	call->start = now_ns();
	switch (call->what) {
	case READ:
		call->ret = read(call->fd, call->buf, call->len);
		break;
	case PREAD:
		call->ret = pread(call->fd, call->buf, call->len, call->off);
		break;
	case LSEEK:
		call->ret = lseek(call->fd, call->off, SEEK_SET);
		break;
	case WRITE:
		call->ret = write(call->fd, call->text.bytes, call->text.len);
		break;
	case SELECT:
		call->ret = do_select();
		break;
	default:
		call->ret = poll(&pfd, 1, call->timeout);
		call->revents = pfd.revents;
	}
	call->error = call->ret < 0 ? errno : 0;
}

static void expect(bool right, const char *should)
{
	if (!right)
		fuzz_fail("%s returned %zd, error %d (%s), events %#x: %s", what_names[call->what],
			  call->ret, call->error, strerror(call->error), call->revents, should);
}

/* Checks the error of a file that cannot be read. Returns whether it is one. */
static bool judge_no_read(const struct file *file)
{
	int error = 0;

	if (!file->readable)
		error = EBADF;
	else if (file->target.dead)
		error = ENODEV;
	else if (has_no_text(&file->target))
		error = EOPNOTSUPP;
	if (error)
		expect(call->ret == -1 && call->error == error, strerror(error));
	return error;
}

static void judge_read(struct file *file)
{
	/* A dead file still returns the rest of a text that was made before. */
	if (file->readable && file->target.dead && file->pos && call->ret >= 0) {
		file->pos = -1;
		return;
	}
	if (judge_no_read(file))
		return;
	expect(call->ret >= 0 && (size_t)call->ret <= call->len, "some bytes");
	if (!file->pos)
		expect(call->ret > 0, "there is something at the beginning");
	if (file->pos < 0)
		return;
	expect(file->pos + call->ret < (ssize_t)sizeof(file->stream), "a file that short");
	memcpy(file->stream + file->pos, call->buf, call->ret);
	/*
	 * A text that is read at once is current. In pieces, it is from the
	 * first one.
	 */
	if (!file->pos && (size_t)call->ret < call->len)
		check_text(file, file->stream, call->ret, call->start, "read");
	else if (!call->ret && text_error(&file->target, file->stream, file->pos))
		fuzz_fail("read: torn text: %s", text_quote(file->stream, file->pos));
	file->pos += call->ret;
}

static void judge_pread(struct file *file)
{
	/* pread() makes a new text, so the offset in the old one is unknown. */
	file->pos = -1;
	if (judge_no_read(file))
		return;
	expect(call->ret > 0, "some bytes");
	check_text(file, call->buf, call->ret, call->start, "pread");
}

static void judge_lseek(struct file *file)
{
	if (call->ret < 0 && file->target.dead) {
		expect(call->error == ENODEV, "ENODEV, at most");
	} else if (call->ret < 0 && has_no_text(&file->target)) {
		expect(call->error == EOPNOTSUPP, "EOPNOTSUPP, at most");
	} else {
		expect(call->ret == call->off, "there");
		file->pos = call->off ? -1 : 0;
	}
}

static void judge_write(struct file *file)
{
	size_t len = call->text.len;
	unsigned int expected = write_expected(&file->target, call->text.bytes, len, len);

	expect(write_result(call->ret, call->error, len) & expected, "not that");
	if (call->ret > 0)
		file->pos = -1;
	if (expected != WRITE_ARMS)
		return;
	file->target.armed = true;
	file->armed_at = call->start;
	file->events = 0;
	text_means(call->text.bytes, len, file->target.stat, &file->text);
}

/* Checks an event that was collected. */
static void judge_event(struct file *file)
{
	const struct meaning *text = &file->text;
	__u64 windows = (now_ns() - file->armed_at) / 1000 / text->window + 1;
	__u64 total, stall, missing;

	file->events++;
	stall = file->events * text->stall;
	/* Rounding of the totals and of the threshold. */
	missing = 1 + (stall < 9000 ? stall / 1000 : 9);
	if (file->group == ROOT && text->full &&
	    (file->target.stat ? text->resource : file->target.resource) == FUZZ_CPU)
		fuzz_fail("cpu full of the system has fired");
	if (file->events > windows)
		fuzz_fail("%u events in %llu windows", file->events, windows);
	if (total_now(file, &total) && total + missing - file->base < stall)
		fuzz_fail("%u events of %llu us, but the stall was %llu us", file->events,
			  text->stall, total - file->base);
}

/* Checks the reported events of a poll that asked for @asked. */
static void judge_events(struct file *file, short asked, short revents)
{
	short always = file->target.dead || !file->target.armed ? ALWAYS | BROKEN : ALWAYS;
	short wanted = always & (asked | POLLERR);

	if (file->target.dead || !file->target.armed) {
		if (revents != wanted)
			fuzz_fail("events %#x, must be %#x", revents, wanted);
		return;
	}
	if ((revents & ~POLLPRI) != wanted)
		fuzz_fail("events %#x, must be %#x and perhaps POLLPRI", revents, wanted);
	if (revents & POLLPRI)
		judge_event(file);
}

static void judge_poll(struct file *file)
{
	expect(call->ret == !!call->revents, "a count");
	judge_events(file, call->events, call->revents);
}

static void judge_select(struct file *file)
{
	expect(call->ret == !!call->revents, "a count");
	if (file->target.dead || !file->target.armed)
		expect(call->revents, "an exception");
	else if (call->revents)
		judge_event(file);
}

static void (* const judge[NR_WHAT])(struct file *file) = {
	judge_read, judge_pread, judge_lseek, judge_write, judge_poll, judge_select
};

/* Before a write that arms: notes the total from which the trigger counts. */
static void call_prepare(struct file *file)
{
	struct meaning text;

	if (call->what != WRITE || file->target.armed || file->target.dead ||
	    !text_means(call->text.bytes, call->text.len, file->target.stat, &text))
		return;
	file->text = text;
	file->armed_at = now_ns();
	if (!file->target.stat && file->target.resource == FUZZ_IRQ &&
	    (!irq_accounted || !text.full))
		return;
	if (!total_now(file, &file->base))
		file->base = 0;
}

static void call_choose(const struct desc *desc)
{
	static const short masks[] = {
		POLLPRI, POLLPRI | POLLIN, POLLPRI | POLLOUT, POLLIN, POLLOUT | POLLWRNORM, 0,
		ALWAYS | POLLPRI, POLLRDNORM
	};

	call->what = fuzz_below(NR_WHAT);
	call->fd = desc->fd;
	call->events = masks[fuzz_below(ARRAY_SIZE(masks))];
	call->timeout = fuzz_below(4) ? 0 : fuzz_below(30);
	call->len = call->what == PREAD || fuzz_below(2) ? sizeof(call->buf) : 1 + fuzz_below(40);
	call->off = call->what == LSEEK && !fuzz_below(6) ? fuzz_below(300) : 0;
	if (fuzz_below(3))
		text_good(&call->text, !desc->file->target.privileged, desc->file->target.stat);
	else
		text_random(&call->text);
	call->text.len = call->what == WRITE ? call->text.len : 0;
}

/* A new child has all descriptors. */
static void holder_begin(struct holder *holder, pid_t pid)
{
	holder->pid = pid;
	for (int i = 0; i < NR_DESCS; i++) {
		holder->files[i] = descs[i].file;
		if (descs[i].file)
			descs[i].file->refs++;
	}
}

static void holder_end(struct holder *holder)
{
	load_stop(holder->pid);
	holder->pid = 0;
	for (int i = 0; i < NR_DESCS; i++)
		if (holder->files[i])
			file_put(holder->files[i]);
}

/* The child may stay alive, with its descriptors. */
static void call_make_in_child(void)
{
	struct holder *holder = choose(holders, !it->pid);
	int done[2], i;
	char byte;
	pid_t pid;

	if (pipe2(done, O_CLOEXEC))
		psi_die("pipe: %s", strerror(errno));
	pid = fork_or_die();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		call_make();
		if (!holder)
			_exit(0);
		close(done[0]);
		if (write(done[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(done[1]);
	i = read(done[0], &byte, 1);
	close(done[0]);
	if (!holder) {
		load_wait(pid);
		return;
	}
	if (i != 1)
		psi_die("a child died");
	holder_begin(holder, pid);
}

static bool op_call(void)
{
	struct desc *desc = choose(descs, it->file);
	bool in_child = !fuzz_below(12);

	if (!desc)
		return false;
	call_choose(desc);
	call_prepare(desc->file);
	oplog_add("%s%s fd %d (%s of %s%s%s%s) len %zu at %ld mask %#x \"%s\"",
		  in_child ? "child: " : "", what_names[call->what], desc->fd,
		  file_name(&desc->file->target),
		  desc->file->target.cgroup ? groups[desc->file->group].path : PSI_DIR,
		  desc->file->target.dead ? ", dead" : "",
		  desc->file->target.armed ? ", armed" : "",
		  desc->file->target.privileged ? "" : ", ordinary",
		  call->what == WRITE ? call->text.len : call->len, (long)call->off, call->events,
		  text_quote(call->text.bytes, call->text.len));
	if (in_child)
		call_make_in_child();
	else
		call_make();
	judge[call->what](desc->file);
	return true;
}

static bool op_kill_holder(void)
{
	struct holder *holder = choose(holders, it->pid);

	if (!holder)
		return false;
	oplog_add("kill child %d", holder->pid);
	holder_end(holder);
	return true;
}

/* ---- Descriptors ---- */

/* A group that may not exist. */
static int any_group(void)
{
	return fuzz_below(NR_GROUPS);
}

static int present_group(void)
{
	struct group *group = choose(groups, it->exists);

	return group - groups;
}

static bool op_open(void)
{
	static const int modes[] = { O_RDONLY, O_RDWR, O_RDWR, O_RDWR, O_WRONLY };
	struct file *file = choose(open_files, !it->refs);
	struct desc *desc = choose(descs, !it->file);
	int mode = modes[fuzz_below(ARRAY_SIZE(modes))];
	bool cgroup = fuzz_below(4);
	int group = !cgroup ? ROOT : fuzz_below(4) ? present_group() : any_group();
	bool exists = !cgroup || (groups[group].exists && !groups[group].off);
	struct target target = {
		.cgroup = cgroup,
		.stat = !fuzz_below(2),
		.resource = fuzz_below(NR_FUZZ_RESOURCES),
		.writable = mode != O_RDONLY,
		.privileged = fuzz_below(3),
	};
	char path[200];
	int fd;

	if (!desc || !file)
		return false;
	file_path(&groups[group], &target, path, sizeof(path));
	oplog_add("open %s, mode %d%s", path, mode, target.privileged ? "" : ", ordinary");
	if (!target.privileged)
		set_cap_sys_resource(false, true);
	fd = open(path, mode | O_CLOEXEC | O_NONBLOCK);
	set_cap_sys_resource(true, true);
	if (fd < 0 && (exists || errno != ENOENT))
		fuzz_fail("open: %s", strerror(errno));
	if (fd >= 0 && !exists)
		fuzz_fail("open succeeds, but the file must not exist");
	if (fd < 0)
		return true;
	*file = (struct file) {
		.refs = 1,
		.group = group,
		.readable = mode != O_WRONLY,
		.target = target,
	};
	*desc = (struct desc) { .fd = fd, .file = file };
	return true;
}

static bool op_dup(void)
{
	struct desc *old = choose(descs, it->file);
	struct desc *desc = choose(descs, !it->file);

	if (!old || !desc)
		return false;
	desc->fd = fcntl(old->fd, F_DUPFD_CLOEXEC, 3);
	oplog_add("dup of fd %d is %d", old->fd, desc->fd);
	if (desc->fd < 0)
		fuzz_fail("dup: %s", strerror(errno));
	desc->file = old->file;
	desc->file->refs++;
	return true;
}

static bool op_close(void)
{
	struct desc *desc = choose(descs, it->file);

	if (!desc)
		return false;
	oplog_add("close fd %d", desc->fd);
	if (close(desc->fd))
		fuzz_fail("close: %s", strerror(errno));
	file_put(desc->file);
	desc->file = NULL;
	return true;
}

/* ---- epoll ---- */

static bool is_watched(const struct file *file)
{
	for (int i = 0; i < NR_DESCS; i++)
		if (items[i].file == file)
			return true;
	return false;
}

static bool op_epoll_add(void)
{
	static const unsigned int masks[] = {
		EPOLLPRI, EPOLLPRI | EPOLLET, EPOLLPRI | EPOLLIN, EPOLLOUT | EPOLLPRI | EPOLLET
	};
	struct item *item = choose(items, !it->file);
	struct desc *desc = choose(descs, it->file && !is_watched(it->file));
	struct epoll_event event = { .data.u32 = item ? item - items : 0 };

	if (!item || !desc)
		return false;
	event.events = masks[fuzz_below(ARRAY_SIZE(masks))];
	oplog_add("epoll: add fd %d for %#x as %u", desc->fd, event.events, event.data.u32);
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, desc->fd, &event))
		fuzz_fail("epoll_ctl: %s", strerror(errno));
	*item = (struct item) {
		.file = desc->file,
		.events = event.events,
	};
	return true;
}

static bool op_epoll_wait(void)
{
	struct epoll_event events[NR_DESCS + 1];
	bool told[NR_DESCS] = {};
	int nr;

	oplog_add("epoll_wait");
	nr = epoll_wait(epoll_fd, events, ARRAY_SIZE(events), 0);
	if (nr < 0)
		fuzz_fail("epoll_wait: %s", strerror(errno));
	for (int i = 0; i < nr; i++) {
		struct item *item = &items[events[i].data.u32];

		if (!item->file)
			fuzz_fail("epoll: item %u was closed", events[i].data.u32);
		if (told[item - items])
			fuzz_fail("epoll: item %u twice", events[i].data.u32);
		told[item - items] = true;
		judge_events(item->file, item->events & 0xffff, events[i].events);
	}
	for (int i = 0; i < NR_DESCS; i++) {
		struct item *item = &items[i];
		bool must = item->file && item->file->target.dead;

		if (must && (item->owed || !(item->events & EPOLLET)) && !told[i])
			fuzz_fail("epoll does not report item %d, which is dead", i);
		item->owed = false;
	}
	return true;
}

/* ---- Groups ---- */

static bool op_mkdir(void)
{
	int i = TOP + 1 + fuzz_below(NR_GROUPS - TOP - 1);
	struct group *group = &groups[i];
	char path[PATH_SIZE];

	if (!group->exists) {
		struct group *parent = choose(groups, it != &groups[ROOT] && it->exists &&
					      it->depth < DEPTH);

		group->parent = parent - groups;
		group->depth = parent->depth + 1;
		snprintf(path, sizeof(path), "%s/g%d", parent->path, i);
		memcpy(group->path, path, sizeof(path));
		group->off = false;
		memset(group->seen, 0, sizeof(group->seen));
		memset(&group->stat_seen, 0, sizeof(group->stat_seen));
	}
	oplog_add("mkdir %s", group->path);
	if (!mkdir(group->path, 0755) == group->exists)
		fuzz_fail("mkdir: %s", group->exists ? "done" : strerror(errno));
	if (group->exists && errno != EEXIST)
		fuzz_fail("mkdir: %s", strerror(errno));
	group->exists = true;
	return true;
}

static bool op_rmdir(void)
{
	int i = TOP + 1 + fuzz_below(NR_GROUPS - TOP - 1);
	struct group *group = &groups[i];
	int error = 0;

	if (!*group->path)
		return false;
	if (!group->exists)
		error = ENOENT;
	else if (has_children(group) || has_tasks(group))
		error = EBUSY;
	oplog_add("rmdir %s", group->path);
	if (rmdir(group->path) ? errno != error : error)
		fuzz_fail("rmdir: %s, must be %s", strerror(errno), strerror(error));
	if (error)
		return true;
	group->exists = false;
	files_die(i);
	return true;
}

static bool op_switch(void)
{
	static const struct {
		const char *text;
		int error;
		bool off;
	} texts[] = {
		{ "0", 0, true }, { "0\n", 0, true }, { "1", 0, false }, { "\t1\t\n", 0, false },
		{ "2", ERANGE }, { "-1", ERANGE }, { "x", EINVAL }, { "1x", EINVAL },
		{ " ", EINVAL }, { "1 1", EINVAL },
	};
	int i = fuzz_below(20) ? 1 + fuzz_below(NR_GROUPS - 1) : ROOT;
	int nr = fuzz_below(fuzz_below(3) ? 4 : ARRAY_SIZE(texts));
	struct group *group = &groups[i];
	int error = group->exists ? texts[nr].error : ENOENT;
	int found;

	if (!*group->path)
		return false;
	oplog_add("%s: cgroup.pressure \"%s\"", group->path,
		  text_quote(texts[nr].text, strlen(texts[nr].text)));
	found = cgroup_try_write(group->path, "cgroup.pressure", texts[nr].text);
	if (found != error)
		fuzz_fail("cgroup.pressure: %s, must be %s", strerror(found), strerror(error));
	if (error || texts[nr].off == group->off)
		return true;
	group->off = texts[nr].off;
	if (group->off)
		files_die(i);
	return true;
}

static bool op_read_switch(void)
{
	struct group *group = &groups[present_group()];
	char path[200], buf[16];

	oplog_add("%s: read cgroup.pressure", group->path);
	snprintf(path, sizeof(path), "%s/cgroup.pressure", group->path);
	if (read_file(path, buf, sizeof(buf)) != 2 || strcmp(buf, group->off ? "0\n" : "1\n"))
		fuzz_fail("cgroup.pressure: \"%s\"", buf);
	for (int r = 0; r <= NR_FUZZ_RESOURCES; r++) {
		const struct target target = { .cgroup = true, .resource = r % NR_FUZZ_RESOURCES,
					       .stat = r == NR_FUZZ_RESOURCES };

		file_path(group, &target, path, sizeof(path));
		if (!access(path, F_OK) == group->off)
			fuzz_fail("%s %s", path, group->off ? "exists" : "does not exist");
	}
	return true;
}

/* The tasks of the top, and below, are held for a part of each period, or no longer. */
static bool op_limit(void)
{
	const char *max = fuzz_below(2) ? "max" : fuzz_below(2) ? "30000 100000" : "5000 10000";

	oplog_add("cpu.max \"%s\"", max);
	cgroup_write(FUZZ_TOP, "cpu.max", max);
	return true;
}

/* ---- Tasks ---- */

static void nap(void *arg)
{
	for (;;) {
		spin_until(now_ns() + NSEC_PER_MSEC);
		sleep_for(3 * NSEC_PER_MSEC);
	}
}

static void read_disk(void *arg)
{
	struct reader reader = { .node = disk_node, .flags = O_DIRECT, .end = -1ULL };

	read_blocks(&reader);
}

static bool op_task(void)
{
	static void (* const fns[])(void *arg) = { spin, nap, nap, read_disk, read_disk };
	struct task *task = choose(tasks, !it->holder.pid);
	int group = present_group();
	struct load load = { .cpu = -1, .cgroup = groups[group].path };

	if (!task)
		return false;
	load.fn = fns[fuzz_below(ARRAY_SIZE(fns))];
	holder_begin(&task->holder, load_start(&load));
	task->group = group;
	oplog_add("task %d in %s", task->holder.pid, groups[group].path);
	return true;
}

static bool op_move(void)
{
	struct task *task = choose(tasks, it->holder.pid);
	int group = any_group(), error;
	char text[16];

	if (!task || !*groups[group].path)
		return false;
	oplog_add("move %d to %s", task->holder.pid, groups[group].path);
	snprintf(text, sizeof(text), "%d", task->holder.pid);
	error = cgroup_try_write(groups[group].path, "cgroup.procs", text);
	if (error != (groups[group].exists ? 0 : ENOENT))
		fuzz_fail("move: %s", strerror(error));
	if (!error)
		task->group = group;
	return true;
}

static bool op_kill(void)
{
	struct task *task = choose(tasks, it->holder.pid);

	if (!task)
		return false;
	oplog_add("kill %d", task->holder.pid);
	holder_end(&task->holder);
	return true;
}

static bool op_sleep(void)
{
	__u64 ms = fuzz_below(8) ? fuzz_below(20) : fuzz_below(300);

	if (!fuzz_below(100))
		ms = 3000;
	oplog_add("sleep %llu ms", ms);
	sleep_for(ms * NSEC_PER_MSEC);
	return true;
}

/* ---- The sequence ---- */

static const struct op {
	unsigned int weight;
	bool (*fn)(void);
} ops[] = {
	{ 40, op_call },
	{ 14, op_open },
	{ 4, op_dup },
	{ 8, op_close },
	{ 4, op_epoll_add },
	{ 4, op_epoll_wait },
	{ 2, op_kill_holder },
	{ 6, op_mkdir },
	{ 5, op_rmdir },
	{ 5, op_switch },
	{ 2, op_read_switch },
	{ 2, op_limit },
	{ 2, op_task },
	{ 4, op_move },
	{ 2, op_kill },
	{ 6, op_sleep },
};

static void run_one(void)
{
	unsigned int sum = 0, at;

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		sum += ops[i].weight;
	at = fuzz_below(sum);
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (at < ops[i].weight) {
			ops[i].fn();
			return;
		}
		at -= ops[i].weight;
	}
}

static int dying_cgroups(void)
{
	return file_number(CGROUP_ROOT "/cgroup.stat", "nr_dying_descendants");
}

/* In this order, as descriptors may outlive groups and tasks. */
static void end_all(void)
{
	while (op_kill())
		;
	for (int depth = DEPTH; depth; depth--) {
		for (int i = TOP + 1; i < NR_GROUPS; i++) {
			struct group *group = &groups[i];

			if (!group->exists || group->depth != depth)
				continue;
			if (rmdir(group->path))
				fuzz_fail("end: rmdir %s: %s", group->path, strerror(errno));
			group->exists = false;
			files_die(i);
		}
	}
	op_epoll_wait();
	while (op_kill_holder())
		;
	while (op_close())
		;
	for (int i = ROOT; i <= TOP; i++)
		cgroup_write(groups[i].path, "cgroup.pressure", "1");
}

void fuzz_sequence(unsigned int nr_ops)
{
	__u64 served, give_up;
	struct slow_disk disk;
	const char *found;
	int dying;

	cpus_use(1);
	task_delays_on();
	set_policy(0, SCHED_FIFO, 50);
	slow_disk_create(&disk, "psi_fuzz", 2 * NSEC_PER_MSEC, 64);
	disk_node = disk.node;
	call = shared_memory(sizeof(*call));
	irq_accounted = psi_irq_accounted();
	dying = dying_cgroups();
	cgroup_moves_are_fast();
	cgroup_create(FUZZ_TOP, "+cpu");
	groups[ROOT] = (struct group) { .exists = true, .path = CGROUP_ROOT };
	groups[TOP] = (struct group) { .exists = true, .path = FUZZ_TOP };
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0)
		psi_die("epoll_create1: %s", strerror(errno));

	for (unsigned int i = 0; i < nr_ops; i++)
		run_one();

	end_all();
	cgroup_remove(FUZZ_TOP);
	close(epoll_fd);
	/* No trigger is left after the last check, so stalls cause no work. */
	sleep_for(2 * NSEC_PER_SEC);
	served = monitor_switches();
	found = find_leak(disk.node);
	if (found)
		fuzz_fail("%s", found);
	served = monitor_switches() - served;
	if (served)
		fuzz_fail("a trigger is left: %llu switches of the monitor", served);
	give_up = now_ns() + 20 * NSEC_PER_SEC;
	while (dying_cgroups() > dying) {
		if (now_ns() > give_up)
			fuzz_fail("cgroups are left: %d, at first %d",
				  dying_cgroups(), dying);
		sleep_for(NSEC_PER_SEC / 10);
	}
	slow_disk_remove(&disk);
}
