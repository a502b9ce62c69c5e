/* SPDX-License-Identifier: (LGPL-2.1 OR BSD-2-Clause) */
/*
 * libpsi - read pressure stall information and wait for its events
 *
 * Three things that a program needs:
 *
 * - Read a pressure file:      psi_read()
 * - Wait for a trigger:        psi_trigger_arm(), psi_wait()
 * - Be a service of systemd:   psi_watch_open(), psi_watch_wait()
 *
 * Functions return 0, a descriptor or a count; or a negative errno.  They are
 * thread-safe except for psi_set_root(), and neither print nor exit.
 */
#ifndef _LIBPSI_H
#define _LIBPSI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum psi_resource { PSI_CPU, PSI_MEMORY, PSI_IO, PSI_IRQ, PSI_RESOURCES };
enum psi_class { PSI_PLAIN, PSI_EXACT, PSI_LIMIT, PSI_SHORTAGE, PSI_CLASSES };
enum psi_kind { PSI_SOME, PSI_FULL, PSI_KINDS };

/* Names as in the files; that of PSI_PLAIN is empty. */
extern const char * const psi_resource_names[PSI_RESOURCES];
extern const char * const psi_class_names[PSI_CLASSES];
extern const char * const psi_kind_names[PSI_KINDS];

#define PSI_FILE_MAX	65536	/* bytes; a larger file is no pressure file */
#define PSI_CAUSES_MAX	32
#define PSI_HIST_MAX	40	/* powers of two from 1 us: to six days */
#define PSI_TEXT_MAX	256	/* bytes of a trigger's text, with its NUL */

/**
 * struct psi_line - one line of a pressure file
 * @known: the file has this line
 * @avg10: average over 10 s, in hundredths of a percent
 * @avg60: the same over 60 s
 * @avg300: the same over 300 s
 * @total: stall time since boot, or since the cgroup was made, in us
 */
struct psi_line {
	bool known;
	unsigned long long avg10;
	unsigned long long avg60;
	unsigned long long avg300;
	unsigned long long total;
};

/**
 * struct psi_cause - one cause of memory stalls
 * @name: as in the file
 * @count: stalls that ended
 * @total: task time they took, in us
 * @max: the longest one, in us
 * @nr_hist: entries of @hist in use
 * @hist: stalls by length, in powers of two from 1 us
 */
struct psi_cause {
	char name[24];
	unsigned long long count;
	unsigned long long total;
	unsigned long long max;
	unsigned int nr_hist;
	unsigned long long hist[PSI_HIST_MAX];
};

/**
 * struct psi_pressure - what a plain file, a .stat file or both say
 * @line: by class and kind
 * @nr_causes: entries of @cause in use
 * @cause: causes of memory stalls
 */
struct psi_pressure {
	struct psi_line line[PSI_CLASSES][PSI_KINDS];
	unsigned int nr_causes;
	struct psi_cause cause[PSI_CAUSES_MAX];
};

/**
 * psi_parse() - parse the text of a pressure file
 * @text: the text, which needs no NUL
 * @length: its length in bytes
 * @pressure: where the lines are added; all zero before the first file
 *
 * Lines and fields with unknown names are skipped: later kernels may add some.
 *
 * Return: 0, or -EBADMSG when this is not the whole text of a pressure file
 */
int psi_parse(const char *text, size_t length, struct psi_pressure *pressure);

/**
 * psi_read_fd() - read a pressure file that is open
 * @fd: its descriptor; its position is neither used nor moved
 * @pressure: as in psi_parse()
 *
 * Return: 0; -EBADMSG, -EFBIG when this is no pressure file; -ENODEV when the
 *	cgroup is gone; -EOPNOTSUPP when PSI is off; or another error of read()
 */
int psi_read_fd(int fd, struct psi_pressure *pressure);

/**
 * psi_read() - read a pressure file
 * @path: its path
 * @pressure: as in psi_parse()
 *
 * Return: as psi_read_fd(), or an error of open()
 */
int psi_read(const char *path, struct psi_pressure *pressure);

