// SPDX-License-Identifier: GPL-2.0
/*
 * IO pressure of a task that submits requests and waits for them later
 *
 * Invariant: a task asleep in a ring of io_uring, or in io_getevents(), waits
 * for io while a request to storage is in flight there, and only then.
 *
 *     read from a disk     |======|        |==============|
 *     read from a pipe        |==================|
 *     the task          run|  asleep, waiting for both    |run
 *     io some              |######|        |##############|
 *
 * So the same reads make the same pressure, however they are asked for, and a
 * server that waits for its clients has none. /proc/stat keeps its own meaning
 * of iowait: anything that io_uring has in flight for the task, but no
 * reference that the task keeps for later, and nothing if the task says so.
 *
 * What would break it: in_iowait taken at face value, a request that is not
 * seen to end when it is canceled, fails or its ring is closed, a sleeper that
 * is not looked at again when another thread submits or when one of two
 * requests is done.
 *
 * The device (null_blk) answers by the guest's own timer.
 *
 * Tolerance: 1 % against read(), 0.5 % against the task's own clocks: the
 * switch to and from the task is in neither.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_aio.h"
#include "psi_delays.h"
#include "psi_leak.h"
#include "psi_swap.h"
#include "psi_uring.h"
#include "psi_work.h"

#define GROUP		CGROUP_ROOT "/psi_io_async"
#define DISK_MB		64
#define BLOCK		4096
#define READS		800
/* How far one read is from the last: no readahead brings both. */
#define STRIDE		(16 * BLOCK)
#define LATENCY		(10 * NSEC_PER_MSEC)
#define LONG_LATENCY	(2 * NSEC_PER_SEC)
#define WAIT		(8 * NSEC_PER_SEC)
#define SAME		0.01
#define OWN_CLOCK	0.005
/* What a wait of 8 s for something else may have. */
#define NONE		(10 * NSEC_PER_MSEC)

#define DEFER		(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)

/* ---- The same reads, asked for in different ways ---- */

/**
 * struct job - reads blocks one after the other, and says what it cost
 * @node: from this device
 * @open_flags: O_DIRECT or nothing; and O_RDWR if it writes blocks
 * @way: how it reads
 * @setup: flags of its ring
 * @sqe_flags: flags of its requests
 * @opcode: of its requests, if they are about a registered buffer
 * @no_iowait: its ring refuses iowait, where it can
 * @fd: the device
 * @buf: a block
 * @ring: where it reads by io_uring
 * @outer: a ring in which it polls @ring or @eventfd
 * @eventfd: what aio signals
 * @aio: where it reads by aio
 * @map: where it reads by page faults
 * @asleep: how long it was asleep, in ns
 * @some: growth of io some of the system
 * @full: growth of io full of the system
 * @group: growth of io some of its cgroup
 */
struct job {
	const char *node;
	int open_flags;
	void (*way)(struct job *job, off_t pos);
	unsigned int setup;
	__u8 sqe_flags;
	__u8 opcode;
	bool no_iowait;
	int fd;
	char *buf;
	struct uring ring;
	struct uring outer;
	int eventfd;
	aio_context_t aio;
	char *map;
	__u64 asleep;
	__u64 some;
	__u64 full;
	__u64 group;
};

static void by_read(struct job *job, off_t pos)
{
	if (pread(job->fd, job->buf, BLOCK, pos) != BLOCK)
		psi_die("%s: %s", job->node, strerror(errno));
}

static void by_aio(struct job *job, off_t pos)
{
	aio_submit_read(job->aio, job->fd, job->buf, pos);
	if (aio_wait(job->aio, 1, WAIT) != 1)
		psi_die("%s: aio did not read", job->node);
}

/* The request is prepared. */
static void submit_and_wait(struct job *job)
{
	uring_submit(&job->ring);
	if (!uring_wait(&job->ring, 1, WAIT) || uring_reap(&job->ring) != 1 ||
	    job->ring.last.res != BLOCK)
		psi_die("%s: io_uring did not read: %d", job->node, job->ring.last.res);
}

static void by_uring(struct job *job, off_t pos)
{
	uring_prepare_read(&job->ring, job->fd, job->buf, BLOCK, pos)->flags = job->sqe_flags;
	submit_and_wait(job);
}

/* A vector that points into the registered buffer, or the buffer itself. */
static void by_registered_buffer(struct job *job, off_t pos)
{
	struct iovec vector = { .iov_base = job->buf, .iov_len = BLOCK };
	bool vectored = job->opcode == OP_READV_FIXED || job->opcode == OP_WRITEV_FIXED;
	struct io_uring_sqe *sqe = uring_prepare(&job->ring, job->opcode, job->fd);

	sqe->addr = vectored ? (unsigned long)&vector : (unsigned long)job->buf;
	sqe->len = vectored ? 1 : BLOCK;
	sqe->off = pos;
	submit_and_wait(job);
}

/* Sleeps in a ring until @fd can be read. */
static void wait_by_poll(struct uring *ring, int fd)
{
	uring_prepare(ring, IORING_OP_POLL_ADD, fd)->poll32_events = POLLIN;
	uring_submit(ring);
	if (!uring_wait(ring, 1, WAIT) || uring_reap(ring) != 1 || ring->last.res != POLLIN)
		psi_die("a poll in a ring gave %d", ring->last.res);
}

static void by_polled_ring(struct job *job, off_t pos)
{
	uring_prepare_read(&job->ring, job->fd, job->buf, BLOCK, pos);
	uring_submit(&job->ring);
	wait_by_poll(&job->outer, job->ring.fd);
	if (uring_reap(&job->ring) != 1 || job->ring.last.res != BLOCK)
		psi_die("%s: io_uring did not read: %d", job->node, job->ring.last.res);
}

