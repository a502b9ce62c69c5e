// SPDX-License-Identifier: GPL-2.0
/*
 * The pressure files of cgroups: fresh at each read, and the switch
 *
 * Invariant: every directory of cgroup v2, the root included, has the same
 * pressure files, whatever controllers are enabled. Those of the root show the
 * system. cgroup.pressure switches the files of its cgroup:
 *
 *     1 -> 0   the files are removed; a descriptor of them never works again
 *     0 -> 1   there are new files
 *
 * Nothing changes in cgroups above or below. The root's switch is that of the
 * system: it removes the root's files and stops the totals in /proc/pressure,
 * which stays readable.
 *
 * Bugs it would find: files that depend on a controller; a switch that removes
 * the files of child cgroups.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_stat.h"
#include "psi_trigger.h"

#define TOP		CGROUP_ROOT "/psi_files"
#define CHILD		TOP "/child"
#define GRANDCHILD	CHILD "/grandchild"
#define SIBLING		TOP "/sibling"
#define TEXT		PSI_STAT_MAX

static const char * const all_files[] = {
	"cpu.pressure", "memory.pressure", "io.pressure", "irq.pressure",
	"cgroup.pressure.stat", NULL
};

static const char * const every_directory[] = {
	CGROUP_ROOT, TOP, CHILD, GRANDCHILD, SIBLING, NULL
};

static void make_tree(void)
{
	for (const char * const *path = every_directory; *path; path++)
		if (strcmp(*path, CGROUP_ROOT))
			cgroup_create(*path, "");
}

static int files_in(const char *path)
{
	int nr = 0;

	for (const char * const *file = all_files; *file; file++)
		nr += cgroup_has(path, *file);
	return nr;
}

/*
 * Without interrupt time accounting, neither /proc nor cgroups have an irq
 * file. The same holds for the statistics file.
 */
static int nr_files(void)
{
	return 3 + !access(PSI_IRQ, F_OK) + psi_has_stat();
}

static int open_in(const char *path, const char *file, int flags)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/%s", path, file);
	return open(name, flags | O_CLOEXEC);
}

/* ---- The statistics file comes and goes with the others ---- */

FIXTURE(stat) {
};

FIXTURE_SETUP(stat)
{
	if (!psi_has_stat())
		SKIP(return, NO_STAT);
	make_tree();
}

FIXTURE_TEARDOWN(stat)
{
	cgroup_remove(TOP);
}

TEST_F(stat, is_in_every_directory_and_has_the_format)
{
	for (const char * const *path = every_directory; *path; path++) {
		struct psi_stat psi;
		char name[256];
		struct stat st;

		snprintf(name, sizeof(name), "%s" CGROUP_STAT, *path);
		psi_stat_read(name, &psi);
		EXPECT_EQ(psi_irq_accounted(), psi.irq.present);
		ASSERT_EQ(0, stat(name, &st));
		EXPECT_EQ(S_IFREG | 0644, st.st_mode);
		EXPECT_EQ(0, st.st_uid);
		EXPECT_EQ(0, st.st_gid);
	}
}

