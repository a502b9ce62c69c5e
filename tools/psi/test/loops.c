// SPDX-License-Identifier: GPL-2.0
/*
 * A trigger's events in the event loops that programs have.
 *
 *	loops LOOP TRIGGER COUNT	end when so many events have come
 */
#include <glib-unix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <systemd/sd-event.h>
#include <uv.h>

#include "../libpsi.h"

static struct psi_watch *watch;
static int left;

/* What each loop does with what its poll found; true when all have come. */
static bool collect(short revents)
{
	int event = psi_watch_collect(watch, revents);

	if (event < 0)
		exit(1);
	left -= event == PSI_EVENT;
	return left <= 0;
}

static void run_epoll(void)
{
	struct epoll_event event = { .events = psi_watch_events(watch) };
	int epoll = epoll_create1(0);

	epoll_ctl(epoll, EPOLL_CTL_ADD, psi_watch_fd(watch), &event);
	do
		event.events = epoll_wait(epoll, &event, 1, -1) == 1 ? event.events : 0;
	while (!collect(event.events));
}

static int on_sd_event(sd_event_source *source, int fd, uint32_t revents, void *data)
{
	(void)fd;
	(void)data;
	return collect(revents) ? sd_event_exit(sd_event_source_get_event(source), 0) : 0;
}

static void run_sd_event(void)
{
	sd_event *loop;

	sd_event_default(&loop);
	sd_event_add_io(loop, NULL, psi_watch_fd(watch), psi_watch_events(watch), on_sd_event,
			NULL);
	sd_event_loop(loop);
}

static gboolean on_glib(gint fd, GIOCondition condition, gpointer loop)
{
	(void)fd;
	if (!collect(condition))
		return G_SOURCE_CONTINUE;
	g_main_loop_quit(loop);
	return G_SOURCE_REMOVE;
}

static void run_glib(void)
{
	GMainLoop *loop = g_main_loop_new(NULL, FALSE);

	g_unix_fd_add(psi_watch_fd(watch), psi_watch_events(watch), on_glib, loop);
	g_main_loop_run(loop);
}

static void on_uv(uv_poll_t *handle, int status, int events)
{
	if (status < 0)
		exit(1);
	if (collect(events & UV_PRIORITIZED ? psi_watch_events(watch) : 0))
		uv_stop(handle->loop);
}

static void run_uv(void)
{
	uv_loop_t *loop = uv_default_loop();
	uv_poll_t handle;

	uv_poll_init(loop, &handle, psi_watch_fd(watch));
	uv_poll_start(&handle, UV_PRIORITIZED, on_uv);
	uv_run(loop, UV_RUN_DEFAULT);
}

static const struct {
	const char *name;
	void (*run)(void);
} loops[] = {
	{ "epoll", run_epoll }, { "sd-event", run_sd_event }, { "glib", run_glib }, { "uv", run_uv }
};

int main(int argc, char **argv)
{
	int error;

	if (argc != 4)
		return 2;
	left = atoi(argv[3]);
	error = psi_watch_trigger(&watch, argv[2], NULL);
	if (error) {
		fprintf(stderr, "%s: %s\n", argv[2], strerror(-error));
		return 1;
	}
	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
		if (!strcmp(argv[1], loops[i].name))
			loops[i].run();
	psi_watch_close(watch);
	return left > 0;
}