static void submit_with_eventfd(struct job *job, off_t pos)
{
	struct iocb iocb = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = job->fd,
		.aio_buf = (unsigned long)job->buf,
		.aio_nbytes = BLOCK,
		.aio_offset = pos,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = job->eventfd,
	};

	aio_submit(job->aio, &iocb);
}

static void by_polled_eventfd(struct job *job, off_t pos)
{
	__u64 value;

	submit_with_eventfd(job, pos);
	wait_by_poll(&job->outer, job->eventfd);
	if (read(job->eventfd, &value, sizeof(value)) != sizeof(value) || value != 1 ||
	    aio_wait(job->aio, 1, 0) != 1)
		psi_die("%s: aio did not read", job->node);
}

/* It reads the eventfd through the ring, which polls it for that. */
static void by_eventfd_in_a_ring(struct job *job, off_t pos)
{
	__u64 value;

	submit_with_eventfd(job, pos);
	uring_prepare_read(&job->outer, job->eventfd, &value, sizeof(value), -1);
	uring_submit(&job->outer);
	if (!uring_wait(&job->outer, 1, WAIT) || uring_reap(&job->outer) != 1 ||
	    job->outer.last.res != sizeof(value) || aio_wait(job->aio, 1, 0) != 1)
		psi_die("%s: aio did not read", job->node);
}

static void by_fault(struct job *job, off_t pos)
{
	memcpy(job->buf, job->map + pos, BLOCK);
}

static void job_open(struct job *job)
{
	job->buf = aligned_alloc(BLOCK, BLOCK);
	job->fd = open(job->node, O_CLOEXEC | job->open_flags);
	job->aio = aio_create();
	job->eventfd = eventfd(0, EFD_CLOEXEC);
	job->map = mmap(NULL, DISK_MB << 20, PROT_READ, MAP_SHARED, job->fd, 0);
	if (!job->buf || job->fd < 0 || job->map == MAP_FAILED ||
	    job->eventfd < 0 || !uring_create(&job->ring, job->setup) ||
	    !uring_create(&job->outer, 0))
		psi_die("%s: %s", job->node, strerror(errno));
	if (job->no_iowait)
		uring_refuse_iowait(&job->ring);
	if (job->opcode)
		uring_register(&job->ring, job->buf, BLOCK);
	posix_fadvise(job->fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(job->fd, 0, 0, POSIX_FADV_RANDOM);
	madvise(job->map, DISK_MB << 20, MADV_RANDOM);
}

static void job_read(struct job *job, int from, int nr)
{
	for (int i = from; i < from + nr; i++)
		job->way(job, (off_t)i * STRIDE);
}

/* What a load does: @arg is a struct job in shared memory. */
static void run_job(void *arg)
{
	struct job *job = arg;
	struct pressure system, group, s, g;
	__u64 start, awake;

	job_open(job);
	/* Threads that the kernel makes for it are there. */
	job_read(job, 0, 4);
	awake = task_awake_ns(getpid());
	start = now_ns();
	pressure_read(NULL, &system);
	pressure_read(GROUP, &group);
	job_read(job, 4, READS);
	s = pressure_since(NULL, &system);
	g = pressure_since(GROUP, &group);
	job->asleep = now_ns() - start - (task_awake_ns(getpid()) - awake);
	job->some = s.some[RES_IO];
	job->full = s.full[RES_IO];
	job->group = g.some[RES_IO];
}

/* ---- The machine ---- */

FIXTURE(async) {
	struct slow_disk disk;
	struct slow_disk slower;
	struct job *job;
	struct uring ring;
	int pipe[2];
	int fd;
	void *buf;
	__u64 before;
};

FIXTURE_SETUP(async)
{
	cpus_use(1);
	task_delays_on();
	slow_disk_create(&self->disk, "psi_async", LATENCY, DISK_MB);
	slow_disk_create(&self->slower, "psi_async2", LONG_LATENCY, DISK_MB);
	self->fd = open(self->slower.node, O_RDONLY | O_DIRECT | O_CLOEXEC);
	self->buf = aligned_alloc(BLOCK, BLOCK);
	ASSERT_LE(0, self->fd);
	ASSERT_NE(NULL, self->buf);
	ASSERT_EQ(0, pipe(self->pipe));
	cgroup_create(GROUP, "");
	self->job = shared_memory(2 * sizeof(*self->job));
	self->before = psi_some_ns(PSI_IO);
}

/* Whatever happened, an idle machine waits for nothing. */
FIXTURE_TEARDOWN(async)
{
	struct idle_growth growth;

	close(self->fd);
	idle_growth_measure(&growth, 4 * NSEC_PER_SEC);
	EXPECT_EQ(0, growth.io);
	cgroup_remove(GROUP);
	slow_disk_remove(&self->disk);
	slow_disk_remove(&self->slower);
	cpus_use(cpus_possible());
}

/* Io some since the fixture was set up. */
#define some_so_far()	(psi_some_ns(PSI_IO) - self->before)

static void expect_within(struct __test_metadata *_metadata, const char *what, double share,
			  double oracle, double value)
{
	EXPECT_GE(oracle * share, fabs(value - oracle)) {
		TH_LOG("%s is %.6f s, must be %.6f s", what, value / 1e9, oracle / 1e9);
	}
}

#define EXPECT_SOME(seconds) \
	expect_within(_metadata, "io some", SAME, (seconds) * 1e9, some_so_far())
#define EXPECT_NO_IO()	EXPECT_GT(NONE, some_so_far())

/* ---- The same reads ---- */

static void job_run(struct job *job, const char *name)
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = run_job, .arg = job };
	char row[128];

	load_wait(load_start(&load));
	snprintf(row, sizeof(row), "8 s of %s %s by %s: io some, s",
		 job->open_flags ? "O_DIRECT" : "cached",
		 job->open_flags & O_RDWR ? "writes" : "reads", name);
	report_row(row, "%.3f", job->some / 1e9);
}

