// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of libpsi: parsing, paths, and the service's side of the protocol.
 *
 * Needs no kernel with PSI.  Prints TAP; each row of a table is a test, with a
 * sentence of its own.  argv[1] is a directory to write to, which is empty.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../libpsi.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define MUTATIONS	200000
#define CAUSES_MAX	32

static int number, failed;
static const char *scratch;

/*
 * A clock that goes on only while the library sleeps, in ms; 0: that of the
 * machine, which may be busy. The linker has the library call these.
 */
static long long own_clock;
/* What poll() says of a pressure file; 0: what is true. */
static short own_revents;
/* How often the library read a pressure file. */
static int reads;

ssize_t __real_pread(int fd, void *data, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *data, size_t size, off_t at);
int __real_poll(struct pollfd *fds, nfds_t nr, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t nr, int timeout);
int __real_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time);

ssize_t __wrap_pread(int fd, void *data, size_t size, off_t at)
{
	reads++;
	return __real_pread(fd, data, size, at);
}

int __wrap_poll(struct pollfd *fds, nfds_t nr, int timeout)
{
	if (own_revents) {
		fds->revents = own_revents;
		return 1;
	}
	if (!own_clock)
		return __real_poll(fds, nr, timeout);
	own_clock += timeout;
	return __real_poll(fds, nr, 0);
}

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
	if (!own_clock)
		return __real_clock_gettime(id, time);
	*time = (struct timespec){ own_clock / 1000, own_clock % 1000 * 1000000 };
	return 0;
}

static void result(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void result(bool good, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("%sok %d - ", good ? "" : "not ", ++number);
	vprintf(format, arguments);
	putchar('\n');
	va_end(arguments);
	failed += !good;
}

static char *path_of(const char *name)
{
	static char path[4][PATH_MAX];
	static int next;
	char *one = path[next++ % 4];

	snprintf(one, PATH_MAX, "%s/%s", scratch, name);
	return one;
}

static void make_file(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	if (!file || fputs(text, file) < 0 || fclose(file)) {
		printf("Bail out! %s: %s\n", name, strerror(errno));
		exit(1);
	}
}

#define SOME	"some avg10=1.23 avg60=45.60 avg300=100.00 total=123456789\n"
#define FULL	"full avg10=0.00 avg60=0.00 avg300=0.01 total=7\n"
#define CAUSE	"memory.cause.reclaim count=3 total=1500 max=900 hist=0,1,2\n"

static const struct {
	const char *sentence;
	const char *text;
	int error;
} texts[] = {
	{ "a plain file", SOME FULL, 0 },
	{ "irq has only full", FULL, 0 },
	{ "full before some", FULL SOME, 0 },
	{ "a statistics file",
	  "cpu." SOME "cpu." FULL "cpu.exact." SOME "memory.limit." SOME "io.shortage." FULL CAUSE,
	  0 },
	{ "causes after lines", "memory.limit." SOME CAUSE, 0 },
	{ "an unknown class is skipped", SOME "cpu.cosmic.some avg10=0.00 total=1\n", 0 },
	{ "an unknown kind of a known class is skipped",
	  SOME "cpu.limit.most avg10=0.00 total=1\n", 0 },
	{ "a longer key is skipped", SOME "cpu.limit.some.more avg10=0.00 total=1\n", 0 },
	{ "an unknown resource is skipped", SOME "net.some avg10=0.00 total=1\n", 0 },
	{ "an unknown line is skipped", SOME "version 2\n", 0 },
	{ "an unknown field is skipped", "some avg10=0.00 avg1=0.50 total=1 peak=x\n", 0 },
	{ "a cause with an unknown field",
	  SOME "memory.cause.reclaim count=1 total=2 min=1 max=2 hist=1\n",
	  0 },
	{ "averages may be missing", "some total=1\n", 0 },
	{ "the largest total", "some total=18446744073709551615\n", 0 },
	{ "several blanks", "some  avg10=0.00   total=1\n", 0 },
	{ "an empty file", "", -EBADMSG },
	{ "a newline only", "\n", -EBADMSG },
	{ "no known line", "hello world\n", -EBADMSG },
	{ "only causes", CAUSE, -EBADMSG },
	{ "cut within a line", "some avg10=1.23 avg60=45.60 avg300=100.00 total=1234",
	  -EBADMSG },
	{ "cut after the first line, within the second", SOME "full avg10=0.00", -EBADMSG },
	{ "no total", "some avg10=0.00 avg60=0.00 avg300=0.00\n", -EBADMSG },
	{ "an empty total", "some total=\n", -EBADMSG },
	{ "a negative total", "some total=-1\n", -EBADMSG },
	{ "a hexadecimal total", "some total=0x10\n", -EBADMSG },
	{ "a fractional total", "some total=1.5\n", -EBADMSG },
	{ "a total past 64 bits", "some total=18446744073709551616\n", -EBADMSG },
	{ "an average past 100 %", "some avg10=100.01 total=1\n", -EBADMSG },
	{ "an average past 64 bits", "some avg10=99999999999999999999.00 total=1\n", -EBADMSG },
	{ "an average with two points", "some avg10=1.2.3 total=1\n", -EBADMSG },
	{ "an average of a point", "some avg10=. total=1\n", -EBADMSG },
	{ "an average that is no number", "some avg10=nan total=1\n", -EBADMSG },
	{ "a field without a value", "some avg10 total=1\n", -EBADMSG },
	{ "a field twice", "some total=1 total=2\n", -EBADMSG },
	{ "a line twice", SOME SOME, -EBADMSG },
	{ "a class without a kind is skipped", SOME "cpu.limit\n", 0 },
	{ "a key twice", "cpu.limit." SOME "cpu.limit." FULL "cpu.limit." SOME, -EBADMSG },
	{ "a kind without fields", "some\n", -EBADMSG },
	{ "an empty line in between", SOME "\n" FULL, -EBADMSG },
	{ "not UTF-8", SOME "f\xff\xfell total=1\n", -EBADMSG },
	{ "UTF-8, but not ASCII", SOME "v\xc3\xb6llig total=1\n", -EBADMSG },
	{ "a control character", SOME "\x1b[31mfull total=1\n", -EBADMSG },
	{ "a carriage return", "some total=1\r\n", -EBADMSG },
	{ "a cause without a total", SOME "memory.cause.reclaim count=1 max=1\n", -EBADMSG },
	{ "a cause with a bad histogram", SOME "memory.cause.reclaim count=1 total=1 hist=1,,x\n",
	  -EBADMSG },
	{ "a cause with a very long name is skipped",
	  SOME "memory.cause.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa count=1 total=1\n", 0 },
	{ "a cause without a name is skipped", SOME "memory.cause. count=1 total=1\n", 0 },
	{ "a cause without a point is skipped", SOME "memory.cause count=1 total=1\n", 0 },
};

static void test_texts(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct psi_pressure *pressure = psi_new();
		size_t length = strlen(texts[i].text);
		/* Of exactly this size, for the address sanitizer. */
		char *copy = malloc(length ? length : 1);
		int error;

		memcpy(copy, texts[i].text, length);
		error = psi_parse(copy, length, PSI_CPU, pressure);
		free(copy);
		psi_free(pressure);
		result(error == texts[i].error, "%s: %s", texts[i].error ? "refused" : "parsed",
		       texts[i].sentence);
	}
}

