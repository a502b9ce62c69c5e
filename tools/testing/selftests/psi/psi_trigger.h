/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Triggers: arming them and collecting their events
 */
#ifndef PSI_TRIGGER_H
#define PSI_TRIGGER_H

#include "psi_util.h"

/* What poll() reports for a file that has no trigger, or has lost it. */
#define NO_TRIGGER	(POLLERR | POLLPRI)

/* Opens a pressure file read-write, as root or as an ordinary user. */
int trigger_open_as(bool user, const char *path);
#define trigger_open(path)		trigger_open_as(false, path)
#define trigger_open_user(path)		trigger_open_as(true, path)

/* Writes @len bytes. Returns 0, or the error; a short write ends the test. */
int trigger_write(int fd, const void *text, size_t len);
/* The same with a string, without its NUL. */
int trigger_set(int fd, const char *text);

/**
 * trigger_arm_as - open a pressure file and arm a trigger on it
 * @user: open it as an ordinary user
 * @path: the file
 * @fmt: the text of the trigger, as for printf()
 *
 * An error ends the test.
 *
 * Return: the descriptor
 */
int __printf(3, 4) trigger_arm_as(bool user, const char *path, const char *fmt, ...);
#define trigger_arm(path, ...)		trigger_arm_as(false, path, __VA_ARGS__)
#define trigger_arm_user(path, ...)	trigger_arm_as(true, path, __VA_ARGS__)

/* What poll() reports for @events within @ms. */
short poll_fd(int fd, short events, int ms);
/* Collects an event that is pending, or happens within @ms. */
bool trigger_fired(int fd, int ms);
/* Collects events until @end; returns their number. */
int trigger_count(int fd, __u64 end);

#endif
