// SPDX-License-Identifier: (LGPL-2.1 OR BSD-2-Clause)
/*
 * libpsi - read pressure stall information and wait for its events
 *
 * The interface is described in libpsi.h.  Sections: spans of text, pressure
 * files, triggers, cgroups, the service protocol.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "libpsi.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define PSI_FILE_MAX	65536	/* bytes; a larger file is no pressure file */
#define PSI_CAUSES_MAX	32
#define PSI_TEXT_MAX	256	/* bytes of a trigger's text, with its NUL */

static const char * const resource_names[PSI_RESOURCES] = { "cpu", "memory", "io", "irq" };
static const char * const class_names[PSI_CLASSES] = { "", "exact", "limit", "shortage" };
static const char * const kind_names[PSI_KINDS] = { "some", "full" };

static const char *root = "";

const char *psi_resource_name(enum psi_resource resource)
{
	return resource_names[resource];
}

const char *psi_class_name(enum psi_class klass)
{
	return class_names[klass];
}

const char *psi_kind_name(enum psi_kind kind)
{
	return kind_names[kind];
}

void psi_set_root(const char *path)
{
	root = path ? path : "";
}

const char *psi_root(void)
{
	return root;
}

/* Spans of text */

struct span {
	const char *p;
	const char *end;
};

/* Cut off what comes before the next @separator; false at the end. */
static bool next_part(struct span *rest, char separator, struct span *part)
{
	while (separator == ' ' && rest->p < rest->end && *rest->p == ' ')
		rest->p++;
	if (rest->p >= rest->end)
		return false;
	part->p = rest->p;
	part->end = memchr(rest->p, separator, rest->end - rest->p);
	if (!part->end)
		part->end = rest->end;
	rest->p = part->end + 1;
	return true;
}

static int find_name(struct span word, const char * const *names, int count)
{
	size_t length = word.end - word.p;

	for (int i = 0; i < count; i++)
		if (length && *names[i] == *word.p && !strncmp(names[i], word.p, length) &&
		    !names[i][length])
			return i;
	return -1;
}

/* A number with so many @places after the point, in units of the last one. */
static int parse_number(struct span word, int places, unsigned long long *value)
{
	bool fraction = false, digits = false;
	unsigned long long number = 0;

	for (; word.p < word.end; word.p++) {
		unsigned int digit = *word.p - '0';

		if (*word.p == '.' && digits && places && !fraction) {
			fraction = true;
			continue;
		}
		if (digit > 9)
			return -EBADMSG;
		digits = true;
		if (fraction && !places)
			continue;
		places -= fraction;
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, digit, &number))
			return -EBADMSG;
	}
	while (places-- > 0)
		if (__builtin_mul_overflow(number, 10, &number))
			return -EBADMSG;
	*value = number;
	return digits ? 0 : -EBADMSG;
}

/* Pressure files */

/**
 * struct psi_pressure - what files said
 * @known: which lines, a bit for each
 * @line: by resource, class and kind
 * @nr_causes: entries of @cause in use
 * @cause: causes of memory stalls
 */
struct psi_pressure {
	unsigned int known;
	struct psi_line line[PSI_RESOURCES][PSI_CLASSES][PSI_KINDS];
	unsigned int nr_causes;
	struct psi_cause cause[PSI_CAUSES_MAX];
};

struct psi_pressure *psi_new(void)
{
	return calloc(1, sizeof(struct psi_pressure));
}

void psi_free(struct psi_pressure *pressure)
{
	free(pressure);
}

/* Averages may be missing in the next file: they are zero then. */
void psi_clear(struct psi_pressure *pressure)
{
	pressure->known = 0;
	pressure->nr_causes = 0;
	memset(pressure->line, 0, sizeof(pressure->line));
}

const struct psi_line *psi_line(const struct psi_pressure *pressure, enum psi_resource resource,
				enum psi_class klass, enum psi_kind kind)
{
	unsigned int bit = 1U << ((resource * PSI_CLASSES + klass) * PSI_KINDS + kind);

	return pressure->known & bit ? &pressure->line[resource][klass][kind] : NULL;
}

const struct psi_cause *psi_cause(const struct psi_pressure *pressure, unsigned int index)
{
	return index < pressure->nr_causes ? &pressure->cause[index] : NULL;
}