static void same_reads(struct __test_metadata *_metadata, struct job *job, const char *node,
		       const char *name)
{
	struct job *reference = job + 1;

	reference->node = node;
	reference->way = by_read;
	reference->open_flags = job->open_flags & ~O_RDWR;
	job->node = node;
	job_run(reference, "read()");
	job_run(job, name);
	ASSERT_LT(0.9 * READS * LATENCY, reference->some);
	expect_within(_metadata, "io some", OWN_CLOCK, job->asleep, job->some);
	expect_within(_metadata, "io some of the cgroup", OWN_CLOCK, job->asleep, job->group);
	expect_within(_metadata, "io some", SAME, reference->some, job->some);
}

TEST_F(async, aio_is_io_as_read_is)
{
	self->job->way = by_aio;
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "libaio");
	expect_within(_metadata, "io full", OWN_CLOCK, self->job->asleep, self->job->full);
}

TEST_F(async, io_uring_is_io_as_read_is)
{
	self->job->way = by_uring;
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "io_uring");
	expect_within(_metadata, "io full", OWN_CLOCK, self->job->asleep, self->job->full);
}

TEST_F(async, io_uring_that_defers_its_work_is_io_as_read_is)
{
	self->job->way = by_uring;
	self->job->setup = DEFER;
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "io_uring, DEFER_TASKRUN");
}

/* Another thread issues the requests, when the task is asleep already. */
TEST_F(async, io_uring_with_a_thread_that_submits_is_io_as_read_is)
{
	self->job->way = by_uring;
	self->job->setup = IORING_SETUP_SQPOLL;
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "io_uring, SQPOLL");
}

TEST_F(async, io_uring_with_workers_is_io_as_read_is)
{
	self->job->way = by_uring;
	self->job->sqe_flags = IOSQE_ASYNC;
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "io_uring, workers");
}

/* Its waits may be no iowait, but the disk is as slow. */
TEST_F(async, io_uring_that_refuses_iowait_is_io_as_read_is)
{
	self->job->way = by_uring;
	self->job->no_iowait = true;
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "io_uring, without iowait");
}

/* Older kernels have no vectors of registered buffers. */
static __u8 opcode_if_there(__u8 opcode, __u8 otherwise)
{
	struct uring ring;
	bool there;

	if (!uring_create(&ring, 0))
		psi_die("io_uring: %s", strerror(errno));
	there = uring_has(&ring, opcode);
	uring_destroy(&ring);
	return there ? opcode : otherwise;
}

TEST_F(async, reads_to_a_registered_buffer_are_io_as_read_is)
{
	self->job->way = by_registered_buffer;
	self->job->opcode = opcode_if_there(OP_READV_FIXED, IORING_OP_READ_FIXED);
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "io_uring, registered buffer");
}

TEST_F(async, writes_from_a_registered_buffer_are_io_as_read_is)
{
	self->job->way = by_registered_buffer;
	self->job->opcode = opcode_if_there(OP_WRITEV_FIXED, IORING_OP_WRITE_FIXED);
	self->job->open_flags = O_DIRECT | O_RDWR;
	same_reads(_metadata, self->job, self->disk.node, "io_uring, registered buffer");
}

TEST_F(async, io_uring_through_the_page_cache_is_io_as_read_is)
{
	self->job->way = by_uring;
	same_reads(_metadata, self->job, self->disk.node, "io_uring");
}

TEST_F(async, workers_that_read_through_the_page_cache_are_io_as_read_is)
{
	self->job->way = by_uring;
	self->job->sqe_flags = IOSQE_ASYNC;
	same_reads(_metadata, self->job, self->disk.node, "io_uring, workers");
}

TEST_F(async, ring_that_polls_a_ring_is_io_as_read_is)
{
	self->job->way = by_polled_ring;
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "io_uring, polled in another ring");
}

TEST_F(async, ring_that_polls_the_eventfd_of_aio_is_io_as_read_is)
{
	self->job->way = by_polled_eventfd;
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "libaio, its eventfd polled in a ring");
}

TEST_F(async, ring_that_reads_the_eventfd_of_aio_is_io_as_read_is)
{
	self->job->way = by_eventfd_in_a_ring;
	self->job->open_flags = O_DIRECT;
	same_reads(_metadata, self->job, self->disk.node, "libaio, its eventfd read in a ring");
}

TEST_F(async, page_faults_are_io_as_read_is)
{
	self->job->way = by_fault;
	same_reads(_metadata, self->job, self->disk.node, "page faults");
}

/* ---- What is no storage ---- */

FIXTURE(ring) {
	struct uring ring;
	int pipe[2];
	char byte;
	__u64 before;
	__u64 stat;
	bool iowait;
};

FIXTURE_VARIANT(ring) {
	const char *name;
	unsigned int setup;
	bool no_iowait;
};

FIXTURE_VARIANT_ADD(ring, plain) {
	.name = "io_uring",
};

FIXTURE_VARIANT_ADD(ring, that_defers_its_work) {
	.name = "io_uring, DEFER_TASKRUN,",
	.setup = DEFER,
};

FIXTURE_VARIANT_ADD(ring, with_a_thread_that_submits) {
	.name = "io_uring, SQPOLL,",
	.setup = IORING_SETUP_SQPOLL,
};

FIXTURE_VARIANT_ADD(ring, that_refuses_iowait) {
	.name = "io_uring, without iowait,",
	.no_iowait = true,
};

