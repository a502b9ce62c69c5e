// SPDX-License-Identifier: GPL-2.0
/*
 * A trigger's events in the event loops that programs have, or a level's.
 *
 *	loops LOOP TRIGGER COUNT [LEAVE]	end when so many events have come
 *
 * With LEAVE, in us, a level is entered and left so many times.
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
static int left, last = PSI_NOTHING;
static bool level;

/*
 * What each loop does with what its poll found, or its timer; true when all have come.
 * A level is entered and left in turns.
 */
static bool collect(short revents)
{
	int event = psi_watch_collect(watch, revents);
	unsigned long long stall, over;

	if (event < 0 || (event == PSI_LEFT && last != PSI_EVENT) ||
	    (level && event == PSI_EVENT && last == PSI_EVENT) ||
	    (event && psi_watch_amount(watch, &stall, &over)))
		exit(1);
	last = event ? event : last;
	left -= event == (level ? PSI_LEFT : PSI_EVENT);
	return left <= 0;
}

static void run_epoll(void)
{
	struct epoll_event event = { .events = psi_watch_events(watch) };
	int epoll = epoll_create1(0);

	epoll_ctl(epoll, EPOLL_CTL_ADD, psi_watch_fd(watch), &event);
	do
		event.events = epoll_wait(epoll, &event, 1, psi_watch_timeout(watch)) == 1 ?
			       event.events : 0;
	while (!collect(event.events));
}

static int sd_event_next(sd_event_source *source, short revents);

static int on_sd_event(sd_event_source *source, int fd, uint32_t revents, void *data)
{
	(void)fd;
	(void)data;
	return sd_event_next(source, revents);
}

static int on_sd_event_timer(sd_event_source *source, uint64_t us, void *data)
{
	(void)us;
	(void)data;
	return sd_event_next(source, 0);
}

/* A timer is for one time only.  One that is early does no harm. */
static int sd_event_next(sd_event_source *source, short revents)
{
	sd_event *loop = sd_event_source_get_event(source);

	if (collect(revents))
		return sd_event_exit(loop, 0);
	if (psi_watch_timeout(watch) < 0)
		return 0;
	return sd_event_add_time_relative(loop, NULL, CLOCK_MONOTONIC,
					  psi_watch_timeout(watch) * 1000ULL, 1,
					  on_sd_event_timer, NULL);
}

static void run_sd_event(void)
{
	sd_event *loop;

	sd_event_default(&loop);
	sd_event_add_io(loop, NULL, psi_watch_fd(watch), psi_watch_events(watch), on_sd_event,
			NULL);
	sd_event_loop(loop);
}

static gboolean on_glib_timer(gpointer loop);

static void glib_next(GMainLoop *loop, short revents)
{
	if (collect(revents))
		g_main_loop_quit(loop);
	else if (psi_watch_timeout(watch) >= 0)
		g_timeout_add(psi_watch_timeout(watch), on_glib_timer, loop);
}

static gboolean on_glib_timer(gpointer loop)
{
	glib_next(loop, 0);
	return G_SOURCE_REMOVE;
}

static gboolean on_glib(gint fd, GIOCondition condition, gpointer loop)
{
	(void)fd;
	glib_next(loop, condition);
	return G_SOURCE_CONTINUE;
}

static void run_glib(void)
{
	GMainLoop *loop = g_main_loop_new(NULL, FALSE);

	g_unix_fd_add(psi_watch_fd(watch), psi_watch_events(watch), on_glib, loop);
	g_main_loop_run(loop);
}

static uv_timer_t uv_timer;

static void on_uv_timer(uv_timer_t *timer);

static void uv_next(uv_loop_t *loop, short revents)
{
	if (collect(revents))
		uv_stop(loop);
	else if (psi_watch_timeout(watch) >= 0)
		uv_timer_start(&uv_timer, on_uv_timer, psi_watch_timeout(watch), 0);
}

static void on_uv_timer(uv_timer_t *timer)
{
	uv_next(timer->loop, 0);
}

static void on_uv(uv_poll_t *handle, int status, int events)
{
	if (status < 0)
		exit(1);
	uv_next(handle->loop, events & UV_PRIORITIZED ? psi_watch_events(watch) : 0);
}

static void run_uv(void)
{
	uv_loop_t *loop = uv_default_loop();
	uv_poll_t handle;

	uv_timer_init(loop, &uv_timer);
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

	if (argc != 4 && argc != 5)
		return 2;
	left = atoi(argv[3]);
	error = psi_watch_trigger(&watch, argv[2], NULL);
	if (error) {
		fprintf(stderr, "%s: %s\n", argv[2], strerror(-error));
		return 1;
	}
	level = argc == 5;
	if (level && psi_watch_level(watch, atoi(argv[4])))
		return 2;
	for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++)
		if (!strcmp(argv[1], loops[i].name))
			loops[i].run();
	psi_watch_close(watch);
	return left > 0;
}
