// SPDX-License-Identifier: GPL-2.0
/*
 * Pressure files: their bytes, their modes, and how to read them
 *
 * Invariant: a pressure file has a line "some", a line "full" of the same form,
 * and nothing else,
 *
 *     some avg10=12.34 avg60=5.67 avg300=0.89 total=1234567
 *
 * however it is read. The file of interrupts has only the line "full", as a CPU
 * in an interrupt executes no task. Dozens of programs parse these bytes, most
 * of them with a fixed sscanf() format: one more blank or digit breaks them.
 *
 * Bugs it would find: a format that depends on the value (a percentage above
 * 100, a negative number printed as a huge one); a new text between two partial
 * reads; a second read of a descriptor that returns the old text, or nothing; a
 * total that goes backwards because a reader saw half of an update.
 *
 * The parser accepts nothing but the format. The first tests show what it
 * rejects.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../kselftest_harness.h"
#include "psi_util.h"

#define ZERO_SOME	"some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
#define ZERO_FULL	"full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"

/* ---- The parser: this checker can fail ---- */

FIXTURE(wrong_text) {
};

FIXTURE_SETUP(wrong_text)
{
}

FIXTURE_TEARDOWN(wrong_text)
{
}

FIXTURE_VARIANT(wrong_text) {
	const char *text;
};

#define FULL(text)	ZERO_SOME "full " text "\n"
#define PAST_64_BITS	"18446744073709551616"
#define WRONG(name, string)	FIXTURE_VARIANT_ADD(wrong_text, name) { .text = string }

WRONG(of_an_empty_file, "");
WRONG(without_the_full_line, ZERO_SOME);
WRONG(with_the_lines_swapped, ZERO_FULL ZERO_SOME);
WRONG(with_a_third_line, ZERO_SOME ZERO_FULL ZERO_FULL);
WRONG(with_one_decimal, FULL("avg10=0.0 avg60=0.00 avg300=0.00 total=0"));
WRONG(with_three_decimals, FULL("avg10=0.000 avg60=0.00 avg300=0.00 total=0"));
WRONG(with_more_than_a_hundred_percent, FULL("avg10=100.01 avg60=0.00 avg300=0.00 total=0"));
WRONG(with_a_leading_zero, FULL("avg10=00.00 avg60=0.00 avg300=0.00 total=0"));
WRONG(with_a_negative_total, FULL("avg10=0.00 avg60=0.00 avg300=0.00 total=-1"));
WRONG(with_a_total_past_64_bits, FULL("avg10=0.00 avg60=0.00 avg300=0.00 total=" PAST_64_BITS));
WRONG(with_two_blanks, FULL(" avg10=0.00 avg60=0.00 avg300=0.00 total=0"));
WRONG(with_a_tab_at_the_end_of_a_line, FULL("avg10=0.00 avg60=0.00 avg300=0.00 total=0\t"));
WRONG(without_the_last_newline, ZERO_SOME "full avg10=0.00 avg60=0.00 avg300=0.00 total=0");
WRONG(with_the_averages_out_of_order, FULL("avg60=0.00 avg10=0.00 avg300=0.00 total=0"));
WRONG(with_a_nul_at_the_end, NULL);

TEST_F(wrong_text, is_rejected)
{
	static const char nul[] = ZERO_SOME ZERO_FULL;
	size_t len = variant->text ? strlen(variant->text) : sizeof(nul);
	const char *text = variant->text ?: nul;
	struct psi psi;

	EXPECT_NE(NULL, psi_parse(text, len, &psi));
}

TEST(right_text_is_accepted)
{
	static const char text[] =
		"some avg10=100.00 avg60=0.05 avg300=99.99 total=18446744073709551615\n"
		"full avg10=0.00 avg60=12.34 avg300=5.60 total=1000\n";
	struct psi psi;

	ASSERT_EQ(NULL, psi_parse(text, strlen(text), &psi));
	EXPECT_TRUE(psi.some.present);
	EXPECT_EQ(10000, psi.some.avg[AVG10]);
	EXPECT_EQ(5, psi.some.avg[AVG60]);
	EXPECT_EQ(9999, psi.some.avg[AVG300]);
	EXPECT_EQ(ULLONG_MAX, psi.some.total);
	EXPECT_TRUE(psi.full.present);
	EXPECT_EQ(0, psi.full.avg[AVG10]);
	EXPECT_EQ(1234, psi.full.avg[AVG60]);
	EXPECT_EQ(560, psi.full.avg[AVG300]);
	EXPECT_EQ(1000, psi.full.total);
}

/* ---- The files ---- */

/* Two spinners share CPU 0 during the test, so the values keep changing. */
FIXTURE(file) {
	pid_t spinner[2];
};

