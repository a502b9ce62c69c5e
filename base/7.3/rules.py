# SPDX-License-Identifier: GPL-2.0
"""What only 7.3 has of the stock PSI."""

from edits import block, cut, function, replace

RULES = {
    "kernel/cgroup/cgroup.c": [
        ("label of the failed allocation", replace(r"^out_psi_free:\n(?=out_stat_exit:)", "")),
        ("its users", replace(r"\bgoto out_psi_free;", "goto out_stat_exit;")),
    ],
    "arch/loongarch/configs/loongson32_defconfig": [("CONFIG_PSI", cut(r"CONFIG_PSI=y"))],
    "arch/loongarch/configs/loongson64_defconfig": [("CONFIG_PSI", cut(r"CONFIG_PSI=y"))],
    "include/linux/damon.h": [
        ("last_psi_total of struct damos_quota_goal",
         replace(r"^/\* private: \*/\n\t\t/\* .* \*/\n\t\tu64 last_psi_total;\n\n", "")),
    ],
    "mm/damon/core.c": [
        ("last_psi_total of a new goal",
         block(r"\tif \(metric == DAMOS_QUOTA_SOME_MEM_PSI_US\)",
               r"\t\tgoal->last_psi_total = U64_MAX;", limit=2)),
        ("damos_set_psi_current_val()", function("damos_set_psi_current_val")),
    ],
    "mm/damon/sysfs-schemes.c": [
        ("some_mem_psi_us", block(r"\t\{(?=\n\t\t\.metric = DAMOS_QUOTA_SOME_MEM_PSI_US,\n)",
                                  r"\t\},", limit=4)),
    ],
    "mm/damon/tests/core-kunit.h": [
        ("case DAMOS_QUOTA_SOME_MEM_PSI_US",
         block(r"\tcase DAMOS_QUOTA_SOME_MEM_PSI_US:", r"\t\tbreak;", limit=3)),
        ("commits of such a goal",
         block(r"\tdamos_test_commit_quota_goal_for\(test, &dst,"
               r"(?=\n.*\n\t\t\t\.metric = DAMOS_QUOTA_SOME_MEM_PSI_US,\n)",
               r"\t\t\t\}\);", limit=7)),
        ("metric to begin with", replace(r"DAMOS_QUOTA_SOME_MEM_PSI_US", "DAMOS_QUOTA_USER_INPUT")),
        ("last_psi_total to begin with", cut(r"\t\t\.last_psi_total = \d+,")),
    ],
    "tools/testing/selftests/damon/drgn_dump_damon_status.py": [
        ("last_psi_total", cut(r" +\['last_psi_total', int\],")),
    ],
    "tools/testing/selftests/damon/sysfs.py": [
        ("number of some_mem_psi_us", cut(r" +'some_mem_psi_us': 1,")),
        ("number of node_mem_used_bp", replace(r"'node_mem_used_bp': 2,", "'node_mem_used_bp': 1,")),
        ("number of node_mem_free_bp", replace(r"'node_mem_free_bp': 3,", "'node_mem_free_bp': 2,")),
    ],
    "tools/testing/selftests/damon/sysfs.sh": [
        ("some_mem_psi_us", cut(r"\tensure_write_succ .* \"some_mem_psi_us\" .*")),
    ],
}