/* A service manager gives the file to the user of the service. */
TEST_F(stat, opens_for_writing_for_its_owner_only)
{
	char buf[TEXT];
	int fd;

	ASSERT_EQ(0, chown(CHILD CGROUP_STAT, USER, USER));
	ASSERT_EQ(0, seteuid(USER));
	fd = open_in(CHILD, "cgroup.pressure.stat", O_RDWR);
	ASSERT_LE(0, fd);
	EXPECT_LT(0, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(0, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(0, write(fd, "", 0));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(-1, open_in(GRANDCHILD, "cgroup.pressure.stat", O_RDWR));
	EXPECT_EQ(EACCES, errno);
	ASSERT_EQ(0, seteuid(0));
}

TEST_F(stat, open_when_switched_off_or_removed_never_works_again)
{
	int fd = open_in(GRANDCHILD, "cgroup.pressure.stat", O_RDWR), new;

	ASSERT_LE(0, fd);
	cgroup_write(GRANDCHILD, "cgroup.pressure", "0");
	EXPECT_EQ(-1, open_in(GRANDCHILD, "cgroup.pressure.stat", O_RDONLY));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_TRUE(psi_file_is_dead(fd));
	cgroup_write(GRANDCHILD, "cgroup.pressure", "1");
	EXPECT_TRUE(psi_file_is_dead(fd));
	new = open_in(GRANDCHILD, "cgroup.pressure.stat", O_RDWR);
	ASSERT_LE(0, new);
	ASSERT_EQ(0, rmdir(GRANDCHILD));
	EXPECT_TRUE(psi_file_is_dead(new));
	cgroup_create(GRANDCHILD, "");
	EXPECT_TRUE(psi_file_is_dead(new));
	EXPECT_EQ(0, close(new));
	EXPECT_EQ(0, close(fd));
}

/* ---- Fresh at each read ---- */

/*
 * Two spinners share CPU 0 in the grandchild, so its cpu totals keep growing.
 */
FIXTURE(busy) {
	pid_t spinner[2];
};

FIXTURE_SETUP(busy)
{
	make_tree();
	set_policy(0, SCHED_FIFO, 50);
	spin_pair_start(self->spinner, GRANDCHILD);
}

FIXTURE_TEARDOWN(busy)
{
	spin_pair_stop(self->spinner);
	cgroup_remove(TOP);
}

/*
 * However one descriptor is read again, it returns a total between those that
 * fresh descriptors return before and after.
 */
static void expect_fresh(struct __test_metadata *_metadata, const char *dir, bool seek)
{
	char path[256];
	struct psi psi;
	int fd;

	snprintf(path, sizeof(path), "%s/cpu.pressure", dir);
	fd = open_file(path, O_RDONLY);
	for (int i = 0; i < 5; i++) {
		EXPECT_TRUE(psi_reread(path, fd, seek, &psi));
		if (i)
			EXPECT_LT(0, psi.some.total);
		sleep_for(20 * NSEC_PER_MSEC);
	}
	EXPECT_EQ(0, close(fd));
}

TEST_F(busy, file_is_fresh_at_each_read)
{
	for (const char * const *path = every_directory; *path; path++) {
		if (!strcmp(*path, SIBLING))
			continue;
		expect_fresh(_metadata, *path, true);
		expect_fresh(_metadata, *path, false);
	}
}

/*
 * The total grows by 1 ms between the reads. If every read() made a new text,
 * the bytes would be torn.
 */
TEST_F(busy, file_is_not_torn_when_read_byte_by_byte)
{
	EXPECT_EQ(NULL, psi_read_bytewise(GRANDCHILD "/cpu.pressure"));
}

TEST_F(busy, root_shows_the_system)
{
	struct psi before, root, after;

	for (int i = 0; i < 20; i++) {
		psi_read(PSI_CPU, &before);
		cgroup_psi_read(CGROUP_ROOT, "cpu.pressure", &root);
		psi_read(PSI_CPU, &after);
		EXPECT_LE(before.some.total, root.some.total);
		EXPECT_LE(root.some.total, after.some.total);
		sleep_for(30 * NSEC_PER_MSEC);
	}
	EXPECT_LT(0, root.some.total);
}

/* Like /proc/pressure/cpu: the system always has a CPU that executes a task. */
TEST_F(busy, root_has_no_cpu_full)
{
	struct psi psi;

	sleep_for(5 * NSEC_PER_SEC);
	cgroup_psi_read(CGROUP_ROOT, "cpu.pressure", &psi);
	EXPECT_LT(0, psi.some.avg[AVG10]);
	for (int i = 0; i < NR_AVGS; i++)
		EXPECT_EQ(0, psi.full.avg[i]);
	EXPECT_EQ(0, psi.full.total);
}

/* ---- The tree ---- */

FIXTURE(tree) {
};

FIXTURE_SETUP(tree)
{
	make_tree();
}

FIXTURE_TEARDOWN(tree)
{
	cgroup_write(CGROUP_ROOT, "cgroup.pressure", "1");
	cgroup_remove(TOP);
}

TEST_F(tree, has_the_files_whatever_controllers_are_on)
{
	cgroup_write(CGROUP_ROOT, "cgroup.subtree_control", "+cpu +memory +io +pids");
	cgroup_write(TOP, "cgroup.subtree_control", "+cpu +memory");
	cgroup_write(CHILD, "cgroup.subtree_control", "+cpu");
	for (const char * const *path = every_directory; *path; path++)
		EXPECT_EQ(nr_files(), files_in(*path));
	cgroup_write(CHILD, "cgroup.subtree_control", "-cpu");
	cgroup_write(TOP, "cgroup.subtree_control", "-cpu -memory");
	cgroup_write(CGROUP_ROOT, "cgroup.subtree_control", "-cpu -memory -io -pids");
	for (const char * const *path = every_directory; *path; path++)
		EXPECT_EQ(nr_files(), files_in(*path));
}

/*
 * A kernel thread that waits behind this task for the CPU is a stall, so a total
 * may grow between two reads.  The system is read before and after the root: if
 * it said the same both times, the root must have said that, too.
 */
TEST_F(tree, root_has_the_same_text_as_the_system)
{
	static const char * const names[] = { "cpu", "memory", "io" };
	char path[256], before[512], root[512], after[512];

	cpus_use(1);
	sleep_for(5 * NSEC_PER_SEC);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (int tries = 0; tries < 10; tries++) {
			sleep_for(30 * NSEC_PER_MSEC);
			snprintf(path, sizeof(path), PSI_DIR "/%s", names[i]);
			ASSERT_LT(0, read_file(path, before, sizeof(before)));
			snprintf(path, sizeof(path), CGROUP_ROOT "/%s.pressure", names[i]);
			ASSERT_LT(0, read_file(path, root, sizeof(root)));
			snprintf(path, sizeof(path), PSI_DIR "/%s", names[i]);
			ASSERT_LT(0, read_file(path, after, sizeof(after)));
			if (!strcmp(before, after))
				break;
		}
		ASSERT_STREQ(before, after);
		EXPECT_STREQ(before, root);
	}
	cpus_use(cpus_possible());
}

/* ---- The switch ---- */

static char switch_of(const char *path)
{
	char name[256], buf[16];

	snprintf(name, sizeof(name), "%s/cgroup.pressure", path);
	if (read_file(name, buf, sizeof(buf)) != 2 || buf[1] != '\n')
		return '?';
	return buf[0];
}

TEST_F(tree, switch_is_in_every_directory_and_on)
{
	for (const char * const *path = every_directory; *path; path++) {
		char name[256];
		struct stat st;

		snprintf(name, sizeof(name), "%s/cgroup.pressure", *path);
		ASSERT_EQ(0, stat(name, &st));
		EXPECT_EQ(S_IFREG | 0644, st.st_mode);
		EXPECT_EQ('1', switch_of(*path));
	}
}

TEST_F(tree, switch_removes_the_files_of_its_cgroup_and_no_others)
{
	cgroup_write(CHILD, "cgroup.pressure", "0");
	EXPECT_EQ('0', switch_of(CHILD));
	EXPECT_EQ(0, files_in(CHILD));
	EXPECT_EQ(nr_files(), files_in(CGROUP_ROOT));
	EXPECT_EQ(nr_files(), files_in(TOP));
	EXPECT_EQ(nr_files(), files_in(GRANDCHILD));
	EXPECT_EQ(nr_files(), files_in(SIBLING));
	EXPECT_EQ('1', switch_of(TOP));
	EXPECT_EQ('1', switch_of(GRANDCHILD));
	cgroup_write(CHILD, "cgroup.pressure", "1");
	EXPECT_EQ('1', switch_of(CHILD));
	EXPECT_EQ(nr_files(), files_in(CHILD));
}

TEST_F(tree, switch_that_is_off_does_not_reach_new_children)
{
	cgroup_write(CHILD, "cgroup.pressure", "0");
	cgroup_create(CHILD "/new", "");
	EXPECT_EQ('1', switch_of(CHILD "/new"));
	EXPECT_EQ(nr_files(), files_in(CHILD "/new"));
}

TEST_F(tree, switch_that_is_off_allows_new_controllers)
{
	cgroup_write(CHILD, "cgroup.pressure", "0");
	cgroup_write(CGROUP_ROOT, "cgroup.subtree_control", "+cpu +memory");
	cgroup_write(TOP, "cgroup.subtree_control", "+cpu +memory");
	EXPECT_EQ(0, files_in(CHILD));
	cgroup_write(CHILD, "cgroup.pressure", "1");
	EXPECT_EQ(nr_files(), files_in(CHILD));
	cgroup_write(TOP, "cgroup.subtree_control", "-cpu -memory");
	EXPECT_EQ(nr_files(), files_in(CHILD));
	cgroup_write(CGROUP_ROOT, "cgroup.subtree_control", "-cpu -memory");
}

/* A write of the current value does not replace the files. */
TEST_F(tree, switch_written_with_its_own_value_changes_nothing)
{
	char buf[TEXT];
	int fd;

	fd = open_in(CHILD, "cpu.pressure", O_RDONLY);
	ASSERT_LE(0, fd);
	cgroup_write(CHILD, "cgroup.pressure", "1");
	EXPECT_LT(0, pread(fd, buf, sizeof(buf), 0));
	cgroup_write(CHILD, "cgroup.pressure", "0");
	cgroup_write(CHILD, "cgroup.pressure", "0");
	EXPECT_EQ(0, files_in(CHILD));
	cgroup_write(CHILD, "cgroup.pressure", "1");
	EXPECT_EQ(nr_files(), files_in(CHILD));
	EXPECT_EQ(-1, pread(fd, buf, sizeof(buf), 0));
	EXPECT_EQ(0, close(fd));
}

TEST_F(tree, switch_stays_open_over_its_own_changes)
{
	char buf[16];
	int fd;

	fd = open_in(CHILD, "cgroup.pressure", O_RDWR);
	ASSERT_LE(0, fd);
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(1, pwrite(fd, "0", 1, 0));
		EXPECT_EQ(2, pread(fd, buf, sizeof(buf), 0));
		EXPECT_EQ('0', buf[0]);
		EXPECT_EQ(1, pwrite(fd, "1", 1, 0));
		EXPECT_EQ(2, pread(fd, buf, sizeof(buf), 0));
		EXPECT_EQ('1', buf[0]);
	}
	EXPECT_EQ(0, close(fd));
}