FIXTURE_VARIANT(file) {
	const char *path;
	bool some;
};

FIXTURE_VARIANT_ADD(file, cpu) { .path = PSI_CPU, .some = true };
FIXTURE_VARIANT_ADD(file, memory) { .path = PSI_MEMORY, .some = true };
FIXTURE_VARIANT_ADD(file, io) { .path = PSI_IO, .some = true };
FIXTURE_VARIANT_ADD(file, irq) { .path = PSI_IRQ };

FIXTURE_SETUP(file)
{
	if (!strcmp(variant->path, PSI_IRQ) && !psi_irq_accounted())
		SKIP(return, "interrupt time is not accounted on this machine");
	/* The spinners must not delay the test. */
	set_policy(0, SCHED_FIFO, 50);
	spin_pair_start(self->spinner, NULL);
}

FIXTURE_TEARDOWN(file)
{
	spin_pair_stop(self->spinner);
}

TEST_F(file, has_exactly_the_lines_of_the_format)
{
	struct psi psi;

	psi_read(variant->path, &psi);
	EXPECT_EQ(variant->some, psi.some.present);
	EXPECT_TRUE(psi.full.present);
}

TEST_F(file, is_readable_and_writable_by_everyone)
{
	struct stat st;

	ASSERT_EQ(0, stat(variant->path, &st));
	EXPECT_EQ(S_IFREG | 0666, st.st_mode);
	EXPECT_EQ(0, st.st_uid);
	EXPECT_EQ(0, st.st_gid);
}

TEST_F(file, opens_for_a_user_without_privileges)
{
	char buf[512];
	int fd;

	ASSERT_EQ(0, seteuid(USER));
	fd = open(variant->path, O_RDWR | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	EXPECT_GT(read(fd, buf, sizeof(buf)), 0);
	EXPECT_EQ(0, close(fd));
	ASSERT_EQ(0, seteuid(0));
}

/*
 * However one descriptor is read again, it returns totals between those that
 * fresh descriptors return before and after.
 */
static void expect_fresh(struct __test_metadata *_metadata, const char *path, bool seek)
{
	int fd = open_file(path, O_RDONLY);
	struct psi psi;

	for (int i = 0; i < 6; i++) {
		EXPECT_TRUE(psi_reread(path, fd, seek, &psi));
		sleep_for(20 * NSEC_PER_MSEC);
	}
	EXPECT_EQ(0, close(fd));
}

TEST_F(file, is_fresh_after_a_seek_to_its_start)
{
	expect_fresh(_metadata, variant->path, true);
}

TEST_F(file, is_fresh_at_each_pread)
{
	expect_fresh(_metadata, variant->path, false);
}

TEST_F(file, ends_after_its_last_line)
{
	char buf[512];
	int fd;

	fd = open(variant->path, O_RDONLY | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	ASSERT_GT(read(fd, buf, sizeof(buf)), 0);
	EXPECT_EQ(0, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(0, close(fd));
}

/*
 * The total grows by 1 ms between the reads. If every read() made a new text,
 * the bytes would be torn.
 */
TEST_F(file, is_not_torn_when_read_byte_by_byte)
{
	EXPECT_EQ(NULL, psi_read_bytewise(variant->path));
}

TEST_F(file, never_goes_backwards)
{
	struct psi last, psi;

	psi_read(variant->path, &last);
	for (int i = 0; i < 2000; i++) {
		psi_read(variant->path, &psi);
		ASSERT_LE(last.some.total, psi.some.total);
		ASSERT_LE(last.full.total, psi.full.total);
		last = psi;
	}
}

TEST_F(file, refuses_to_be_read_when_open_for_writing_only)
{
	char buf[512];
	int fd;

	fd = open(variant->path, O_WRONLY | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	EXPECT_EQ(-1, read(fd, buf, sizeof(buf)));
	EXPECT_EQ(EBADF, errno);
	EXPECT_EQ(0, close(fd));
}

/* The system always has a CPU that executes a runnable task. */
TEST(cpu_full_is_undefined_for_the_system_and_stays_zero)
{
	pid_t spinner[2];
	struct psi psi;

	spin_pair_start(spinner, NULL);
	sleep_for(5 * NSEC_PER_SEC);
	psi_read(PSI_CPU, &psi);
	spin_pair_stop(spinner);
	EXPECT_LT(0, psi.some.avg[AVG10]);
	EXPECT_EQ(0, psi.full.avg[AVG10]);
	EXPECT_EQ(0, psi.full.avg[AVG60]);
	EXPECT_EQ(0, psi.full.avg[AVG300]);
	EXPECT_EQ(0, psi.full.total);
}

TEST_HARNESS_MAIN
