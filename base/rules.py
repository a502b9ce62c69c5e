# SPDX-License-Identifier: GPL-2.0
"""Where the stock PSI is in a kernel, and the edit that takes each part out.

DELETED: files that are PSI and nothing else.
RULES:   file -> the steps applied to it, in this order. Each has to match at least once.
         What follows here is in every kernel; SERIES/rules.py has more steps for that one.
"""

import os
import runpy

from edits import Block, Entry, Function, Include, Label, Line, Replace, Statement


class Unifdef:
    """Resolves #ifdef CONFIG_PSI as not set."""

    name = "unifdef CONFIG_PSI"


class Cocci:
    """A semantic patch of cocci/."""

    def __init__(self, patch):
        self.patch = patch
        self.name = "cocci/%s.cocci" % patch


PSI_H = ("include of psi.h", Include("linux/psi.h"))
SECTIONS = Cocci("memstall-sections")
FLAGS = Cocci("memstall-flags")

DELETED = [
    "Documentation/accounting/psi.rst",
    "Documentation/translations/zh_CN/accounting/psi.rst",
    "include/linux/psi.h",
    "include/linux/psi_types.h",
    "kernel/sched/psi.c",
]

RULES = {
    # The switches and what describes them.
    "init/Kconfig": [
        ("config PSI", Entry(r"config PSI", stop=r"\S")),
        ("config PSI_DEFAULT_DISABLED", Entry(r"config PSI_DEFAULT_DISABLED", stop=r"\S")),
    ],
    "arch/powerpc/configs/ppc64_defconfig": [
        ("CONFIG_PSI", Line(r"CONFIG_PSI=y")),
    ],
    "MAINTAINERS": [
        ("PSI entry", Entry(r"PRESSURE STALL INFORMATION \(PSI\)", stop=r"[A-Z0-9][^:]")),
    ],
    "Documentation/accounting/index.rst": [
        ("psi in the index", Line(r"   psi")),
    ],
    "Documentation/translations/zh_CN/accounting/index.rst": [
        ("psi in the index", Line(r"   psi")),
    ],
    "Documentation/admin-guide/kernel-parameters.txt": [
        ("psi=", Entry(r"psi=\t.*")),
        ("cgroup_disable=pressure",
         Block(r"\t+Specifying \"pressure\" disables .*", r"\t+stall information.*", limit=2)),
    ],
    "Documentation/admin-guide/cgroup-v2.rst": [
        ("*.pressure files", Entry(r"(?:cgroup|cpu|memory|io|irq)\.pressure")),
    ],

    # Scheduler.
    "kernel/sched/build_policy.c": [PSI_H],
    "kernel/sched/build_utility.c": [Unifdef, PSI_H],
    "kernel/sched/fair.c": [PSI_H],
    "kernel/sched/sched.h": [
        PSI_H,
        ("psi_irq_time of struct rq", Line(r"\tu64\s+psi_irq_time;")),
    ],
    "kernel/sched/stats.h": [
        Unifdef,
        ("stubs of the hooks", Function(r"psi_\w+")),
    ],
    "kernel/sched/core.c": [
        PSI_H,
        ("hook in enqueue_task()", Statement("psi_enqueue")),
        ("hook in dequeue_task()", Statement("psi_dequeue")),
        ("hook in try_to_wake_up()", Statement("psi_ttwu_dequeue")),
        ("comment above try_to_wake_up()", Line(r" \*  - psi_ttwu_dequeue\(\).*")),
        ("hooks for interrupt time", Statement("psi_account_irqtime")),
        ("hook in __schedule()", Statement("psi_sched_switch")),
        ("hook in sched_init()", Statement("psi_init")),
    ],
    "kernel/fork.c": [Unifdef],
    "include/linux/sched.h": [Unifdef],

    # Memory-stall sections.
    "block/blk-cgroup.c": [PSI_H, SECTIONS, FLAGS],
    "fs/btrfs/compression.c": [PSI_H, SECTIONS, Cocci("btrfs-readahead"), FLAGS],
    "fs/erofs/zdata.c": [
        # It got <linux/kthread.h>, which it needs, through psi.h.
        ("include of psi.h", Replace(r"^#include <linux/psi\.h>$", "#include <linux/kthread.h>")),
        SECTIONS, Cocci("erofs-submit"),
        FLAGS,
    ],
    "mm/compaction.c": [PSI_H, SECTIONS, FLAGS],
    "mm/filemap.c": [PSI_H, SECTIONS, FLAGS, Cocci("unused-workingset")],
    "mm/memcontrol.c": [PSI_H, SECTIONS, FLAGS],
    "mm/page_alloc.c": [PSI_H, SECTIONS, FLAGS],
    "mm/page_io.c": [PSI_H, SECTIONS, FLAGS],
    "mm/readahead.c": [PSI_H, SECTIONS, Cocci("readahead")],
    "include/linux/pagemap.h": [Cocci("readahead-control")],
    "mm/vmscan.c": [PSI_H, SECTIONS, FLAGS],

    # cgroup.
    "kernel/cgroup/cgroup.c": [
        PSI_H,
        Unifdef,
        Cocci("cgroup-core"),
        ("label of the failed allocation", Label("out_psi_free")),
        ("declaration of the files", Line(r"static struct cftype cgroup_psi_files\[\];")),
        ("the files",
         Block(r"static struct cftype cgroup_psi_files\[\] = \{", r"\};", limit=3)),
    ],
    "kernel/cgroup/cgroup-internal.h": [
        ("psi of struct cgroup_file_ctx", Block(r"\tstruct \{(?=\n.*\n\t\} psi;\n)",
                                                r"\t\} psi;", limit=3)),
    ],
    "include/linux/cgroup-defs.h": [
        # Others got <linux/kthread.h> through psi_types.h; it is all they got through it only.
        ("include of psi_types.h", Replace(r"^#include <linux/psi_types\.h>$",
                                           "#include <linux/kthread.h>")),
        ("psi_files of struct cgroup",
         Block(r"\t/\* handles for .*\.pressure.* \*/",
               r"\tstruct cgroup_file psi_files\[.*\];", limit=2)),
        ("psi of struct cgroup",
         Block(r"\t/\* used to track pressure stalls \*/",
               r"\tstruct psi_group \*psi;", limit=2)),
    ],
    "include/linux/cgroup.h": [
        ("declaration of cgroup_psi_enabled()", Line(r"bool cgroup_psi_enabled\(void\);")),
        ("stub of cgroup_psi_enabled()", Function("cgroup_psi_enabled")),
    ],

    # DAMON's quota goal that follows the memory pressure.
    "include/linux/damon.h": [
        ("DAMOS_QUOTA_SOME_MEM_PSI_US", Line(r".*\bDAMOS_QUOTA_SOME_MEM_PSI_US\b.*")),
    ],
    "mm/damon/core.c": [
        PSI_H,
        Unifdef,
        ("damos_get_some_mem_psi_total()", Function("damos_get_some_mem_psi_total")),
        ("case DAMOS_QUOTA_SOME_MEM_PSI_US",
         Block(r"\tcase DAMOS_QUOTA_SOME_MEM_PSI_US:", r"\t\tbreak;", limit=5)),
        ("now_psi_total", Line(r"\tu64 now_psi_total;")),
    ],
    "mm/damon/reclaim.c": [
        ("parameter quota_mem_pressure_us",
         Block(r"/\*(?=\n \* Desired level of memory pressure-stall time)",
               r"module_param\(quota_mem_pressure_us, .*\);", limit=17)),
        ("goal of quota_mem_pressure_us",
         Block(r"\tif \(quota_mem_pressure_us\) \{", r"\t\}", limit=7)),
    ],
    "Documentation/admin-guide/mm/damon/reclaim.rst": [
        ("quota_mem_pressure_us",
         Entry(r"quota_mem_pressure_us", stop=r"quota_autotune_feedback$")),
    ],
    "Documentation/mm/damon/design.rst": [
        ("some_mem_psi_us", Entry(r"- ``some_mem_psi_us``:.*", stop=r"\S")),
    ],
    "tools/testing/selftests/damon/_damon_sysfs.py": [
        ("qgoal_metric_some_mem_psi_us", Line(r"qgoal_metric_some_mem_psi_us = .*")),
        ("list of metrics", Replace(r", qgoal_metric_some_mem_psi_us\b", "")),
    ],
}


def of(series):
    """The rules for a kernel of that series; None if there are none."""
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), str(series), "rules.py")
    if not os.path.exists(path):
        return None
    more = runpy.run_path(path)["RULES"]
    return {path: RULES.get(path, []) + more.get(path, []) for path in [*RULES, *more]}
