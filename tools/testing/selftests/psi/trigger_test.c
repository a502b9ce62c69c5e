// SPDX-License-Identifier: GPL-2.0
/*
 * Triggers: the texts that a pressure file accepts, and from whom
 *
 * Invariant: the text "<some|full> <stall us> <window us>", and nothing else,
 * arms a trigger, once for each open file. A text has the same meaning on every
 * file. A rejected text leaves the descriptor as it was: poll() reports that
 * there is no trigger, and a good write may follow. Windows that PSI checks at
 * once, and not every 2 s, need CAP_SYS_RESOURCE in the initial user namespace
 * when the file is opened.
 *
 * Bugs it would find: a parser that stops at the first unknown byte, or drops
 * the last byte as a newline; numbers cut to 32 bits; a limit that is off by
 * one; checks of the writer's capability instead of the opener's; a failed
 * write that leaves half a trigger.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_trigger.h"

#define GROUP		CGROUP_ROOT "/psi_trigger"
#define GROUP_FILE(x)	GROUP "/" x ".pressure"
#define GOOD		"some 50000 1000000"

/* ---- The text ---- */

FIXTURE(text) {
};

FIXTURE_SETUP(text)
{
	cgroup_create(GROUP, "+io");
}

FIXTURE_TEARDOWN(text)
{
	cgroup_remove(GROUP);
}

/*
 * @error: of write(), 0: the text arms a trigger
 * @defect: known to end otherwise
 */
FIXTURE_VARIANT(text) {
	const char *text;
	size_t len;
	int error;
	bool defect;
};

/* A name, the bytes, the error. */
#define TEXT(name, string, result, ...)					\
	FIXTURE_VARIANT_ADD(text, name) {				\
		.text = string,						\
		.len = sizeof(string) - 1,				\
		.error = result,					\
		##__VA_ARGS__						\
	}
#define DEFECT	.defect = true

TEXT(well_formed, GOOD, 0);
TEXT(with_a_newline, GOOD "\n", 0);
TEXT(with_a_nul, GOOD "\0", 0);
TEXT(with_a_newline_and_a_nul, GOOD "\n\0", 0);
TEXT(that_says_full, "full 50000 1000000", 0);
TEXT(with_several_blanks, "some   50000     1000000", 0);
TEXT(with_tabs, "some\t50000 \t 1000000\n", 0);
TEXT(with_a_trailing_blank, GOOD " ", 0);
TEXT(with_a_trailing_tab_and_a_newline, GOOD "\t\n", 0);
TEXT(with_blanks_and_newlines_behind_it, GOOD "\t\n\t\n ", 0);

/* A client may write the whole of a buffer that held something else before. */
TEXT(with_zeros_behind_it, GOOD "\0\0\0\0\0\0\0\0\0\0\0\0", 0);
TEXT(with_anything_behind_a_nul, GOOD "\0xyz", 0);
TEXT(with_another_trigger_behind_a_nul, GOOD "\n\0full 1 500000\n", 0);

TEXT(without_a_nul_where_the_last_digit_decides, "some 2000000 10000000", 0, DEFECT);
TEXT(with_the_shortest_window, "some 1 500000", 0);
TEXT(with_the_longest_window, "some 1 10000000", 0);
TEXT(with_a_stall_as_long_as_the_window, "some 1000000 1000000", 0, DEFECT);
TEXT(with_the_shortest_window_and_a_nul, "some 1 500000\0", 0);
TEXT(with_the_longest_window_and_a_nul, "some 1 10000000\0", 0);

TEXT(with_a_window_above_the_longest, "some 1 10000001", EINVAL, DEFECT);
TEXT(with_a_window_above_the_longest_and_a_nul, "some 1 10000001\0", EINVAL);
TEXT(with_a_window_of_zero, "some 1 0\n", EINVAL);
TEXT(with_a_stall_of_zero, "some 0 1000000\n", EINVAL);
TEXT(with_a_stall_above_the_window, "some 1000001 1000000\n", EINVAL);

TEXT(that_is_empty, "", EINVAL);
TEXT(of_a_nul_only, "\0", EINVAL);
TEXT(of_a_newline_only, "\n", EINVAL);
TEXT(of_a_blank_only, " ", EINVAL);
TEXT(of_a_word_only, "some", EINVAL);
TEXT(without_a_window, "some 50000\n", EINVAL);
TEXT(without_a_word, "50000 1000000\n", EINVAL);
TEXT(with_the_start_of_a_word, "som 50000 1000000\n", EINVAL);
TEXT(with_a_longer_word, "somewhat 50000 1000000\n", EINVAL);
TEXT(with_another_word, "none 50000 1000000\n", EINVAL);
TEXT(in_capitals, "SOME 50000 1000000\n", EINVAL);
TEXT(without_a_blank_after_the_word, "some50000 1000000\n", EINVAL, DEFECT);
TEXT(with_commas, "some,50000,1000000\n", EINVAL);
TEXT(with_fields_on_lines_of_their_own, "some\n50000\n1000000\n", EINVAL, DEFECT);

