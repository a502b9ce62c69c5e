/* SPDX-License-Identifier: (LGPL-2.1 OR BSD-2-Clause) */
/*
 * libpsi - read pressure stall information and wait for its events
 *
 * Three things that a program needs:
 *
 * - Read pressure:             psi_new(), psi_read_all(), psi_line()
 * - Wait for a trigger:        psi_watch_trigger(), psi_watch_wait()
 * - Be a service of systemd:   psi_watch_service(), psi_watch_wait()
 *
 * A program with an event loop of its own polls psi_watch_fd() and hands what
 * its poll reported to psi_watch_collect().
 *
 * Functions return 0, a descriptor or a count; or a negative errno.  They are
 * thread-safe except for psi_set_root(), as long as each thread has objects of
 * its own, and neither print nor exit.  Structures that the library returns may
 * get more members at their end.
 */
#ifndef _LIBPSI_H
#define _LIBPSI_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum psi_resource { PSI_CPU, PSI_MEMORY, PSI_IO, PSI_IRQ, PSI_RESOURCES };
enum psi_class { PSI_PLAIN, PSI_EXACT, PSI_LIMIT, PSI_SHORTAGE, PSI_CLASSES };
enum psi_kind { PSI_SOME, PSI_FULL, PSI_KINDS };

/* Names as in the files; that of PSI_PLAIN is empty. */
const char *psi_resource_name(enum psi_resource resource);
const char *psi_class_name(enum psi_class klass);
const char *psi_kind_name(enum psi_kind kind);

/* Pressure */

/**
 * struct psi_line - one line of a pressure file
 * @avg10: average over 10 s, in hundredths of a percent
 * @avg60: the same over 60 s
 * @avg300: the same over 300 s
 * @total: stall time since boot, or since the cgroup was made, in us
 */
struct psi_line {
	unsigned long long avg10;
	unsigned long long avg60;
	unsigned long long avg300;
	unsigned long long total;
};

#define PSI_HIST_MAX	40	/* powers of two from 1 us: to six days */

/**
 * struct psi_cause - one cause of memory stalls
 * @name: as in the file
 * @count: stalls that ended
 * @total: task time they took, in us
 * @max: the longest one, in us
 * @nr_hist: entries of @hist in use
 * @hist: stalls by length, in powers of two from 1 us; the last entry has all longer
 *	ones, too
 */
struct psi_cause {
	char name[24];
	unsigned long long count;
	unsigned long long total;
	unsigned long long max;
	unsigned int nr_hist;
	unsigned long long hist[PSI_HIST_MAX];
};

struct psi_pressure;

/**
 * psi_new() - room for what pressure files say
 *
 * Return: the object, which knows nothing yet; NULL without memory
 */
struct psi_pressure *psi_new(void);

/**
 * psi_free() - free it
 * @pressure: of psi_new(), or NULL
 */
void psi_free(struct psi_pressure *pressure);

/**
 * psi_clear() - forget what was read
 * @pressure: of psi_new()
 */
void psi_clear(struct psi_pressure *pressure);

/**
 * psi_line() - a line that was read
 * @pressure: of psi_new()
 * @resource: the resource
 * @klass: PSI_PLAIN, or a class of the statistics file
 * @kind: some or full
 *
 * Return: the line, until psi_free(); NULL when no file had it
 */
const struct psi_line *psi_line(const struct psi_pressure *pressure, enum psi_resource resource,
				enum psi_class klass, enum psi_kind kind);

/**
 * psi_cause() - a cause of memory stalls that was read
 * @pressure: of psi_new()
 * @index: from 0 on
 *
 * Return: the cause, until psi_clear() or psi_free(); NULL after the last one
 */
const struct psi_cause *psi_cause(const struct psi_pressure *pressure, unsigned int index);

/**
 * psi_parse() - parse the text of a pressure file
 * @text: the text, which needs no NUL
 * @length: its length in bytes
 * @resource: whose plain file it is; lines of a statistics file say it themselves
 * @pressure: where the lines are added
 *
 * Lines and fields with unknown names are skipped: later kernels may add some.
 * So are causes that there is no room for: with a name of 24 bytes or more, and
 * those after the 32nd.
 *
 * Return: 0, or -EBADMSG when this is not the whole text of a pressure file
 */
int psi_parse(const char *text, size_t length, enum psi_resource resource,
	      struct psi_pressure *pressure);

/**
 * psi_read_fd() - read a pressure file that is open
 * @fd: its descriptor; its position is neither used nor moved
 * @resource: as in psi_parse()
 * @pressure: as in psi_parse()
 *
 * Return: 0; -EBADMSG, -EFBIG when this is no pressure file; -ENODEV when the
 *	cgroup is gone; -EOPNOTSUPP when PSI is off; or another error of read()
 */
int psi_read_fd(int fd, enum psi_resource resource, struct psi_pressure *pressure);

/**
 * psi_read() - read a pressure file
 * @path: its path
 * @resource: as in psi_parse()
 * @pressure: as in psi_parse()
 *
 * Return: as psi_read_fd(), or an error of open()
 */
