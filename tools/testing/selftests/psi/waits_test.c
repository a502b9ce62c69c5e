// SPDX-License-Identifier: GPL-2.0
/*
 * IO pressure of a task that waits for storage inside a file system
 *
 * Invariant: a task that is blocked in a call for its disk, or for the server
 * of its file system, waits for io, in whatever function it sleeps: for a page,
 * for a buffer of metadata, for the commit of a journal, for another task that
 * waits for the disk.
 *
 *     the task      run|  asleep in fsync()             |run|
 *     its journal      |  writes, waits, writes, waits  |
 *     io some          |################################|
 *
 * The load makes one call after the other and does nothing else, so the time
 * for which it is asleep is the time for which the call was blocked.
 *
 * A task that waits for another program's lock of a file waits for no storage,
 * and neither does one that waits for a device whose server is a program (CUSE).
 *
 * What would break it: a wait that ends in schedule() instead of io_schedule(),
 * as those for a journal do; a worker of a file system that has nothing to do
 * and counts; a driver's wait for a GPU that counts; a read of trace_pipe that
 * counts because it comes through a ring.
 *
 * The disk (null_blk) answers after 5 ms of a timer of the guest, the server
 * after 5 ms.
 *
 * Tolerance: 3 % of the time on the clock. Waits for locks, of buffers say, are
 * no io.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/swap.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_aio.h"
#include "psi_delays.h"
#include "psi_fs.h"
#include "psi_nfs.h"
#include "psi_stack.h"
#include "psi_stat.h"
#include "psi_swap.h"
#include "psi_uring.h"
#include "psi_util.h"

#define GROUP		CGROUP_ROOT "/psi_waits"
#define OTHER		CGROUP_ROOT "/psi_other"
#define DISK_FS		"/tmp/psi_disk"
#define WHERE		"/tmp/psi_waits"
#define LOOP		"/dev/loop0"
#define LATENCY		(5 * NSEC_PER_MSEC)
#define SPAN		(4 * NSEC_PER_SEC)
#define TOLERANCE	0.03
/*
 * A call that is hardly ever blocked tells nothing: each is for longer than
 * this.
 */
#define LEAST		0.1
#define DIRS		8
#define FILES		16
#define NR_FILES	(DIRS * FILES)
#define FILE_BLOCKS	8
#define LOG_BLOCKS	1024
#define ARRAY_MB	8
#define PAUSE		(50 * NSEC_PER_MSEC)

/* Memory that is twice as large as what its cgroup may have. */
#define LIMIT_MB	8
#define SWAPPED		(2UL * LIMIT_MB << 20)
#define SWAP_MB		64

/**
 * struct site - a mounted file system or memory on swap, and one load on it
 * @call: makes call number @n
 * @flat: all files are in the root: f0, f1, ...
 * @keeps: metadata that drop_caches does not make it forget, or all memory
 * @log: a file to write to
 * @fd: a file to read from
 * @buf: a block
 * @ring: of the load
 * @aio: of the load
 * @size: what the load allocates, of a file system that is too small for twice
 *	  as much
 * @memory: what is on swap, %NULL if it is a file system
 * @elapsed: how long the load went on, in ns
 * @asleep: how long it was asleep meanwhile
 * @some: growth of io some of its cgroup
 * @system: of the system
 */
struct site {
	void (*call)(struct site *site, int n);
	bool flat;
	bool keeps;
	int log;
	int fd;
	char *buf;
	struct uring ring;
	aio_context_t aio;
	off_t size;
	char *memory;
	__u64 elapsed;
	__u64 asleep;
	__u64 some;
	__u64 system;
};

static void file_name(const struct site *site, int n, char *name, size_t size)
{
	n %= NR_FILES;
	if (site->flat)
		snprintf(name, size, WHERE "/f%d", n);
	else	/* From directory to directory. */
		snprintf(name, size, WHERE "/d%d/f%d", n % DIRS, n / DIRS);
}

static int open_number(const struct site *site, int n, int flags)
{
	char name[64];
	int fd;

	file_name(site, n, name, sizeof(name));
	fd = open(name, flags | O_CLOEXEC, 0644);
	if (fd < 0)
		psi_die("%s: %s", name, strerror(errno));
	return fd;
}

/* Once around, forget what was read. */
static void forget(int n, int around)
{
	if (n % around == 0)
		fs_drop_caches();
}

/* ---- Calls ---- */

static void call_read(struct site *site, int n)
{
	int fd;

	forget(n, NR_FILES);
	fd = open_number(site, n, O_RDONLY);
	if (read(fd, site->buf, BLOCK) != BLOCK)
		psi_die("read: %s", strerror(errno));
	close(fd);
}