/**
 * psi_path() - the path of a pressure file
 * @path: where it is written
 * @size: bytes there
 * @cgroup: directory of the cgroup, or NULL for the system
 * @resource: the resource
 * @stat: the .stat file, which has classes and causes
 *
 * Return: 0, or -ENAMETOOLONG
 */
int psi_path(char *path, size_t size, const char *cgroup, enum psi_resource resource, bool stat);

/**
 * struct psi_trigger - what to wait for
 * @resource: the resource
 * @klass: PSI_PLAIN, or a class of the .stat file
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
 *
 * Return: 0, or -EINVAL
 */
int psi_trigger_parse(const char *text, struct psi_trigger *trigger);

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
 *	have one trigger a file; or another error of open() or write()
 */
int psi_arm(const char *path, const char *text);

/**
 * psi_trigger_arm() - arm a trigger
 * @trigger: the trigger
 * @cgroup: directory of the cgroup, or NULL for the system
 *
 * Return: as psi_arm()
 */
int psi_trigger_arm(const struct psi_trigger *trigger, const char *cgroup);

/**
 * psi_wait() - wait for the next event of a trigger
 * @fd: descriptor of psi_arm()
 * @timeout_ms: how long, in ms; negative for ever
 *
 * Return: 1 for an event, 0 when the time is over, -ENODEV when the file has
 *	no trigger or its cgroup is gone, -EINTR when a signal was handled
 */
int psi_wait(int fd, int timeout_ms);

/* Watch a pressure file outside the cgroup of this process, too. */
#define PSI_WATCH_ANYWHERE	1

enum psi_watch_type { PSI_WATCH_FILE, PSI_WATCH_FIFO, PSI_WATCH_SOCKET };

/**
 * struct psi_watch - what a service manager wants to be watched
 * @fd: its descriptor, for an event loop
 * @events: what to poll for: POLLPRI or POLLIN
 * @type: what was opened
 * @path: what the variable named
 * @length: bytes of @text
 * @text: what was written, decoded
 */
struct psi_watch {
	int fd;
	short events;
	enum psi_watch_type type;
	char path[PATH_MAX];
	size_t length;
	char text[PSI_TEXT_MAX];
};

/**
 * psi_watch_open() - the service's side of systemd's pressure protocol
 * @resource: cpu, memory or io: $MEMORY_PRESSURE_WATCH, $MEMORY_PRESSURE_WRITE
 * @flags: 0 or PSI_WATCH_ANYWHERE
 * @watch: the result
 *
 * The variables leak from services into what runs below them, for instance
 * from a terminal emulator into its shells.  So a pressure file is refused
 * unless it belongs to the cgroup of this process or to one below.
 *
 * Return: 0; -ENOENT when the variable is absent or nothing has that name;
 *	-ECANCELED when it is /dev/null, which means not to watch; -EBADMSG
 *	when $..._WRITE is not Base64 of a text that fits; -EXDEV when the file
 *	is outside the own cgroup; -ENOTSOCK when it is no file, FIFO or socket;
 *	or an error of open(), connect() or write()
 */
int psi_watch_open(enum psi_resource resource, unsigned int flags, struct psi_watch *watch);

/**
 * psi_watch_wait() - wait for the next event
 * @watch: what psi_watch_open() opened
 * @timeout_ms: how long, in ms; negative for ever; 0 from an event loop
 *
 * What a FIFO or a socket sends is read and discarded.
 *
 * Return: 1 for an event, 0 when the time is over, -ENODEV when no event can
 *	come any more, -EINTR when a signal was handled
 */
int psi_watch_wait(struct psi_watch *watch, int timeout_ms);

/**
 * psi_watch_close() - stop watching
 * @watch: what psi_watch_open() opened
 */
void psi_watch_close(struct psi_watch *watch);

/**
 * psi_cgroup_mount() - where cgroup v2 is mounted
 * @path: where the directory is written
 * @size: bytes there
 *
 * Return: 0, or -ENOENT when it is not
 */
int psi_cgroup_mount(char *path, size_t size);

/**
 * psi_cgroup_own() - directory of the cgroup that this process is in
 * @path: where it is written
 * @size: bytes there
 *
 * Return: 0, or -ENOENT when it is not visible here
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