struct field {
	const char *name;
	size_t offset;
	bool percent;
};

static const struct field line_fields[] = {
	{ "total", offsetof(struct psi_line, total), false },
	{ "avg10", offsetof(struct psi_line, avg10), true },
	{ "avg60", offsetof(struct psi_line, avg60), true },
	{ "avg300", offsetof(struct psi_line, avg300), true },
};

static const struct field cause_fields[] = {
	{ "total", offsetof(struct psi_cause, total), false },
	{ "count", offsetof(struct psi_cause, count), false },
	{ "max", offsetof(struct psi_cause, max), false },
};

#define PERCENT_MAX	10000	/* hundredths */

static int parse_value(struct span value, const struct field *field, void *base)
{
	unsigned long long number;

	if (parse_number(value, field->percent ? 2 : 0, &number) ||
	    (field->percent && number > PERCENT_MAX))
		return -EBADMSG;
	*(unsigned long long *)((char *)base + field->offset) = number;
	return 0;
}

static int parse_hist(struct span list, struct psi_cause *cause)
{
	struct span part;

	while (next_part(&list, ',', &part)) {
		unsigned long long count;

		if (parse_number(part, 0, &count))
			return -EBADMSG;
		/* The last entry counts all that took longer, too. */
		cause->nr_hist += cause->nr_hist < PSI_HIST_MAX;
		cause->hist[cause->nr_hist - 1] += count;
	}
	return 0;
}

/* Fields "name=value"; each at most once, and the first of @fields must be there. */
static int parse_fields(struct span rest, const struct field *fields, int count, void *base,
			struct psi_cause *cause)
{
	struct span word, name;
	unsigned int seen = 0;

	while (next_part(&rest, ' ', &word)) {
		next_part(&word, '=', &name);
		if (name.end == word.end)
			return -EBADMSG;
		if (cause && find_name(name, (const char * const []){ "hist" }, 1) == 0 &&
		    parse_hist(word, cause))
			return -EBADMSG;
		for (int i = 0; i < count; i++) {
			if (find_name(name, &fields[i].name, 1))
				continue;
			if (seen & (1U << i) || parse_value(word, &fields[i], base))
				return -EBADMSG;
			seen |= 1U << i;
		}
	}
	return seen & 1 ? 0 : -EBADMSG;
}

static int parse_cause(struct span name, struct span rest, struct psi_pressure *pressure)
{
	size_t length = name.end - name.p;
	struct psi_cause *cause;

	/* One of a later kernel, for which there is no room. */
	if (pressure->nr_causes == PSI_CAUSES_MAX || length >= sizeof(cause->name) || !length)
		return 0;
	cause = &pressure->cause[pressure->nr_causes++];
	memset(cause, 0, sizeof(*cause));
	memcpy(cause->name, name.p, length);
	return parse_fields(rest, cause_fields, ARRAY_SIZE(cause_fields), cause, cause);
}

/*
 * One of "some", "cpu.some" and "cpu.exact.some"; or "memory.cause.NAME".
 * 1 for a line with pressure, 0 for another one.
 */
static int parse_line(struct span rest, int resource, struct psi_pressure *pressure,
		      unsigned int *seen)
{
	static const char * const cause_word[] = { "cause" };
	struct span key, word;
	int class = PSI_PLAIN, kind, error;
	unsigned int bit;

	if (!next_part(&rest, ' ', &key) || !next_part(&key, '.', &word))
		return -EBADMSG;
	kind = find_name(word, kind_names, PSI_KINDS);
	if (kind < 0) {
		resource = find_name(word, resource_names, PSI_RESOURCES);
		if (resource < 0 || !next_part(&key, '.', &word))
			return 0;
		if (resource == PSI_MEMORY && !find_name(word, cause_word, 1))
			return parse_cause(key, rest, pressure);
		class = find_name(word, class_names, PSI_CLASSES);
		if (class > PSI_PLAIN && !next_part(&key, '.', &word))
			return 0;
		class = class < 0 ? PSI_PLAIN : class;
		kind = find_name(word, kind_names, PSI_KINDS);
	}
	if (kind < 0 || key.p < key.end)
		return 0;
	bit = 1U << ((resource * PSI_CLASSES + class) * PSI_KINDS + kind);
	if (*seen & bit)
		return -EBADMSG;
	*seen |= bit;
	error = parse_fields(rest, line_fields, ARRAY_SIZE(line_fields),
			     &pressure->line[resource][class][kind], NULL);
	pressure->known = error ? pressure->known & ~bit : pressure->known | bit;
	return error ? error : 1;
}

