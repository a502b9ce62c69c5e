// SPDX-License-Identifier: GPL-2.0
/* Errors, time, progress, files and children. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pressure.h"

#define WIDTH_DEFAULT	80
#define WIDTH_MIN	30

static bool progress_shown;
static sigset_t ignored;	/* only by this program */

static void say(const char *format, va_list arguments)
{
	char *text;

	progress_end();
	/* One write: what a command says at the same time comes before or after it. */
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	dprintf(STDERR_FILENO, "pressure: %s\n", text ?: "out of memory");
	free(text);
}

void complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	exit(STATUS_ERROR);
}

/**
 * explain() - what an error of a pressure file means, and what to do
 * @error: negative errno
 *
 * Return: a sentence's part
 */
const char *explain(int error)
{
	static const struct {
		int error;
		const char *text;
	} known[] = {
		{ ENOENT, "there is no such file; 'pressure doctor' tells why" },
		{ EOPNOTSUPP, "this machine cannot tell interrupt time (irq), or PSI is switched "
			      "off: boot with psi=1" },
		{ EACCES, "not allowed: run as root, or in a cgroup that is delegated to you" },
		{ EPERM, "not allowed: run as root, or in a cgroup that is delegated to you" },
		{ EROFS, "mounted read-only here: remount it (mount -o remount,rw), or run this "
			 "outside the container or service" },
		{ ENODEV, "the cgroup is gone, or its pressure was switched off" },
		/* No mount of it goes over one that is there, which may be that of the host. */
		{ EXDEV, "cgroup v2 is mounted from outside this cgroup namespace: give it mounts "
			 "of its own (unshare -Cm), and in it, umount /sys/fs/cgroup && mount -t "
			 "cgroup2 none /sys/fs/cgroup" },
		{ EBADMSG, "its text is not that of a pressure file" },
		{ EFBIG, "too long for a pressure file" },
		{ ENOSPC, "this user has too many triggers: close some, or raise "
			  "user.max_psi_triggers" },
		{ EUSERS, "more than 64 poll the open file: open it once more for others" },
		{ EBUSY, "it has a trigger already: close the other user, or watch another file" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].error == -error)
			return known[i].text;
	return strerror(-error);
}

void *checked(void *memory)
{
	if (!memory)
		die("out of memory");
	return memory;
}

/**
 * grow() - make room for one entry more in an array
 * @array: the array, or NULL
 * @count: entries it has
 * @size: bytes of an entry
 *
 * Return: the array, which has room for @count + 1 entries; the new one is zero
 */
void *grow(void *array, size_t count, size_t size)
{
	/* Full at powers of two, from which on it doubles. */
	if (!(count & (count - 1)))
		array = checked(realloc(array, (count ? 2 * count : 1) * size));
	memset((char *)array + count * size, 0, size);
	return array;
}

char *vtext_of(const char *format, va_list arguments)
{
	char *text;

	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	return checked(text);
}

char *text_of(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	text = vtext_of(format, arguments);
	va_end(arguments);
	return text;
}

/* Seconds of a clock that only goes forward. */
double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int screen_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	int width = 0;

	/* A serial console has 0 by 0. */
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		width = size.ws_col;
	if (!width && columns)
		width = atoi(columns);
	if (width <= 0)
		return WIDTH_DEFAULT;
	return width < WIDTH_MIN ? WIDTH_MIN : width;
}

/* A terminal that obeys escapes; TERM tells. */
bool obeys(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && term && *term && strcmp(term, "dumb");
}

/* A line on the terminal that the next one replaces. */
void progress(const char *format, ...)
{
	va_list arguments;
	char *text;

	if (!obeys(STDERR_FILENO))
		return;
	va_start(arguments, format);
	text = vtext_of(format, arguments);
	va_end(arguments);
	fprintf(stderr, "\r\033[K%.*s", screen_width() - 1, text);
	fflush(stderr);
	free(text);
	progress_shown = true;
}

void progress_end(void)
{
	if (progress_shown)
		fputs("\r\033[K", stderr);
	progress_shown = false;
}

/**
 * struct end_of - a process whose end a thread waits for
 * @pid: the process, a child
 * @fd: closed then
 */
struct end_of {
	pid_t pid;
	int fd;
};

static void *wait_for_end(void *arg)
{
	struct end_of *end = arg;
	siginfo_t info;

	while (waitid(P_PID, end->pid, &info, WEXITED | WNOWAIT) && errno == EINTR)
		;
	close(end->fd);
	free(end);
	return NULL;
}

/**
 * pid_fd() - what poll() waits for when a child ends
 * @pid: the child, which nobody waits for until then; not above 0 for none
 *
 * Some kernels and filters of system calls have no pidfd_open(): there a thread waits.
 *
 * Return: a file descriptor, or -1 for none
 */