/* The switch, like the files, works for a user who owns it. */
TEST_F(tree, switch_works_for_its_owner)
{
	ASSERT_EQ(0, seteuid(USER));
	EXPECT_EQ(EACCES, cgroup_try_write(CHILD, "cgroup.pressure", "0"));
	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, chown(CHILD "/cgroup.pressure", USER, USER));
	ASSERT_EQ(0, seteuid(USER));
	EXPECT_EQ(0, cgroup_try_write(CHILD, "cgroup.pressure", "0"));
	ASSERT_EQ(0, seteuid(0));
	EXPECT_EQ(0, files_in(CHILD));
}

/* The files in /proc belong to no cgroup, so they stay when the root's go. */
TEST_F(tree, switch_of_the_root_stops_the_system_and_nothing_below)
{
	int fd = trigger_arm(PSI_CPU, "some 100000 1000000");
	pid_t spinner[2];
	__u64 some, off, below;

	cpus_use(1);
	set_policy(0, SCHED_FIFO, 50);
	spin_pair_start(spinner, CHILD);
	EXPECT_TRUE(trigger_fired(fd, 2000));
	cgroup_write(CGROUP_ROOT, "cgroup.pressure", "0");
	EXPECT_EQ('0', switch_of(CGROUP_ROOT));
	EXPECT_EQ(0, files_in(CGROUP_ROOT));
	EXPECT_EQ(nr_files(), files_in(TOP));
	EXPECT_EQ(nr_files(), files_in(CHILD));
	/*
	 * Stall from before the switch may be in a window that has not ended.
	 */
	sleep_for(3 * NSEC_PER_SEC);
	trigger_fired(fd, 0);
	off = psi_some_ns(PSI_CPU);
	below = psi_some_ns(CHILD "/cpu.pressure");
	sleep_for(5 * NSEC_PER_SEC);
	EXPECT_EQ(off, psi_some_ns(PSI_CPU));
	EXPECT_FALSE(trigger_fired(fd, 0));
	below = psi_some_ns(CHILD "/cpu.pressure") - below;
	EXPECT_LE(4990 * NSEC_PER_MSEC, below);
	EXPECT_GE(5010 * NSEC_PER_MSEC, below);
	cgroup_write(CGROUP_ROOT, "cgroup.pressure", "1");
	EXPECT_EQ(nr_files(), files_in(CGROUP_ROOT));
	some = psi_some_ns(PSI_CPU);
	EXPECT_GE(off + 10 * NSEC_PER_MSEC, some);
	sleep_for(5 * NSEC_PER_SEC);
	some = psi_some_ns(PSI_CPU) - some;
	EXPECT_LE(4990 * NSEC_PER_MSEC, some);
	EXPECT_GE(5010 * NSEC_PER_MSEC, some);
	EXPECT_TRUE(trigger_fired(fd, 0));
	close(fd);
	spin_pair_stop(spinner);
	cpus_use(cpus_possible());
}