/* Blanks may stand between the fields and behind them, not before them. */
TEXT(with_a_leading_blank, " " GOOD, EINVAL);
TEXT(with_a_leading_newline, "\n" GOOD, EINVAL);
TEXT(with_a_leading_nul, "\0" GOOD, EINVAL);
TEXT(with_junk_before_it, "x" GOOD, EINVAL);
TEXT(with_junk_after_it, GOOD "xyz", EINVAL, DEFECT);
TEXT(with_one_byte_of_junk_after_it, GOOD "x", EINVAL, DEFECT);
TEXT(with_junk_after_it_and_a_nul, GOOD "xyz\0", EINVAL, DEFECT);
TEXT(with_junk_after_a_blank, GOOD " xyz\n", EINVAL, DEFECT);
TEXT(with_a_unit, "some 50000us 1000000us\n", EINVAL);
TEXT(with_a_fraction, "some 50000.0 1000000\n", EINVAL);
TEXT(with_a_third_number, GOOD " 5\n", EINVAL, DEFECT);
TEXT(with_a_second_line, GOOD "\n" GOOD "\n", EINVAL, DEFECT);
TEXT(with_a_second_line_and_a_nul, GOOD "\n" GOOD "\n\0", EINVAL, DEFECT);
TEXT(with_a_nul_in_the_middle, "some 50000\0 1000000", EINVAL);
TEXT(with_a_plus, "some +50000 1000000\n", EINVAL);
TEXT(with_a_plus_in_the_window, "some 50000 +1000000\n", EINVAL);
TEXT(with_a_minus, "some -50000 1000000\n", EINVAL);
TEXT(with_a_minus_in_the_window, "some 50000 -1000000\n", EINVAL);
TEXT(in_hex, "some 0xc350 0xf4240\n", EINVAL);
TEXT(with_a_window_in_hex, "some 5 0xf4240\n", EINVAL);
TEXT(with_a_byte_above_127, "some 50000\2401000000\n", EINVAL, DEFECT);

/* 2^32 + 50,000; 2^32 + 1,000,000; 2^64 + the same */
TEXT(with_a_stall_past_32_bits, "some 4295017296 1000000\n", EINVAL, DEFECT);
TEXT(with_a_window_past_32_bits, "some 50000 4295967296\n", EINVAL, DEFECT);
TEXT(with_a_window_past_32_bits_and_a_nul, "some 50000 4295967296\n\0", EINVAL, DEFECT);
TEXT(with_a_stall_past_64_bits, "some 18446744073709601616 1000000\n", EINVAL, DEFECT);
TEXT(with_a_window_past_64_bits, "some 50000 18446744073710551616\n", EINVAL, DEFECT);
TEXT(with_fifty_digits, "some 50000 10000000000000000000000000000000000000000000000000\n", EINVAL);

/*
 * Checks a text on one file: the result; that nothing is armed after a failure,
 * and a good text succeeds; that the file takes one trigger only.
 */
static void check_text(struct __test_metadata *_metadata, const char *path,
		       const FIXTURE_VARIANT(text) * variant, int error)
{
	int fd = trigger_open(path);
	ssize_t done;

	errno = 0;
	done = write(fd, variant->text, variant->len);
	XFAIL_UNLESS(!variant->defect || errno == error, "%s %s it", path,
		     done < 0 ? "refuses" : "takes");
	EXPECT_EQ(error ? -1 : (ssize_t)variant->len, done) {
		TH_LOG("%s: write: %s", path, strerror(errno));
	}
	EXPECT_EQ(error, errno);
	if (variant->error) {
		EXPECT_EQ(NO_TRIGGER, poll_fd(fd, POLLPRI, 0) & NO_TRIGGER) {
			TH_LOG("%s: something is armed", path);
		}
		EXPECT_EQ(0, trigger_write(fd, GOOD, sizeof(GOOD)));
	}
	EXPECT_EQ(0, poll_fd(fd, POLLPRI, 0)) {
		TH_LOG("%s: nothing is armed", path);
	}
	EXPECT_EQ(EBUSY, trigger_write(fd, GOOD, sizeof(GOOD)));
	EXPECT_EQ(0, close(fd));
}

