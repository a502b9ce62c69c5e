# SPDX-License-Identifier: GPL-2.0
"""What only 6.12 has of the stock PSI."""

from edits import block, cut, replace

RULES = {
    "kernel/cgroup/cgroup.c": [
        ("label of the failed allocation", replace(r"^out_psi_free:\n(?=out_kernfs_remove:)", "")),
        ("its users", replace(r"\bgoto out_psi_free;", "goto out_kernfs_remove;")),
    ],
    "arch/loongarch/configs/loongson3_defconfig": [("CONFIG_PSI", cut(r"CONFIG_PSI=y"))],
    "include/linux/damon.h": [
        ("kernel-doc of last_psi_total", cut(r" \* @last_psi_total:.*")),
        ("last_psi_total of struct damos_quota_goal",
         block(r"\t/\* metric-dependent fields \*/(?=\n\tunion \{\n\t\tu64 last_psi_total;\n)",
               r"\t\};", limit=4)),
    ],
    "mm/damon/core.c": [("comment on last_psi_total", cut(r"\t/\* keep last_psi_total .* \*/"))],
    "mm/damon/sysfs-schemes.c": [("some_mem_psi_us", cut(r"\t\"some_mem_psi_us\","))],
    "Documentation/mm/damon/design.rst": [
        ("number of metrics", replace(r"^Currently, two ``target_metric`` are provided\.$",
                                      "Currently, one ``target_metric`` is provided.")),
    ],
}
