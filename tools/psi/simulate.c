// SPDX-License-Identifier: GPL-2.0
/*
 * pressure simulate: events for a service under test.
 *
 * The other side of systemd's protocol, through a FIFO or a socket; or real
 * stalls in a cgroup of our own.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pressure.h"

/* "some 200000 2000000" with its NUL, in Base64. */
#define TRIGGER_BASE64	"c29tZSAyMDAwMDAgMjAwMDAwMAA="
#define TEXT_MAX	256	/* bytes of what a service may write */
#define MEMORY_HIGH	"8M"
#define MEMORY_USED	33554432UL
#define BLOCK		262144UL
#define TASKS_MAX	2
#define PERIOD		2.1	/* s; after which older kernels have added everything up */

/**
 * struct server - the manager's side of the protocol
 * @directory: where @path is
 * @path: of the FIFO or socket
 * @fd: the FIFO, or the connection; -1 while there is none
 * @listening: the socket, or -1
 * @signals: those that end this program, for the service
 * @pid: the service
 * @pidfd: the service; readable when it has ended
 * @begin: when all began
 * @sent: events
 * @table: what happened, for JSON
 */
struct server {
	char *directory;
	char *path;
	int fd;
	int listening;
	int signals;
	pid_t pid;
	int pidfd;
	double begin;
	long sent;
	struct table *table;
};

static const struct column columns[] = {
	{ "seconds", "", FMT_SECONDS, 0 },
	{ "what", "", FMT_TEXT, 0 },
	{ "text", "", FMT_TEXT, 0 },
};

/* Something happened; @text is what the service wrote, or NULL. */
static void tell(struct server *server, const char *what, const char *text)
{
	struct cell *cell;
	char *shown;

	if (!opt_json) {
		shown = sane(text ?: "");
		complain("%s%s%s", what, text ? ": " : "", shown);
		free(shown);
		return;
	}
	cell = table_row(server->table);
	cell[0].number = now() - server->begin;
	cell[1].text = text_of("%s", what);
	cell[2].text = text ? text_of("%s", text) : NULL;
}

/* A signal that came, or 0. */
static int read_signal(int signals, struct signalfd_siginfo *info)
{
	return read(signals, info, sizeof(*info)) == sizeof(*info) ? info->ssi_signo : 0;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	errno = ENAMETOOLONG;
	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
	    (int)sizeof(address.sun_path))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 8))
		return -1;
	return fd;
}

static void close_server(struct server *server)
{
	unlink(server->path);
	rmdir(server->directory);
	free(server->path);
	free(server->directory);
}

static void open_server(struct server *server, bool use_socket)
{
	int error;

	*server = (struct server){ .fd = -1, .listening = -1, .signals = take_signals(true) };
	server->directory = text_of("%s/pressure-simulate.XXXXXX", getenv("TMPDIR") ?: "/tmp");
	if (!mkdtemp(server->directory))
		die("%s: %s", server->directory, strerror(errno));
	server->path = text_of("%s/%s", server->directory, use_socket ? "socket" : "fifo");
	/* Open for reading, too: then it can be written before the service is there. */
	if (use_socket)
		server->listening = listen_at(server->path);
	else if (!mkfifo(server->path, 0600))
		server->fd = open(server->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	error = errno;
	if (server->fd >= 0 || server->listening >= 0)
		return;
	complain("%s: %s", server->path, strerror(error));
	close_server(server);
	exit(STATUS_ERROR);
}

/* Without a @trigger the service writes nothing. */
static void set_variables(const char *resource, const char *path, const char *trigger)
{
	char *watch = text_of("%s_PRESSURE_WATCH", resource);
	char *write = text_of("%s_PRESSURE_WRITE", resource);

	for (int i = 0; resource[i]; i++) {
		watch[i] = toupper(resource[i]);
		write[i] = toupper(resource[i]);
	}
	setenv(watch, path, 1);
	if (trigger)
		setenv(write, trigger, 1);
	else
		unsetenv(write);
	free(watch);
	free(write);
}

static void hear(struct server *server)
{
	char text[TEXT_MAX + 1];
	ssize_t got;

	if (server->fd < 0) {
		server->fd = accept4(server->listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		tell(server, "the service connected", NULL);
		return;
	}
	got = read(server->fd, text, sizeof(text) - 1);
	if (got > 0) {
		text[got] = 0;
		tell(server, "the service wrote", text);
	} else if (!got || errno != EAGAIN) {
		tell(server, "the service closed its end", NULL);
		close(server->fd);
		server->fd = -1;
	}
}

/* The terminal sends ^C and ^\ to the service, too; what else comes is handed on. */
static void pass_signal(const struct server *server)
{
	struct signalfd_siginfo info;

	if (read_signal(server->signals, &info) &&
	    ((info.ssi_signo != SIGINT && info.ssi_signo != SIGQUIT) || info.ssi_code != SI_KERNEL))
		kill(server->pid, info.ssi_signo);
}

/* Until the time has come; false when the service has ended. */
static bool serve_until(struct server *server, double end)
{
	double left;

	while ((left = end - now()) > 0) {
		struct pollfd fds[3] = {
			{ .fd = server->pidfd, .events = POLLIN },
			{ .fd = server->signals, .events = POLLIN },
			{ .fd = server->fd < 0 ? server->listening : server->fd, .events = POLLIN },
		};

		/* What is in a FIFO is for the service. */
		if (poll(fds, server->listening < 0 ? 2 : 3, poll_ms(left)) < 0)
			continue;
		/* What the service wrote before its end, too. */
		if (server->listening >= 0 && fds[2].revents)
			hear(server);
		else if (fds[0].revents)
			return false;
		if (fds[1].revents)
			pass_signal(server);
	}
	return true;
}

static int serve(struct server *server, char **command, double every, long count)
{
	int status = NOT_RUN;
	char *what;

	server->pid = run_program(command, NULL);
	server->pidfd = pid_fd(server->pid);
	while (server->pidfd >= 0 &&
	       serve_until(server, now() + (count && server->sent >= count ? 3600 : every))) {
		if ((count && server->sent >= count) || server->fd < 0 ||
		    (send(server->fd, "\n", 1, MSG_NOSIGNAL) != 1 &&
		     (errno != ENOTSOCK || write(server->fd, "\n", 1) != 1)))
			continue;
		what = text_of("sent event %ld", ++server->sent);
		tell(server, what, NULL);
		free(what);
	}
	waitpid(server->pid, &status, 0);
	return status_of(status);
}

/* Loads */

static void spin(double end)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	/* The first CPU that is allowed, the same one for each of them. */
	if (!sched_getaffinity(0, sizeof(one), &one))
		for (cpu = 0; cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &one); cpu++)
			;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("cannot choose a CPU: %s", strerror(errno));
	while (now() < end)
		;
}