FIXTURE(text) {
};

FIXTURE_VARIANT(text) {
	const char *text;
	int error;
	char after;
};

FIXTURE_VARIANT_ADD(text, zero) { .text = "0", .after = '0' };
FIXTURE_VARIANT_ADD(text, zero_and_a_newline) { .text = "0\n", .after = '0' };
FIXTURE_VARIANT_ADD(text, one) { .text = "1", .after = '1' };
FIXTURE_VARIANT_ADD(text, one_and_a_newline) { .text = "1\n", .after = '1' };
FIXTURE_VARIANT_ADD(text, two) { .text = "2", .error = ERANGE, .after = '1' };
FIXTURE_VARIANT_ADD(text, minus_one) { .text = "-1\n", .error = ERANGE, .after = '1' };

FIXTURE_VARIANT_ADD(text, a_number_that_is_zero_in_32_bits) {
	.text = "4294967296",
	.error = ERANGE,
	.after = '1',
};

FIXTURE_VARIANT_ADD(text, a_word) { .text = "off", .error = EINVAL, .after = '1' };
FIXTURE_VARIANT_ADD(text, a_number_and_junk) { .text = "0x", .error = EINVAL, .after = '1' };
FIXTURE_VARIANT_ADD(text, two_numbers) { .text = "0 0", .error = EINVAL, .after = '1' };
FIXTURE_VARIANT_ADD(text, only_a_newline) { .text = "\n", .error = EINVAL, .after = '1' };