static void test_values(void)
{
	struct psi_pressure *pressure = psi_new();
	static const char text[] = SOME FULL,
			  stat_text[] = "io.shortage.full avg10=0.50 total=9\n" CAUSE;
	int error = psi_parse(text, strlen(text), PSI_MEMORY, pressure);
	const struct psi_line *line = psi_line(pressure, PSI_MEMORY, PSI_PLAIN, PSI_SOME);
	const struct psi_cause *cause;

	result(!error && line && line->avg10 == 123 && line->avg60 == 4560 &&
	       line->avg300 == 10000 && line->total == 123456789,
	       "averages are hundredths of a percent, totals microseconds");
	result(!psi_line(pressure, PSI_MEMORY, PSI_LIMIT, PSI_SOME) &&
	       !psi_line(pressure, PSI_CPU, PSI_PLAIN, PSI_SOME),
	       "a line that is not there is not known");
	error = psi_parse(stat_text, strlen(stat_text), PSI_CPU, pressure);
	result(!error && psi_line(pressure, PSI_MEMORY, PSI_PLAIN, PSI_SOME) == line &&
	       psi_line(pressure, PSI_IO, PSI_SHORTAGE, PSI_FULL)->avg10 == 50,
	       "a statistics file adds to what a plain file said");
	cause = psi_cause(pressure, 0);
	result(cause && !psi_cause(pressure, 1) && !strcmp(cause->name, "reclaim") &&
	       cause->count == 3 && cause->total == 1500 && cause->max == 900 &&
	       cause->nr_hist == 3 && cause->hist[2] == 2,
	       "a cause has count, total, max and histogram");
	error = psi_parse(text, strlen(text), PSI_MEMORY, pressure);
	result(!error && psi_line(pressure, PSI_MEMORY, PSI_PLAIN, PSI_SOME)->total == 123456789,
	       "a file can be read again");
	psi_clear(pressure);
	result(!psi_line(pressure, PSI_MEMORY, PSI_PLAIN, PSI_SOME) && !psi_cause(pressure, 0),
	       "what was read is forgotten");
	psi_free(pressure);
}

