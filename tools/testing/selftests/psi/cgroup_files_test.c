// SPDX-License-Identifier: GPL-2.0
/*
 * The pressure files of cgroups: where they are, and whose they are
 *
 * Invariant: every directory of cgroup v2, the root included, has the same four
 * pressure files. A descriptor of a file that is gone never works again.
 *
 * Bugs it would find: a file without its modes; a descriptor that works again
 * with the next file of that name; a read of a removed cgroup.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_util.h"

#define TOP		CGROUP_ROOT "/psi_files"
#define CHILD		TOP "/child"
#define GRANDCHILD	CHILD "/grandchild"
#define SIBLING		TOP "/sibling"
#define TEXT		512

static const char * const every_directory[] = {
	CGROUP_ROOT, TOP, CHILD, GRANDCHILD, SIBLING, NULL
};

static void make_tree(void)
{
	for (const char * const *path = every_directory; *path; path++)
		if (strcmp(*path, CGROUP_ROOT))
			cgroup_create(*path, "");
}

static int open_in(const char *path, const char *file, int flags)
{
	char name[256];

	snprintf(name, sizeof(name), "%s/%s", path, file);
	return open(name, flags | O_CLOEXEC);
}

static bool is_irq(const char *file)
{
	return !strcmp(file, "irq.pressure");
}

/* ---- One kind of file, in every directory ---- */

FIXTURE(file) {
};

FIXTURE_VARIANT(file) {
	const char *name;
};

FIXTURE_VARIANT_ADD(file, cpu) { .name = "cpu.pressure" };
FIXTURE_VARIANT_ADD(file, memory) { .name = "memory.pressure" };
FIXTURE_VARIANT_ADD(file, io) { .name = "io.pressure" };
FIXTURE_VARIANT_ADD(file, irq) { .name = "irq.pressure" };

FIXTURE_SETUP(file)
{
	if (is_irq(variant->name) && !psi_irq_accounted())
		SKIP(return, "interrupt time is not accounted on this machine");
	make_tree();
}

FIXTURE_TEARDOWN(file)
{
	cgroup_remove(TOP);
}

static void expect_format(struct __test_metadata *_metadata, const char *path, const char *file)
{
	struct psi psi;

	cgroup_psi_read(path, file, &psi);
	EXPECT_EQ(!is_irq(file), psi.some.present);
	EXPECT_TRUE(psi.full.present);
}

TEST_F(file, is_in_every_directory_and_has_the_format)
{
	for (const char * const *path = every_directory; *path; path++)
		expect_format(_metadata, *path, variant->name);
}

TEST_F(file, is_readable_by_everyone_and_writable_by_root)
{
	for (const char * const *path = every_directory; *path; path++) {
		char name[256];
		struct stat st;

		snprintf(name, sizeof(name), "%s/%s", *path, variant->name);
		ASSERT_EQ(0, stat(name, &st));
		EXPECT_EQ(S_IFREG | 0644, st.st_mode);
		EXPECT_EQ(0, st.st_uid);
		EXPECT_EQ(0, st.st_gid);
	}
}

TEST_F(file, does_not_open_for_writing_without_privileges)
{
	char buf[TEXT];
	int fd;

	ASSERT_EQ(0, seteuid(USER));
	EXPECT_EQ(-1, open_in(CHILD, variant->name, O_RDWR));
	EXPECT_EQ(EACCES, errno);
	fd = open_in(CHILD, variant->name, O_RDONLY);
	ASSERT_LE(0, fd);
	EXPECT_LT(0, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(0, close(fd));
	ASSERT_EQ(0, seteuid(0));
}

/* A service manager gives the file to the user of the service. */
TEST_F(file, opens_for_writing_for_its_owner)
{
	char name[256], buf[TEXT];
	int fd;

	snprintf(name, sizeof(name), "%s/%s", CHILD, variant->name);
	ASSERT_EQ(0, chown(name, USER, USER));
	ASSERT_EQ(0, seteuid(USER));
	fd = open(name, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_LT(0, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(-1, open_in(GRANDCHILD, variant->name, O_RDWR));
	EXPECT_EQ(EACCES, errno);
	ASSERT_EQ(0, seteuid(0));
}

TEST_F(file, ends_after_its_last_line)
{
	char buf[TEXT];
	int fd;

	fd = open_in(CHILD, variant->name, O_RDONLY);
	ASSERT_LE(0, fd);
	ASSERT_LT(0, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(0, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, refuses_to_be_read_when_open_for_writing_only)
{
	char buf[TEXT];
	int fd;

	fd = open_in(CHILD, variant->name, O_WRONLY);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(EBADF, errno);
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, open_when_switched_off_never_works_again)
{
	char buf[TEXT];
	int fd, new;

	fd = open_in(CHILD, variant->name, O_RDWR);
	ASSERT_LE(0, fd);
	ASSERT_LT(0, pread(fd, buf, sizeof(buf), 0));
	cgroup_write(CHILD, "cgroup.pressure", "0");
	EXPECT_EQ(-1, open_in(CHILD, variant->name, O_RDONLY));
	EXPECT_EQ(ENOENT, errno);
	EXPECT_TRUE(psi_file_is_dead(fd));
	cgroup_write(CHILD, "cgroup.pressure", "1");
	EXPECT_TRUE(psi_file_is_dead(fd));
	new = open_in(CHILD, variant->name, O_RDWR);
	ASSERT_LE(0, new);
	EXPECT_LT(0, pread(new, buf, sizeof(buf), 0));
	EXPECT_TRUE(psi_file_is_dead(fd));
	EXPECT_EQ(0, close(fd));
	EXPECT_LT(0, pread(new, buf, sizeof(buf), 0));
	EXPECT_EQ(0, close(new));
}

TEST_F(file, open_when_the_cgroup_is_removed_never_works_again)
{
	char buf[TEXT];
	int fd;

	fd = open_in(GRANDCHILD, variant->name, O_RDWR);
	ASSERT_LE(0, fd);
	ASSERT_LT(0, pread(fd, buf, sizeof(buf), 0));
	ASSERT_EQ(0, rmdir(GRANDCHILD));
	EXPECT_TRUE(psi_file_is_dead(fd));
	/* A new cgroup of that name does not revive the descriptor. */
	cgroup_create(GRANDCHILD, "");
	EXPECT_TRUE(psi_file_is_dead(fd));
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, open_when_a_switched_off_cgroup_is_removed_never_works_again)
{
	int fd;

	fd = open_in(GRANDCHILD, variant->name, O_RDWR);
	ASSERT_LE(0, fd);
	cgroup_write(GRANDCHILD, "cgroup.pressure", "0");
	ASSERT_EQ(0, rmdir(GRANDCHILD));
	EXPECT_TRUE(psi_file_is_dead(fd));
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, is_in_a_threaded_cgroup)
{
	cgroup_write(GRANDCHILD, "cgroup.type", "threaded");
	expect_format(_metadata, CHILD, variant->name);
	expect_format(_metadata, GRANDCHILD, variant->name);
	cgroup_create(GRANDCHILD "/threaded", "");
	cgroup_write(GRANDCHILD "/threaded", "cgroup.type", "threaded");
	expect_format(_metadata, GRANDCHILD "/threaded", variant->name);
}

TEST_HARNESS_MAIN
