# SPDX-License-Identifier: GPL-2.0
"""Which kernel the programs work on: what KERNEL= says, and what it has of its own.

The kernel that the series is developed on is DEFAULT. For another one, what the
programs make is in build/KERNEL, and these come before what is for all:

    BASE.KERNEL             the source package, in place of BASE
    configs/KERNEL/         fragments, in place of those with the same name
    patches/KERNEL/         hunks: of a file that is in patches/KERNEL/NAME.patch, those
                            there count, and the ones in patches/NAME.patch do not. A
                            line "diff --git" without hunks: that kernel needs none
    ci/lists/KERNEL/        more lines of the lists with the same name; of DEFAULT, too
"""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFAULT = "6.12"
KERNEL = os.environ.get("KERNEL") or DEFAULT
OTHER = KERNEL != DEFAULT
BUILD = ROOT / "build" / KERNEL if OTHER else ROOT / "build"


def in_place_of(path):
    """PATH, or what this kernel has in its place."""
    own = path.parent / KERNEL / path.name
    return own if OTHER and own.is_file() else path