static void test_many_causes(void)
{
	struct psi_pressure *pressure = psi_new();
	char text[8192];
	int end = sprintf(text, SOME), error;

	for (int i = 0; i < CAUSES_MAX; i++)
		end += sprintf(text + end, "memory.cause.c%d count=1 total=1\n", i);
	error = psi_parse(text, end, PSI_CPU, pressure);
	result(!error && psi_cause(pressure, CAUSES_MAX - 1),
	       "as many causes as there is room for");
	end += sprintf(text + end, "memory.cause.another count=1 total=1\nio." SOME);
	psi_clear(pressure);
	error = psi_parse(text, end, PSI_CPU, pressure);
	result(!error && psi_cause(pressure, CAUSES_MAX - 1) && !psi_cause(pressure, CAUSES_MAX) &&
	       psi_line(pressure, PSI_IO, PSI_PLAIN, PSI_SOME),
	       "one cause more than there is room for is skipped, what follows is not");
	psi_free(pressure);
}

static void test_long_hist(void)
{
	struct psi_pressure *pressure = psi_new();
	const struct psi_cause *cause;
	char text[1024];
	int end = sprintf(text, SOME "memory.cause.reclaim count=45 total=1 hist=1"), error;

	for (int i = 1; i < PSI_HIST_MAX + 5; i++)
		end += sprintf(text + end, ",1");
	end += sprintf(text + end, " max=9\nmemory.cause.swapin count=7 total=1 hist=7\n");
	error = psi_parse(text, end, PSI_CPU, pressure);
	cause = psi_cause(pressure, 0);
	result(!error && cause && cause->nr_hist == PSI_HIST_MAX && cause->hist[0] == 1 &&
	       cause->hist[PSI_HIST_MAX - 1] == 6 && cause->max == 9,
	       "of a longer histogram, the last entry has what is beyond");
	cause = psi_cause(pressure, 1);
	result(cause && cause->nr_hist == 1 && cause->hist[0] == 7, "and the next one is its own");
	psi_free(pressure);
}

/* Changed, cut and doubled bytes: no result is wrong, but none may crash. */
static void test_mutations(void)
{
	static const char start[] = SOME FULL "cpu.limit." SOME CAUSE;
	static const char bytes[] = " =\n.,0129aslt\0\xff-";
	struct psi_pressure *pressure = psi_new();
	unsigned int random = 1;

	for (int i = 0; i < MUTATIONS; i++) {
		size_t length = sizeof(start) - 1;
		char *text = malloc(length);

		psi_clear(pressure);
		memcpy(text, start, length);
		for (int change = 0; change < 3; change++) {
			random = random * 1103515245 + 12345;
			text[(random >> 16) % length] = bytes[(random >> 8) % (sizeof(bytes) - 1)];
		}
		if (random & 64) {
			length = (random >> 10) % length + 1;
			text = realloc(text, length);
		}
		psi_parse(text, length, PSI_CPU, pressure);
		free(text);
	}
	psi_free(pressure);
	result(true, "%d texts with changed bytes do no harm", MUTATIONS);
}

static int read_it(const char *path)
{
	struct psi_pressure *pressure = psi_new();
	int error = psi_read(path, PSI_MEMORY, pressure);

	psi_free(pressure);
	return error;
}

static void test_files(void)
{
	char line[4096];

	make_file("good", SOME FULL);
	result(!read_it(path_of("good")), "a file is read");
	result(read_it(path_of("nothing")) == -ENOENT, "a file that has vanished: ENOENT");
	result(read_it(scratch) == -EISDIR, "a directory: EISDIR");
	make_file("huge", SOME);
	if (truncate(path_of("huge"), 1L << 40))
		puts("Bail out! truncate");
	result(read_it(path_of("huge")) == -EFBIG, "a file of a terabyte: EFBIG");
	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = 0;
	make_file("long", line);
	result(read_it(path_of("long")) == -EBADMSG, "a line of 4 kB: EBADMSG");
	if (mkfifo(path_of("pipe"), 0600))
		puts("Bail out! mkfifo");
	result(read_it(path_of("pipe")) == -ESPIPE,
	       "a FIFO that nobody writes does not block: ESPIPE");
	result(read_it("/dev/null") == -EBADMSG, "/dev/null: EBADMSG");
}