static void call_mmap(struct site *site, int n)
{
	char *map;
	int fd;

	forget(n, NR_FILES);
	fd = open_number(site, n, O_RDONLY);
	map = mmap(NULL, BLOCK, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		psi_die("mmap: %s", strerror(errno));
	memcpy(site->buf, map, 1);
	munmap(map, BLOCK);
	close(fd);
}

static void read_by_uring(struct site *site, int fd, off_t pos, __u8 flags)
{
	uring_prepare_read(&site->ring, fd, site->buf, BLOCK, pos)->flags = flags;
	uring_submit(&site->ring);
	if (!uring_wait(&site->ring, 1, SPAN) || uring_reap(&site->ring) != 1 ||
	    site->ring.last.res != BLOCK)
		psi_die("io_uring: %d", site->ring.last.res);
}

static void call_uring_read(struct site *site, int n)
{
	int fd;

	forget(n, NR_FILES);
	fd = open_number(site, n, O_RDONLY);
	read_by_uring(site, fd, 0, 0);
	close(fd);
}

/* Block after block of one file, where it is large enough. */
static off_t next_block(struct site *site, int n, int flags)
{
	int blocks = site->flat ? 1 << 20 : FILE_BLOCKS;

	forget(n, blocks);
	if (!n) {
		site->fd = open_number(site, n, O_RDONLY | flags);
		posix_fadvise(site->fd, 0, 0, POSIX_FADV_RANDOM);
	}
	return (off_t)(n % blocks) * BLOCK;
}

static void call_uring_next(struct site *site, int n)
{
	off_t pos = next_block(site, n, 0);

	read_by_uring(site, site->fd, pos, 0);
}

static void call_worker_next(struct site *site, int n)
{
	off_t pos = next_block(site, n, 0);

	read_by_uring(site, site->fd, pos, IOSQE_ASYNC);
}

static void read_by_aio(struct site *site, off_t pos)
{
	aio_submit_read(site->aio, site->fd, site->buf, pos);
	if (aio_wait(site->aio, 1, SPAN) != 1)
		psi_die("aio did not read");
}

/* The wait is in io_submit(). */
static void call_aio_next(struct site *site, int n)
{
	read_by_aio(site, next_block(site, n, 0));
}

/* The wait is in io_getevents(), where the file system can. */
static void call_aio_direct(struct site *site, int n)
{
	read_by_aio(site, next_block(site, n, O_DIRECT));
}

static void append(struct site *site)
{
	if (write(site->log, site->buf, BLOCK) != BLOCK)
		psi_die("write: %s", strerror(errno));
}

static void write_block(struct site *site, int nr)
{
	if (pwrite(site->log, site->buf, BLOCK, (off_t)nr * BLOCK) != BLOCK)
		psi_die("write: %s", strerror(errno));
}

static void call_write(struct site *site, int n)
{
	if (!n)
		fcntl(site->log, F_SETFL, O_DIRECT);
	/* Where none is blocked there are more than the disk has room for. */
	write_block(site, n % LOG_BLOCKS);
}

static void call_fsync(struct site *site, int n)
{
	append(site);
	if (fsync(site->log))
		psi_die("fsync: %s", strerror(errno));
}

static void call_uring_fsync(struct site *site, int n)
{
	append(site);
	uring_prepare(&site->ring, IORING_OP_FSYNC, site->log);
	uring_submit(&site->ring);
	if (!uring_wait(&site->ring, 1, SPAN) || uring_reap(&site->ring) != 1)
		psi_die("io_uring: %d", site->ring.last.res);
}

static void call_sync(struct site *site, int n)
{
	append(site);
	if (syncfs(site->log))
		psi_die("syncfs: %s", strerror(errno));
}

static void call_create(struct site *site, int n)
{
	char name[64];
	int fd;

	file_name(site, n, name, sizeof(name));
	unlink(name);
	fd = open_number(site, n, O_RDWR | O_CREAT);
	if (fsync(fd))
		psi_die("fsync %s: %s", name, strerror(errno));
	close(fd);
}

static void call_truncate(struct site *site, int n)
{
	int fd = open_number(site, n, O_RDWR);

	if (ftruncate(fd, n / NR_FILES % 2 ? BLOCK * FILE_BLOCKS : BLOCK) || fsync(fd))
		psi_die("ftruncate: %s", strerror(errno));
	close(fd);
}

static void call_stat(struct site *site, int n)
{
	struct stat st;
	char name[64];

	forget(n, NR_FILES);
	file_name(site, n, name, sizeof(name));
	if (stat(name, &st))
		psi_die("%s: %s", name, strerror(errno));
}

static void call_readdir(struct site *site, int n)
{
	char name[64] = WHERE;
	DIR *dir;

	forget(n, DIRS);
	if (!site->flat)
		snprintf(name, sizeof(name), WHERE "/d%d", n % DIRS);
	dir = opendir(name);
	if (!dir)
		psi_die("%s: %s", name, strerror(errno));
	while (readdir(dir))
		;
	closedir(dir);
}

/* Long enough for an array to become clean. */
static void call_late_write(struct site *site, int n)
{
	spin_until(now_ns() + PAUSE);
	write_block(site, n % LOG_BLOCKS);
}

/* The blocks that the file had are free again when a worker has committed. */
static void call_allocate(struct site *site, int n)
{
	if (ftruncate(site->log, 0) || fallocate(site->log, 0, 0, site->size))
		psi_die("fallocate: %s", strerror(errno));
}

static void call_scrub(struct site *site, int n)
{
	struct btrfs_ioctl_scrub_args args = { .devid = 1, .end = -1 };

	if (ioctl(site->log, BTRFS_IOC_SCRUB, &args) || !args.progress.data_bytes_scrubbed)
		psi_die("scrub: %s", strerror(errno));
}

/* Page after page: the one that was used longest ago is next. */
static char *page_number(struct site *site, int n)
{
	return site->memory + (size_t)n * BLOCK % SWAPPED;
}

static void call_page_read(struct site *site, int n)
{
	(void)*(volatile char *)page_number(site, n);
}

static void call_page_write(struct site *site, int n)
{
	++*(volatile char *)page_number(site, n);
}

/* ---- The load ---- */

static void measure(struct site *site)
{
	struct pressure system, group;
	__u64 start, awake;

	awake = task_awake_ns(getpid());
	start = now_ns();
	pressure_read(NULL, &system);
	pressure_read(GROUP, &group);
	for (int n = 0; now_ns() < start + SPAN; n++)
		site->call(site, n);
	site->some = pressure_since(GROUP, &group).some[RES_IO];
	site->system = pressure_since(NULL, &system).some[RES_IO];
	site->elapsed = now_ns() - start;
	/* It was read before the start: where no call is blocked, it is more. */
	awake = task_awake_ns(getpid()) - awake;
	site->asleep = site->elapsed > awake ? site->elapsed - awake : 0;
}

static void use_files(void *arg)
{
	struct site *site = arg;

	site->buf = aligned_alloc(BLOCK, BLOCK);
	site->log = open(site->flat ? WHERE "/f0" : WHERE "/log",
			 O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (!site->buf || site->log < 0 || !uring_create(&site->ring, 0))
		psi_die(WHERE ": %s", strerror(errno));
	site->aio = aio_create();
	memset(site->buf, 1, BLOCK);
	measure(site);
}

static void use_array(void *arg)
{
	struct site *site = arg;

	site->buf = aligned_alloc(BLOCK, BLOCK);
	if (!site->buf)
		psi_die("%s", strerror(errno));
	measure(site);
}

static void use_memory(void *arg)
{
	struct site *site = arg;

	site->memory = private_memory(SWAPPED);
	memset(site->memory, 1, SWAPPED);
	measure(site);
}

/*
 * btrfs keeps a tree that small, and the page cache below a loop device has
 * what surrounds a block: stat and readdir are hardly blocked. Neither does
 * anybody wait for a disk in memory. There must be as little io.
 */
static bool returns_at_once(const struct site *site)
{
	return site->keeps && (site->memory || site->call == call_stat ||
			       site->call == call_readdir);
}

static void expect_io(struct __test_metadata *_metadata, const char *fs, const char *call,
		      struct site *site, void (*use)(void *site))
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = use, .arg = site };
	double blocked, some;
	char row[96];

	load_wait(load_start(&load));
	blocked = 100.0 * site->asleep / site->elapsed;
	some = 100.0 * site->some / site->elapsed;
	snprintf(row, sizeof(row), "%s: %s: blocked, io some, %%", fs, call);
	report_row(row, "%.1f %.1f", blocked, some);
	if (!returns_at_once(site))
		EXPECT_LE(100 * LEAST, blocked);
	EXPECT_GE(100 * TOLERANCE, fabs(some - blocked)) {
		TH_LOG("%s, %s: io some is %.1f %%, blocked %.1f %%", fs, call, some, blocked);
	}
}