static void check_text_of_cgroup(struct __test_metadata *_metadata, const char *path,
				 const FIXTURE_VARIANT(text) * variant)
{
	/* Kernfs completes an empty write itself. */
	check_text(_metadata, path, variant, variant->len ? variant->error : 0);
}

TEST_F(text, on_a_file_of_the_system)
{
	check_text(_metadata, PSI_CPU, variant, variant->error);
	check_text(_metadata, PSI_MEMORY, variant, variant->error);
	check_text(_metadata, PSI_IO, variant, variant->error);
}

TEST_F(text, on_a_file_of_a_cgroup)
{
	check_text_of_cgroup(_metadata, GROUP_FILE("cpu"), variant);
	check_text_of_cgroup(_metadata, GROUP_FILE("memory"), variant);
	check_text_of_cgroup(_metadata, GROUP_FILE("io"), variant);
}

TEST_F(text, on_a_file_of_the_root_cgroup)
{
	check_text_of_cgroup(_metadata, CGROUP_ROOT "/io.pressure", variant);
}

/* ---- Files ---- */

FIXTURE(file) {
};

FIXTURE_VARIANT(file) {
	const char *path;
	bool some;
};

FIXTURE_VARIANT_ADD(file, cpu_of_the_system) { .path = PSI_CPU, .some = true };
FIXTURE_VARIANT_ADD(file, memory_of_the_system) { .path = PSI_MEMORY, .some = true };
FIXTURE_VARIANT_ADD(file, io_of_the_system) { .path = PSI_IO, .some = true };
FIXTURE_VARIANT_ADD(file, irq_of_the_system) { .path = PSI_IRQ };
FIXTURE_VARIANT_ADD(file, cpu_of_a_cgroup) { .path = GROUP_FILE("cpu"), .some = true };
FIXTURE_VARIANT_ADD(file, memory_of_a_cgroup) { .path = GROUP_FILE("memory"), .some = true };
FIXTURE_VARIANT_ADD(file, io_of_a_cgroup) { .path = GROUP_FILE("io"), .some = true };
FIXTURE_VARIANT_ADD(file, irq_of_a_cgroup) { .path = GROUP_FILE("irq") };

FIXTURE_SETUP(file)
{
	cgroup_create(GROUP, "+io");
	if (!variant->some && !psi_irq_accounted())
		SKIP(return, "interrupt time is not accounted on this machine");
}

FIXTURE_TEARDOWN(file)
{
	cgroup_remove(GROUP);
}

TEST_F(file, takes_some_unless_it_is_irq)
{
	int fd = trigger_open(variant->path);

	EXPECT_EQ(variant->some ? 0 : EINVAL, trigger_set(fd, "some 50000 1000000\n"));
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, takes_full)
{
	int fd = trigger_open(variant->path);

	EXPECT_EQ(0, trigger_set(fd, "full 50000 1000000\n"));
	EXPECT_EQ(0, poll_fd(fd, POLLPRI, 0));
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, is_refused_when_open_for_reading_only)
{
	int fd = open(variant->path, O_RDONLY | O_CLOEXEC);

	ASSERT_GE(fd, 0);
	EXPECT_EQ(EBADF, trigger_set(fd, "full 50000 1000000\n"));
	EXPECT_EQ(NO_TRIGGER, poll_fd(fd, POLLPRI, 0));
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, arms_when_open_for_writing_only)
{
	int fd = open(variant->path, O_WRONLY | O_CLOEXEC);

	ASSERT_GE(fd, 0);
	EXPECT_EQ(0, trigger_set(fd, "full 50000 1000000\n"));
	EXPECT_EQ(0, poll_fd(fd, POLLPRI, 0));
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, does_not_read_from_a_bad_pointer)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	int fd = trigger_open(variant->path);
	char *mem;

	mem = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, mem);
	ASSERT_EQ(0, munmap(mem + page, page));
	EXPECT_EQ(EFAULT, trigger_write(fd, (void *)8, 20));
	EXPECT_EQ(EFAULT, trigger_write(fd, mem + page, 20));
	/* Half of the text is mapped. */
	memcpy(mem + page - 10, "full 50000", 10);
	EXPECT_EQ(EFAULT, trigger_write(fd, mem + page - 10, 20));
	EXPECT_EQ(NO_TRIGGER, poll_fd(fd, POLLPRI, 0));
	EXPECT_EQ(0, trigger_set(fd, "full 50000 1000000\n"));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(0, munmap(mem, page));
}