/* Whole lines of printable ASCII. */
static bool is_text(const char *text, size_t length)
{
	if (!length || text[length - 1] != '\n')
		return false;
	for (size_t i = 0; i < length; i++)
		if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
			return false;
	return true;
}

int psi_parse(const char *text, size_t length, enum psi_resource resource,
	      struct psi_pressure *pressure)
{
	struct span rest = { text, text + length }, line;
	unsigned int seen = 0;
	int found = 0, result;

	if (!is_text(text, length))
		return -EBADMSG;
	while (next_part(&rest, '\n', &line)) {
		result = parse_line(line, resource, pressure, &seen);
		if (result < 0)
			return result;
		found += result;
	}
	return found ? 0 : -EBADMSG;
}

int psi_read_fd(int fd, enum psi_resource resource, struct psi_pressure *pressure)
{
	char text[PSI_FILE_MAX + 1];
	size_t length = 0;
	ssize_t got;

	do {
		got = pread(fd, text + length, sizeof(text) - length, length);
		if (got < 0 && errno != EINTR)
			return -errno;
		length += got > 0 ? got : 0;
	} while (got && length < sizeof(text));
	return length > PSI_FILE_MAX ? -EFBIG : psi_parse(text, length, resource, pressure);
}

int psi_read(const char *path, enum psi_resource resource, struct psi_pressure *pressure)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int error;

	if (fd < 0)
		return -errno;
	error = psi_read_fd(fd, resource, pressure);
	close(fd);
	return error;
}