static void touch(double end)
{
	char *memory = mmap(NULL, MEMORY_USED, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("no memory: %s", strerror(errno));
	while (now() < end)
		for (size_t i = 0; i < MEMORY_USED && now() < end; i += 4096)
			memory[i]++;
}

/* A file without a name, on a file system that has storage; memory has no io. */
static int open_storage(void)
{
	const char * const places[] = { getenv("TMPDIR"), "/var/tmp", "/tmp", "." };
	struct statfs status;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int fd = places[i] ? open(places[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;

		if (fd < 0)
			continue;
		if (!fstatfs(fd, &status) && status.f_type != TMPFS_MAGIC &&
		    status.f_type != RAMFS_MAGIC)
			return fd;
		close(fd);
	}
	die("no directory is on a disk: set TMPDIR to one that is");
}

/* Past the cache, which takes little of a CPU; where that cannot be done, write and wait. */
static void use_storage(double end)
{
	int fd = open_storage(), error = 0, direct;
	char *block;

	if (posix_memalign((void **)&block, BLOCK, BLOCK))
		die("no memory");
	memset(block, 0, BLOCK);
	if (pwrite(fd, block, BLOCK, 0) < 0 || fsync(fd))
		error = errno;
	direct = fcntl(fd, F_GETFL) | O_DIRECT;
	if (!error && !fcntl(fd, F_SETFL, direct) && pread(fd, block, BLOCK, 0) == BLOCK) {
		while (!error && now() < end)
			error = pread(fd, block, BLOCK, 0) < 0 ? errno : 0;
	} else {
		fcntl(fd, F_SETFL, direct & ~O_DIRECT);
		while (!error && now() < end)
			error = pwrite(fd, block, BLOCK, 0) < 0 || fsync(fd) ? errno : 0;
	}
	if (error)
		die("cannot use a disk: %s", strerror(error));
}

static const struct stall {
	const char *name;
	int tasks;
	void (*work)(double end);
} stalls[] = {
	{ "cpu", 2, spin },
	{ "memory", 1, touch },
	{ "io", 2, use_storage },
};

static const struct stall *find_stall(const char *option, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(stalls); i++)
		if (!strcmp(name, stalls[i].name))
			return &stalls[i];
	die("--%s: '%s' is none of cpu, memory and io", option, name);
}

static void limit_memory(const char *cgroup)
{
	char *parent = text_of("%.*s", (int)(strrchr(cgroup, '/') - cgroup), cgroup);

	cgroup_write(parent, "cgroup.subtree_control", "+memory");
	free(parent);
	if (cgroup_write(cgroup, "memory.high", MEMORY_HIGH)) {
		cgroup_remove(cgroup, false);
		die("the memory controller is not enabled for cgroups here: start it from a "
		    "cgroup that has it, for instance with systemd-run --scope -p Delegate=yes");
	}
}

/* Sleep, and show how far it is; the signal that ended it, or 0. */
static int wait_signal(int signals, double seconds, const char *what)
{
	struct pollfd fd = { .fd = signals, .events = POLLIN };
	double begin = now(), left;
	struct signalfd_siginfo info;

	while ((left = begin + seconds - now()) > 0) {
		progress("%s: %.1f of %.1f s", what, now() - begin, seconds);
		if (poll(&fd, 1, poll_ms(fmin(left, 0.2))) > 0 && read_signal(signals, &info)) {
			progress_end();
			return info.ssi_signo;
		}
	}
	progress_end();
	return 0;
}

/* Whether all of them stalled to the end. */
static bool end_stalls(const pid_t *pids, int count, bool kill_them)
{
	bool good = true;

	for (int i = 0; i < count; i++) {
		int status = NOT_RUN;

		if (kill_them)
			kill(pids[i], SIGKILL);
		waitpid(pids[i], &status, 0);
		good &= !status;
	}
	return good;
}

static int make_stalls(const struct stall *stall, double seconds)
{
	struct group first = { 0 }, last = { 0 };
	int error, signals = take_signals(true), signal;
	struct report report = { 0 };
	char cgroup[PATH_MAX];
	pid_t pids[TASKS_MAX] = { 0 };

	/* Before the cgroup is made. */
	if (stall->work == use_storage)
		close(open_storage());
	error = cgroup_make(cgroup, sizeof(cgroup), "pressure-simulate");

	if (error)
		die("cannot make a cgroup: %s", explain(error));
	if (stall->work == touch)
		limit_memory(cgroup);
	complain("%s stalls in %s", stall->name, cgroup);
	if (!read_group(&first, cgroup)) {
		cgroup_remove(cgroup, false);
		die("cgroups have no pressure files; 'pressure doctor' tells why");
	}
	for (int i = 0; i < stall->tasks; i++) {
		pids[i] = fork();
		if (pids[i] < 0) {
			end_stalls(pids, i, true);
			cgroup_remove(cgroup, true);
			die("cannot start a task: %s", strerror(errno));
		}
		if (pids[i])
			continue;
		if (cgroup_enter(cgroup))
			die("cannot enter %s", cgroup);
		stall->work(first.time + seconds);
		_exit(0);
	}
	signal = wait_signal(signals, seconds, "stalling");
	if (!end_stalls(pids, stall->tasks, signal) && !signal) {
		cgroup_remove(cgroup, true);
		die("a task ended before its time: it could not stall");
	}
	seconds = now() - first.time;
	if (!signal)
		signal = wait_signal(signals, PERIOD, "waiting for the kernel's totals");
	read_group(&last, cgroup);
	cgroup_remove(cgroup, true);
	if (signal)
		return 128 + signal;
	lost_report(&report, &first, &last, seconds, NULL);
	report_print(stdout, &report);
	report_free(&report);
	return STATUS_OK;
}

int verb_simulate(int argc, char **argv)
{
	const char *resource = "memory", *stall = NULL;
	double every = 1, seconds = 10;
	bool use_socket = false;
	long count = 0;
	const struct opt opts[] = {
		{ "resource", OPT_TEXT, &resource, "NAME", "events of cpu, memory or io (memory)" },
		{ "every", OPT_DURATION, &every, "TIME", "from one event to the next (1s)" },
		{ "count", OPT_NUMBER, &count, "N", "send so many events, then only wait" },
		{ "socket", OPT_FLAG, &use_socket, NULL, "through a socket, not a FIFO" },
		{ "stall", OPT_TEXT, &stall, "NAME",
		  "make real stalls: of cpu, memory or io" },
		{ "time", OPT_DURATION, &seconds, "TIME", "how long to stall, with --stall (10s)" },
		{ 0 }
	};
	char **command = parse_options(argc, argv, opts,
				       "simulate [OPTIONS] -- COMMAND | simulate --stall NAME");
	struct report report = { 0 };
	struct server server;
	int status;

	if (stall && *command)
		die("--stall needs no command: leave out '%s'", *command);
	if (stall)
		return make_stalls(find_stall("stall", stall), seconds);
	if (!*command)
		die("simulate for what? For instance: pressure simulate -- ./my-service");
	find_stall("resource", resource);
	open_server(&server, use_socket);
	/* A service would read back from a FIFO what it wrote, and take it for an event. */
	set_variables(resource, server.path, use_socket ? TRIGGER_BASE64 : NULL);
	server.begin = now();
	server.table = report_table(&report, "log", NULL, columns, ARRAY_SIZE(columns));
	status = serve(&server, command, every, count);
	close_server(&server);
	report_say(&report, "Sent %ld events.", server.sent);
	report_fact(&report, "status", FMT_COUNT, status);
	report_fact(&report, "seconds", FMT_SECONDS, now() - server.begin);
	report_fact(&report, "events", FMT_COUNT, server.sent);
	/* The standard output is the service's. */
	if (opt_json)
		report_write(stderr, &report);
	report_free(&report);
	return status;
}
