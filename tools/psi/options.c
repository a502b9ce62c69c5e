// SPDX-License-Identifier: GPL-2.0
/* Command lines of verbs, from tables. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "pressure.h"

#define OPTIONS_MAX	16

bool opt_json;

static const struct opt common[] = {
	{ "json", OPT_FLAG, &opt_json, NULL, "print JSON" },
	{ "help", OPT_FLAG, NULL, NULL, "show this help" },
	{ 0 }
};

static double read_time(const char *name, const char *text)
{
	static const struct {
		const char *unit;
		double seconds;
	} units[] = { { "", 1 }, { "s", 1 }, { "ms", 0.001 }, { "m", 60 }, { "h", 3600 } };
	char *unit;
	double number = strtod(text, &unit);

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (unit != text && !strcmp(unit, units[i].unit) && number >= 0 && number < 1e8)
			return number * units[i].seconds;
	die("--%s: '%s' is no time; write it as 5s, 200ms or 2m", name, text);
}

static long read_number(const char *name, const char *text)
{
	long number;
	char *end;

	errno = 0;
	number = strtol(text, &end, 10);
	if (end == text || *end)
		die("--%s: '%s' is no whole number", name, text);
	if (errno || number < 1)
		die("--%s: '%s' is %s", name, text, number < 1 ? "less than 1" : "too large");
	return number;
}

static void set(const struct opt *opt, const char *argument)
{
	switch (opt->type) {
	case OPT_FLAG:
		*(bool *)opt->value = true;
		break;
	case OPT_TEXT:
		*(const char **)opt->value = argument;
		break;
	case OPT_TIME:
	case OPT_DURATION:
		*(double *)opt->value = read_time(opt->name, argument);
		/* A shorter one tells nothing. */
		if (opt->type == OPT_DURATION && *(double *)opt->value < 0.001)
			die("--%s: a time of at least 1ms", opt->name);
		break;
	case OPT_NUMBER:
		*(long *)opt->value = read_number(opt->name, argument);
		break;
	}
}

static void help_option(const struct opt *opt)
{
	char left[32];

	snprintf(left, sizeof(left), "--%s%s%s", opt->name, opt->argument ? " " : "",
		 opt->argument ? opt->argument : "");
	printf("  %-20s %s\n", left, opt->help);
}

static void help(const struct opt *opts, const char *synopsis)
{
	printf("usage: pressure %s\n\n", synopsis);
	for (; opts->name; opts++)
		help_option(opts);
	for (opts = common; opts->name; opts++)
		help_option(opts);
}

/* -j 8 is what make has. */
static const char *jobs_of(char **argv)
{
	while (*argv && strncmp(*argv, "-j", 2))
		argv++;
	if (*argv)
		argv += !(*argv)[2] && argv[1];
	return *argv ? *argv + strcspn(*argv, "0123456789") : "";
}

static void refuse(char **argv, const struct opt *opts)
{
	const char *jobs = jobs_of(argv), *word = argv[optind - 1];

	if (!optopt && (!strncmp(word, "--record", 8) || !strncmp(word, "--since", 7) ||
			!strncmp(word, "--until", 7)))
		die("%s: 'pressure %s' acts on the machine as it is now, and nothing can act on "
		    "what was recorded", word, argv[0]);
	/* Of a cluster of letters getopt tells the one it does not know. */
	if (!isalpha(optopt))
		die("%s: unknown, or lacks its argument; 'pressure %s --help' lists all",
		    word, argv[0]);
	while (opts->name && (optopt != 'j' || strcmp(opts->name, "jobs")))
		opts++;
	if (opts->name)
		die("-j: unknown; write --jobs %.*s", (int)strspn(jobs, "0123456789"),
		    *jobs ? jobs : "8");
	die("-%c: unknown; 'pressure %s --help' lists all", optopt, argv[0]);
}

/**
 * parse_options() - read the options of a verb
 * @argc: arguments, the verb's name included
 * @argv: the arguments
 * @opts: its options
 * @synopsis: how it is used, for the help; where it has no COMMAND, options may
 *	also come after arguments
 *
 * Ends the program after --help and after a mistake.
 *
 * Return: what is left, up to a NULL
 */
char **parse_options(int argc, char **argv, const struct opt *opts, const char *synopsis)
{
	struct option longs[OPTIONS_MAX + 1] = { 0 };
	const struct opt *all[OPTIONS_MAX];
	const char *letters = strstr(synopsis, "COMMAND") ? "+h" : "h";
	int count = 0, index = 0, result;

	for (const struct opt *opt = opts; opt->name; opt++)
		all[count++] = opt;
	for (const struct opt *opt = common; opt->name; opt++)
		all[count++] = opt;
	for (index = 0; index < count; index++)
		longs[index] = (struct option){ all[index]->name, all[index]->type != OPT_FLAG,
						NULL, 1 };
	optind = 0;
	opterr = 0;
	while ((result = getopt_long(argc, argv, letters, longs, &index)) != -1) {
		if (result == 'h') {
			help(opts, synopsis);
			exit(STATUS_OK);
		}
		if (result == '?')
			refuse(argv, opts);
		if (!all[index]->value) {
			help(opts, synopsis);
			exit(STATUS_OK);
		}
		set(all[index], optarg);
	}
	return argv + optind;
}
