# SPDX-License-Identifier: GPL-2.0
"""What only 6.12 has of the stock PSI."""

from edits import Block, Line, Replace

RULES = {
    "arch/loongarch/configs/loongson3_defconfig": [
        ("CONFIG_PSI", Line(r"CONFIG_PSI=y")),
    ],
    "include/linux/damon.h": [
        ("kernel-doc of last_psi_total", Line(r" \* @last_psi_total:.*")),
        ("last_psi_total of struct damos_quota_goal",
         Block(r"\t/\* metric-dependent fields \*/(?=\n\tunion \{\n\t\tu64 last_psi_total;\n)",
               r"\t\};", limit=4)),
    ],
    "mm/damon/core.c": [
        ("comment on last_psi_total", Line(r"\t/\* keep last_psi_total .* \*/")),
    ],
    "mm/damon/sysfs-schemes.c": [
        ("some_mem_psi_us", Line(r"\t\"some_mem_psi_us\",")),
    ],
    "Documentation/mm/damon/design.rst": [
        ("number of metrics", Replace(r"^Currently, two ``target_metric`` are provided\.$",
                                      "Currently, one ``target_metric`` is provided.")),
    ],
}
