// SPDX-License-Identifier: GPL-2.0
/*
 * What the boot parameters switch
 *
 * Invariant: psi=<bool> switches PSI, in every spelling of a bool. The last one
 * on the command line wins, and a value that is no bool changes nothing.
 * Without the parameter, the kernel's configuration decides. When PSI is off,
 * no pressure file exists, in /proc or in a cgroup. cgroup_disable=pressure
 * removes the files of cgroups and keeps those in /proc. Interrupt pressure
 * needs a machine that accounts interrupt time. On a machine that does not
 * (tsc=noirqtime makes one), the file exists and answers EOPNOTSUPP.
 *
 * Bugs it would find: a parameter that is parsed too late, or as a number;
 * files that are created before the switch is known; a static key that flips in
 * one direction only.
 *
 * The test runs once for each command line. It derives its expectations from
 * /proc/cmdline, so it never skips.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_stat.h"

#ifndef PSI_DEFAULT
#define PSI_DEFAULT	true	/* CONFIG_PSI_DEFAULT_DISABLED is not set, see config */
#endif

#define GROUP	"/sys/fs/cgroup/psi_boot"

/* Reads a bool as the kernel does, by its first characters. */
static void apply_bool(const char *text, bool *value)
{
	if (!strncasecmp(text, "on", 2) || (*text && strchr("yYtT1", *text)))
		*value = true;
	else if (!strncasecmp(text, "of", 2) || (*text && strchr("nNfF0", *text)))
		*value = false;
}

static bool psi_on(void)
{
	bool on = PSI_DEFAULT;
	char cmdline[4096];

	read_text("/proc/cmdline", cmdline, sizeof(cmdline));
	for (char *word = strtok(cmdline, "\n "); word; word = strtok(NULL, "\n "))
		if (!strncmp(word, "psi=", 4))
			apply_bool(word + 4, &on);
	return on;
}

static bool booted_with(const char *parameter)
{
	char cmdline[4096];

	read_text("/proc/cmdline", cmdline, sizeof(cmdline));
	return strstr(cmdline, parameter);
}

TEST(proc_pressure_exists_exactly_when_psi_is_on)
{
	ksft_print_msg("psi must be %s\n", psi_on() ? "on" : "off");
	EXPECT_EQ(psi_on(), access(PSI_DIR, F_OK) == 0);
	EXPECT_EQ(psi_on(), access(PSI_CPU, F_OK) == 0);
	EXPECT_EQ(psi_on(), access(PSI_MEMORY, F_OK) == 0);
	EXPECT_EQ(psi_on(), access(PSI_IO, F_OK) == 0);
}

TEST(statistics_file_exists_exactly_when_psi_is_on)
{
	if (psi_on() && !psi_has_stat())
		SKIP(return, NO_STAT);
	EXPECT_EQ(psi_on(), psi_has_stat());
}

/* The one that folds, and two that watch triggers. */
static int psi_threads(void)
{
	pid_t pids[16];

	return kernel_threads("psi*", pids, ARRAY_SIZE(pids));
}

TEST(threads_exist_exactly_when_psi_is_on)
{
	EXPECT_EQ(psi_on() ? 3 : 0, psi_threads());
}

/* Number of files in a cgroup whose name contains @word. */
static int files_with(const char *cgroup, const char *word)
{
	struct dirent *entry;
	int nr = 0;
	DIR *dir;

	dir = opendir(cgroup);
	if (!dir)
		psi_die("%s: %s", cgroup, strerror(errno));
	while ((entry = readdir(dir)))
		nr += !!strstr(entry->d_name, word);
	closedir(dir);
	return nr;
}

/*
 * Four plain files, the statistics file if there is one, and the switch, in
 * the root and in every other cgroup.
 */
TEST(cgroups_have_pressure_files_exactly_when_psi_is_on_and_is_not_disabled_for_them)
{
	bool on = psi_on() && !booted_with("cgroup_disable=pressure");
	int stat = psi_has_stat();

	EXPECT_EQ(on ? 5 + stat : 0, files_with("/sys/fs/cgroup", ".pressure"));
	ASSERT_EQ(0, mkdir(GROUP, 0755));
	EXPECT_EQ(on ? 5 + stat : 0, files_with(GROUP, ".pressure"));
	EXPECT_EQ(on ? 1 + stat : 0, files_with(GROUP, "cgroup.pressure"));
	EXPECT_EQ(0, rmdir(GROUP));
}

/* What tasks waited for a CPU since @before; where PSI is off, nothing measures it. */
static void expect_measured(struct __test_metadata *_metadata, __u64 before)
{
	EXPECT_EQ(psi_on() ? 3 : 0, psi_threads());
	if (psi_on())
		EXPECT_LT(NSEC_PER_SEC / 2, psi_some_ns(PSI_CPU) - before);
}

TEST(tasks_in_cgroups_are_measured_for_the_system_when_psi_is_on)
{
	__u64 before = psi_on() ? psi_some_ns(PSI_CPU) : 0;
	pid_t pid[2];

	ASSERT_EQ(0, mkdir(GROUP, 0755));
	spin_pair_start(pid, GROUP);
	sleep_for(NSEC_PER_SEC);
	spin_pair_stop(pid);
	expect_measured(_metadata, before);
	cgroup_remove(GROUP);
}

TEST(cpu_pressure_is_measured_when_psi_is_on)
{
	__u64 before = psi_on() ? psi_some_ns(PSI_CPU) : 0;
	pid_t pid[2];

	spin_pair_start(pid, NULL);
	sleep_for(NSEC_PER_SEC);
	spin_pair_stop(pid);
	expect_measured(_metadata, before);
}

static void expect_irq(struct __test_metadata *_metadata, int fd)
{
	char buf[512];

	if (!booted_with("tsc=noirqtime")) {
		EXPECT_LT(0, read(fd, buf, sizeof(buf)));
	} else {
		EXPECT_EQ(-1, read(fd, buf, sizeof(buf)));
		EXPECT_EQ(EOPNOTSUPP, errno);
		EXPECT_EQ(-1, write(fd, "full 200000 2000000", 19));
		EXPECT_EQ(EOPNOTSUPP, errno);
	}
}

TEST(irq_has_text_exactly_when_interrupt_time_is_accounted)
{
	int fd;

	if (!psi_on()) {
		EXPECT_EQ(-1, access(PSI_IRQ, F_OK));
		EXPECT_EQ(ENOENT, errno);
		return;
	}
	fd = open(PSI_IRQ, O_RDWR | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	expect_irq(_metadata, fd);
	EXPECT_EQ(0, close(fd));
}

TEST(irq_of_a_cgroup_has_text_exactly_when_interrupt_time_is_accounted)
{
	int fd;

	ASSERT_EQ(0, mkdir(GROUP, 0755));
	fd = open(GROUP "/irq.pressure", O_RDWR | O_CLOEXEC);
	if (!psi_on() || booted_with("cgroup_disable=pressure")) {
		EXPECT_EQ(-1, fd);
		EXPECT_EQ(ENOENT, errno);
		EXPECT_EQ(0, rmdir(GROUP));
		return;
	}
	ASSERT_GE(fd, 0);
	expect_irq(_metadata, fd);
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(0, rmdir(GROUP));
}

TEST_HARNESS_MAIN