/*
 * Workers of a file system wait only while the load does. In an array that
 * becomes clean, md writes to its disks while the load spins.
 */
static void expect_io_of_the_system(struct __test_metadata *_metadata, const struct site *site)
{
	double blocked = 100.0 * site->asleep / site->elapsed;
	double system = 100.0 * site->system / site->elapsed;

	ksft_print_msg("io some of the system, %%: %.1f\n", system);
	EXPECT_GE(100 * TOLERANCE, fabs(system - blocked)) {
		TH_LOG("io some of the system is %.1f %%, blocked %.1f %%", system, blocked);
	}
}

/* ---- On a disk ---- */

/**
 * struct above - a file system that has its files in another one
 * @mount: mounts it on WHERE, above what is mounted on DISK_FS
 * @unmount: undoes that
 */
struct above {
	void (*mount)(void);
	void (*unmount)(void);
};

static void overlay_mount(void)
{
	if ((mkdir(DISK_FS "/upper", 0755) || mkdir(DISK_FS "/work", 0755) ||
	     mkdir(DISK_FS "/lower", 0755)) && errno != EEXIST)
		psi_die(DISK_FS ": %s", strerror(errno));
	fs_mount("psi", WHERE, "overlay",
		 "lowerdir=" DISK_FS "/lower,upperdir=" DISK_FS "/upper,workdir=" DISK_FS "/work");
}

