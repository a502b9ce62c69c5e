# SPDX-License-Identifier: GPL-2.0
"""Where the stock PSI is in a kernel, and the edit that takes each part out.

DELETED: files that are PSI and nothing else.
RULES:   file -> the steps applied to it, in this order. Each has to match at least once.
         What follows here is in every kernel; SERIES/rules.py has more steps for that one.
"""

import pathlib
import runpy

from edits import block, cut, entry, flag, function, replace, section, statement, unifdef

PSI_H = ("include of psi.h", cut(r"#include <linux/psi\.h>"))
UNIFDEF = ("unifdef CONFIG_PSI", unifdef)
# Memory-stall sections, and what they kept.
SECTIONS = ("memory-stall sections", section(r"psi_memstall_(?:enter|leave)"))
FLAGS = ("pflags", cut(r"[ \t]+unsigned long pflags;"))
MEMSTALL = ("memstall", cut(r"[ \t]+int memstall = 0;"))

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
        ("config PSI", entry(r"config PSI", stop=r"\S")),
        ("config PSI_DEFAULT_DISABLED", entry(r"config PSI_DEFAULT_DISABLED", stop=r"\S")),
    ],
    "arch/powerpc/configs/ppc64_defconfig": [("CONFIG_PSI", cut(r"CONFIG_PSI=y"))],
    "MAINTAINERS": [("PSI entry", entry(r"PRESSURE STALL INFORMATION \(PSI\)", stop=r"[A-Z0-9][^:]"))],
    "Documentation/accounting/index.rst": [("psi in the index", cut(r"   psi"))],
    "Documentation/translations/zh_CN/accounting/index.rst": [("psi in the index", cut(r"   psi"))],
    "Documentation/admin-guide/kernel-parameters.txt": [
        ("psi=", entry(r"\tpsi=\t.*", stop=r"\t?\S")),
        ("cgroup_disable=pressure",
         block(r"\t+Specifying \"pressure\" disables .*", r"\t+stall information.*", limit=2)),
    ],
    "Documentation/admin-guide/cgroup-v2.rst": [
        ("*.pressure files", entry(r"  (?:cgroup|cpu|memory|io|irq)\.pressure", stop=r" ? ?\S")),
    ],

    # Scheduler.
    "kernel/sched/build_policy.c": [PSI_H],
    "kernel/sched/build_utility.c": [UNIFDEF, PSI_H],
    "kernel/sched/fair.c": [PSI_H],
    "kernel/sched/sched.h": [
        PSI_H,
        ("psi_irq_time of struct rq", cut(r"\tu64\s+psi_irq_time;")),
    ],
    "kernel/sched/stats.h": [
        UNIFDEF,
        ("stubs of the hooks", function(r"psi_\w+")),
    ],
    "kernel/sched/core.c": [
        PSI_H,
        ("hook in enqueue_task()", statement("psi_enqueue")),
        ("hook in dequeue_task()", statement("psi_dequeue")),
        ("hook in try_to_wake_up()", statement("psi_ttwu_dequeue")),
        ("comment above try_to_wake_up()", cut(r" \*  - psi_ttwu_dequeue\(\).*")),
        ("hooks for interrupt time", statement("psi_account_irqtime")),
        ("hook in __schedule()", statement("psi_sched_switch")),
        ("hook in sched_init()", statement("psi_init")),
    ],
    "kernel/fork.c": [UNIFDEF],
    "include/linux/sched.h": [UNIFDEF],

    # Memory-stall sections.
    "block/blk-cgroup.c": [PSI_H, SECTIONS, FLAGS],
    "fs/btrfs/compression.c": [
        PSI_H, SECTIONS, FLAGS, MEMSTALL,
        ("section of the readahead helper", flag("memstall")),
        ("its parameters", replace(r",\s+int \*memstall,\s+unsigned long \*pflags\b", "")),
        ("its arguments", replace(r",\s+&memstall,\s+&pflags\b", "")),
    ],
    "fs/erofs/zdata.c": [
        # It got <linux/kthread.h>, which it needs, through psi.h.
        ("include of psi.h", replace(r"^#include <linux/psi\.h>$", "#include <linux/kthread.h>")),
        SECTIONS, FLAGS, MEMSTALL,
        ("is the section open?", flag("memstall")),
    ],
    "mm/compaction.c": [PSI_H, SECTIONS, FLAGS],
    "mm/filemap.c": [
        PSI_H, SECTIONS, FLAGS,
        ("unused workingset", cut(r"\tbool workingset = folio_test_workingset\(folio\);")),
    ],
    "mm/memcontrol.c": [PSI_H, SECTIONS, FLAGS],
    "mm/page_alloc.c": [PSI_H, SECTIONS, FLAGS],
    "mm/page_io.c": [PSI_H, SECTIONS, FLAGS],
    "mm/readahead.c": [
        PSI_H, SECTIONS,
        ("shared section", flag("_workingset")),
        ("_workingset", cut(r"\t+\w+->_workingset \|?= .*;")),
    ],
    "include/linux/pagemap.h": [
        ("fields of struct readahead_control", cut(r"\tbool _workingset;\n\tunsigned long _pflags;")),
    ],
    "mm/vmscan.c": [PSI_H, SECTIONS, FLAGS],

    # cgroup.
    "kernel/cgroup/cgroup.c": [
        PSI_H,
        UNIFDEF,
        ("move of a task", replace(r"\bcgroup_move_task\((\w+), (\w+)\);", r"rcu_assign_pointer(\1->cgroups, \2);")),
        ("allocation", cut(r"\t+\w+ = psi_cgroup_alloc\(\w+\);\n\t+if \(\w+\)\n\t+goto \w+;")),
        ("its end", statement("psi_cgroup_free")),
        ("what depends on cgroup_psi_enabled()",
         cut(r"(?P<tabs>\t+)if \(cgroup_psi_enabled\(\)\)(?: \{\n(?:.*\n)*?(?P=tabs)\}|\n[^;{]*;)")),
        ("cgroup_psi_enabled()", function("cgroup_psi_enabled")),
        ("registration of the files", cut(r"\t+BUG_ON\(cgroup_init_cftypes\(NULL, cgroup_psi_files\)\);")),
        ("declaration of the files", cut(r"static struct cftype cgroup_psi_files\[\];")),
        ("the files",
         block(r"static struct cftype cgroup_psi_files\[\] = \{", r"\};", limit=3)),
    ],
    "kernel/cgroup/cgroup-internal.h": [
        ("psi of struct cgroup_file_ctx", block(r"\tstruct \{(?=\n.*\n\t\} psi;\n)",
                                                r"\t\} psi;", limit=3)),
    ],
    "include/linux/cgroup-defs.h": [
        # Others got <linux/kthread.h> through psi_types.h; it is all they got through it only.
        ("include of psi_types.h", replace(r"^#include <linux/psi_types\.h>$",
                                           "#include <linux/kthread.h>")),
        ("psi_files of struct cgroup",
         block(r"\t/\* handles for .*\.pressure.* \*/",
               r"\tstruct cgroup_file psi_files\[.*\];", limit=2)),
        ("psi of struct cgroup",
         block(r"\t/\* used to track pressure stalls \*/",
               r"\tstruct psi_group \*psi;", limit=2)),
    ],
    "include/linux/cgroup.h": [
        ("declaration of cgroup_psi_enabled()", cut(r"bool cgroup_psi_enabled\(void\);")),
        ("stub of cgroup_psi_enabled()", function("cgroup_psi_enabled")),
    ],

    # DAMON's quota goal that follows the memory pressure.
    "include/linux/damon.h": [("DAMOS_QUOTA_SOME_MEM_PSI_US", cut(r".*\bDAMOS_QUOTA_SOME_MEM_PSI_US\b.*"))],
    "mm/damon/core.c": [
        PSI_H,
        UNIFDEF,
        ("damos_get_some_mem_psi_total()", function("damos_get_some_mem_psi_total")),
        ("case DAMOS_QUOTA_SOME_MEM_PSI_US",
         block(r"\tcase DAMOS_QUOTA_SOME_MEM_PSI_US:", r"\t\tbreak;", limit=5)),
        ("now_psi_total", cut(r"\tu64 now_psi_total;")),
    ],
    "mm/damon/reclaim.c": [
        ("parameter quota_mem_pressure_us",
         block(r"/\*(?=\n \* Desired level of memory pressure-stall time)",
               r"module_param\(quota_mem_pressure_us, .*\);", limit=17)),
        ("goal of quota_mem_pressure_us",
         block(r"\tif \(quota_mem_pressure_us\) \{", r"\t\}", limit=7)),
    ],
    "Documentation/admin-guide/mm/damon/reclaim.rst": [
        ("quota_mem_pressure_us",
         entry(r"quota_mem_pressure_us", stop=r"quota_autotune_feedback$")),
    ],
    "Documentation/mm/damon/design.rst": [("some_mem_psi_us", entry(r"- ``some_mem_psi_us``:.*", stop=r"\S"))],
    "tools/testing/selftests/damon/_damon_sysfs.py": [
        ("qgoal_metric_some_mem_psi_us", cut(r"qgoal_metric_some_mem_psi_us = .*")),
        ("list of metrics", replace(r", qgoal_metric_some_mem_psi_us\b", "")),
    ],
}


def of(series):
    """The rules for a kernel of that series; None if there are none."""
    path = pathlib.Path(__file__).resolve().parent / str(series) / "rules.py"
    if not path.exists():
        return None
    more = runpy.run_path(path)["RULES"]
    return {path: RULES.get(path, []) + more.get(path, []) for path in [*RULES, *more]}
