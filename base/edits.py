# SPDX-License-Identifier: GPL-2.0
"""The kinds of edits that the removal rules are made of.

Every kind is a class with apply(text) -> (new text, number of matches). None of them
prints what it removes. An edit which takes whole lines out also takes one blank line
out where it would leave two in a row.
"""

import re


def cut(text, start, end):
    """Removes the whole lines text[start:end]; never leaves a new double blank line."""
    before, after = text[:start], text[end:]
    opened = before.endswith("\n\n") or before.endswith("{\n") or not before
    if opened and after.startswith("\n"):
        after = after[1:]
    return before + after


def line_start(text, pos):
    return text.rfind("\n", 0, pos) + 1


def line_end(text, pos):
    end = text.find("\n", pos)
    return len(text) if end < 0 else end + 1


class Edit:
    """One way to find the next range of whole lines to remove."""

    def find(self, text, pos):
        """Returns (start, end), or None when there is no more."""
        raise NotImplementedError

    def apply(self, text):
        count, pos = 0, 0
        while True:
            found = self.find(text, pos)
            if found is None:
                return text, count
            text = cut(text, *found)
            pos = max(found[0] - 1, 0)
            count += 1


class Line(Edit):
    """Whole lines that match a pattern in full."""

    def __init__(self, pattern):
        self.regex = re.compile(r"^(?:" + pattern + r")\n", re.M)

    def find(self, text, pos):
        match = self.regex.search(text, line_start(text, pos))
        return match and match.span()


class Include(Line):
    """#include lines of a header."""

    def __init__(self, header):
        super().__init__(r"#include <" + re.escape(header) + r">[ \t]*")


class Block(Edit):
    """From a line to the first later line that matches, both included.

    Neither may be missing, and `limit` bounds how many lines are taken, so that a moved end
    cannot swallow the rest of a file.
    """

    def __init__(self, first, last, limit=40):
        self.first = re.compile(r"^(?:" + first + r")\n", re.M)
        self.last = re.compile(r"^(?:" + last + r")\n", re.M)
        self.limit = limit

    def find(self, text, pos):
        first = self.first.search(text, line_start(text, pos))
        if not first:
            return None
        last = self.last.search(text, first.end())
        if not last or text.count("\n", first.start(), last.end()) > self.limit:
            return None
        return first.start(), last.end()


class Entry(Edit):
    """A heading line and what belongs to it: everything up to the next line that is
    not blank and that matches `stop` (default: not indented deeper than the heading)."""

    def __init__(self, heading, stop=None):
        self.heading = re.compile(r"^([ \t]*)(?:" + heading + r")\n", re.M)
        self.stop = stop

    def find(self, text, pos):
        match = self.heading.search(text, line_start(text, pos))
        if not match:
            return None
        indent = len(match.group(1).expandtabs())
        here = end = match.end()
        while here < len(text):
            line = text[here:line_end(text, here)]
            if line.strip():
                if self.ends(line, indent):
                    break
                end = here + len(line)
            here += len(line)
        return match.start(), end

    def ends(self, line, indent):
        if self.stop is not None:
            return re.match(self.stop, line)
        expanded = line.expandtabs()
        return len(expanded) - len(expanded.lstrip()) <= indent


class Function(Edit):
    """A C function definition, found by name, with a stray ';' after its body."""

    def __init__(self, name):
        self.regex = re.compile(
            r"^(?:[A-Za-z_][\w \t*]*[ \t*])?(?:" + name + r")\(", re.M)

    def find(self, text, pos):
        match = self.regex.search(text, line_start(text, pos))
        if not match:
            return None
        end = skip_balanced(text, match.end() - 1, "(", ")")
        body = re.compile(r"\s*\{").match(text, end)
        if not body:
            return None
        end = skip_balanced(text, body.end() - 1, "{", "}")
        return match.start(), line_end(text, end)


class Statement(Edit):
    """A call statement on lines of its own, not the only branch of an if."""

    def __init__(self, name):
        self.regex = re.compile(r"^[ \t]+" + re.escape(name) + r"\(", re.M)

    def find(self, text, pos):
        match = self.regex.search(text, line_start(text, pos))
        if not match:
            return None
        before = text[:match.start()].rstrip()
        if before[-1:] not in tuple(";{}:/") and not before[before.rfind("\n") + 1:].startswith("#"):
            return None
        end = skip_balanced(text, match.end() - 1, "(", ")")
        if not text.startswith(";\n", end):
            return None
        return match.start(), end + 2


class Replace:
    """A pattern and what takes its place, for the few spots where something has to stay."""

    def __init__(self, pattern, replacement):
        self.regex = re.compile(pattern, re.M)
        self.replacement = replacement

    def apply(self, text):
        return self.regex.subn(self.replacement, text)


class Label:
    """A goto label that became the same as the next one: its users go there directly."""

    def __init__(self, name):
        self.name = name

    def apply(self, text):
        match = re.search(r"^" + self.name + r":\n(\w+):\n", text, re.M)
        if not match:
            return text, 0
        text = text[:match.start()] + text[match.start(1):]
        return re.subn(r"\bgoto " + self.name + r";", "goto " + match.group(1) + ";", text)


def skip_balanced(text, pos, opening, closing):
    """Position after the bracket that closes the one at pos."""
    depth = 0
    for index in range(pos, len(text)):
        if text[index] == opening:
            depth += 1
        elif text[index] == closing:
            depth -= 1
            if depth == 0:
                return index + 1
    return len(text)