static const struct {
	const char *text;
	const char *written;	/* what psi_watch_trigger() writes, or NULL for EINVAL */
	const char *file;
} triggers[] = {
	{ "memory some 150ms/2s", "some 150000 2000000", "memory" },
	{ "io full 1s/10s", "full 1000000 10000000", "io" },
	{ "cpu some 1.5s/2s", "some 1500000 2000000", "cpu" },
	{ "cpu some 50us/500ms", "some 50 500000", "cpu" },
	{ "memory shortage some 0.15s/2s", "memory.shortage.some 150000 2000000", "stat" },
	{ "irq full 1ms / 2s", NULL, NULL },
	{ "irq full 1ms/2s", "full 1000 2000000", "irq" },
	{ "", NULL, NULL },
	{ "memory", NULL, NULL },
	{ "memory some", NULL, NULL },
	{ "memory some 150ms", NULL, NULL },
	{ "memory some 0ms/2s", NULL, NULL },
	{ "memory some 3s/2s", NULL, NULL },
	{ "memory some 150/2000", NULL, NULL },
	{ "memory some -1s/2s", NULL, NULL },
	{ "memory some 1s/2s x", NULL, NULL },
	{ "memory limit 1s/2s", NULL, NULL },
	{ "disk some 1s/2s", NULL, NULL },
	{ "memory some 99999999999999999999s/2s", NULL, NULL },
};

static void expect_text(const char *name, const char *text, size_t length, const char *sentence)
{
	char found[512] = "";
	FILE *file = fopen(path_of(name), "r");
	size_t got = file ? fread(found, 1, sizeof(found), file) : 0;

	result(got == length && !memcmp(found, text, length), "%s", sentence);
	if (file)
		fclose(file);
}

static void test_triggers(void)
{
	mkdir(path_of("proc"), 0755);
	mkdir(path_of("proc/pressure"), 0755);
	psi_set_root(scratch);
	for (size_t i = 0; i < ARRAY_SIZE(triggers); i++) {
		struct psi_trigger trigger;
		struct psi_watch *watch;
		char name[64], sentence[128];
		int error = psi_trigger_parse(triggers[i].text, &trigger, sizeof(trigger));

		snprintf(sentence, sizeof(sentence), "trigger '%s'%s", triggers[i].text,
			 triggers[i].written ? "" : " is refused");
		if (!triggers[i].written || error) {
			result(!triggers[i].written && error == -EINVAL, "%s", sentence);
			continue;
		}
		snprintf(name, sizeof(name), "proc/pressure/%s", triggers[i].file);
		make_file(name, "");
		if (!psi_watch_trigger(&watch, triggers[i].text, NULL))
			psi_watch_close(watch);
		expect_text(name, triggers[i].written, strlen(triggers[i].written) + 1, sentence);
	}
	psi_set_root(NULL);
	result(psi_arm(path_of("nothing"), "some 1 2") == -ENOENT,
	       "arming a file that has vanished: ENOENT");
}

/* Cgroups */

#define MOUNT	"30 23 0:26 %s %s rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"

static const struct {
	const char *sentence;
	const char *from;	/* root of the mount */
	const char *at;		/* as in mountinfo */
	const char *cgroup;	/* /proc/self/cgroup */
	const char *own;	/* NULL for an error */
	int error;
} cgroups[] = {
	{ "a service", "/", "/sys/fs/cgroup", "0::/system.slice/a.service\n",
	  "/sys/fs/cgroup/system.slice/a.service", 0 },
	{ "the root", "/", "/sys/fs/cgroup", "0::/\n", "/sys/fs/cgroup", 0 },
	{ "beside cgroup v1", "/", "/sys/fs/cgroup/unified", "4:memory:/x\n0::/a\n",
	  "/sys/fs/cgroup/unified/a", 0 },
	{ "a mount point with a blank", "/", "/my\\040cgroups", "0::/a\n", "/my cgroups/a", 0 },
	{ "a container without a cgroup namespace", "/c/1", "/sys/fs/cgroup", "0::/c/1/a\n",
	  "/sys/fs/cgroup/a", 0 },
	{ "a cgroup with a similar name outside the mount", "/c/1", "/sys/fs/cgroup",
	  "0::/c/12\n", NULL, -ENOENT },
	{ "a cgroup outside the namespace", "/", "/sys/fs/cgroup", "0::/../b\n", NULL, -ENOENT },
	{ "a mount of another namespace", "/../..", "/sys/fs/cgroup", "0::/\n", NULL, -EXDEV },
	{ "cgroup v1 only", "/", "/sys/fs/cgroup", "4:memory:/x\n", NULL, -ENOENT },
	{ "an empty file", "/", "/sys/fs/cgroup", "", NULL, -ENOENT },
};

static void describe(const char *from, const char *at, const char *cgroup)
{
	char text[PATH_MAX];

	mkdir(path_of("proc"), 0755);
	mkdir(path_of("proc/self"), 0755);
	snprintf(text, sizeof(text), "22 1 0:20 / /proc rw - proc proc rw\n" MOUNT, from, at);
	make_file("proc/self/mountinfo", text);
	make_file("proc/self/cgroup", cgroup);
	psi_set_root(scratch);
}