/* Time that /proc/stat calls iowait, in ns. */
static __u64 stat_iowait(void)
{
	unsigned long long iowait;
	char text[4096];

	if (read_file("/proc/stat", text, sizeof(text)) < 0 ||
	    sscanf(text, "cpu %*u %*u %*u %*u %llu", &iowait) != 1)
		psi_die("/proc/stat has no iowait");
	return iowait * (NSEC_PER_SEC / sysconf(_SC_CLK_TCK));
}

FIXTURE_SETUP(ring)
{
	cpus_use(1);
	ASSERT_TRUE(uring_create(&self->ring, variant->setup));
	self->iowait = !variant->no_iowait || !uring_refuse_iowait(&self->ring);
	ASSERT_EQ(0, pipe(self->pipe));
	self->before = psi_some_ns(PSI_IO);
	self->stat = stat_iowait();
}

FIXTURE_TEARDOWN(ring)
{
	uring_destroy(&self->ring);
	cpus_use(cpus_possible());
}

static void report_some(FIXTURE_DATA(ring) * self, const FIXTURE_VARIANT(ring) * variant,
			const char *what)
{
	char row[128];

	snprintf(row, sizeof(row), "%s %s: io some, s", variant->name, what);
	report_row(row, "%.3f", some_so_far() / 1e9);
}

static void complete_a_nop(struct __test_metadata *_metadata, struct uring *ring)
{
	uring_prepare(ring, IORING_OP_NOP, -1);
	uring_submit(ring);
	ASSERT_TRUE(uring_wait(ring, 1, NSEC_PER_SEC));
	ASSERT_EQ(1, uring_reap(ring));
}

TEST_F(ring, wait_for_a_pipe_is_no_io)
{
	uring_prepare_read(&self->ring, self->pipe[0], &self->byte, 1, -1);
	uring_submit(&self->ring);
	EXPECT_FALSE(uring_wait(&self->ring, 1, WAIT));
	report_some(self, variant, "waits 8 s on a pipe");
	EXPECT_NO_IO();
}

TEST_F(ring, wait_for_a_pipe_after_a_completed_request_is_no_io)
{
	complete_a_nop(_metadata, &self->ring);
	uring_prepare_read(&self->ring, self->pipe[0], &self->byte, 1, -1);
	uring_submit(&self->ring);
	EXPECT_FALSE(uring_wait(&self->ring, 1, WAIT));
	EXPECT_NO_IO();
}

TEST_F(ring, wait_for_a_timeout_is_no_io)
{
	struct __kernel_timespec ts = { .tv_sec = WAIT / NSEC_PER_SEC };
	struct io_uring_sqe *sqe = uring_prepare(&self->ring, IORING_OP_TIMEOUT, -1);

	sqe->addr = (unsigned long)&ts;
	sqe->len = 1;
	uring_submit(&self->ring);
	EXPECT_TRUE(uring_wait(&self->ring, 1, 2 * WAIT));
	EXPECT_NO_IO();
}

/* What the task keeps for later is no request: also for /proc/stat. */
TEST_F(ring, wait_with_nothing_pending_is_no_iowait)
{
	complete_a_nop(_metadata, &self->ring);
	EXPECT_FALSE(uring_wait(&self->ring, 1, WAIT));
	report_some(self, variant, "waits 8 s after a completed request, nothing pending");
	EXPECT_NO_IO();
	EXPECT_GE(NONE, stat_iowait() - self->stat);
}

/*
 * But a request that is pending is iowait to /proc/stat, whatever it is for:
 * that of the task that issued it, unless the task refuses it.
 */
TEST_F(ring, wait_with_a_request_pending_is_iowait_as_before)
{
	bool own = variant->setup != IORING_SETUP_SQPOLL && self->iowait;

	uring_prepare_read(&self->ring, self->pipe[0], &self->byte, 1, -1);
	uring_submit(&self->ring);
	EXPECT_FALSE(uring_wait(&self->ring, 1, WAIT));
	EXPECT_GE(NONE, llabs((long long)(stat_iowait() - self->stat - own * WAIT)));
}

/* What a load does: @arg is the client's end of a socket. */
static void be_a_client(void *arg)
{
	char byte = 0;

	for (;;) {
		sleep_for(10 * NSEC_PER_MSEC);
		if (write(*(int *)arg, &byte, 1) != 1 || read(*(int *)arg, &byte, 1) != 1)
			psi_die("client: %s", strerror(errno));
	}
}

static void serve(struct __test_metadata *_metadata, struct uring *ring, __u8 opcode, int fd,
		  char *byte)
{
	struct io_uring_sqe *sqe = uring_prepare(ring, opcode, fd);

	sqe->addr = (unsigned long)byte;
	sqe->len = 1;
	uring_submit(ring);
	ASSERT_TRUE(uring_wait(ring, 1, WAIT));
	ASSERT_EQ(1, uring_reap(ring));
	ASSERT_EQ(1, ring->last.res);
}

TEST_F(ring, server_that_waits_for_its_clients_has_no_io)
{
	int socket[2];
	struct load load = { .cpu = 0, .fn = be_a_client, .arg = &socket[0] };
	pid_t client;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, socket));
	client = load_start(&load);
	for (__u64 end = now_ns() + WAIT; now_ns() < end;) {
		serve(_metadata, &self->ring, IORING_OP_RECV, socket[1], &self->byte);
		serve(_metadata, &self->ring, IORING_OP_SEND, socket[1], &self->byte);
	}
	load_stop(client);
	report_some(self, variant, "serves a client for 8 s");
	EXPECT_NO_IO();
}

/* ---- Requests that begin and end while a task sleeps ---- */

