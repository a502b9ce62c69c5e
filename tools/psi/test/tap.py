# SPDX-License-Identifier: GPL-2.0
"""Tests as functions, each named by a sentence; prints TAP and a closing line with the sum."""
import sys
import traceback

TESTS = []
COUNTS = {"passed": 0, "failed": 0, "skipped": 0}


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


def result(good, sentence, complaint=""):
    """One line of TAP, and what explains it."""
    COUNTS["passed" if good else "failed"] += 1
    for line in complaint.splitlines():
        print(f"# {line}")
    print(f"{'' if good else 'not '}ok {sum(COUNTS.values())} - {sentence}", flush=True)


def main(words):
    """Run the tests whose sentence holds one of WORDS; the exit status."""
    print("TAP version 14")
    for sentence, function in TESTS:
        if words and not any(word in sentence for word in words):
            continue
        try:
            function()
            result(True, sentence)
        except Skip as reason:
            COUNTS["skipped"] += 1
            print(f"ok {sum(COUNTS.values())} - {sentence} # SKIP {reason}", flush=True)
        except AssertionError as error:
            result(False, sentence, str(error))
        except Exception:       # pylint: disable=broad-except
            result(False, sentence, traceback.format_exc())
    print(f"1..{sum(COUNTS.values())}")
    print(", ".join(f"{count} {verdict}" for verdict, count in COUNTS.items()))
    return int(bool(COUNTS["failed"] or not COUNTS["passed"]))


def include(output, prefix):
    """Take over the results of a program that prints TAP; how many there were."""
    found = 0
    for line in output.splitlines():
        if line.startswith(("ok ", "not ok ")):
            result(line.startswith("ok "), f"{prefix}: {line.split(' - ', 1)[1]}")
            found += 1
    return found


def bail(reason):
    sys.exit(f"Bail out! {reason}")