static void test_cgroups(void)
{
	/* Of a host, of another cgroup, and of a file of the own one. */
	static const char * const others[] = { "/../..", "/b", "/a/memory.pressure" };
	char path[PATH_MAX], small[8];

	for (size_t i = 0; i < ARRAY_SIZE(cgroups); i++) {
		int error;

		describe(cgroups[i].from, cgroups[i].at, cgroups[i].cgroup);
		error = psi_cgroup_own(path, sizeof(path));
		result(cgroups[i].own ? !error && !strcmp(path + strlen(scratch), cgroups[i].own) :
		       error == cgroups[i].error, "own cgroup: %s", cgroups[i].sentence);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		describe(others[i], "/host/cgroup rw - cgroup2 cgroup2 rw\n"
			 "31 23 0:26 / /sys/fs/cgroup", "0::/a\n");
		result(!psi_cgroup_own(path, sizeof(path)) &&
		       !strcmp(path + strlen(scratch), "/sys/fs/cgroup/a") &&
		       !psi_cgroup_mount(path, sizeof(path)) &&
		       !strcmp(path + strlen(scratch), "/sys/fs/cgroup"),
		       "own cgroup: behind a mount of %s", others[i]);
	}
	describe("/", "/sys/fs/cgroup", "0::/a\n");
	result(psi_cgroup_own(small, sizeof(small)) == -ENAMETOOLONG,
	       "own cgroup: no room for its path");
	psi_set_root(NULL);
}

/* The service protocol */

#define TEXT	"some 200000 2000000"
#define BASE64	"c29tZSAyMDAwMDAgMjAwMDAwMAA="

static void set_watch(const char *path, const char *text)
{
	unsetenv("MEMORY_PRESSURE_WATCH");
	unsetenv("MEMORY_PRESSURE_WRITE");
	if (path)
		setenv("MEMORY_PRESSURE_WATCH", path, 1);
	if (text)
		setenv("MEMORY_PRESSURE_WRITE", text, 1);
}

static int open_error(const char *path, const char *text, unsigned int flags)
{
	struct psi_watch *watch;
	int error;

	set_watch(path, text);
	error = psi_watch_service(&watch, PSI_MEMORY, flags);
	psi_watch_close(watch);
	return error;
}

static const char *const bad_base64[] = {
	"c", "c29", "c29t=", "c29tZ===", "c2=tZSAy", "c29t ZSA", "\xff\xff\xff\xff", "===="
};

static void test_watch_errors(void)
{
	char text[600];

	result(open_error(NULL, NULL, 0) == -ENOENT, "no variable: ENOENT");
	result(open_error("", NULL, 0) == -ENOENT, "an empty variable: ENOENT");
	result(open_error("/dev/null", BASE64, 0) == -ECANCELED,
	       "/dev/null switches watching off: ECANCELED");
	result(open_error(path_of("nothing"), BASE64, 0) == -ENOENT,
	       "a path that is not there: ENOENT");
	result(open_error("/dev/zero", BASE64, 0) == -ENOTSOCK, "a device: ENOTSOCK");
	result(open_error(scratch, BASE64, 0) == -ENOTSOCK, "a directory: ENOTSOCK");
	for (size_t i = 0; i < ARRAY_SIZE(bad_base64); i++)
		result(open_error(path_of("fifo"), bad_base64[i], 0) == -EBADMSG,
		       "broken Base64 %zu: EBADMSG", i + 1);
	memset(text, 'A', sizeof(text) - 1);
	text[596] = 0;
	result(open_error(path_of("fifo"), text, 0) == -EBADMSG,
	       "Base64 that is too long: EBADMSG");
}

