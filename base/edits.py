# SPDX-License-Identifier: GPL-2.0
"""The kinds of edits that the removal rules are made of.

An edit is a function: text -> (new text, number of matches). None of them prints what it removes.
"""

import re
import subprocess

# A statement that begins in the next line is no branch of an if.
ALONE = r"(?:(?<=[;{}:/]\n)|(?<=\n\n)|(?<=endif\n))"


def cut(lines):
    """The whole lines that match, and a blank line that would be left beside another one or at a brace."""
    regex = re.compile(rf"^(?P<before>\n?)(?:(?:{lines})\n)+(?P<after>\n?)", re.M)

    def left(found):
        text, before, after = found.string, found["before"], found["after"]
        if re.match(r"[ \t]*\}", text[found.end():]):
            return after
        opened = before or found.start() == 0 or text.endswith(("\n\n", "{\n"), 0, found.start())
        return before if opened else after
    return lambda text: regex.subn(left, text)


def block(first, last, limit):
    """From a line to the first later one that matches. A moved end takes nothing: LIMIT bounds the lines."""
    return cut(rf"(?:{first})\n(?:.*\n){{0,{limit - 2}}}?(?:{last})")


def entry(heading, stop):
    """A heading and what belongs to it: all before a line that matches STOP."""
    return cut(rf"(?:{heading})(?:\n(?:[ \t]*\n)*(?!{stop}).*\S.*)*")


def function(name):
    """The definition of a C function, with a stray ';' after its body."""
    return cut(rf"(?:[A-Za-z_][\w \t*]*[ \t*])?(?:{name})\([^;{{]*\)\s*\{{(?:.*\}}|(?:.*\n)+?\}}).*")


def statement(name):
    """A call on lines of its own, not the only branch of an if."""
    return cut(rf"{ALONE}[ \t]+{name}\([^;]*\);")


def section(calls):
    """Such calls, and an if that has nothing else."""
    return cut(rf"{ALONE}(?:[ \t]+if \(.*\)\n)?[ \t]+{calls}\(.*\);")


def flag(name):
    """Where a flag is set under a condition on itself, and nothing else is done."""
    return cut(rf"[ \t]+if \([^;{{}}]*\b{name}\b[^;{{}}]*\) \{{\n[ \t]+(?:\w+->|\*)?{name} = \w+;\n[ \t]+\}}")


def replace(pattern, replacement):
    """What takes the place of a pattern, for the few spots where something has to stay."""
    return lambda text: re.subn(pattern, replacement, text, flags=re.M)


def unifdef(text):
    """#ifdef CONFIG_PSI, resolved as not set."""
    done = subprocess.run(["unifdef", "-B", "-UCONFIG_PSI", "-UCONFIG_PSI_DEFAULT_DISABLED"], input=text,
                          capture_output=True, encoding="utf-8", check=False)
    return done.stdout, done.returncode == 1
