# SPDX-License-Identifier: GPL-2.0
"""The patch set of the project and its image in git.

The project holds the series in two places: new kernel files at their kernel
path ("overlay files"), and patches/*.patch, one a patch: its changelog, the
overlay files it brings, and the hunks for files the kernel already has.

    Subject: psi: short summary

    Changelog.

    Overlay: kernel/sched/psi.c
    ---
    diff --git a/init/Kconfig b/init/Kconfig
    ...

Load() reads and checks all that.  Commits() turns it into commits on a base
commit, without a working tree, always the same ones for the same input.
Git wraps the repository of build/tree, where these commits live:

    refs/heads/psi     the series as commits; HEAD points here
    refs/psi/base      the kernel without PSI, which the series starts from
    refs/psi/tip       what scripts/tree wrote last.  HEAD elsewhere means
                       that the user committed something himself
    refs/psi/pending/* what scripts/tree was about to write, for its next run
                       if it was interrupted
"""
import dataclasses
import errno
import fcntl
import hashlib
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True

import kernels
from kernels import BUILD, ROOT

PATCHES = ROOT / "patches"
TREE = BUILD / "tree"

# Where new kernel files may live in the project.
OVERLAY_DIRS = ("Documentation", "include", "kernel", "tools")

# The author of commits for which patches/cover-letter has no From: line.
AUTHOR = "PSI developers <psi-developers@example.org>"

PROGRAM = pathlib.Path(sys.argv[0]).name


class Error(Exception):
    """Something the user can put right; the text says what."""


def note(text):
    print(f"{PROGRAM}: {text}", file=sys.stderr, flush=True)


def run_program(main):
    """Run MAIN; errors end as one line on stderr and status 1."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{PROGRAM}: terminated"))
    try:
        main()
    except Error as error:
        sys.exit(f"{PROGRAM}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{PROGRAM}: interrupted")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            sys.exit(f"{PROGRAM}: the disk is full: make room for {error.filename or ROOT / 'build'}, then run this again")
        sys.exit(f"{PROGRAM}: {error.filename or 'output'}: {error.strerror}")


def write_file(path, data, mode=0o644):
    """Replace PATH in one step: it is the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}.new")
    try:
        temp.write_bytes(data)
        temp.chmod(mode)
        temp.rename(path)
    finally:
        temp.unlink(missing_ok=True)


