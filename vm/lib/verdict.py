# SPDX-License-Identifier: GPL-2.0
"""Owns the verdict: what a run was, from the result, the console and its end.

The first of these that holds:

    SPLAT    the kernel complained on the console, a panic included, whatever
             else happened: every number of such a run is in doubt
    TIMEOUT  the host's patience ended before the guest switched itself off
    LOST     the guest was gone without its statement of the end, in silence
    EMPTY    no test ran: nothing planned and nothing seen
    FAIL     a test failed, the TAP is not sound, a skip was not expected,
             /payload/run returned non-zero, or something wrote after the end
    EMPTY    no test ran: all of them were skipped, as expected
    PASS     none of these
"""

import fnmatch
import re
from dataclasses import dataclass, field

import ktap
import splat
from ending import Misuse

STATUS = {"PASS": 0, "FAIL": 1, "LOST": 2, "TIMEOUT": 3, "SPLAT": 4, "EMPTY": 5}
END = re.compile(r"^# vm: end, exit status (\d+)$", re.MULTILINE)


@dataclass
class Verdict:
    """One of the words of STATUS, the counts, and why."""

    word: str
    report: ktap.Report
    reasons: list
    notes: list = field(default_factory=list)

    @property
    def status(self):
        return STATUS[self.word]

    def line(self, name):
        """The one line that says it all."""
        r = self.report
        return (
            f"{self.word} {name}: {r.passed} passed,"
            f" {len(r.failures)} failed, {len(r.skips)} skipped"
        )


def read_expected_skips(path):
    """{glob over a result line: why that test may skip here}; blank lines and # remarks are free."""
    expected = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            pattern, _, reason = map(str.strip, line.partition(" -- "))
            if not line.strip() or line.startswith("#"):
                continue
            if not pattern or not reason:
                raise Misuse(f"{path}:{number}: write it as PATTERN -- REASON")
            expected[pattern] = reason
    return expected


def judge(result, console, ended="", timed_out=False, expected=None):
    """Judge a run.

    ended: how the machine itself failed, or "" when it went as it should.
    """
    end = END.search(result)
    report = ktap.Report(result)
    splat_line = splat.find(console)
    if splat_line:
        return Verdict("SPLAT", report, [f"the kernel complained: {splat_line}"])
    if timed_out:
        where = "in the test" if not end else "after the end, while switching off"
        return Verdict("TIMEOUT", report, [f"time ran out {where}", *last_line(result)])
    if not end:
        why = ended or "the guest was gone before it stated the end"
        return Verdict("LOST", report, [why, *last_line(result)])
    if ended:
        return Verdict("LOST", report, [ended])
    return judge_tests(report, result, end, expected or {})


def judge_tests(report, result, end, expected):
    """Judge a run that came to its end."""
    skips = [skip.strip() for skip in report.skips]
    reasons = [f"failed: {text}" for text in report.failures]
    reasons += report.complaints
    reasons += [
        f"skipped, and nobody expected it: {skip}" for skip in skips
        if not any(fnmatch.fnmatchcase(skip, pattern) for pattern in expected)
    ]
    if end.group(1) != "0":
        reasons.append(f"/payload/run returned {end.group(1)}")
    if result[end.end():].strip():
        reasons.append("something wrote to the result after the end")
    notes = [
        f"expected to skip, but did not: {pattern} -- {reason}" for pattern, reason in expected.items()
        if not fnmatch.filter(skips, pattern)
    ]
    tests = report.passed + len(report.failures)
    if not tests and not report.skips and not report.complaints:
        return Verdict("EMPTY", report, ["no test ran", *reasons], notes)
    if reasons:
        return Verdict("FAIL", report, reasons, notes)
    if not tests:
        return Verdict("EMPTY", report, ["every test was skipped"], notes)
    return Verdict("PASS", report, [], notes)


def last_line(result):
    """What the result said last."""
    lines = [line for line in result.splitlines() if line.strip()]
    return [f"last result line: {lines[-1]}"] if lines else ["no result line at all"]
