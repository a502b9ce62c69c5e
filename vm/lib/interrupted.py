# SPDX-License-Identifier: GPL-2.0
"""Owns the signals that end a run: each becomes an exception, so that every
"with" on the way out cleans up, and the exit status tells which it was."""

import signal


class Interrupted(BaseException):
    """A signal asked us to stop."""

    def __init__(self, number):
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.status = 128 + number


def catch():
    def stop(number, _frame):
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    for number in SIGNALS:
        signal.signal(number, stop)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