def lock(path):
    """Wait until no other build holds PATH; held until the program ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = open(path, "w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note(f"waiting for another build, which holds {path}")
        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


# ---------------------------------------------------------------------------
# Patch files

@dataclasses.dataclass
class Patch:
    """One file of patches/."""
    name: str           # file name
    subject: str
    body: str
    overlays: list      # paths of the new files it brings
    notes: bytes        # between "---" and the first hunk: for the reader of the file only
    diff: bytes
    common: bytes = None    # the hunks in patches/NAME, where this kernel has others

    @classmethod
    def parse(cls, name, data):
        head, separator, tail = data.partition(b"\n---\n")
        if not separator:
            raise Error(f"patches/{name}: no line '---' after the changelog")
        try:
            lines = head.decode().split("\n")
        except UnicodeDecodeError:
            raise Error(f"patches/{name}: the changelog is not UTF-8") from None
        if not re.fullmatch(r"Subject: \S.*", lines[0]) or lines[1:2] != [""]:
            raise Error(f"patches/{name}: must begin with a line 'Subject: ...' and an empty line")
        overlays = []
        while lines[-1].startswith("Overlay: "):
            overlays.insert(0, lines.pop().removeprefix("Overlay: ").strip())
        if any(line.startswith("Overlay:") for line in lines):
            raise Error(f"patches/{name}: 'Overlay:' lines belong together, right above '---'")
        body = "\n".join(lines[2:]).strip("\n")
        if not body:
            raise Error(f"patches/{name}: the changelog is empty")
        start = re.search(rb"^diff --git ", tail, re.M)
        cut = start.start() if start else len(tail)
        return cls(name, lines[0].removeprefix("Subject: "), body, overlays, tail[:cut], tail[cut:])

    def text(self):
        overlays = "".join(f"Overlay: {path}\n" for path in self.overlays)
        gap = "\n" if overlays else ""
        head = f"Subject: {self.subject}\n\n{self.body}\n{gap}{overlays}---\n"
        return head.encode() + self.notes + (self.diff if self.common is None else self.common)

    def message(self):
        return f"{self.subject}\n\n{self.body}\n"


def read_cover_letter():
    """(author, subject, text) from patches/cover-letter; subject None without one."""
    path = PATCHES / "cover-letter"
    if not path.is_file():
        return AUTHOR, None, None
    head, _, text = path.read_text().partition("\n\n")
    fields = dict(re.findall(r"^(Subject|From): (\S.*)$", head, re.M))
    if "Subject" not in fields or not text.strip():
        raise Error("patches/cover-letter: must be a line 'Subject: ...', an empty line and the text")
    author = fields.get("From", AUTHOR)
    if not re.fullmatch(r"[^<>]+ <[^<>@\s]+@[^<>\s]+>", author):
        raise Error("patches/cover-letter: From: must be 'Name <address>'")
    return author, fields["Subject"], text.strip("\n") + "\n"


def read_series():
    """The patches in the order of patches/series."""
    path = PATCHES / "series"
    if not path.is_file():
        raise Error("patches/series is missing: it lists the patches in their order")
    names = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    names = [name for name in names if name]
    for name in names:
        if names.count(name) > 1:
            raise Error(f"patches/series: lists {name} twice")
        if not (PATCHES / name).is_file():
            raise Error(f"patches/series: lists {name}, which does not exist")
    for stray in sorted(PATCHES.glob("*.patch")):
        if stray.name not in names:
            raise Error(f"patches/{stray.name} is not in patches/series")
    if not names:
        raise Error("patches/series lists no patch")
    return [of_kernel(Patch.parse(name, (PATCHES / name).read_bytes())) for name in names]


def of_kernel(patch):
    """PATCH with the hunks that KERNEL has of its own."""
    _, own = kernels.own_text(PATCHES / kernels.KERNEL / patch.name)
    if not kernels.OTHER:
        return patch
    return dataclasses.replace(patch, common=patch.diff, diff=kernels.overridden(patch.diff, own))


def overlay_paths():
    """All overlay files of the project, tracked by git or just written."""
    dirs = [name for name in OVERLAY_DIRS if (ROOT / name).is_dir()]
    if not dirs:
        return []
    if (ROOT / ".git").exists():
        listing = git_output(["ls-files", "-z", "-c", "-o", "--exclude-standard", "--", *dirs], ROOT)
        paths = {name.decode() for name in listing.split(b"\0") if name}
    else:
        paths = {str(path.relative_to(ROOT)) for name in dirs for path in (ROOT / name).rglob("*")
                 if not path.is_dir() and "__pycache__" not in path.parts}
    return sorted(path for path in paths if os.path.lexists(ROOT / path))


def read_overlays(patches):
    """{path: (mode, content)} of all overlay files, each claimed by exactly one patch."""
    claims = {}
    for patch in patches:
        for path in patch.overlays:
            if path in claims:
                raise Error(f"overlay file {path} is claimed twice: by {claims[path]} and {patch.name}")
            claims[path] = patch.name
    there = overlay_paths()
    for path in there:
        if path not in claims:
            raise Error(f"overlay file {path} is claimed by no patch: "
                        f"add 'Overlay: {path}' to the one in patches/ that brings it")
    for path, name in claims.items():
        if path not in there:
            raise Error(f"patches/{name}: claims {path}, which does not exist below "
                        f"{', '.join(OVERLAY_DIRS)} (or git ignores it)")
    overlays = {}
    for path in there:
        file = ROOT / path
        if file.is_symlink():
            raise Error(f"overlay file {path} is a symbolic link; only plain files are supported")
        mode = "100755" if file.stat().st_mode & 0o100 else "100644"
        overlays[path] = (mode, file.read_bytes())
    return overlays


# ---------------------------------------------------------------------------
# Git

def git_environment():
    """Git behaves the same for everybody: no configuration of the user's, no owner checks."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    settings = {"safe.directory": "*", "gc.auto": "0", "core.autocrlf": "false", "advice.detachedHead": "false",
                "core.abbrev": "12", "commit.gpgSign": "false", "diff.algorithm": "myers"}
    env.update(LC_ALL="C", TZ="UTC", GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL="/dev/null",
               GIT_CONFIG_COUNT=str(len(settings)))
    for number, (key, value) in enumerate(settings.items()):
        env.update({f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value})
    return env


class GitError(Error):
    pass


