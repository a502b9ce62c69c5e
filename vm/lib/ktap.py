# SPDX-License-Identifier: GPL-2.0
"""Owns the reading of TAP and KTAP: from text to counts and complaints.

The text may hold several documents one after the other (KUnit results, then
a kselftest, ...), each with subtests nested to any depth.  A document, or a
group of subtests, is a "stream" here.

Prefix.  What a line starts with says at which level it is: blanks (KUnit
nests by four, TAP 14 and kselftest by two or four) or "# " pairs (how
kselftest's runner passes on the output of a test).  A "# " level only
exists after a version line with the same prefix; any other line behind a
"#" is a remark.

Count.  Leaves are counted: a result with subtests is the sum of them and
not a test of its own, unless it failed while none of them did.

Plan.  Each document has exactly one plan, before its results or after them;
the numbers seen must be 1..N, each once.  Everything else is a complaint,
and a complaint fails the run: nothing else tells a test that died half-way,
two programs that write over each other, or a plan nobody wrote from a pass.
Subtests may do without a plan, as KUnit's parameters do: that they came to
their end is stated by the result which sums them up, and must be.
"""

import re
from dataclasses import dataclass, field
from itertools import islice

PREFIX = re.compile(r"(?:[ \t]|# )*")
VERSION = re.compile(r"K?TAP version \d+\s*$")
PLAN = re.compile(r"1\.\.(\d+)\s*(#.*)?$")
RESULT = re.compile(r"(ok|not ok)\b(?:\s+(\d+))?(?:\s|$)(.*)$")
BAIL_OUT = re.compile(r"Bail out!\s*(.*)$")
# What did not run, or ran and does not count.  All three need to be expected.
DIRECTIVE = re.compile(r"(?<!\\)#\s*(?:skip|xfail|todo)", re.IGNORECASE)

REMARKS = 3  # how many of those before a failed result are told with it
SHOWN = 5  # numbers that are missing, or not in the plan


@dataclass
class Stream:
    """One document, or one group of subtests, while it is being read."""

    prefix: str
    line: int
    plan: int | None = None
    seen: set = field(default_factory=set)
    last: int = 0
    failed: bool = False
    skipped: bool = False

    def complete(self):
        return self.plan is not None and len(self.seen) >= self.plan

    def empty(self):
        return not self.seen and not self.skipped

    def complaint(self):
        """What is wrong with the plan, or None."""
        where = f"the stream from line {self.line}"
        if self.plan is None and not self.prefix:
            return f"{where} has no plan, {len(self.seen)} tests seen"
        plan = len(self.seen) if self.plan is None else self.plan
        absent = list(islice((n for n in range(1, plan + 1) if n not in self.seen), SHOWN))
        beyond = sorted(n for n in self.seen if not 1 <= n <= plan)[:SHOWN]
        if not absent and not beyond:
            return None
        return (
            f"{where} plans {plan} tests, {len(self.seen)} seen"
            + (f"; missing: {str(absent)[1:-1]}" if absent else "")
            + (f"; not in the plan: {str(beyond)[1:-1]}" if beyond else "")
        )


class Report:
    """What a text of TAP says: counts of leaves, and complaints about it."""

    def __init__(self, text):
        self.passed = 0
        self.failures = []
        self.skips = []
        self.complaints = []
        self._open = []  # streams being read, innermost last
        self._ended = []  # subtests waiting for the result that sums them up
        self._remarks = []  # since the last result: most often why the next one failed
        for number, line in enumerate(text.splitlines(), 1):
            self._line(number, line.rstrip())
        self._leave("")
        while self._open:
            self._close()

    def _line(self, number, line):
        prefix = PREFIX.match(line).group()
        body = line[len(prefix):]
        if VERSION.match(body):
            self._fresh(number, prefix)
        elif "#" in prefix and all(s.prefix != prefix for s in self._open):
            self._remarks.append(body)
        elif match := PLAN.match(body):
            self._plan(number, prefix, match)
        elif match := RESULT.match(body):
            self._result(number, prefix, match)
        elif match := BAIL_OUT.match(body):
            self.complaints.append(f"line {number}: bailed out: {match.group(1) or 'no reason given'}")

    def _close(self):
        stream = self._open.pop()
        if complaint := stream.complaint():
            self.complaints.append(complaint)
        if stream.prefix:
            self._ended.append(stream)
        return stream

    def _below(self, prefix):
        """Close what is below a prefix, and take the subtests that no result has summed up yet."""
        while self._open and len(self._open[-1].prefix) > len(prefix):
            self._close()
        below = [s for s in self._ended if len(s.prefix) > len(prefix)]
        self._ended = [s for s in self._ended if len(s.prefix) <= len(prefix)]
        return below

    def _leave(self, prefix):
        """A line that is no result ends subtests without summing them up."""
        for stream in self._below(prefix):
            self.complaints.append(f"the subtests from line {stream.line} have no result of their own")

    def _fresh(self, number, prefix):
        """Begin a stream, which ends any other of the same prefix."""
        self._leave(prefix)
        if self._open and self._open[-1].prefix == prefix:
            self._close()
        return self._current(number, prefix)

    def _current(self, number, prefix):
        if not self._open or self._open[-1].prefix != prefix:
            self._open.append(Stream(prefix, number))
        return self._open[-1]

    def _plan(self, number, prefix, match):
        self._leave(prefix)
        stream = self._current(number, prefix)
        if stream.plan is not None:
            stream = self._fresh(number, prefix)
        stream.plan = int(match.group(1))
        directive = DIRECTIVE.match(match.group(2) or "")
        if stream.plan == 0 and directive:
            stream.skipped = True
            self.skips.append(match.string)

    def _result(self, number, prefix, match):
        subtests = self._below(prefix)
        stream = self._current(number, prefix)
        verdict, given, rest = match.groups()
        if given == "1" and 1 in stream.seen and stream.complete():
            stream = self._fresh(number, prefix)
        test = int(given) if given else stream.last + 1
        if test in stream.seen:
            self.complaints.append(f"line {number}: test {test} for the second time")
        stream.seen.add(test)
        stream.last = test
        good = verdict == "ok"
        remarks, self._remarks = self._remarks[-REMARKS:], []
        if all(s.empty() for s in subtests):
            good = self._leaf(match.string, good, DIRECTIVE.search(rest), remarks)
        else:
            good = self._sum(number, match.string, good, any(s.failed for s in subtests))
        stream.failed |= not good

    def _leaf(self, text, good, directive, remarks):
        if directive:
            self.skips.append(text)
            return True
        if good:
            self.passed += 1
        else:
            self.failures.append(": ".join([text, *remarks]))
        return good

    def _sum(self, number, text, good, failed_below):
        if good and failed_below:
            self.complaints.append(f"line {number}: ok, but a subtest failed: {text}")
        if not good and not failed_below:
            self.failures.append(text)
        return good and not failed_below