FIXTURE_SETUP(text)
{
	make_tree();
}

FIXTURE_TEARDOWN(text)
{
	cgroup_remove(TOP);
}

TEST_F(text, in_the_switch_is_taken_or_refused)
{
	EXPECT_EQ(variant->error, cgroup_try_write(CHILD, "cgroup.pressure", variant->text));
	EXPECT_EQ(variant->after, switch_of(CHILD));
	EXPECT_EQ(variant->after == '1' ? nr_files() : 0, files_in(CHILD));
}

/* ---- Other views ---- */

#define MOUNT_POINT	"/tmp/psi_files"

/* Runs @fn in a child, which may change its namespaces. Returns its result. */
static int in_a_child(int (*fn)(void))
{
	pid_t pid = fork_or_die();

	if (!pid)
		_exit(fn());
	return reap_exit(pid);
}

static int mount_here(const char *type, const char *options)
{
	mkdir(MOUNT_POINT, 0755);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		psi_die("unshare: %s", strerror(errno));
	return mount("none", MOUNT_POINT, type, 0, options);
}

/* The namespace's root is the child cgroup, so its files show that cgroup. */
static int look_from_a_namespace(void)
{
	__u64 here, there;

	cgroup_write(CHILD, "cgroup.procs", "0");
	if (unshare(CLONE_NEWCGROUP))
		psi_die("unshare: %s", strerror(errno));
	if (mount_here("cgroup2", NULL))
		psi_die("mount: %s", strerror(errno));
	if (files_in(MOUNT_POINT) != nr_files() ||
	    files_in(MOUNT_POINT "/grandchild") != nr_files())
		return 1;
	if (!cgroup_has(MOUNT_POINT, "cgroup.pressure"))
		return 2;
	here = psi_some_ns(MOUNT_POINT "/cpu.pressure");
	there = psi_some_ns(PSI_CPU);
	return here + NSEC_PER_SEC < there ? 0 : 3;
}