int psi_path(char *path, size_t size, const char *cgroup, enum psi_resource resource)
{
	const char *name = resource_names[resource];
	int length;

	if (cgroup)
		length = snprintf(path, size, "%s/%s.pressure", cgroup, name);
	else
		length = snprintf(path, size, "%s/proc/pressure/%s", root, name);
	return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

int psi_stat_path(char *path, size_t size, const char *cgroup)
{
	int length;

	if (cgroup)
		length = snprintf(path, size, "%s/cgroup.pressure.stat", cgroup);
	else
		length = snprintf(path, size, "%s/proc/pressure/stat", root);
	return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}

int psi_read_all(const char *cgroup, struct psi_pressure *pressure)
{
	char path[PATH_MAX];
	int first, error;

	psi_clear(pressure);
	error = psi_stat_path(path, sizeof(path), cgroup);
	if (error || !psi_read(path, PSI_CPU, pressure))
		return error;
	psi_clear(pressure);
	for (int resource = 0; resource < PSI_RESOURCES; resource++) {
		error = psi_path(path, sizeof(path), cgroup, resource);
		if (!error)
			error = psi_read(path, resource, pressure);
		if (!resource)
			first = error;
	}
	return pressure->known ? 0 : first;
}

/* Triggers */

static int parse_time(struct span word, unsigned long long *us)
{
	static const char * const unit_names[] = { "us", "ms", "s" };
	const char *unit = word.p;
	int i;

	while (unit < word.end && (isdigit((unsigned char)*unit) || *unit == '.'))
		unit++;
	i = find_name((struct span){ unit, word.end }, unit_names, ARRAY_SIZE(unit_names));
	/* Three places more for each unit: the last one is microseconds. */
	return i < 0 || parse_number((struct span){ word.p, unit }, 3 * i, us) ? -EINVAL : 0;
}

static int parse_trigger(const char *text, struct psi_trigger *trigger)
{
	struct span rest = { text, text + strlen(text) }, word, stall, window;
	int resource, class, kind;

	if (!next_part(&rest, ' ', &word))
		return -EINVAL;
	resource = find_name(word, resource_names, PSI_RESOURCES);
	if (resource < 0 || !next_part(&rest, ' ', &word))
		return -EINVAL;
	class = find_name(word, class_names, PSI_CLASSES);
	if (class >= 0 && !next_part(&rest, ' ', &word))
		return -EINVAL;
	kind = find_name(word, kind_names, PSI_KINDS);
	if (kind < 0 || !next_part(&rest, '/', &stall) || !next_part(&rest, ' ', &window) ||
	    next_part(&rest, ' ', &word))
		return -EINVAL;
	while (stall.p < stall.end && *stall.p == ' ')
		stall.p++;
	*trigger = (struct psi_trigger){ resource, class < 0 ? PSI_PLAIN : class, kind, 0, 0 };
	if (parse_time(stall, &trigger->stall_us) || parse_time(window, &trigger->window_us))
		return -EINVAL;
	return trigger->stall_us && trigger->stall_us <= trigger->window_us ? 0 : -EINVAL;
}

int psi_trigger_parse(const char *text, struct psi_trigger *trigger, size_t size)
{
	struct psi_trigger all;
	int error = parse_trigger(text, &all);

	if (!error && size < sizeof(all))
		return -EINVAL;
	memset(trigger, 0, size);
	if (!error)
		memcpy(trigger, &all, sizeof(all));
	return error;
}

/*
 * What is written to the kernel: "some 150000 2000000" to a plain file, and "some" is
 * "memory.limit.some" in a statistics file.
 */
static void parse_written(const char *text, size_t length, enum psi_resource resource,
			  struct psi_trigger *trigger)
{
	struct psi_trigger all = { .resource = resource, .kind = PSI_KINDS };
	struct span rest = { text, text }, name, stall, window, word;

	while (rest.end < text + length && *rest.end && *rest.end != '\n')
		rest.end++;
	if (!next_part(&rest, ' ', &name) || !next_part(&rest, ' ', &stall) ||
	    !next_part(&rest, ' ', &window) || parse_number(stall, 0, &all.stall_us) ||
	    parse_number(window, 0, &all.window_us) || !all.stall_us ||
	    all.stall_us > all.window_us)
		return;
	while (next_part(&name, '.', &word)) {
		int named = find_name(word, resource_names, PSI_RESOURCES);
		int class = find_name(word, class_names, PSI_CLASSES);
		int kind = find_name(word, kind_names, PSI_KINDS);

		if (named < 0 && class < 0 && kind < 0)
			return;
		all.resource = named < 0 ? all.resource : (enum psi_resource)named;
		all.klass = class < 0 ? all.klass : (enum psi_class)class;
		all.kind = kind < 0 ? all.kind : (enum psi_kind)kind;
	}
	if (all.kind < PSI_KINDS)
		*trigger = all;
}

static int write_text(int fd, const char *text, size_t length)
{
	ssize_t written;

	do {
		written = write(fd, text, length);
	} while (written < 0 && errno == EINTR);
	if (written < 0)
		return -errno;
	return (size_t)written == length ? 0 : -EIO;
}

/* Where it may not be read and written, as @other says. */
static int open_and_write(const char *path, const char *text, size_t length, int other)
{
	const int flags = O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
	int fd = open(path, O_RDWR | flags);
	int error;

	if (fd < 0 && errno == EACCES)
		fd = open(path, other | flags);
	if (fd < 0)
		return -errno;
	error = length ? write_text(fd, text, length) : 0;
	if (!error)
		return fd;
	close(fd);
	return error;
}

int psi_arm(const char *path, const char *text)
{
	return open_and_write(path, text, strlen(text) + 1, O_WRONLY);
}

static int wait_for(int fd, short events, int timeout_ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = events };
	int count = poll(&poll_fd, 1, timeout_ms);

	if (count <= 0)
		return count ? -errno : 0;
	/* A pressure file that is dead says POLLPRI, too. */
	if (events == POLLPRI && poll_fd.revents == POLLERR)
		return -EUSERS;
	if (poll_fd.revents & (POLLERR | POLLNVAL))
		return -ENODEV;
	return poll_fd.revents & (events | POLLHUP) ? 1 : 0;
}

int psi_wait(int fd, int timeout_ms)
{
	return wait_for(fd, POLLPRI, timeout_ms);
}

/* Cgroups */