static void wait_for_both(struct __test_metadata *_metadata, struct uring *ring, int fd, void *buf,
			  int pipe)
{
	char byte;

	uring_prepare_read(ring, fd, buf, BLOCK, 0);
	uring_prepare_read(ring, pipe, &byte, 1, -1);
	uring_submit(ring);
	EXPECT_FALSE(uring_wait(ring, 2, WAIT));
	EXPECT_EQ(1, uring_reap(ring));
	EXPECT_EQ(BLOCK, ring->last.res);
}

/* The disk takes 2 s of the 8 s. */
TEST_F(async, wait_for_two_is_io_while_the_disk_is_one_of_them)
{
	ASSERT_TRUE(uring_create(&self->ring, 0));
	wait_for_both(_metadata, &self->ring, self->fd, self->buf, self->pipe[0]);
	EXPECT_SOME(2);
	uring_destroy(&self->ring);
}

/* Here one completion does not wake the task. */
TEST_F(async, sleep_through_the_end_of_a_read_is_io_until_then)
{
	ASSERT_TRUE(uring_create(&self->ring, DEFER));
	wait_for_both(_metadata, &self->ring, self->fd, self->buf, self->pipe[0]);
	EXPECT_SOME(2);
	uring_destroy(&self->ring);
}

TEST_F(async, wait_in_aio_is_io_while_the_disk_is_one_of_two)
{
	aio_context_t aio = aio_create();
	struct iocb poll = {
		.aio_lio_opcode = IOCB_CMD_POLL,
		.aio_fildes = self->pipe[0],
		.aio_buf = POLLIN,
	};

	aio_submit(aio, &poll);
	aio_submit_read(aio, self->fd, self->buf, 0);
	EXPECT_EQ(1, aio_wait(aio, 2, WAIT));
	EXPECT_SOME(2);
	aio_destroy(aio);
}

/**
 * struct late - a thread that submits a read while another one waits
 * @ring: in this ring
 * @aio: or in this context
 * @fd: the device
 * @buf: a block
 */
struct late {
	struct uring *ring;
	aio_context_t aio;
	int fd;
	void *buf;
};

static void *submit_late(void *arg)
{
	struct late *late = arg;

	sleep_for(2 * NSEC_PER_SEC);
	if (late->ring) {
		uring_prepare_read(late->ring, late->fd, late->buf, BLOCK, 0);
		uring_submit(late->ring);
	} else {
		aio_submit_read(late->aio, late->fd, late->buf, 0);
	}
	/* A thread that exits takes its requests along. */
	sleep_for(WAIT);
	return NULL;
}

/* Asleep from 0 to 8 s; the disk reads from 2 to 4 s. */
TEST_F(async, read_that_another_thread_submits_is_io_of_the_one_that_waits)
{
	struct late late = { .ring = &self->ring, .fd = self->fd, .buf = self->buf };
	pthread_t thread;

	ASSERT_TRUE(uring_create(&self->ring, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, submit_late, &late));
	EXPECT_FALSE(uring_wait(&self->ring, 2, WAIT));
	EXPECT_SOME(2);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(1, uring_reap(&self->ring));
	uring_destroy(&self->ring);
}

TEST_F(async, read_that_another_thread_submits_to_aio_is_io_of_the_one_that_waits)
{
	struct late late = { .aio = aio_create(), .fd = self->fd, .buf = self->buf };
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, submit_late, &late));
	EXPECT_EQ(1, aio_wait(late.aio, 2, WAIT));
	EXPECT_SOME(2);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	aio_destroy(late.aio);
}

/*
 * The poll is there before the read that it waits for. Asleep from 0 to 8 s, as
 * above.
 */
TEST_F(async, poll_of_a_ring_is_io_while_a_read_is_in_flight_there)
{
	struct late late = { .ring = &self->ring, .fd = self->fd, .buf = self->buf };
	struct uring outer;
	pthread_t thread;

	ASSERT_TRUE(uring_create(&self->ring, 0));
	ASSERT_TRUE(uring_create(&outer, 0));
	uring_prepare(&outer, IORING_OP_POLL_ADD, self->ring.fd)->poll32_events = POLLIN;
	uring_submit(&outer);
	ASSERT_EQ(0, pthread_create(&thread, NULL, submit_late, &late));
	EXPECT_FALSE(uring_wait(&outer, 2, WAIT));
	EXPECT_SOME(2);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(1, uring_reap(&outer));
	uring_destroy(&outer);
	uring_destroy(&self->ring);
}

/*
 * Neither takes what it hears from the other for its own: no io is left when
 * the read is done.
 */
TEST_F(async, rings_that_poll_each_other_are_io_while_one_reads)
{
	struct uring outer;

	ASSERT_TRUE(uring_create(&self->ring, 0));
	ASSERT_TRUE(uring_create(&outer, 0));
	uring_prepare(&outer, IORING_OP_POLL_ADD, self->ring.fd)->poll32_events = POLLPRI;
	uring_submit(&outer);
	uring_prepare(&self->ring, IORING_OP_POLL_ADD, outer.fd)->poll32_events = POLLPRI;
	uring_prepare_read(&self->ring, self->fd, self->buf, BLOCK, 0);
	uring_submit(&self->ring);
	EXPECT_FALSE(uring_wait(&outer, 1, WAIT));
	EXPECT_SOME(2);
	uring_destroy(&outer);
	uring_destroy(&self->ring);
}

#define MANY_RINGS	12

/*
 * More than a ring tells of its reads: those that are left out lose nothing but
 * their io.
 */
