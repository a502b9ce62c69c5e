# SPDX-License-Identifier: GPL-2.0
"""Owns the question whether a kernel patches its text while it runs, told by its image."""

import struct
import subprocess
import zlib

WORDS = b"can't patch jump_label at"    # of kernel/jump_label.c
SECTORS, OFFSET = 0x1f1, 0x248          # of a bzImage: Documentation/arch/x86/boot.rst


def patches_text(path):
    """Whether the kernel in an image has static keys that it patches; True for a compression that we do not know."""
    with open(path, "rb") as file:
        image = file.read()
    if image[0x202:0x206] == b"HdrS":
        offset, length = struct.unpack_from("<II", image, OFFSET)
        image = unpacked(image[((image[SECTORS] or 4) + 1) * 512 + offset:][:length])
    return image is None or WORDS in image


def unpacked(data):
    """The kernel, or None."""
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        # Four bytes with the length come after the end.
        return subprocess.run(["zstd", "-dcq"], input=data[:-4], stdout=subprocess.PIPE, check=True).stdout
    return None