/* mountinfo writes a blank as \040. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++, to++) {
		*to = *text;
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] && text[3]) {
			*to = (text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0');
			text += 3;
		}
	}
	*to = 0;
}

static FILE *open_proc(const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/proc/self/%s", root, name) >= (int)sizeof(path))
		return NULL;
	return fopen(path, "re");
}

/* The path of "0::/path". */
static int own_path(char *path, size_t size)
{
	FILE *file = open_proc("cgroup");
	int error = -ENOENT;
	char *line = NULL;
	size_t room = 0;

	while (file && error && getline(&line, &room, file) > 0) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "0::/", 4) && strncmp(line + 3, "/..", 3))
			error = snprintf(path, size, "%s", line + 3) >= (int)size ?
					-ENAMETOOLONG :
					0;
	}
	free(line);
	if (file)
		fclose(file);
	return error;
}

/* Whether the cgroup @own is in a mount of the cgroup @below. */
static bool is_mounted(const char *own, const char *below)
{
	size_t length = strcmp(below, "/") ? strlen(below) : 0;

	return !strncmp(own, below, length) && (!length || !own[length] || own[length] == '/');
}

/*
 * Where cgroup v2 is mounted, and which of its directories is there.  The first
 * mount that has the own cgroup, or else the first one: a container may have that
 * of its host as well.
 */
static int find_mount(char *mount, size_t size, char *below, size_t below_size)
{
	char *line = NULL, *from, *at, own[PATH_MAX];
	bool any = own_path(own, sizeof(own)), found = false;
	FILE *file = open_proc("mountinfo");
	int error = -ENOENT;
	size_t room = 0;

	while (file && !found && getline(&line, &room, file) > 0) {
		if (!strstr(line, " - cgroup2 ") ||
		    sscanf(line, "%*s %*s %*s %ms %ms", &from, &at) != 2)
			continue;
		unescape(from);
		unescape(at);
		found = any || is_mounted(own, from);
		if (found || error == -ENOENT)
			error = snprintf(mount, size, "%s%s", root, at) >= (int)size ||
						snprintf(below, below_size, "%s", from) >=
							(int)below_size ?
					-ENAMETOOLONG :
					0;
		free(from);
		free(at);
	}
	free(line);
	if (file)
		fclose(file);
	return error;
}

int psi_cgroup_mount(char *path, size_t size)
{
	char below[PATH_MAX];

	return find_mount(path, size, below, sizeof(below));
}

int psi_cgroup_own(char *path, size_t size)
{
	char mount[PATH_MAX], below[PATH_MAX], own[PATH_MAX];
	size_t skip;
	int error;

	error = find_mount(mount, sizeof(mount), below, sizeof(below));
	if (!error)
		error = own_path(own, sizeof(own));
	if (error)
		return error;
	if (!strncmp(below, "/..", 3))
		return -EXDEV;
	if (!is_mounted(own, below))
		return -ENOENT;
	skip = strcmp(below, "/") ? strlen(below) : 0;
	if (snprintf(path, size, "%s%s", mount, strcmp(own, "/") ? own + skip : "") >= (int)size)
		return -ENAMETOOLONG;
	return 0;
}

/* The service protocol */

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int decode_base64(const char *text, char *out, size_t size, size_t *length)
{
	size_t digits = strspn(text, base64), end = strlen(text);
	uint32_t bits = 0;

	if (end % 4 || end - digits > 2 || strspn(text + digits, "=") != end - digits)
		return -EBADMSG;
	*length = 0;
	for (size_t i = 0; i < digits; i++) {
		bits = bits << 6 | (uint32_t)(strchr(base64, text[i]) - base64);
		if (i % 4 == 0)
			continue;
		if (*length == size)
			return -EBADMSG;
		out[(*length)++] = bits >> (6 - 2 * (i % 4));
	}
	return 0;
}

static const char *variable(enum psi_resource resource, const char *end)
{
	static const char * const prefix[] = { "CPU", "MEMORY", "IO", "IRQ" };
	char name[32];

	snprintf(name, sizeof(name), "%s_PRESSURE_%s", prefix[resource], end);
	return getenv(name);
}