static void test_watch_file(void)
{
	struct psi_watch *watch;
	int error;

	describe("/", "/cg", "0::/mine\n");
	mkdir(path_of("cg"), 0755);
	mkdir(path_of("cg/mine"), 0755);
	mkdir(path_of("cg/mine/below"), 0755);
	mkdir(path_of("cg/mine2"), 0755);
	make_file("cg/mine/memory.pressure", "");
	make_file("cg/mine/below/memory.pressure", "");
	make_file("cg/mine2/memory.pressure", "");
	if (symlink("../mine2/memory.pressure", path_of("cg/mine/link")))
		puts("Bail out! symlink");
	set_watch(path_of("cg/mine/memory.pressure"), BASE64);
	error = psi_watch_service(&watch, PSI_MEMORY, 0);
	result(!error && psi_watch_events(watch) == POLLPRI,
	       "a file of the own cgroup");
	psi_watch_close(watch);
	expect_text("cg/mine/memory.pressure", TEXT, sizeof(TEXT),
		    "what the variable decodes to is written");
	result(!open_error(path_of("cg/mine/below/memory.pressure"), NULL, 0),
	       "a file of a cgroup below");
	result(open_error(path_of("cg/mine2/memory.pressure"), BASE64, 0) == -EXDEV,
	       "another cgroup: EXDEV");
	result(open_error(path_of("cg/mine/../mine2/memory.pressure"), BASE64, 0) == -EXDEV,
	       "another cgroup by ..: EXDEV");
	result(open_error(path_of("cg/mine/link"), BASE64, 0) == -EXDEV,
	       "another cgroup by a link: EXDEV");
	expect_text("cg/mine2/memory.pressure", "", 0,
		    "nothing is written to a file that is refused");
	result(!open_error(path_of("cg/mine2/memory.pressure"), BASE64, PSI_WATCH_ANYWHERE),
	       "another cgroup, if asked for");
	psi_set_root(NULL);
}

static bool is_trigger(const struct psi_watch *watch, const struct psi_trigger *expected)
{
	struct psi_trigger trigger;

	return !psi_watch_threshold(watch, &trigger, sizeof(trigger)) &&
	       trigger.resource == expected->resource && trigger.klass == expected->klass &&
	       trigger.kind == expected->kind && trigger.stall_us == expected->stall_us &&
	       trigger.window_us == expected->window_us;
}

static const struct {
	const char *text;
	const char *base64;
	struct psi_trigger trigger;
} written[] = {
	{ TEXT, BASE64, { PSI_MEMORY, PSI_PLAIN, PSI_SOME, 200000, 2000000 } },
	{ "full 1 2", "ZnVsbCAxIDI=", { PSI_MEMORY, PSI_PLAIN, PSI_FULL, 1, 2 } },
	{ "io.limit.full 1 2", "aW8ubGltaXQuZnVsbCAxIDI=", { PSI_IO, PSI_LIMIT, PSI_FULL, 1, 2 } },
	{ "nothing", NULL, { 0 } },
	{ "none 1 2", "bm9uZSAxIDI=", { 0 } },
	{ "some 1", "c29tZSAx", { 0 } },
	{ "memory.limit 1 2", "bWVtb3J5LmxpbWl0IDEgMg==", { 0 } },
};

/* What a service manager wrote is not always for this kernel: it is no error. */
static void test_written(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(written); i++) {
		const struct psi_trigger *expected = &written[i].trigger;
		unsigned long long stall, over;
		struct psi_trigger trigger;
		struct psi_watch *watch;
		int error;

		make_file("written", "");
		set_watch(path_of("written"), written[i].base64);
		error = psi_watch_service(&watch, PSI_MEMORY, PSI_WATCH_ANYWHERE);
		if (!error)
			error = psi_watch_threshold(watch, &trigger, sizeof(trigger));
		result(error == (expected->window_us ? 0 : -ENODATA) &&
		       (error || is_trigger(watch, expected)),
		       "the threshold of a service: %s", written[i].text);
		result(psi_watch_amount(watch, &stall, &over) == -ENODATA && !over,
		       "and no amount before an event");
		psi_watch_close(watch);
	}
}

static void test_watch_fifo(void)
{
	unsigned long long stall, over;
	struct psi_watch *watch;
	int fd, error;

	if (mkfifo(path_of("fifo"), 0600))
		puts("Bail out! mkfifo");
	set_watch(path_of("fifo"), BASE64);
	error = psi_watch_service(&watch, PSI_MEMORY, 0);
	result(!error && psi_watch_events(watch) == POLLIN, "a FIFO");
	result(psi_watch_wait(watch, 0) == 0, "FIFO: what this side wrote is no event");
	fd = open(path_of("fifo"), O_WRONLY);
	result(write(fd, "x", 1) == 1 && psi_watch_wait(watch, 1000) == 1,
	       "FIFO: a byte is an event");
	result(psi_watch_wait(watch, 0) == 0, "FIFO: it is read and discarded");
	result(write(fd, "some 200000 2000001", 20) == 20 && psi_watch_wait(watch, -1) == 1,
	       "FIFO: so is any other text");
	result(write(fd, "x", 1) == 1 && psi_watch_collect(watch, POLLIN) == PSI_EVENT &&
	       psi_watch_collect(watch, POLLIN) == PSI_NOTHING,
	       "FIFO: an event loop hands on what its poll found");
	result(psi_watch_timeout(watch) == -1 && psi_watch_level(watch, 1) == -EINVAL,
	       "FIFO: there is no level, and nothing to do without an event");
	result(is_trigger(watch, &written[0].trigger) &&
	       psi_watch_amount(watch, &stall, &over) == -ENODATA,
	       "FIFO: the threshold is known, the amount is not");
	close(fd);
	result(psi_watch_wait(watch, 20) == 0, "FIFO: a writer that left is no event");
	psi_watch_close(watch);
	psi_watch_close(NULL);
}

