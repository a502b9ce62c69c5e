// SPDX-License-Identifier: GPL-2.0
/* pressure(1): which resource is short, where, and why. */
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pressure.h"

static int verb_help(int argc, char **argv);

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} verbs[] = {
	{ "show", verb_show, "measure for 2 s: what is slow, and why (also without a verb)" },
	{ "run", verb_run, "run a program and tell how much time it lost by waiting" },
	{ "top", verb_top, "what all cgroups wait for, live, worst first" },
	{ "wait", verb_wait, "wait until pressure is below a threshold" },
	{ "on", verb_on, "run a program whenever pressure reaches a threshold" },
	{ "pace", verb_pace, "run a build with as many jobs as pressure allows" },
	{ "record", verb_record, "a flight recorder: pressure of all cgroups, once a second" },
	{ "replay", verb_replay, "show what was recorded, as it went" },
	{ "why", verb_why, "which programs wait, for what, and what has the CPUs" },
	{ "simulate", verb_simulate, "send events to a service under test, or make real stalls" },
	{ "doctor", verb_doctor, "does pressure work here, and whose is shown" },
	{ "export", verb_export, "totals of all cgroups for Prometheus" },
	{ "help", verb_help, "show this" },
};

static int verb_help(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--help") && strcmp(argv[1], "-h"))
		die("help takes no arguments; every verb has --help");
	printf("usage: pressure [VERB] [OPTIONS]\n\n"
	       "How long programs wait for cpu, memory and storage here, and why.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		printf("  %-10s %s\n", verbs[i].name, verbs[i].help);
	printf("\nEvery verb has --help, and --json for programs; --version says which this is.\n"
	       "See pressure(1) for what the words mean.\n");
	return STATUS_OK;
}

int main(int argc, char **argv)
{
	int fd;

	setlocale(LC_CTYPE, "");
	/* Where it is ignored, commands end without a status. */
	signal(SIGCHLD, SIG_DFL);
	/* No file takes the place of a closed stream; writes to it fail. */
	while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO)
		;
	close(fd);
	psi_set_root(getenv("PRESSURE_ROOT"));
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return verb_help(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "--version")) {
		if (argc > 2)
			die("--version takes no arguments");
		puts("pressure " VERSION);
		return STATUS_OK;
	}
	if (argc < 2 || argv[1][0] == '-') {
		argv[0] = "show";
		return verb_show(argc, argv);
	}
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (!strcmp(argv[1], verbs[i].name))
			return verbs[i].run(argc - 1, argv + 1);
	die("there is no verb '%s'; 'pressure help' lists them", argv[1]);
}