/* Whether a file is in the cgroup of this process or below. */
static bool in_own_cgroup(const char *path)
{
	char own[PATH_MAX], real_own[PATH_MAX], real_path[PATH_MAX];
	size_t length;

	if (psi_cgroup_own(own, sizeof(own)) || !realpath(own, real_own) ||
	    !realpath(path, real_path))
		return false;
	length = strlen(real_own);
	return !strncmp(real_path, real_own, length) && real_path[length] == '/';
}

static int connect_to(const char *path, const char *text, size_t length)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, error;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	error = connect(fd, (struct sockaddr *)&address, sizeof(address)) ? -errno : 0;
	if (!error && fcntl(fd, F_SETFL, O_NONBLOCK))
		error = -errno;
	if (!error && length && send(fd, text, length, MSG_NOSIGNAL) != (ssize_t)length)
		error = errno ? -errno : -EIO;
	if (!error)
		return fd;
	close(fd);
	return error;
}

/* Watches */

enum watch_type { WATCH_FILE, WATCH_FIFO, WATCH_SOCKET };

#define STEPS		10		/* looks at a level in a window */
#define LEVEL_WINDOW	2000000ULL	/* us; kernels may add totals up no more often */

/**
 * struct psi_watch - what is watched
 * @fd: its descriptor
 * @type: what it is of
 * @path: what the variable named, or the file of the trigger
 * @length: bytes of @text
 * @text: what was written
 * @trigger: the trigger; its window is 0 if it is not known
 * @amounts: the program wants to know them, for which the file is read
 * @time: of the last event, or when it was armed, in us; 0 if @total is not known
 * @total: of the trigger's line then, in us
 * @stall_us: what that grew from the event before
 * @over_us: in that time; 0 if it is not known
 * @leave_us: of a level
 * @level: there is a level
 * @entered: it is entered
 * @next: when to look next, in us
 * @head: the next entry of @seen
 * @seen: times and totals, the last ones
 */
struct psi_watch {
	int fd;
	enum watch_type type;
	char path[PATH_MAX];
	size_t length;
	char text[PSI_TEXT_MAX];
	struct psi_trigger trigger;
	bool amounts;
	unsigned long long time;
	unsigned long long total;
	unsigned long long stall_us;
	unsigned long long over_us;
	unsigned long long leave_us;
	bool level;
	bool entered;
	unsigned long long next;
	unsigned int head;
	struct {
		unsigned long long time;
		unsigned long long total;
	} seen[STEPS + 1];
};

static unsigned long long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
}

static int open_watch(unsigned int flags, mode_t mode, struct psi_watch *watch)
{
	if (S_ISSOCK(mode)) {
		watch->type = WATCH_SOCKET;
		return connect_to(watch->path, watch->text, watch->length);
	}
	watch->type = S_ISFIFO(mode) ? WATCH_FIFO : WATCH_FILE;
	if (!S_ISFIFO(mode) && !S_ISREG(mode))
		return -ENOTSOCK;
	if (S_ISREG(mode) && !(flags & PSI_WATCH_ANYWHERE) && !in_own_cgroup(watch->path))
		return -EXDEV;
	/* Events of a FIFO are read, those of a file are not. */
	return open_and_write(watch->path, watch->text, watch->length,
			      !S_ISFIFO(mode) ? O_WRONLY : watch->length ? O_RDWR : O_RDONLY);
}

static int open_service(struct psi_watch *watch, enum psi_resource resource, unsigned int flags)
{
	const char *path = variable(resource, "WATCH"), *text = variable(resource, "WRITE");
	struct stat stat_buf;

	if (!path || !*path)
		return -ENOENT;
	if (!strcmp(path, "/dev/null"))
		return -ECANCELED;
	if (snprintf(watch->path, sizeof(watch->path), "%s", path) >= (int)sizeof(watch->path))
		return -ENAMETOOLONG;
	if (text && decode_base64(text, watch->text, sizeof(watch->text), &watch->length))
		return -EBADMSG;
	if (stat(path, &stat_buf))
		return -errno;
	parse_written(watch->text, watch->length, resource, &watch->trigger);
	watch->fd = open_watch(flags, stat_buf.st_mode, watch);
	return watch->fd < 0 ? watch->fd : 0;
}