static void overlay_unmount(void)
{
	fs_unmount(WHERE);
}

static void loop_mount_by(bool direct)
{
	loop_create(LOOP, DISK_FS "/image", fs_size_mb("ext4"), direct);
	if (!fs_make(LOOP, "ext4"))
		psi_die("no ext4");
	fs_mount(LOOP, WHERE, "ext4", NULL);
}

static void loop_mount(void)
{
	loop_mount_by(false);
}

static void loop_direct_mount(void)
{
	loop_mount_by(true);
}

static void loop_unmount(void)
{
	fs_unmount(WHERE);
	loop_remove(LOOP);
}

static void served_mount(void)
{
	nfs_mount(DISK_FS, WHERE);
}

static void served_unmount(void)
{
	nfs_unmount(WHERE);
}

static const struct above overlay = { overlay_mount, overlay_unmount };
static const struct above loop = { loop_mount, loop_unmount };
static const struct above loop_direct = { loop_direct_mount, loop_unmount };
static const struct above nfs = { served_mount, served_unmount };

FIXTURE(on) {
	struct stacked_disk disk;
	struct slow_server server;
	struct site *site;
};

/*
 * @name: what the table calls it
 * @type: of the file system on the disk, %NULL if a server has it
 * @stack: what is between that and the slow disk
 * @above: what the load uses in place of that, %NULL if nothing
 * @cache: the mount option of 9p, %NULL if it is FUSE
 * @direct: of FUSE, not through the page cache
 */
FIXTURE_VARIANT(on) {
	const char *name;
	const char *type;
	enum stack stack;
	const struct above *above;
	const char *cache;
	bool direct;
};

FIXTURE_VARIANT_ADD(on, ext4) { .name = "ext4", .type = "ext4" };
FIXTURE_VARIANT_ADD(on, xfs) { .name = "XFS", .type = "xfs" };
FIXTURE_VARIANT_ADD(on, btrfs) { .name = "btrfs", .type = "btrfs" };
FIXTURE_VARIANT_ADD(on, f2fs) { .name = "F2FS", .type = "f2fs" };
FIXTURE_VARIANT_ADD(on, overlay) { .name = "overlay on ext4", .type = "ext4", .above = &overlay };
FIXTURE_VARIANT_ADD(on, loop) { .name = "ext4 in a file on ext4", .type = "ext4", .above = &loop };
FIXTURE_VARIANT_ADD(on, loop_direct) {
	.name = "ext4 in a file on ext4, direct", .type = "ext4", .above = &loop_direct };
FIXTURE_VARIANT_ADD(on, linear) {
	.name = "ext4 on dm-linear", .type = "ext4", .stack = STACK_LINEAR };
FIXTURE_VARIANT_ADD(on, crypt) { .name = "ext4 on dm-crypt", .type = "ext4", .stack = STACK_CRYPT };
FIXTURE_VARIANT_ADD(on, raid1) { .name = "ext4 on raid1", .type = "ext4", .stack = STACK_RAID1 };
FIXTURE_VARIANT_ADD(on, nfs) { .name = "NFS of ext4", .type = "ext4", .above = &nfs };
FIXTURE_VARIANT_ADD(on, fuse) { .name = "FUSE" };
FIXTURE_VARIANT_ADD(on, fuse_direct) { .name = "FUSE, direct", .direct = true };
FIXTURE_VARIANT_ADD(on, p9) { .name = "9p", .cache = "none" };
FIXTURE_VARIANT_ADD(on, p9_cached) { .name = "9p, cached", .cache = "loose" };

