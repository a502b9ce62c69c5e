// SPDX-License-Identifier: GPL-2.0
/* The kernel code that the fuzzer reaches: see psi_fuzz.h. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcov.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "psi_fuzz.h"

#define WORDS	65536		/* addresses that one round may record */
#define PLACES	65536		/* by a hash of 16 bits; some hundred are in use */

/* The kernel writes the number of addresses, then the addresses. */
static unsigned long *trace;
static bool known[PLACES];
static unsigned int nr_known;

void cover_begin(void)
{
	int fd = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		psi_die("/sys/kernel/debug/kcov: %s (needs CONFIG_KCOV)", strerror(errno));
	if (ioctl(fd, KCOV_INIT_TRACE, WORDS))
		psi_die("KCOV_INIT_TRACE: %s", strerror(errno));
	trace = mmap(NULL, WORDS * sizeof(*trace), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (trace == MAP_FAILED)
		psi_die("mmap of kcov: %s", strerror(errno));
	/* Trace this task until it ends. */
	if (ioctl(fd, KCOV_ENABLE, KCOV_TRACE_PC))
		psi_die("KCOV_ENABLE: %s", strerror(errno));
}

bool cover_new(void)
{
	unsigned int before = nr_known;
	unsigned long nr;

	if (!trace)
		return false;
	nr = __atomic_load_n(trace, __ATOMIC_RELAXED);
	for (unsigned long i = 1; i <= nr; i++) {
		bool *place = &known[trace[i] * 0x9e3779b97f4a7c15UL >> 48];

		nr_known += !*place;
		*place = true;
	}
	__atomic_store_n(trace, 0, __ATOMIC_RELAXED);
	return nr_known > before;
}

unsigned int cover_places(void)
{
	return nr_known;
}