TEST_F(async, ring_that_many_poll_forgets_them_as_they_go)
{
	struct uring outer[MANY_RINGS];

	ASSERT_TRUE(uring_create(&self->ring, 0));
	uring_prepare_read(&self->ring, self->fd, self->buf, BLOCK, 0);
	uring_submit(&self->ring);
	for (int i = 0; i < MANY_RINGS; i++) {
		ASSERT_TRUE(uring_create(&outer[i], 0));
		for (int polls = 0; polls < 3; polls++)
			uring_prepare(&outer[i], IORING_OP_POLL_ADD, self->ring.fd)->poll32_events =
				POLLPRI;
		uring_submit(&outer[i]);
	}
	EXPECT_FALSE(uring_wait(&outer[0], 1, NSEC_PER_SEC));
	EXPECT_SOME(1);
	for (int i = 0; i < MANY_RINGS; i++)
		uring_destroy(&outer[i]);
	uring_destroy(&self->ring);
}

/* ---- Files that are on no disk ---- */

/*
 * A regular file, as those of tracefs and cgroups are, whose read waits for an
 * event.
 */
TEST_F(async, read_of_a_file_without_storage_is_no_io)
{
	int fd = open("/proc/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char *buf = private_memory(65536);

	ASSERT_LE(0, fd);
	while (read(fd, buf, 65536) > 0)
		;
	close(fd);
	fd = open("/proc/kmsg", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_TRUE(uring_create(&self->ring, 0));
	uring_prepare_read(&self->ring, fd, buf, 65536, -1);
	uring_submit(&self->ring);
	EXPECT_FALSE(uring_wait(&self->ring, 1, WAIT));
	EXPECT_NO_IO();
	uring_destroy(&self->ring);
	close(fd);
}

/* ---- Requests that do not end well ---- */

/* Only what is in flight in the ring in which a task waits is its io. */
TEST_F(async, read_in_another_ring_is_no_io)
{
	struct uring other;
	char byte;

	ASSERT_TRUE(uring_create(&self->ring, 0));
	ASSERT_TRUE(uring_create(&other, 0));
	uring_prepare_read(&self->ring, self->fd, self->buf, BLOCK, 0);
	uring_submit(&self->ring);
	uring_prepare_read(&other, self->pipe[0], &byte, 1, -1);
	uring_submit(&other);
	EXPECT_FALSE(uring_wait(&other, 1, WAIT));
	EXPECT_NO_IO();
	uring_destroy(&other);
	uring_destroy(&self->ring);
}

TEST_F(async, wait_after_a_ring_was_closed_with_a_read_in_flight_is_no_io)
{
	char byte;

	ASSERT_TRUE(uring_create(&self->ring, 0));
	uring_prepare_read(&self->ring, self->fd, self->buf, BLOCK, 0);
	uring_submit(&self->ring);
	uring_destroy(&self->ring);
	ASSERT_TRUE(uring_create(&self->ring, 0));
	uring_prepare_read(&self->ring, self->pipe[0], &byte, 1, -1);
	uring_submit(&self->ring);
	EXPECT_FALSE(uring_wait(&self->ring, 1, WAIT));
	EXPECT_NO_IO();
	uring_destroy(&self->ring);
}

/*
 * The read fails when its time is over; what is linked to it is never issued.
 */
TEST_F(async, read_that_fails_ends_as_others_do)
{
	slow_disk_fail(&self->slower, 0, 7, true);
	ASSERT_TRUE(uring_create(&self->ring, 0));
	uring_prepare_read(&self->ring, self->fd, self->buf, BLOCK, 0)->flags = IOSQE_IO_LINK;
	uring_prepare_read(&self->ring, self->fd, self->buf, BLOCK, BLOCK);
	uring_submit(&self->ring);
	EXPECT_FALSE(uring_wait(&self->ring, 3, WAIT));
	EXPECT_EQ(2, uring_reap(&self->ring));
	EXPECT_EQ(-ECANCELED, self->ring.last.res);
	EXPECT_SOME(2);
	uring_destroy(&self->ring);
	slow_disk_fail(&self->slower, 0, 7, false);
}

/* A request that is not even issued, as its memory or its file is wrong. */
TEST_F(async, read_that_cannot_begin_is_no_io)
{
	ASSERT_TRUE(uring_create(&self->ring, 0));
	uring_prepare_read(&self->ring, self->fd, self->buf, BLOCK, 1);
	uring_prepare_read(&self->ring, self->fd, NULL, BLOCK, 0);
	uring_prepare_read(&self->ring, -1, self->buf, BLOCK, 0);
	uring_submit(&self->ring);
	EXPECT_FALSE(uring_wait(&self->ring, 4, WAIT));
	EXPECT_EQ(3, uring_reap(&self->ring));
	EXPECT_NO_IO();
	uring_destroy(&self->ring);
}

/*
 * The first is not taken: the file is not for reading. The second fails at
 * once.
 */
TEST_F(async, aio_that_cannot_begin_is_no_io)
{
	aio_context_t aio = aio_create();
	int fd = open(self->slower.node, O_WRONLY | O_DIRECT | O_CLOEXEC);
	struct iocb iocb = {
		.aio_lio_opcode = IOCB_CMD_PREAD,
		.aio_fildes = fd,
		.aio_buf = (unsigned long)self->buf,
		.aio_nbytes = BLOCK,
	}, *list = &iocb;

	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, syscall(__NR_io_submit, aio, 1, &list));
	EXPECT_EQ(EBADF, errno);
	iocb.aio_fildes = self->fd;
	iocb.aio_offset = 1;
	EXPECT_EQ(1, syscall(__NR_io_submit, aio, 1, &list));
	EXPECT_EQ(1, aio_wait(aio, 2, WAIT));
	EXPECT_NO_IO();
	aio_destroy(aio);
	close(fd);
}

/*
 * The only worker reads through the page cache; what it has not begun is
 * canceled.
 */
TEST_F(async, reads_that_are_canceled_are_no_io)
{
	int cached = open(self->slower.node, O_RDONLY | O_CLOEXEC);
	unsigned int workers[2] = { 1, 1 };
	struct io_uring_sqe *sqe;

	ASSERT_LE(0, cached);
	ASSERT_TRUE(uring_create(&self->ring, 0));
	ASSERT_EQ(0, syscall(__NR_io_uring_register, self->ring.fd,
			     IORING_REGISTER_IOWQ_MAX_WORKERS, workers, 2));
	for (int i = 0; i < 4; i++) {
		sqe = uring_prepare_read(&self->ring, cached, self->buf, BLOCK, i * STRIDE);
		sqe->flags = IOSQE_ASYNC;
	}
	uring_submit(&self->ring);
	sleep_for(NSEC_PER_SEC);
	sqe = uring_prepare(&self->ring, IORING_OP_ASYNC_CANCEL, -1);
	sqe->cancel_flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
	uring_submit(&self->ring);
	EXPECT_FALSE(uring_wait(&self->ring, 6, WAIT));
	EXPECT_EQ(5, uring_reap(&self->ring));
	EXPECT_SOME(2);
	uring_destroy(&self->ring);
	close(cached);
}

static void wait_in_a_ring(void *arg)
{
	struct job *job = arg;

	job_open(job);
	uring_prepare_read(&job->ring, job->fd, job->buf, BLOCK, 0);
	uring_submit(&job->ring);
	uring_wait(&job->ring, 2, WAIT);
}

static void wait_in_aio(void *arg)
{
	struct job *job = arg;

	job_open(job);
	aio_submit_read(job->aio, job->fd, job->buf, 0);
	aio_wait(job->aio, 2, WAIT);
}

/* What a task that is killed waited for ends with it. */
static void kill_a_waiter(struct __test_metadata *_metadata, struct job *job, void (*fn)(void *))
{
	struct load load = { .cpu = 0, .fn = fn, .arg = job };
	struct idle_growth growth;
	pid_t pid;

	pid = load_start(&load);
	sleep_for(NSEC_PER_SEC);
	load_stop(pid);
	idle_growth_measure(&growth, 4 * NSEC_PER_SEC);
	EXPECT_EQ(0, growth.io);
}

TEST_F(async, waiter_that_is_killed_leaves_nothing_behind)
{
	self->job->node = self->slower.node;
	self->job->open_flags = O_DIRECT;
	kill_a_waiter(_metadata, self->job, wait_in_a_ring);
	kill_a_waiter(_metadata, self->job, wait_in_aio);
}

/* ---- Threads that wait in one ring ---- */

#define MANY_WAITERS	3000
/* io_uring itself looks at each of them once in a read: 128 ns. */
#define URING_OWN_NS	150
/* As many as count, and more: they leave after 2 s. */
#define FIRST_WAITERS	100

/* So many rings that poll one have effect. */
#define POLLERS		8

/**
 * struct crowd - threads that wait in one ring
 * @ring: the ring
 * @nr: how many they are
 * @outer: rings that poll it
 * @polls: how many do
 * @by: how many threads wait in each of these
 * @first: so many of the threads of each ring stop waiting early
 * @fd: the disk from which the last thread reads
 * @cached: the same, through the page cache
 * @buf: a block
 * @submit: how long it took to submit a cached read, in ns, at least
 * @read: how long a read from the disk took, in ns, at least
 */
struct crowd {
	struct uring ring;
	int nr;
	struct uring outer[POLLERS];
	int polls;
	int by;
	int first;
	int fd;
	int cached;
	void *buf;
	__u64 submit;
	__u64 read;
};

static void *wait_in_crowd(void *arg)
{
	uring_wait(arg, URING_ENTRIES + 1, 2 * WAIT);
	return NULL;
}

static void *leave_crowd(void *arg)
{
	uring_wait(arg, URING_ENTRIES + 1, 2 * NSEC_PER_SEC);
	return NULL;
}

static void gather(struct uring *ring, int nr, int first)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (!uring_create(ring, 0) || pthread_attr_init(&attr) ||
	    pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN))
		psi_die("a ring for many: %s", strerror(errno));
	for (int i = 0; i < nr; i++)
		if (pthread_create(&thread, &attr, i < first ? leave_crowd : wait_in_crowd, ring))
			psi_die("thread %d", i);
}