static void make_files(void)
{
	static char block[BLOCK];
	char name[64];

	for (int d = 0; d < DIRS; d++) {
		snprintf(name, sizeof(name), WHERE "/d%d", d);
		if (mkdir(name, 0755))
			psi_die("%s: %s", name, strerror(errno));
		for (int f = 0; f < FILES; f++) {
			int fd;

			snprintf(name, sizeof(name), WHERE "/d%d/f%d", d, f);
			fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
			for (int i = 0; i < FILE_BLOCKS; i++)
				if (write(fd, block, BLOCK) != BLOCK)
					psi_die("%s: %s", name, strerror(errno));
			close(fd);
		}
	}
	sync();
}

FIXTURE_SETUP(on)
{
	cpus_use(1);
	task_delays_on();
	cgroup_create(GROUP, "");
	self->site = shared_memory(sizeof(*self->site));
	if (!variant->type) {
		self->site->flat = true;
		if (variant->cache)
			slow_server_start_9p(&self->server, WHERE, LATENCY, variant->cache);
		else
			slow_server_start(&self->server, WHERE, LATENCY, variant->direct);
		return;
	}
	self->site->keeps = !strcmp(variant->type, "btrfs") || variant->above == &loop;
	stacked_disk_create(&self->disk, variant->stack, LATENCY, fs_size_mb(variant->type));
	if (!fs_make(self->disk.node, variant->type))
		SKIP(return, "no %s.blocks, and no mkfs.%s", variant->type, variant->type);
	fs_mount(self->disk.node, variant->above ? DISK_FS : WHERE, variant->type, NULL);
	if (variant->above)
		variant->above->mount();
	make_files();
}