static bool is_amount(const struct psi_watch *watch, unsigned long long stall,
		      unsigned long long over)
{
	unsigned long long amount[2];

	return !psi_watch_amount(watch, &amount[0], &amount[1]) && amount[0] == stall &&
	       amount[1] == over;
}

static void test_amount(void)
{
	const struct psi_trigger expected = { PSI_IO, PSI_LIMIT, PSI_FULL, 1000000, 2000000 };
	unsigned long long stall, over;
	struct psi_trigger trigger;
	struct psi_watch *watch;

	own_clock = 1000000;
	psi_set_root(scratch);
	make_file("proc/pressure/stat", "io.full total=1\nio.limit.full total=5000000\n");
	if (psi_watch_trigger(&watch, "io limit full 1s/2s", NULL))
		puts("Bail out! psi_watch_trigger");
	result(is_trigger(watch, &expected), "threshold: that of the trigger");
	result(psi_watch_threshold(watch, &trigger, sizeof(trigger) - 1) == -EINVAL,
	       "threshold: no room for it");
	own_clock += 1500;
	/* The trigger's text was written over the first line. */
	make_file("proc/pressure/stat", "io.full total=1\nio.limit.full total=6200000\n");
	result(psi_watch_collect(watch, 0) == PSI_NOTHING &&
	       psi_watch_amount(watch, &stall, &over) == -ENODATA, "amount: none before an event");
	result(psi_watch_collect(watch, POLLPRI) == PSI_EVENT, "amount: an event");
	result(psi_watch_amount(watch, &stall, &over) == -ENODATA,
	       "amount: where the file could not be read at first, it is not known");
	own_clock += 2500;
	make_file("proc/pressure/stat", "io.full total=1\nio.limit.full total=8200000\n");
	result(psi_watch_collect(watch, POLLPRI) == PSI_EVENT && is_amount(watch, 2000000, 2500000),
	       "amount: what stalled since the event before");
	own_clock += 10;
	result(psi_watch_collect(watch, 0) == PSI_NOTHING && is_amount(watch, 2000000, 2500000),
	       "amount: it stays until the next event");
	make_file("proc/pressure/stat", "");
	result(psi_watch_collect(watch, POLLPRI) == PSI_EVENT &&
	       psi_watch_amount(watch, &stall, &over) == -ENODATA,
	       "amount: not known when the file cannot be read");
	psi_watch_close(watch);
	psi_set_root(NULL);
	own_clock = 0;
}

static const struct {
	const char *sentence;
	unsigned int flags;
	bool level;
	bool read;	/* so the amount is known */
} services[] = {
	{ "a service's file is not read, and the amount is not known", 0, false, false },
	{ "a service's file is read for amounts, if asked for", PSI_WATCH_AMOUNT, false, true },
	{ "a service's file is read for a level", 0, true, true },
};

static void test_unread(void)
{
	struct psi_watch *watch;

	own_clock = 1000000;
	for (size_t i = 0; i < ARRAY_SIZE(services); i++) {
		make_file("unread", "");
		set_watch(path_of("unread"), BASE64);
		reads = 0;
		if (psi_watch_service(&watch, PSI_MEMORY, PSI_WATCH_ANYWHERE | services[i].flags))
			puts("Bail out! psi_watch_service");
		/* The text was written over the first line. */
		make_file("unread", "some total=300\n");
		if (services[i].level && psi_watch_level(watch, 1000))
			puts("Bail out! psi_watch_level");
		own_clock += 2500;
		make_file("unread", "some total=1000\n");
		psi_watch_collect(watch, POLLPRI);
		/* Of a level this is no event, and the amount stays. */
		own_clock += 2500;
		make_file("unread", "some total=1700\n");
		psi_watch_collect(watch, POLLPRI);
		result(!!reads == services[i].read &&
		       is_amount(watch, 700, 2500000) == services[i].read, "%s",
		       services[i].sentence);
		psi_watch_close(watch);
	}
	own_clock = 0;
}