int psi_read(const char *path, enum psi_resource resource, struct psi_pressure *pressure);

/**
 * psi_read_all() - read all that is known of a cgroup
 * @cgroup: its directory, or NULL for the system
 * @pressure: the result; what it had is forgotten
 *
 * Reads the statistics file where there is one, and the plain files elsewhere.
 * The first read of a statistics file in five minutes switches exact pressure,
 * limit and shortage on: from then on their totals grow.
 *
 * Return: 0 when a file could be read, or the error of the first one
 */
int psi_read_all(const char *cgroup, struct psi_pressure *pressure);

/**
 * psi_path() - the path of a plain pressure file
 * @path: where it is written
 * @size: bytes there
 * @cgroup: directory of the cgroup, or NULL for the system
 * @resource: the resource
 *
 * Return: 0, or -ENAMETOOLONG
 */
int psi_path(char *path, size_t size, const char *cgroup, enum psi_resource resource);

/**
 * psi_stat_path() - the path of the statistics file
 * @path: where it is written
 * @size: bytes there
 * @cgroup: directory of the cgroup, or NULL for the system
 *
 * Return: 0, or -ENAMETOOLONG
 */
int psi_stat_path(char *path, size_t size, const char *cgroup);

/* Triggers */

/**
 * struct psi_trigger - what to wait for
 * @resource: the resource
 * @klass: PSI_PLAIN, or a class of the statistics file
 * @kind: some or full
 * @stall_us: stall within the window that makes an event, in us
 * @window_us: length of the window, in us
 */
struct psi_trigger {
	enum psi_resource resource;
	enum psi_class klass;
	enum psi_kind kind;
	unsigned long long stall_us;
	unsigned long long window_us;
};

/**
 * psi_trigger_parse() - parse a trigger as people write it
 * @text: such as "memory some 150ms/2s" or "io shortage full 1s/10s"
 * @trigger: the result
 * @size: sizeof(*trigger), for programs that were built with another version
 *
 * Return: 0, or -EINVAL
 */
int psi_trigger_parse(const char *text, struct psi_trigger *trigger, size_t size);

/**
 * psi_arm() - open a pressure file and write a trigger's text
 * @path: path of the file
 * @text: such as "some 150000 2000000"; a C string
 *
 * The file is opened for reading and writing, or for writing only where
 * reading is not allowed.
 *
 * Return: a descriptor for psi_wait(), closed by close(); -EINVAL when the
 *	kernel refuses the text, also because of a window that needs
 *	CAP_SYS_RESOURCE; -EOPNOTSUPP when PSI is off; -EBUSY on kernels that
 *	have one trigger a file; -ENOSPC when the user has too many; or another
 *	error of open() or write()
 */
int psi_arm(const char *path, const char *text);

/**
 * psi_wait() - wait for the next event of a trigger
 * @fd: descriptor of psi_arm()
 * @timeout_ms: how long, in ms; negative for ever
 *
 * Return: 1 for an event, 0 when the time is over, -ENODEV when the file has
 *	no trigger or its cgroup is gone, -EUSERS while more than 64 poll the
 *	open file (no event is lost), -EINTR when a signal was handled
 */
int psi_wait(int fd, int timeout_ms);

/* Watches: a trigger, or what a service manager wants to be watched */

struct psi_watch;

/* What psi_watch_wait() and psi_watch_collect() return, beside errors. */
enum psi_event { PSI_NOTHING, PSI_EVENT, PSI_LEFT };

/**
 * psi_watch_trigger() - arm a trigger
 * @watch: the result; NULL after an error
 * @text: as in psi_trigger_parse()
 * @cgroup: directory of the cgroup, or NULL for the system
 *
 * Return: 0; -EINVAL when the text is no trigger; or an error of psi_arm()
 */
int psi_watch_trigger(struct psi_watch **watch, const char *text, const char *cgroup);

/* Watch a pressure file outside the cgroup of this process, too. */
#define PSI_WATCH_ANYWHERE	1
/* Read it for psi_watch_amount(), which the protocol does not. */
#define PSI_WATCH_AMOUNT	2

/**
 * psi_watch_service() - the service's side of systemd's pressure protocol
 * @watch: the result; NULL after an error
 * @resource: cpu, memory or io: $MEMORY_PRESSURE_WATCH, $MEMORY_PRESSURE_WRITE
 * @flags: 0, or PSI_WATCH_ANYWHERE, PSI_WATCH_AMOUNT or both
 *
 * The variables leak from services into what runs below them, for instance
 * from a terminal emulator into its shells.  So a pressure file is refused
 * unless it belongs to the cgroup of this process or to one below.  It is not
 * read unless the program asks for amounts or for a level.
 *
 * Return: 0; -ENOENT when the variable is absent or nothing has that name;
 *	-ECANCELED when it is /dev/null, which means not to watch; -EBADMSG
 *	when $..._WRITE is not Base64 of a text that fits; -EXDEV when the file
 *	is outside the own cgroup; -ENOTSOCK when it is no file, FIFO or socket;
 *	or an error of open(), connect() or write()
 */
