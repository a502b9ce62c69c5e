# SPDX-License-Identifier: GPL-2.0
"""Possible CPUs that are not there: a table of ACPI tells the kernel of them.

QEMU would have to simulate each of them, which costs the host 2 s of every boot.
"""
import struct

ENABLED = 1
# ISA interrupt, global interrupt, flags: what QEMU's own table says.
OVERRIDES = ((0, 2, 0), (5, 5, 13), (9, 9, 13), (10, 10, 13), (11, 11, 13))


def lapic(cpu):
    """The entry of a CPU, by the number of its APIC."""
    return struct.pack("<BBBBI", 0, 8, cpu, cpu, ENABLED)


def lsapic(cpu):
    """One that has numbers above 254: Itanium's, but the kernel takes them on any machine, with any APIC."""
    return struct.pack("<BBBBBxxxII", 7, 16, cpu & 255, cpu >> 8, cpu & 255, ENABLED, cpu)


def madt(cpus):
    """The body of a multiple APIC description table of the q35 machine.

    The kernel numbers CPUs as they stand there: with very many the machine's second one is the last.
    """
    table = struct.pack("<II", 0xfee00000, 1)
    if cpus < 255:
        table += b"".join(map(lapic, range(cpus)))
    else:
        table += b"".join(map(lsapic, [0, *range(2, cpus), 1]))
    table += struct.pack("<BBBBII", 1, 12, 0, 0, 0xfec00000, 0)
    table += b"".join(struct.pack("<BBBBIH", 2, 10, 0, *override) for override in OVERRIDES)
    return table + struct.pack("<BBBHB", 4, 6, 255, 0, 1)


def options(cpus, path):
    """Options of vm/run for a machine with one CPU; writes the table to PATH."""
    path.write_bytes(madt(cpus))
    # The kernel does not try to start the others.
    return ["--qemu=-acpitable", f"--qemu=sig=APIC,rev=3,data={path}",
            "--append", "maxcpus=1 acpi_apic_instance=2"]
