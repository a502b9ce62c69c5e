// SPDX-License-Identifier: GPL-2.0
/*
 * What pressure why --cpu says of a trace on the standard input:
 * holders GROUP FROM TO SHORTAGE LIMIT, where SHORTAGE may be nan.
 */
#include "../holders.c"

int main(int argc, char **argv)
{
	struct report report = { 0 };
	struct trace trace;

	if (argc != 6)
		return 2;
	psi_set_root(getenv("PRESSURE_ROOT"));
	trace_begin(&trace, argv[1]);
	trace.from = atof(argv[2]);
	trace.to = atof(argv[3]);
	drain(&trace, stdin, INFINITY);
	pass_time(&trace, trace.to);
	fill_report(&report, &trace, strtod(argv[4], NULL), atof(argv[5]));
	report_json(stdout, &report);
	report_free(&report);
	trace_end(&trace);
	return 0;
}