int pid_fd(pid_t pid)
{
	int fd = pid > 0 ? syscall(SYS_pidfd_open, pid, 0) : -1, fds[2];
	struct end_of *end;
	pthread_t thread;

	if (fd >= 0 || pid <= 0)
		return fd;
	if (pipe2(fds, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	end = checked(malloc(sizeof(*end)));
	*end = (struct end_of){ pid, fds[1] };
	errno = pthread_create(&thread, NULL, wait_for_end, end);
	if (errno)
		die("cannot start a thread: %s", strerror(errno));
	pthread_detach(thread);
	return fds[0];
}

int sleep_until(double end)
{
	struct timespec time = { .tv_sec = end };

	time.tv_nsec = (end - time.tv_sec) * 1e9;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

/* As poll() wants it, which ends no earlier, but for what is longer than it can wait. */
int poll_ms(double seconds)
{
	return seconds > 0 ? fmin(seconds * 1000 + 1, INT_MAX) : 0;
}

/* Returns non-zero when a signal came. */
int sleep_with_progress(double seconds, const char *what)
{
	double begin = now(), end = begin + seconds, next;
	int interrupted = 0;

	while (!interrupted && now() < end) {
		progress("%s: %.1f of %.1f s", what, now() - begin, seconds);
		next = now() + 0.2;
		interrupted = sleep_until(next < end ? next : end);
	}
	progress_end();
	return interrupted;
}

/* The beginning of a file, with a NUL; -errno, or its length. */
int read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t got, length = 0;

	*text = 0;
	if (fd < 0)
		return -errno;
	do {
		got = read(fd, text + length, size - 1 - length);
		length += got > 0 ? got : 0;
	} while (got > 0);
	if (got < 0)
		length = -errno;
	close(fd);
	text[length > 0 ? length : 0] = 0;
	return length;
}

/* A file of this machine, or of the recording; its first line, or false. */
bool read_line(const char *file, char *line, size_t size)
{
	char *path = text_of("%s%s", psi_root(), file);
	bool got = read_text(path, line, size) > 0;

	free(path);
	line[strcspn(line, "\n")] = 0;
	return got;
}

int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY), error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		error = -errno;
	close(fd);
	return error;
}

bool exists(const char *format, ...)
{
	va_list arguments;
	char *path;
	bool there;

	va_start(arguments, format);
	path = vtext_of(format, arguments);
	va_end(arguments);
	there = !access(path, F_OK);
	free(path);
	return there;
}

static void ignore(int number)
{
	/* Whoever started this may ignore it for the command, too. */
	if (signal(number, SIG_IGN) == SIG_DFL)
		sigaddset(&ignored, number);
}

/* What this program handles or ignores, the one that it becomes need not. */
void give_signals(void)
{
	sigset_t none;

	for (int number = 1; number < NSIG; number++)
		if (sigismember(&ignored, number) == 1)
			signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/**
 * run_program() - start a program
 * @argv: its arguments
 * @cgroup: directory of the cgroup to start it in, or NULL
 *
 * Return: its process; exit status 126 or 127 means that it could not be run, which
 *	is NOT_RUN where there is no process, -1, to wait for
 */
pid_t run_program(char **argv, const char *cgroup)
{
	pid_t pid = fork();
	int error;

	if (pid < 0)
		complain("cannot start %s: %s", argv[0], strerror(errno));
	if (pid)
		return pid;
	give_signals();
	error = cgroup ? cgroup_enter(cgroup) : 0;
	if (error) {
		complain("cannot enter %s: %s", cgroup, explain(error));
		_exit(126);
	}
	execvp(argv[0], argv);
	error = errno;
	complain("cannot run %s: %s", argv[0], strerror(error));
	_exit(error == ENOENT ? 127 : 126);
}

/* As the shell tells it. */
int status_of(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/*
 * Signals that end the command and not this program, as a descriptor; with
 * @interrupt, those of the terminal too, which otherwise the command gets by
 * itself.  A reader of the report that is gone ends neither: a write to it
 * fails with EPIPE.  Call it before anything is made that has to be removed.
 */
int take_signals(bool interrupt)
{
	static const int ending[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT };
	struct sigaction action;
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(ending) - (interrupt ? 0 : 2); i++)
		/* nohup(1) had it ignored. */
		if (!sigaction(ending[i], NULL, &action) && action.sa_handler != SIG_IGN)
			sigaddset(&set, ending[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (!interrupt) {
		ignore(SIGINT);
		ignore(SIGQUIT);
	}
	ignore(SIGPIPE);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

FILE *open_or_die(const char *path)
{
	FILE *file = path ? fopen(path, "we") : NULL;

	if (path && !file)
		die("%s: %s", path, strerror(errno));
	return file;
}

/* A command has ended, and its status is the answer: a full disk is no reason to lose it. */
void close_file(FILE *file, const char *path)
{
	bool bad = ferror(file);

	if (fclose(file) || bad)
		complain("%s: %s", path, strerror(errno));
}

/**
 * stat_field() - what /proc/PID/stat says of a task
 * @text: of that file
 * @field: from 3 on, the first after the name
 * @name: where the name is written, which may hold anything, also ") "
 * @size: bytes there
 *
 * Return: the field and all after it; "" when there is none
 */
const char *stat_field(const char *text, int field, char *name, size_t size)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');

	if (!open || !close)
		return "";
	snprintf(name, size, "%.*s", (int)(close - open - 1), open + 1);
	for (int i = 3; close && i <= field; i++)
		close = strchr(close + 1, ' ');
	return close ? close + 1 : "";
}

/* Call for each entry of a directory that is a number. */
void for_numbers(const char *path, void (*call)(void *data, int pid, int number), void *data,
		 int pid)
{
	DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			call(data, pid, atoi(entry->d_name));
	if (dir)
		closedir(dir);
}