/* The file rejects a text of any length as a whole; it does not take parts. */
TEST_F(file, refuses_a_text_of_many_pages)
{
	static char text[1 << 20];
	int fd = trigger_open(variant->path);

	memset(text, ' ', sizeof(text));
	memcpy(text, "full 50000 1000000", 18);
	for (size_t len = sysconf(_SC_PAGESIZE) + 1; len <= sizeof(text); len *= 2) {
		ssize_t done = write(fd, text, len);

		XFAIL_UNLESS(done < 0, "%zu bytes arm a trigger", len);
		EXPECT_EQ(-1, done);
		EXPECT_TRUE(errno == EINVAL || errno == E2BIG);
	}
	EXPECT_EQ(NO_TRIGGER, poll_fd(fd, POLLPRI, 0));
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, ignores_the_offset_of_a_write)
{
	static const char text[] = "full 50000 1000000\n";
	int fd = trigger_open(variant->path);
	char buf[512];

	/* After a read, the offset is at the end of the text. */
	ASSERT_LT(0, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(0, trigger_set(fd, text));
	EXPECT_EQ(EBUSY, trigger_set(fd, text));
	EXPECT_EQ(0, close(fd));
}

/* ---- Windows that need a capability ---- */

#define WINDOW(us)	"some 50000 " us "\n"

FIXTURE(window) {
};

FIXTURE_VARIANT(window) {
	const char *text;
	int user;
};

FIXTURE_VARIANT_ADD(window, of_the_shortest_time) { .text = WINDOW("500000"), .user = EINVAL };
FIXTURE_VARIANT_ADD(window, of_1_s) { .text = WINDOW("1000000"), .user = EINVAL };
FIXTURE_VARIANT_ADD(window, just_below_2_s) { .text = WINDOW("1999999"), .user = EINVAL };
FIXTURE_VARIANT_ADD(window, of_2_s) { .text = WINDOW("2000000") };
FIXTURE_VARIANT_ADD(window, just_above_2_s) { .text = WINDOW("2000001"), .user = EINVAL };
FIXTURE_VARIANT_ADD(window, of_3_s) { .text = WINDOW("3000000"), .user = EINVAL };
FIXTURE_VARIANT_ADD(window, of_4_s) { .text = WINDOW("4000000") };
FIXTURE_VARIANT_ADD(window, of_8_s) { .text = WINDOW("8000000") };
FIXTURE_VARIANT_ADD(window, of_the_longest_time) { .text = WINDOW("10000000") };

FIXTURE_SETUP(window)
{
	cgroup_create(GROUP, "+io");
}

FIXTURE_TEARDOWN(window)
{
	cgroup_remove(GROUP);
}

static const char * const window_paths[] = { PSI_IO, PSI_MEMORY, GROUP_FILE("io") };

#define for_each_path(path)						\
	for (size_t __i = 0; __i < ARRAY_SIZE(window_paths) &&		\
	     (path = window_paths[__i]); __i++)

/* Opens and writes each file as root or as an ordinary user. */
static void check_window(struct __test_metadata *_metadata, const char *text, bool user_opens,
			 bool user_writes, int error)
{
	const char *path;

	for_each_path(path) {
		int fd = trigger_open_as(user_opens, path);

		ASSERT_EQ(0, seteuid(user_writes ? USER : 0));
		EXPECT_EQ(error, trigger_set(fd, text)) {
			TH_LOG("%s", path);
		}
		EXPECT_EQ(error ? 0 : EBUSY, trigger_set(fd, WINDOW("2000000")));
		ASSERT_EQ(0, seteuid(0));
		EXPECT_EQ(0, close(fd));
	}
}

TEST_F(window, is_allowed_if_the_opener_has_the_capability)
{
	check_window(_metadata, variant->text, false, false, 0);
}

TEST_F(window, is_limited_for_an_ordinary_user)
{
	check_window(_metadata, variant->text, true, true, variant->user);
}

TEST_F(window, is_limited_for_root_without_the_capability)
{
	set_cap_sys_resource(false, false);
	check_window(_metadata, variant->text, false, false, variant->user);
}

TEST_F(window, is_decided_by_the_opener_when_root_writes)
{
	check_window(_metadata, variant->text, true, false, variant->user);
}

TEST_F(window, is_decided_by_the_opener_when_a_user_writes)
{
	check_window(_metadata, variant->text, false, true, 0);
}

/*
 * Writes with all capabilities of a user namespace that any user can create.
 * Returns the error.
 */
static int write_in_a_namespace(const char *path, const char *text)
{
	pid_t pid = fork_or_die();

	if (!pid) {
		if (setresuid(USER, USER, USER))
			psi_die("setresuid: %s", strerror(errno));
		if (unshare(CLONE_NEWUSER))
			psi_die("unshare: %s", strerror(errno));
		_exit(trigger_set(trigger_open(path), text));
	}
	return reap_exit(pid);
}

TEST_F(window, is_limited_for_root_of_a_child_user_namespace)
{
	const char *path;

	ASSERT_EQ(0, chown(GROUP_FILE("io"), USER, USER));
	for_each_path(path) {
		int error = write_in_a_namespace(path, variant->text);

		XFAIL_UNLESS(error == variant->user, "%s has this trigger", path);
		EXPECT_EQ(variant->user, error) {
			TH_LOG("%s", path);
		}
	}
}

/* ---- One trigger for each open file ---- */

FIXTURE(descriptor) {
	struct stalls stalls;
};

FIXTURE_SETUP(descriptor)
{
	cpus_use(1);
	stalls_create(&self->stalls, "psi_trigger", 100 * NSEC_PER_MSEC);
	group_enter(GROUP);
}

FIXTURE_TEARDOWN(descriptor)
{
	group_leave();
	cgroup_remove(GROUP);
	stalls_remove(&self->stalls);
	cpus_use(cpus_possible());
}

static void check_first_stays(struct __test_metadata *_metadata, const struct stalls *stalls,
			      const char *path)
{
	int fd = trigger_arm(path, "some 90000 1000000");
	int other = trigger_arm(path, "some 500000 1000000");

	EXPECT_EQ(EBUSY, trigger_set(fd, "some 500000 1000000\n"));
	EXPECT_EQ(EBUSY, trigger_set(fd, "some 90000 1000000\n"));
	EXPECT_EQ(EBUSY, trigger_set(other, "some 90000 1000000\n"));
	stall(stalls);
	EXPECT_TRUE(trigger_fired(fd, 500));
	EXPECT_FALSE(trigger_fired(other, 1500));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(0, close(other));
}

TEST_F(descriptor, keeps_its_first_trigger)
{
	check_first_stays(_metadata, &self->stalls, PSI_IO);
	check_first_stays(_metadata, &self->stalls, GROUP_FILE("io"));
}

TEST_F(descriptor, with_a_trigger_answers_busy_to_every_write)
{
	int fd = trigger_arm(PSI_IO, GOOD);

	EXPECT_EQ(EBUSY, trigger_set(fd, "full 1 10000000"));
	EXPECT_EQ(EBUSY, trigger_set(fd, "junk"));
	EXPECT_EQ(0, poll_fd(fd, POLLPRI, 0));
	EXPECT_EQ(0, close(fd));
}

TEST_F(descriptor, of_a_removed_cgroup_never_works_again)
{
	int armed, fresh = trigger_open(GROUP_FILE("io"));
	char buf[512];

	armed = trigger_arm(GROUP_FILE("io"), GOOD);
	group_leave();
	ASSERT_EQ(0, rmdir(GROUP));
	EXPECT_EQ(ENODEV, trigger_set(fresh, GOOD));
	EXPECT_EQ(ENODEV, trigger_set(armed, GOOD));
	EXPECT_EQ(-1, read(fresh, buf, sizeof(buf)));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_EQ(-1, read(armed, buf, sizeof(buf)));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_EQ(NO_TRIGGER, poll_fd(fresh, POLLPRI, 0));
	EXPECT_EQ(NO_TRIGGER, poll_fd(armed, POLLPRI, 0));
	EXPECT_EQ(0, close(fresh));
	EXPECT_EQ(0, close(armed));
	group_enter(GROUP);
}

/* ---- cpu full of the system ---- */

TEST(cpu_full_of_the_system_never_fires)
{
	int full = trigger_arm(PSI_CPU, "full 1 500000");
	int user = trigger_arm_user(PSI_CPU, "full 1 2000000");
	int some = trigger_arm(PSI_CPU, "some 1 500000");
	pid_t spinner[2];

	set_policy(0, SCHED_FIFO, 50);
	spin_pair_start(spinner, NULL);
	EXPECT_TRUE(trigger_fired(some, 1000));
	EXPECT_FALSE(trigger_fired(full, 3000));
	EXPECT_FALSE(trigger_fired(user, 0));
	spin_pair_stop(spinner);
}

TEST_HARNESS_MAIN