def git_output(arguments, directory, stdin=None, extra_env=None):
    """Standard output of a git command; GitError with what it complained about."""
    env = git_environment() | (extra_env or {})
    result = subprocess.run(["git", *arguments], cwd=directory, input=stdin or b"", env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if result.returncode:
        complaint = result.stderr.decode(errors="replace").strip()
        if "No space left" in complaint:
            complaint = f"the disk is full: make room on {directory}, then run this again"
        raise GitError(complaint or f"git {' '.join(arguments)} failed in {directory}")
    return result.stdout


class Git:
    """A repository with the kernel in it."""

    def __init__(self, directory):
        self.directory = directory
        self.git_dir = directory / ".git"

    def __call__(self, *arguments, stdin=None, env=None):
        # Names the repository: git must not find another one further up.
        place = [f"--git-dir={self.git_dir}", f"--work-tree={self.directory}"]
        return git_output([*place, *arguments], self.directory, stdin, env)

    def line(self, *arguments, **options):
        return self(*arguments, **options).decode().strip()

    def resolve(self, revision):
        """The object name of REVISION, or None."""
        try:
            return self.line("rev-parse", "--verify", "--quiet", revision)
        except GitError:
            return None

    def changes(self, old, new):
        """{path: (status, new mode, new blob)} between two trees."""
        fields = self("diff-tree", "-r", "-z", "--no-renames", old, new).split(b"\0")[:-1]
        found = {}
        for meta, path in zip(fields[::2], fields[1::2]):
            _, mode, _, blob, status = meta.decode()[1:].split()
            found[path.decode()] = (status, mode, blob)
        return found

    def blob(self, tree, path):
        """Content of PATH in TREE, or None when it is not there."""
        name = self.resolve(f"{tree}:{path}")
        return None if name is None else self("cat-file", "blob", name)

    def diff(self, old, new, paths):
        """The hunks that lead from tree OLD to tree NEW for PATHS, in one canonical form."""
        if not paths:
            return b""
        text = self("diff-tree", "-p", "--no-color", "--no-ext-diff", "--no-renames", "--full-index", "-U3",
                    "--src-prefix=a/", "--dst-prefix=b/", old, new, "--", *[f":(literal){path}" for path in sorted(paths)])
        # The names of blobs say nothing to a reader, and change with the base.
        return re.sub(rb"^index [0-9a-f]{40}\.\.[0-9a-f]{40}( \d+)?\n", b"", text, flags=re.M)


class Index:
    """A scratch index of a repository: makes trees without touching the working tree."""

    def __init__(self, git, tree):
        self.git = git
        self.path = git.git_dir / f"psi-index.{os.getpid()}"
        self.env = {"GIT_INDEX_FILE": str(self.path)}
        self.git("read-tree", tree, env=self.env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.path.unlink(missing_ok=True)
        self.path.with_name(self.path.name + ".lock").unlink(missing_ok=True)

    def apply(self, diff):
        self.git("apply", "--cached", "--whitespace=nowarn", "-", stdin=diff, env=self.env)

    def put(self, files):
        """Files as {path: (mode, content)}; None in place of the pair removes the path."""
        lines = []
        for path, state in files.items():
            mode, blob = ("0", "0" * 40) if state is None else (
                state[0], self.git.line("hash-object", "-w", "--stdin", stdin=state[1]))
            lines.append(f"{mode} {blob}\t{path}\0")
        self.git("update-index", "--add", "-z", "--index-info", stdin="".join(lines).encode(), env=self.env)

    def tree(self):
        return self.git.line("write-tree", env=self.env)


def apply_error(name, error):
    """What git apply's complaint means for the user."""
    text = str(error)
    failed = re.search(r"patch failed: (\S+):(\d+)", text)
    if failed:
        return Error(f"patches/{name}: the hunk for {failed[1]}, line {failed[2]}, does not apply without fuzz")
    missing = re.search(r"error: (\S+): (does not exist|No such file)", text)
    if missing:
        return Error(f"patches/{name}: changes {missing[1]}, which the kernel does not have")
    return Error(f"patches/{name}: git apply: {text.splitlines()[0].removeprefix('error: ')}")


def fingerprint(*inputs):
    """A name for the whole patch set: the same inputs, the same trees and commits."""
    code = pathlib.Path(__file__).read_bytes()
    return hashlib.sha256(repr((code, inputs)).encode()).hexdigest()


def make_trees(git, base, patches, overlays):
    """The trees before and after every patch: [base, ..., tip]."""
    trees = [git.line("rev-parse", f"{base}^{{tree}}")]
    with Index(git, base) as index:
        for patch in patches:
            if patch.diff:
                try:
                    index.apply(patch.diff)
                except GitError as error:
                    raise apply_error(patch.name, error) from None
                for path, (status, _, _) in git.changes(trees[-1], index.tree()).items():
                    if status == "A":
                        raise Error(f"patches/{patch.name}: a hunk creates {path}: "
                                    "put the file at that path in the project and claim it with an 'Overlay:' line")
            for path in patch.overlays:
                if git.resolve(f"{trees[-1]}:{path}"):
                    raise Error(f"overlay file {path} (patches/{patch.name}) would overwrite a file of the kernel")
            index.put({path: overlays[path] for path in patch.overlays})
            trees.append(index.tree())
            if trees[-1] == trees[-2]:
                raise Error(f"patches/{patch.name}: changes nothing")
    return trees


def make_commits(git, base, patches, trees, author):
    """One commit per patch on BASE, the same ones for everybody; returns the last."""
    name, address = author.removesuffix(">").split(" <")
    date = int(git.line("log", "-1", "--format=%ct", base))
    commit = base
    for patch, tree in zip(patches, trees[1:], strict=True):
        date += 60
        env = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
               for what, value in (("NAME", name), ("EMAIL", address), ("DATE", f"{date} +0000"))}
        commit = git.line("commit-tree", tree, "-p", commit, stdin=patch.message().encode(), env=env)
    return commit