FIXTURE_TEARDOWN(on)
{
	if (!variant->type) {
		slow_server_stop(&self->server, WHERE);
	} else {
		if (variant->above)
			variant->above->unmount();
		fs_unmount(variant->above ? DISK_FS : WHERE);
		stacked_disk_remove(&self->disk);
	}
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

#define CALL(test, fn, text)						\
	TEST_F_TIMEOUT(on, test, 120)					\
	{								\
		self->site->call = fn;					\
		expect_io(_metadata, variant->name, text, self->site, use_files); \
		expect_io_of_the_system(_metadata, self->site);		\
	}

CALL(read_is_io, call_read, "read")
CALL(read_through_a_ring_is_io, call_uring_read, "read by io_uring")
CALL(reads_on_through_a_ring_are_io, call_uring_next, "reads on by io_uring")
CALL(reads_on_through_a_worker_are_io, call_worker_next, "reads on by a worker of io_uring")
CALL(reads_on_through_aio_are_io, call_aio_next, "reads on by aio")
CALL(direct_reads_through_aio_are_io, call_aio_direct, "direct reads by aio")
CALL(page_fault_is_io, call_mmap, "mmap")
CALL(direct_write_is_io, call_write, "direct write")
CALL(fsync_is_io, call_fsync, "append, fsync")
CALL(fsync_through_a_ring_is_io, call_uring_fsync, "append, fsync by io_uring")
CALL(syncfs_is_io, call_sync, "append, syncfs")
CALL(create_is_io, call_create, "create, fsync")
CALL(truncate_is_io, call_truncate, "truncate, fsync")
CALL(stat_is_io, call_stat, "stat")
CALL(readdir_is_io, call_readdir, "readdir")

/* ---- On an array ---- */

/*
 *     the writer    spins      |asleep, superblock|asleep, data|spins ...
 *     its array     clean      |active                         |clean
 */
TEST(write_to_a_clean_array_is_io)
{
	struct site *site = shared_memory(sizeof(*site));
	struct stacked_disk disk;

	cpus_use(1);
	task_delays_on();
	cgroup_create(GROUP, "");
	stacked_disk_create(&disk, STACK_RAID1, LATENCY, ARRAY_MB);
	stacked_disk_clean_early(&disk);
	site->log = open_file(disk.node, O_RDWR | O_DIRECT);
	site->call = call_late_write;
	expect_io(_metadata, "raid1", "write to a clean array", site, use_array);
	close(site->log);
	stacked_disk_remove(&disk);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

/* ---- What only btrfs has ---- */

static struct site *btrfs_create(struct slow_disk *disk)
{
	cpus_use(1);
	task_delays_on();
	cgroup_create(GROUP, "");
	slow_disk_create(disk, "psi_btrfs", LATENCY, fs_size_mb("btrfs"));
	if (!fs_make(disk->node, "btrfs"))
		psi_die("no btrfs");
	fs_mount(disk->node, WHERE, "btrfs", NULL);
	return shared_memory(sizeof(struct site));
}

static void btrfs_remove(const struct slow_disk *disk)
{
	fs_unmount(WHERE);
	slow_disk_remove(disk);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

TEST(wait_for_space_on_btrfs_is_io)
{
	struct slow_disk disk;
	struct site *site = btrfs_create(&disk);
	struct statvfs st;

	ASSERT_EQ(0, statvfs(WHERE, &st));
	site->size = st.f_bavail * st.f_bsize / 3 * 2;
	site->call = call_allocate;
	expect_io(_metadata, "btrfs, nearly full", "truncate, fallocate", site, use_files);
	btrfs_remove(&disk);
}

/* The load submits reads, and a worker looks at what they read. */
TEST(scrub_of_btrfs_is_io)
{
	struct slow_disk disk;
	struct site *site = btrfs_create(&disk);

	make_files();
	site->call = call_scrub;
	expect_io(_metadata, "btrfs, 4 MB of files", "scrub", site, use_files);
	btrfs_remove(&disk);
}

/* ---- In a ring ---- */

#define REQUESTS	32

static void wait_for_all(void *arg)
{
	if (!uring_wait(arg, REQUESTS, SPAN))
		psi_die("io_uring: some requests did not complete");
}

/*
 * The workers belong to the task that submits. It is in another cgroup, so the
 * task that waits has only the io that its ring counts.
 *
 *     workers, elsewhere  |request|request| ... |request|
 *     a task waits        |asleep in the ring           |
 */
static void expect_io_in_the_ring(struct __test_metadata *_metadata, const char *name,
				  __u8 opcode)
{
	struct uring ring;
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = wait_for_all, .arg = &ring };
	struct pressure before;
	struct slow_server server;
	char value = 0;
	pid_t pid;
	int fd;

	cpus_use(1);
	cgroup_create(GROUP, "");
	slow_server_start(&server, WHERE, LATENCY, false);
	fd = open_file(WHERE "/f0", O_RDWR);
	ASSERT_TRUE(uring_create(&ring, 0));
	pressure_read(GROUP, &before);
	pid = load_start(&load);
	for (int i = 0; i < REQUESTS; i++) {
		struct io_uring_sqe *sqe = uring_prepare(&ring, opcode, fd);

		if (opcode == IORING_OP_FTRUNCATE)
			continue;
		sqe->addr = (unsigned long)"user.psi";
		sqe->addr2 = (unsigned long)&value;
		sqe->len = sizeof(value);
	}
	uring_submit(&ring);
	load_wait(pid);
	EXPECT_LE(0.9 * REQUESTS * LATENCY, pressure_since(GROUP, &before).some[RES_IO]) {
		TH_LOG("%s: too little io", name);
	}
	EXPECT_EQ(REQUESTS, uring_reap(&ring));
	EXPECT_LE(0, ring.last.res) {
		TH_LOG("%s: %s", name, strerror(-ring.last.res));
	}
	uring_destroy(&ring);
	close(fd);
	slow_server_stop(&server, WHERE);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

TEST(truncate_by_workers_of_another_task_is_io)
{
	expect_io_in_the_ring(_metadata, "FTRUNCATE", IORING_OP_FTRUNCATE);
}

TEST(attributes_by_workers_of_another_task_are_io)
{
	expect_io_in_the_ring(_metadata, "FSETXATTR", IORING_OP_FSETXATTR);
	expect_io_in_the_ring(_metadata, "FGETXATTR", IORING_OP_FGETXATTR);
}

/* ---- At io.max ---- */

#define FAST		(100 * NSEC_PER_USEC)
/* How much of the time the disk may be to blame for, in percent. */
#define DISK		3.0
#define WRITERS_FILES	10

/* New files again and again, so that there is more to write than the disk takes. */
static void unpack_forever(void *arg)
{
	static char buf[16 * BLOCK];
	char name[64];

	(void)arg;
	for (int n = 0;; n++) {
		int fd;

		snprintf(name, sizeof(name), WHERE "/f%d", n % WRITERS_FILES);
		unlink(name);
		fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0)
			psi_die("%s: %s", name, strerror(errno));
		for (int i = 0; i < 64; i++)
			if (write(fd, buf, sizeof(buf)) != sizeof(buf))
				psi_die("%s: %s", name, strerror(errno));
		close(fd);
	}
}

/* Writes a block ten times a second; keeps how long it was in fsync(), in ns. */
static void fsync_forever(void *arg)
{
	int fd = open_file(WHERE "/log", O_RDWR | O_CREAT);
	static char buf[BLOCK];
	__u64 *blocked = arg, began;

	for (;;) {
		if (pwrite(fd, buf, sizeof(buf), 0) != sizeof(buf))
			psi_die("log: %s", strerror(errno));
		began = now_ns();
		if (fsync(fd))
			psi_die("fsync: %s", strerror(errno));
		*blocked += now_ns() - began;
		sleep_for(100 * NSEC_PER_MSEC);
	}
}

/*
 * The writer pauses so that it is no faster than what is written back. The disk
 * answers at once, so io.max is the reason for the whole pause:
 *
 *     the writer	pause     |pause     |pause     |
 *     held by io.max	bio 1|   bio 2  |     bio 3  |
 *
 * Then another cgroup, without a limit, calls fsync(). With the options that
 * ext4 has by default, a commit does not wait for what the writer has written.
 */
TEST(tasks_that_wait_because_of_io_max_are_held_by_a_limit)
{
	static const char * const groups[NR_CLASS_GROUPS] = { NULL, GROUP, OTHER };
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = unpack_forever };
	__u64 *blocked = shared_memory(sizeof(*blocked));
	const struct load other = {
		.cpu = 0, .cgroup = OTHER, .fn = fsync_forever, .arg = blocked,
	};
	struct classes c[NR_CLASS_GROUPS];
	char limit[64], dev[32];
	struct slow_disk disk;
	pid_t pid, fsyncs;

	cpus_use(1);
	slow_disk_create(&disk, "psi_limited", FAST, fs_size_mb("ext4"));
	if (!fs_make(disk.node, "ext4"))
		psi_die("no ext4");
	fs_mount(disk.node, WHERE, "ext4", NULL);
	write_file("/proc/sys/vm/dirty_background_bytes", "1048576");
	write_file("/proc/sys/vm/dirty_bytes", "8388608");
	slow_disk_number(&disk, dev, sizeof(dev));
	snprintf(limit, sizeof(limit), "%s wbps=%d", dev, 1 << 20);
	cgroup_create(GROUP, "+io +memory");
	cgroup_write(GROUP, "io.max", limit);
	cgroup_write(GROUP, "memory.max", "48M");
	cgroup_create(OTHER, "+io +memory");
	classes_ask(groups, ARRAY_SIZE(groups));
	pid = load_start(&load);
	sleep_for(2 * SPAN);
	classes_measure(groups, "io", 2 * SPAN, c);
	for (int i = 0; i < 2; i++) {
		ksft_print_msg("%s: io some %.2f %%: limit %.2f, shortage %.2f\n",
			       groups[i] ?: "the system", c[i].plain[0], c[i].limit[0],
			       c[i].shortage[0]);
		EXPECT_LE(80, c[i].limit[0]);
		EXPECT_GE(DISK, c[i].shortage[0]);
	}

	fsyncs = load_start(&other);
	sleep_for(NSEC_PER_SEC);
	*blocked = 0;
	classes_measure(groups, "io", 2 * SPAN, c);
	ksft_print_msg("the other: blocked %.2f %%, io some %.2f %%: limit %.2f, shortage %.2f\n",
		       100. * *blocked / (2 * SPAN), c[2].plain[0], c[2].limit[0],
		       c[2].shortage[0]);
	ksft_print_msg("the system: shortage %.2f %%\n", c[0].shortage[0]);
	EXPECT_LT(0, c[2].plain[0]);
	EXPECT_GE(DISK, c[2].shortage[0]);
	EXPECT_GE(DISK, c[0].shortage[0]);
	load_stop(fsyncs);
	snprintf(limit, sizeof(limit), "%s wbps=max", dev);
	cgroup_write(GROUP, "io.max", limit);
	load_stop(pid);
	fs_unmount(WHERE);
	write_file("/proc/sys/vm/dirty_background_ratio", "10");
	write_file("/proc/sys/vm/dirty_ratio", "20");
	cgroup_remove(GROUP);
	cgroup_remove(OTHER);
	slow_disk_remove(&disk);
	cpus_use(cpus_possible());
}

/* ---- On swap ---- */

FIXTURE(swap) {
	struct slow_disk disk;
	struct site *site;
	const char *node;
};

FIXTURE_VARIANT(swap) {
	const char *name;
	bool zram;
};

FIXTURE_VARIANT_ADD(swap, disk) { .name = "swap on the disk" };
FIXTURE_VARIANT_ADD(swap, zram) { .name = "swap on zram", .zram = true };

FIXTURE_SETUP(swap)
{
	char limit[16];

	cpus_use(1);
	task_delays_on();
	cgroup_create(GROUP, "+memory");
	snprintf(limit, sizeof(limit), "%dM", LIMIT_MB);
	cgroup_write(GROUP, "memory.max", limit);
	self->site = shared_memory(sizeof(*self->site));
	self->site->keeps = variant->zram;
	if (variant->zram) {
		zram_create(SWAP_MB);
		self->node = ZRAM_NODE;
	} else {
		slow_disk_create(&self->disk, "psi_swap", LATENCY, SWAP_MB);
		self->node = self->disk.node;
	}
	swap_on(self->node, SWAP_MB);
}

FIXTURE_TEARDOWN(swap)
{
	if (swapoff(self->node))
		psi_die("swapoff %s: %s", self->node, strerror(errno));
	if (variant->zram)
		zram_remove();
	else
		slow_disk_remove(&self->disk);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

#define TOUCH(test, fn, text)						\
	TEST_F(swap, test)						\
	{								\
		self->site->call = fn;					\
		expect_io(_metadata, variant->name, text, self->site, use_memory); \
	}

TOUCH(read_of_a_page_is_io, call_page_read, "read of memory")
TOUCH(write_to_a_page_is_io, call_page_write, "write to memory")

/* ---- Not on storage ---- */

#define TRACING		"/sys/kernel/tracing"

static void wait_for_an_event(void *arg)
{
	int fd = open_file(TRACING "/trace_pipe", O_RDONLY);
	static char buf[BLOCK];
	struct uring ring;

	if (!uring_create(&ring, 0))
		psi_die("io_uring: %s", strerror(errno));
	uring_prepare_read(&ring, fd, buf, sizeof(buf), -1);
	uring_submit(&ring);
	if (uring_wait(&ring, 1, SPAN))
		psi_die("trace_pipe: there was something to read");
}

/* A regular file, by its mode. */
TEST(read_of_trace_pipe_through_a_ring_is_no_io)
{
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = wait_for_an_event };
	struct pressure before;

	if (mount("psi", TRACING, "tracefs", 0, NULL) && errno != EBUSY)
		SKIP(return, "no tracefs");
	cgroup_create(GROUP, "");
	pressure_read(GROUP, &before);
	load_wait(load_start(&load));
	EXPECT_EQ(0, pressure_since(GROUP, &before).some[RES_IO]);
	cgroup_remove(GROUP);
}

static void call_lock(struct site *site, int n)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(site->log, F_SETLKW, &lock))
		psi_die("F_SETLKW: %s", strerror(errno));
}