/* Returns when all of them sleep. */
static void crowd_gather(struct crowd *crowd)
{
	gather(&crowd->ring, crowd->nr, crowd->first);
	for (int i = 0; i < crowd->polls; i++)
		gather(&crowd->outer[i], crowd->by, crowd->first);
	sleep_for(NSEC_PER_SEC);
	await_sleep_of_threads();
}

/* Until the next completion. */
static void crowd_poll(struct crowd *crowd)
{
	for (int i = 0; i < crowd->polls; i++) {
		uring_prepare(&crowd->outer[i], IORING_OP_POLL_ADD, crowd->ring.fd)->poll32_events =
			POLLIN;
		uring_submit(&crowd->outer[i]);
	}
}

static void crowd_read(struct crowd *crowd, int fd)
{
	uring_prepare_read(&crowd->ring, fd, crowd->buf, BLOCK, 0);
	uring_submit(&crowd->ring);
}

static void crowd_reap(struct crowd *crowd)
{
	if (uring_reap(&crowd->ring) != 1 || crowd->ring.last.res != BLOCK)
		psi_die("a ring with %d waiters did not read", crowd->nr);
	for (int i = 0; i < crowd->polls; i++)
		if (uring_reap(&crowd->outer[i]) != 1 || crowd->outer[i].last.res != POLLIN)
			psi_die("ring %d did not see a read", i);
}