static int open_trigger(struct psi_watch *watch, const char *text, const char *cgroup)
{
	struct psi_trigger *trigger = &watch->trigger;
	const char *resource, *class;
	int error = parse_trigger(text, trigger);

	if (error)
		return error;
	resource = resource_names[trigger->resource];
	class = class_names[trigger->klass];
	if (*class)
		error = psi_stat_path(watch->path, sizeof(watch->path), cgroup);
	else
		error = psi_path(watch->path, sizeof(watch->path), cgroup, trigger->resource);
	if (error)
		return error;
	snprintf(watch->text, sizeof(watch->text), "%s%s%s%s%s %llu %llu", *class ? resource : "",
		 *class ? "." : "", class, *class ? "." : "", kind_names[trigger->kind],
		 trigger->stall_us, trigger->window_us);
	watch->type = WATCH_FILE;
	watch->fd = psi_arm(watch->path, watch->text);
	return watch->fd < 0 ? watch->fd : 0;
}

static int new_watch(struct psi_watch **watch)
{
	*watch = calloc(1, sizeof(**watch));
	if (!*watch)
		return -ENOMEM;
	(*watch)->fd = -1;
	return 0;
}

static int read_total(const struct psi_watch *watch, unsigned long long *total)
{
	struct psi_pressure pressure;
	const struct psi_line *line;
	int error;

	psi_clear(&pressure);
	error = psi_read_fd(watch->fd, watch->trigger.resource, &pressure);
	if (error == -EBADF)
		error = psi_read(watch->path, watch->trigger.resource, &pressure);
	if (error)
		return error;
	line = psi_line(&pressure, watch->trigger.resource, watch->trigger.klass,
			watch->trigger.kind);
	*total = line ? line->total : 0;
	return line ? 0 : -EBADMSG;
}

/* At the beginning, and at each event: what the program is told. */
static void measure(struct psi_watch *watch)
{
	unsigned long long total = 0, time = now_us();

	if (!watch->amounts || watch->type != WATCH_FILE || !watch->trigger.window_us ||
	    read_total(watch, &total))
		time = 0;
	watch->over_us = time && watch->time ? time - watch->time : 0;
	watch->stall_us = total - watch->total;
	watch->time = time;
	watch->total = total;
}

int psi_watch_threshold(const struct psi_watch *watch, struct psi_trigger *trigger, size_t size)
{
	memset(trigger, 0, size);
	if (size < sizeof(*trigger))
		return -EINVAL;
	if (!watch->trigger.window_us)
		return -ENODATA;
	memcpy(trigger, &watch->trigger, sizeof(*trigger));
	return 0;
}

int psi_watch_amount(const struct psi_watch *watch, unsigned long long *stall_us,
		     unsigned long long *over_us)
{
	*stall_us = watch->over_us ? watch->stall_us : 0;
	*over_us = watch->over_us;
	return watch->over_us ? 0 : -ENODATA;
}

static int keep_watch(struct psi_watch **watch, bool amounts, int error)
{
	if (!error) {
		(*watch)->amounts = amounts;
		measure(*watch);
		return 0;
	}
	free(*watch);
	*watch = NULL;
	return error;
}

int psi_watch_trigger(struct psi_watch **watch, const char *text, const char *cgroup)
{
	int error = new_watch(watch);

	return error ? error : keep_watch(watch, true, open_trigger(*watch, text, cgroup));
}

int psi_watch_service(struct psi_watch **watch, enum psi_resource resource, unsigned int flags)
{
	int error = new_watch(watch);

	/* The protocol has a service not read its file: only if the program asks for it. */
	return error ? error : keep_watch(watch, flags & PSI_WATCH_AMOUNT,
					  open_service(*watch, resource, flags));
}

void psi_watch_close(struct psi_watch *watch)
{
	if (watch)
		close(watch->fd);
	free(watch);
}

int psi_watch_fd(const struct psi_watch *watch)
{
	return watch->fd;
}

short psi_watch_events(const struct psi_watch *watch)
{
	return watch->type == WATCH_FILE ? POLLPRI : POLLIN;
}

/*
 * Bytes that make an event.  What this side wrote to a FIFO comes back unless
 * the other side was faster, and so does what another program of the service wrote.
 */