/* The server answers when another program has dropped its lock. */
TEST(lock_of_a_file_on_fuse_is_no_io)
{
	struct site *site = shared_memory(sizeof(*site));
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = use_files, .arg = site };
	struct slow_server server;

	cpus_use(1);
	task_delays_on();
	cgroup_create(GROUP, "");
	slow_server_start(&server, WHERE, LATENCY, false);
	site->flat = true;
	site->call = call_lock;
	load_wait(load_start(&load));
	EXPECT_LE(0.9 * site->elapsed, site->asleep);
	EXPECT_EQ(0, site->some);
	slow_server_stop(&server, WHERE);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

static void call_device_read(struct site *site, int n)
{
	if (read(site->fd, site->buf, BLOCK) != BLOCK)
		psi_die("read: %s", strerror(errno));
}

/* The server answers when there is something to read, as that of a terminal. */
TEST(read_of_a_device_of_cuse_is_no_io)
{
	struct site *site = shared_memory(sizeof(*site));
	const struct load load = { .cpu = 0, .cgroup = GROUP, .fn = use_array, .arg = site };
	struct slow_server server;

	cpus_use(1);
	task_delays_on();
	cgroup_create(GROUP, "");
	slow_server_start_cuse(&server, SLOW_LOCK);
	site->fd = open_file("/dev/" CUSE_NAME, O_RDONLY);
	site->call = call_device_read;
	load_wait(load_start(&load));
	EXPECT_LE(0.9 * site->elapsed, site->asleep);
	EXPECT_EQ(0, site->some);
	close(site->fd);
	slow_server_stop(&server, NULL);
	cgroup_remove(GROUP);
	cpus_use(cpus_possible());
}

TEST_HARNESS_MAIN