/* @least is 0 before the first one. */
static void keep_least(__u64 *least, __u64 ns)
{
	if (!*least || ns < *least)
		*least = ns;
}

/* A load, and the last thread: it never sleeps in the ring when it measures. */
static void read_in_crowd(void *arg)
{
	struct crowd *crowd = arg;
	__u64 start;

	crowd_gather(crowd);
	/* The first one fills the cache. */
	if (pread(crowd->cached, crowd->buf, BLOCK, 0) != BLOCK)
		psi_die("pread: %s", strerror(errno));
	/* A tick or a thread of the kernel makes one of them longer, not all. */
	for (int i = 0; i < 5; i++) {
		crowd_poll(crowd);
		start = now_ns();
		crowd_read(crowd, crowd->cached);
		keep_least(&crowd->submit, now_ns() - start);
		crowd_reap(crowd);
	}
	for (int i = 0; i < 5; i++) {
		crowd_poll(crowd);
		start = now_ns();
		crowd_read(crowd, crowd->fd);
		if (!uring_wait(&crowd->ring, 1, WAIT))
			psi_die("no read in a crowd");
		keep_least(&crowd->read, now_ns() - start);
		crowd_reap(crowd);
	}
}

static void measure_crowds(struct __test_metadata *_metadata, struct crowd *crowds, int nr,
			   const struct slow_disk *disk, void *buf)
{
	int fd = open(disk->node, O_RDONLY | O_DIRECT | O_CLOEXEC);
	int cached = open(disk->node, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || cached < 0)
		psi_die("%s: %s", disk->node, strerror(errno));
	for (struct crowd *crowd = crowds; crowd < crowds + nr; crowd++) {
		struct load load = { .cpu = 0, .fn = read_in_crowd, .arg = crowd };

		crowd->fd = fd;
		crowd->cached = cached;
		crowd->buf = buf;
		load_wait(load_start(&load));
		TH_LOG("%d waiters, %d rings with %d: cached read %llu ns, read %llu us",
		       crowd->nr, crowd->polls, crowd->by, crowd->submit, crowd->read / 1000);
	}
	close(fd);
	close(cached);
}

/*
 * Red without a bound: each read visits all waiters twice with interrupts off,
 * 14 ms with 3,000. With one, a cached read looks at 64 at most.
 */
TEST_F(async, reads_beside_thousands_of_waiters_take_what_they_take_beside_a_hundred)
{
	static const int waiters[] = { 0, FIRST_WAITERS, MANY_WAITERS };
	struct crowd *crowds = shared_memory(ARRAY_SIZE(waiters) * sizeof(*crowds));
	__u64 own = MANY_WAITERS * URING_OWN_NS;

	for (unsigned int i = 0; i < ARRAY_SIZE(waiters); i++)
		crowds[i].nr = waiters[i];
	measure_crowds(_metadata, crowds, ARRAY_SIZE(waiters), &self->disk, self->buf);
	EXPECT_GT(crowds[1].submit + 100 * NSEC_PER_USEC + own, crowds[2].submit);
	EXPECT_GT(crowds[1].read + 100 * NSEC_PER_USEC + own, crowds[2].read);
}

/*
 * Red where each ring has a bound of its own: a cached read looks at 576, and
 * takes 1.2 ms longer. All rings that poll one together have that of a ring.
 */
TEST_F(async, read_in_a_ring_that_many_poll_takes_what_it_takes_beside_a_few_waiters)
{
	static const int waiters[] = { 4, 32 };
	struct crowd *crowds = shared_memory(ARRAY_SIZE(waiters) * sizeof(*crowds));
	__u64 own = POLLERS * waiters[1] * URING_OWN_NS;

	for (unsigned int i = 0; i < ARRAY_SIZE(waiters); i++) {
		crowds[i].nr = waiters[1];
		crowds[i].polls = POLLERS;
		crowds[i].by = waiters[i];
	}
	measure_crowds(_metadata, crowds, ARRAY_SIZE(waiters), &self->disk, self->buf);
	EXPECT_GT(crowds[0].submit + 50 * NSEC_PER_USEC + own, crowds[1].submit);
	EXPECT_GT(crowds[0].read + 50 * NSEC_PER_USEC + own, crowds[1].read);
}

/*
 * Threads wait from 0 s on; the first hundred leave at 2 s. The disk reads from
 * 1 to 3 s, and again from 4 to 6 s.
 */
static void read_for_crowd(void *arg)
{
	struct crowd *crowd = arg;

	crowd_gather(crowd);
	for (int i = 0; i < 2; i++) {
		crowd_poll(crowd);
		crowd_read(crowd, crowd->fd);
		sleep_for(3 * NSEC_PER_SEC);
		crowd_reap(crowd);
	}
}

TEST_F(async, read_that_thousands_wait_for_is_io_whichever_of_them_leave)
{
	struct crowd crowd = {
		.nr = 1000, .first = FIRST_WAITERS, .fd = self->fd, .buf = self->buf,
	};
	struct load load = { .cpu = 0, .fn = read_for_crowd, .arg = &crowd };

	load_wait(load_start(&load));
	EXPECT_SOME(4);
}

/* The threads wait in a ring that polls the one that reads. */
TEST_F(async, read_that_many_wait_for_in_a_ring_that_polls_is_io_whichever_of_them_leave)
{
	struct crowd crowd = {
		.polls = 1, .by = 200, .first = FIRST_WAITERS, .fd = self->fd, .buf = self->buf,
	};
	struct load load = { .cpu = 0, .fn = read_for_crowd, .arg = &crowd };

	load_wait(load_start(&load));
	EXPECT_SOME(4);
}

TEST_HARNESS_MAIN