TEST_F(tree, seen_from_a_cgroup_namespace_has_the_files_at_its_root)
{
	pid_t spinner[2];

	spin_pair_start(spinner, NULL);
	sleep_for(3 * NSEC_PER_SEC);
	spin_pair_stop(spinner);
	EXPECT_EQ(0, in_a_child(look_from_a_namespace));
}

/* What the hierarchy is mounted with. */
static void mount_options(char options[128])
{
	char line[4096];
	FILE *file = fopen("/proc/self/mountinfo", "r");

	*options = 0;
	while (file && !*options && fgets(line, sizeof(line), file)) {
		const char *type = strstr(line, " - cgroup2 ");

		if (type)
			sscanf(type, " - cgroup2 %*s %127s", options);
	}
	if (!*options)
		psi_die("mountinfo has no cgroup2");
	fclose(file);
}

/* The flags of the mount stay: a machine may have nosuid there, for example. */
static void remount(const char *options)
{
	const unsigned long kept = MS_NOSUID | MS_NODEV | MS_NOEXEC;
	struct statvfs now;

	if (statvfs(CGROUP_ROOT, &now) ||
	    mount(NULL, CGROUP_ROOT, NULL, MS_REMOUNT | (now.f_flag & kept), options))
		psi_die("%s: %s", CGROUP_ROOT, strerror(errno));
}

/*
 * With nsdelegate, the root of a namespace is delegated to it: who is in there
 * arms triggers, and cannot switch the files off.
 */
static int delegate_to_a_namespace(void)
{
	int fd, ret;

	cgroup_write(CHILD, "cgroup.procs", "0");
	if (unshare(CLONE_NEWCGROUP))
		psi_die("unshare: %s", strerror(errno));
	fd = open_file(CHILD "/io.pressure", O_RDWR);
	ret = trigger_set(fd, "some 150000 2000000");
	if (!ret && cgroup_try_write(CHILD, "cgroup.pressure", "0") != EPERM)
		ret = -1;
	return ret;
}

TEST_F(tree, is_delegated_to_a_namespace_but_for_the_switch)
{
	char options[128];

	mount_options(options);
	remount("nsdelegate");
	EXPECT_EQ(0, in_a_child(delegate_to_a_namespace));
	remount(options);
}

static int look_at_v1(void)
{
	if (mount_here("cgroup", "none,name=psi"))
		return 64;
	cgroup_create(MOUNT_POINT "/old", "");
	if (files_in(MOUNT_POINT) || cgroup_has(MOUNT_POINT, "cgroup.pressure"))
		return 1;
	if (files_in(MOUNT_POINT "/old") || cgroup_has(MOUNT_POINT "/old", "cgroup.pressure"))
		return 2;
	return rmdir(MOUNT_POINT "/old") ? 3 : 0;
}

TEST(hierarchy_of_version_1_has_no_pressure_files)
{
	EXPECT_EQ(0, in_a_child(look_at_v1));
}

TEST_HARNESS_MAIN