int psi_watch_service(struct psi_watch **watch, enum psi_resource resource, unsigned int flags);

/**
 * psi_watch_threshold() - what makes an event
 * @watch: the watch
 * @trigger: the result
 * @size: sizeof(*trigger), for programs that were built with another version
 *
 * Of psi_watch_service() it is what $..._WRITE decodes to.
 *
 * Return: 0; -ENODATA when the service manager did not tell, or that can be no
 *	threshold; -EINVAL when @size is too small
 */
int psi_watch_threshold(const struct psi_watch *watch, struct psi_trigger *trigger, size_t size);

/**
 * psi_watch_amount() - how much stalled up to the last event
 * @watch: the watch
 * @stall_us: since the event before, or since the watch began, in us
 * @over_us: how long that was, in us
 *
 * PSI_LEFT is an event here, too.  Older kernels add totals up every two seconds
 * only: what stalled just before an event may be in the amount of the next one.
 *
 * Return: 0; -ENODATA before the first event, of a FIFO or a socket, when the file
 *	cannot be read, and of psi_watch_service() without PSI_WATCH_AMOUNT or a level
 */
int psi_watch_amount(const struct psi_watch *watch, unsigned long long *stall_us,
		     unsigned long long *over_us);

/**
 * psi_watch_level() - turn events into a level that is entered and left
 * @watch: of psi_watch_trigger(), or of psi_watch_service() for a pressure file
 * @leave_us: less than the threshold
 *
 * The first event enters the level: PSI_EVENT.  It is left, PSI_LEFT, when the
 * stall of a whole window was no more than @leave_us.  No event tells that, so
 * the library looks ten times a window while the level is entered:
 * see psi_watch_timeout().
 *
 * A FIFO or a socket has no totals to look at: there the service manager decides
 * what is an event.
 *
 * Return: 0; -EINVAL for a FIFO or a socket, or when @leave_us is not less than a
 *	threshold that is known
 */
int psi_watch_level(struct psi_watch *watch, unsigned long long leave_us);

/**
 * psi_watch_fd() - what an event loop has to poll
 * @watch: the watch
 *
 * Return: its descriptor
 */
int psi_watch_fd(const struct psi_watch *watch);

/**
 * psi_watch_events() - what to poll it for
 * @watch: the watch
 *
 * Return: POLLPRI or POLLIN, which are also EPOLLPRI and G_IO_PRI, EPOLLIN and
 *	G_IO_IN
 */
short psi_watch_events(const struct psi_watch *watch);

/**
 * psi_watch_timeout() - when an event loop has to call, without an event
 * @watch: the watch
 *
 * Return: ms until psi_watch_collect() is due; -1 when only an event makes it
 */
int psi_watch_timeout(const struct psi_watch *watch);

/**
 * psi_watch_collect() - what an event loop's poll reported
 * @watch: the watch
 * @revents: what it reported for psi_watch_fd(); 0 after psi_watch_timeout()
 *
 * The poll of a loop takes the event of a pressure file: polling again finds
 * nothing.  So the loop hands on what its poll found.  What a FIFO or a socket
 * sends is read and discarded.  Does not block.
 *
 * Return: PSI_EVENT; PSI_LEFT, of a level; PSI_NOTHING; -ENODEV when no event
 *	can come any more, after which the loop must not poll it again; -EUSERS
 *	while more than 64 poll the open file: no event is lost, and each poll
 *	returns at once
 */
int psi_watch_collect(struct psi_watch *watch, short revents);

/**
 * psi_watch_wait() - wait for the next event, without an event loop
 * @watch: the watch
 * @timeout_ms: how long, in ms; negative for ever
 *
 * Return: as psi_watch_collect(), PSI_NOTHING when the time is over; -EINTR
 *	when a signal was handled
 */
int psi_watch_wait(struct psi_watch *watch, int timeout_ms);

/**
 * psi_watch_close() - stop watching
 * @watch: the watch, or NULL
 */
void psi_watch_close(struct psi_watch *watch);

/* Cgroups */

/**
 * psi_cgroup_mount() - where cgroup v2 is mounted
 * @path: where the directory is written
 * @size: bytes there
 *
 * Of several mounts it is the first one that has the cgroup of this process.
 *
 * Return: 0, or -ENOENT when it is not
 */
int psi_cgroup_mount(char *path, size_t size);

/**
 * psi_cgroup_own() - directory of the cgroup that this process is in
 * @path: where it is written
 * @size: bytes there
 *
 * Return: 0; -ENOENT when it is not visible here; -EXDEV when the mount of cgroup
 *	v2 is that of another cgroup namespace
 */
int psi_cgroup_own(char *path, size_t size);

/**
 * psi_set_root() - read /proc and cgroups of a recorded tree, for tests
 * @root: its directory, or NULL
 */
void psi_set_root(const char *root);

/**
 * psi_root() - what psi_set_root() was given
 *
 * Return: the directory; "" when there is none
 */
const char *psi_root(void);

#ifdef __cplusplus
}
#endif
#endif /* _LIBPSI_H */
