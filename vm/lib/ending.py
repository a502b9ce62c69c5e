# SPDX-License-Identifier: GPL-2.0
"""Owns how a program here ends early: it refuses with one line and status 64, or a signal stops it."""

import signal
import sys

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Misuse(Exception):
    """The caller has to do something before this can work."""

    status = 64


class Interrupted(BaseException):
    """A signal asked us to stop: an exception, so that every "with" on the way out cleans up."""

    def __init__(self, number):
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.status = 128 + number


def stop(number, _frame):
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(number)


def run(name, main):
    """End the program with the status that main() returns, or with a line on why it does not."""
    for number in SIGNALS:
        signal.signal(number, stop)
    try:
        sys.exit(main(sys.argv[1:]))
    except (Misuse, Interrupted) as reason:
        print(f"{name}: {reason}", file=sys.stderr)
        sys.exit(reason.status)
    except OSError as error:
        print(f"{name}: {error.filename or 'host'}: {error.strerror}", file=sys.stderr)
        sys.exit(Misuse.status)
