# SPDX-License-Identifier: GPL-2.0
"""A test program in TAP: one function per test, named by a sentence.

    @test("a hunk that needs fuzz is an error")
    def _(): ...

    tap.main()

A test fails by raising; check() and equal() do.  Skip() skips.  Arguments of
the program choose tests by a part of their sentence.  The closing line is
"N passed, N failed, N skipped"; the exit status is 1 when a test failed or
none ran.
"""
import sys
import traceback

TESTS = []


class Skip(Exception):
    """This test cannot run here; the text says why."""


def test(sentence):
    def register(function):
        TESTS.append((sentence, function))
        return function
    return register


def check(condition, complaint):
    if not condition:
        raise AssertionError(complaint)


def equal(found, expected):
    check(found == expected, f"found {found!r}, expected {expected!r}")


def main():
    words = sys.argv[1:]
    chosen = [(sentence, function) for sentence, function in TESTS
              if not words or any(word in sentence for word in words)]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    print(f"TAP version 14\n1..{len(chosen)}")
    for number, (sentence, function) in enumerate(chosen, 1):
        try:
            function()
            line, verdict = f"ok {number} - {sentence}", "passed"
        except Skip as reason:
            line, verdict = f"ok {number} - {sentence} # SKIP {reason}", "skipped"
        except Exception as error:      # pylint: disable=broad-except
            for text in ("".join(traceback.format_exc()) if not isinstance(error, AssertionError)
                         else str(error)).rstrip().split("\n"):
                print(f"# {text}")
            line, verdict = f"not ok {number} - {sentence}", "failed"
        counts[verdict] += 1
        print(line, flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    sys.exit(bool(counts["failed"] or not counts["passed"]))