/* A regular file has no events: the loop says that there was one. */
static void test_level(struct psi_watch *(*begin)(void))
{
	struct psi_watch *watch;
	int result_of = 0, looks = 0;
	unsigned long long stall, over;

	own_clock = 1000000;
	psi_set_root(scratch);
	make_file("proc/pressure/memory", "");
	watch = begin();
	result(psi_watch_level(watch, 1000000) == -EINVAL,
	       "level: it is not left at its threshold");
	result(!psi_watch_level(watch, 500000) && psi_watch_timeout(watch) == -1 &&
	       psi_watch_collect(watch, 0) == PSI_NOTHING, "level: nothing to do before an event");
	make_file("proc/pressure/memory", "some total=7000000\n");
	result(psi_watch_collect(watch, POLLPRI) == PSI_EVENT, "level: an event enters it");
	if (psi_watch_timeout(watch) < 0) {
		puts("Bail out! there is no level, and it would wait for ever");
		exit(1);
	}
	result(psi_watch_collect(watch, POLLPRI) == PSI_NOTHING && psi_watch_timeout(watch) > 0,
	       "level: another event changes nothing");
	/* More than 0.5 s for one second, and then no more. */
	for (; looks < 5; looks++)
		result_of |= psi_watch_wait(watch, psi_watch_timeout(watch));
	make_file("proc/pressure/memory", "some total=7500001\n");
	for (; looks < 14; looks++)
		result_of |= psi_watch_wait(watch, psi_watch_timeout(watch));
	result(!result_of, "level: it stays while a window has more stall than it is left at");
	result(psi_watch_wait(watch, 10000) == PSI_LEFT && psi_watch_timeout(watch) == -1,
	       "level: it is left when a window has less");
	result(!psi_watch_amount(watch, &stall, &over) && stall == 500001 &&
	       over > 2000000 && over < 10000000, "level: the amount is that of all its time");
	result(psi_watch_collect(watch, POLLPRI) == PSI_EVENT, "level: it is entered again");
	psi_watch_close(watch);
	psi_set_root(NULL);
	own_clock = 0;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path, path, strlen(path) + 1);
	return bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 1) ? -1 : fd;
}

static struct psi_watch *of_trigger(void)
{
	struct psi_watch *watch;

	if (psi_watch_trigger(&watch, "memory some 1s/2s", NULL))
		puts("Bail out! psi_watch_trigger");
	return watch;
}

static struct psi_watch *of_service(void)
{
	struct psi_watch *watch;

	/* some 1000000 2000000 */
	set_watch(path_of("proc/pressure/memory"), "c29tZSAxMDAwMDAwIDIwMDAwMDA=");
	if (psi_watch_service(&watch, PSI_MEMORY, PSI_WATCH_ANYWHERE))
		puts("Bail out! psi_watch_service");
	return watch;
}

static void test_pollers(void)
{
	own_revents = POLLERR | POLLPRI;
	result(psi_wait(0, -1) == -ENODEV, "a file of a cgroup that is gone: ENODEV");
	own_revents = POLLERR;
	result(psi_wait(0, -1) == -EUSERS, "a file with too many pollers is not gone: EUSERS");
	own_revents = POLLPRI;
	result(psi_wait(0, -1) == 1, "an event");
	own_revents = 0;
}

static void test_watch_socket(void)
{
	int listening = listen_at(path_of("socket")), fd, error;
	struct psi_watch *watch;
	char text[64] = "";

	set_watch(path_of("socket"), BASE64);
	error = psi_watch_service(&watch, PSI_MEMORY, 0);
	result(!error && psi_watch_events(watch) == POLLIN, "a socket");
	fd = accept(listening, NULL, NULL);
	result(read(fd, text, sizeof(text)) == sizeof(TEXT) && !strcmp(text, TEXT),
	       "socket: the text is sent");
	result(psi_watch_wait(watch, 0) == 0, "socket: no event yet");
	result(write(fd, TEXT, sizeof(TEXT)) && psi_watch_wait(watch, 1000) == 1,
	       "socket: bytes are an event");
	result(psi_watch_wait(watch, 0) == 0, "socket: they are read and discarded");
	result(write(fd, "x", 1) == 1 && !close(fd) && psi_watch_wait(watch, 1000) == 1,
	       "socket: the last event before its end is not lost");
	result(psi_watch_wait(watch, -1) == -ENODEV, "socket: its end: ENODEV");
	psi_watch_close(watch);
	close(listening);
	result(open_error(path_of("socket"), BASE64, 0) == -ECONNREFUSED,
	       "a socket that nobody serves: ECONNREFUSED");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	scratch = argv[1];
	puts("TAP version 13");
	test_texts();
	test_values();
	test_many_causes();
	test_long_hist();
	test_mutations();
	test_files();
	test_triggers();
	test_cgroups();
	test_watch_errors();
	test_watch_file();
	test_written();
	test_watch_fifo();
	test_amount();
	test_unread();
	test_level(of_trigger);
	test_level(of_service);
	test_pollers();
	test_watch_socket();
	printf("1..%d\n", number);
	return !!failed;
}
