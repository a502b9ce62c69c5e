# SPDX-License-Identifier: GPL-2.0
"""Owns the one way to refuse: a line that says what is wrong, and status 64."""


class Misuse(Exception):
    """The caller has to do something before this can work."""

    status = 64