static bool is_event(const struct psi_watch *watch, const char *data, size_t length)
{
	size_t own = watch->type == WATCH_FIFO ? watch->length : 0;

	for (; own && length >= own && !memcmp(data, watch->text, own); data += own)
		length -= own;
	return length;
}

/* 1 for an event, 0 for none yet. */
static int drain(struct psi_watch *watch)
{
	char data[4096];
	int events = 0;
	ssize_t got;

	while ((got = read(watch->fd, data, sizeof(data))) > 0)
		events |= is_event(watch, data, got);
	if (events)
		return 1;
	if (!got)
		return -ENODEV;
	return errno == EAGAIN || errno == EINTR ? 0 : -ENODEV;
}

/*
 * Some loops report POLLERR | POLLPRI as an event only (libuv).  A file that is
 * dead stays so: another poll tells.
 */
static int take_event(struct psi_watch *watch, short revents)
{
	int again;

	if (watch->type != WATCH_FILE)
		return revents ? drain(watch) : 0;
	again = wait_for(watch->fd, POLLPRI, 0);
	if (again == -ENODEV || again == -EUSERS || again == 1)
		return again;
	return revents & POLLPRI ? 1 : 0;
}

/* Levels */

int psi_watch_level(struct psi_watch *watch, unsigned long long leave_us)
{
	if (watch->type != WATCH_FILE || !watch->trigger.window_us ||
	    leave_us >= watch->trigger.stall_us)
		return -EINVAL;
	watch->leave_us = leave_us;
	watch->level = true;
	if (!watch->amounts) {
		watch->amounts = true;
		measure(watch);
	}
	return 0;
}

static unsigned long long level_window(const struct psi_watch *watch)
{
	return watch->trigger.window_us > LEVEL_WINDOW ? watch->trigger.window_us : LEVEL_WINDOW;
}

/* Take a sample; whether the stall of the last window lets the level be left. */
static int look(struct psi_watch *watch)
{
	unsigned long long total, time = now_us(), window = level_window(watch);
	int error = read_total(watch, &total);

	if (error)
		return error;
	watch->next = time + window / STEPS;
	watch->seen[watch->head].time = time;
	watch->seen[watch->head].total = total;
	watch->head = (watch->head + 1) % (STEPS + 1);
	/* The oldest one, which the next sample replaces. */
	return watch->seen[watch->head].time && time - watch->seen[watch->head].time >= window &&
	       total - watch->seen[watch->head].total <= watch->leave_us;
}

static int follow_level(struct psi_watch *watch, int event)
{
	int left;

	if (event < 0 || (!watch->entered && !event))
		return event;
	if (!watch->entered) {
		memset(watch->seen, 0, sizeof(watch->seen));
		watch->entered = true;
		left = look(watch);
		return left < 0 ? left : PSI_EVENT;
	}
	if (now_us() < watch->next)
		return PSI_NOTHING;
	left = look(watch);
	if (left <= 0)
		return left;
	watch->entered = false;
	return PSI_LEFT;
}

int psi_watch_timeout(const struct psi_watch *watch)
{
	unsigned long long now = now_us();

	if (!watch->entered)
		return -1;
	return watch->next > now ? (watch->next - now + 999) / 1000 : 0;
}

int psi_watch_collect(struct psi_watch *watch, short revents)
{
	int event = take_event(watch, revents);

	if (watch->level)
		event = follow_level(watch, event);
	if (event > 0)
		measure(watch);
	return event;
}

int psi_watch_wait(struct psi_watch *watch, int timeout_ms)
{
	long long end = now_us() / 1000 + timeout_ms;
	int result;

	do {
		int left = timeout_ms < 0 ? -1 : end - (long long)(now_us() / 1000);
		int due = psi_watch_timeout(watch);
		struct pollfd poll_fd = { .fd = watch->fd, .events = psi_watch_events(watch) };

		left = timeout_ms >= 0 && left < 0 ? 0 : left;
		if (due >= 0 && (left < 0 || due < left))
			left = due;
		if (poll(&poll_fd, 1, left) < 0)
			return -errno;
		result = psi_watch_collect(watch, poll_fd.revents);
	} while (!result && (timeout_ms < 0 || (long long)(now_us() / 1000) < end));
	return result;
}
