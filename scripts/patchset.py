# SPDX-License-Identifier: GPL-2.0
"""The patch set of the project, and build/tree: the kernel with one commit for each patch.

The project holds the series in two places: new kernel files at their path in
the kernel ("overlay files"), and patches/*.patch, one a patch: its changelog,
the overlay files it brings, and the hunks for files the kernel already has or
an earlier patch brought.  An overlay file is as the last patch leaves it.
patches/series has their order and their sets; patches/SET.cover is the cover
letter of a set.  What these files say makes always the same commits.

The repository build/tree:

    refs/heads/psi      the series as commits
    refs/psi/base       the kernel without PSI, which the series starts from
    refs/psi/set/NAME   the last commit of a set
    refs/psi/tip        what scripts/tree wrote last.  HEAD elsewhere means that
                        the user committed something
"""
import dataclasses
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import types

sys.dont_write_bytecode = True

import kernels
from kernels import BUILD, ROOT

PATCHES = ROOT / "patches"
TREE = BUILD / "tree"
BASE = "refs/psi/base"
# Where new kernel files may live in the project.
OVERLAY_DIRS = ("Documentation", "include", "kernel", "tools")
# The author of commits for which patches/series has no From: line.
AUTHOR = "PSI developers <psi-developers@example.org>"
PROGRAM = pathlib.Path(sys.argv[0]).name
held = []       # the lock on build/tree, until the program ends


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
        sys.exit(f"{PROGRAM}: {error.filename or 'output'}: {error.strerror}")


# ---------------------------------------------------------------------------
# The files of the project

def sections(diff):
    """The hunks of each file that a diff changes, as {path: text}."""
    return {path.decode(): text for text, path in
            re.findall(rb"^(diff --git a/(\S+) b/.*\n(?:(?!diff --git ).*\n)*)", diff, re.M)}


def joined(hunks):
    return b"".join(text for _, text in sorted(hunks.items()))


@dataclasses.dataclass
class Patch:
    """One file of patches/."""
    name: str           # file name
    set: str
    subject: str
    body: str
    overlays: list      # paths of the new files it brings
    hunks: dict         # of KERNEL: {path: text}
    common: dict        # those in patches/NAME, for every kernel that has none of its own

    @classmethod
    def parse(cls, name, which, data):
        found = re.fullmatch(rb"Subject: (\S[^\n]*)\n\n(.*?)\n*((?:^Overlay: \S+\n)*)---\n(diff --git .*)?", data,
                             re.S | re.M)
        if not found or not found[2].strip():
            raise Error(f"patches/{name}: must be a line 'Subject: ...', an empty line, the changelog, "
                        "lines 'Overlay: FILE', a line '---', and hunks")
        overlays = [line.split()[1] for line in found[3].decode().splitlines()]
        common = sections(found[4] or b"")
        own = PATCHES / kernels.KERNEL / name
        hunks = common | sections(own.read_bytes()) if kernels.OTHER and own.is_file() else common
        return cls(name, which, found[1].decode(), found[2].decode().strip("\n"), overlays,
                   {path: text for path, text in hunks.items() if b"\n@@ " in text}, common)

    def text(self):
        overlays = "".join(f"Overlay: {path}\n" for path in self.overlays)
        head = f"Subject: {self.subject}\n\n{self.body}\n{overlays and chr(10)}{overlays}---\n"
        return head.encode() + joined(self.common)


def read_text(path):
    if not path.is_file():
        raise Error(f"{path.relative_to(ROOT)} is missing")
    return path.read_text()


def read_series():
    """(author, patches in their order) of patches/series: names, '= SET' before those of a set, 'From: AUTHOR'."""
    author, which, patches = AUTHOR, None, {}
    for line in read_text(PATCHES / "series").splitlines():
        line = line.split("#")[0].strip()
        if line.startswith("From: "):
            author = line.removeprefix("From: ")
        elif line.startswith("= "):
            which = line.removeprefix("= ")
            if which in {patch.set for patch in patches.values()}:
                raise Error(f"patches/series: the set {which} begins twice")
        elif line:
            if line in patches:
                raise Error(f"patches/series: lists {line} twice")
            if not which:
                raise Error(f"patches/series: {line} is in no set: a line '= SET' begins one")
            read_text(PATCHES / line)
            patches[line] = Patch.parse(line, which, (PATCHES / line).read_bytes())
    for stray in sorted(path for path in PATCHES.rglob("*.patch") if path.name not in patches):
        raise Error(f"{stray.relative_to(ROOT)} is not in patches/series")
    return author, list(patches.values())


def read_overlays(patches):
    """{path: (mode, content)} of all overlay files, each claimed by exactly one patch."""
    claims = {}
    for patch in patches:
        for path in patch.overlays:
            if path in claims:
                raise Error(f"overlay file {path} is claimed twice: by {claims[path]} and {patch.name}")
            claims[path] = patch.name
    if (ROOT / ".git").exists():
        listed = run_git(ROOT, "ls-files", "-z", "-c", "-o", "--exclude-standard", "--", *OVERLAY_DIRS)
        there = listed.decode().split("\0")
    else:           # of a tarball
        there = [str(path.relative_to(ROOT)) for top in OVERLAY_DIRS for path in (ROOT / top).rglob("*")
                 if not path.is_dir() and "__pycache__" not in path.parts]
    there = {path for path in there if path and os.path.lexists(ROOT / path)}
    for path in sorted(there - set(claims)):
        raise Error(f"overlay file {path} is claimed by no patch: "
                    f"add 'Overlay: {path}' to the one in patches/ that brings it")
    for path in sorted(set(claims) - there):
        raise Error(f"patches/{claims[path]}: claims {path}, which does not exist (or git ignores it)")
    return {path: file_state(ROOT / path) for path in sorted(claims)}


def file_state(path):
    return "100755" if path.stat().st_mode & 0o100 else "100644", path.read_bytes()


# ---------------------------------------------------------------------------
# Git

def run_git(directory, *arguments, stdin=b"", **env):
    """Standard output of git, which behaves the same for everybody; Error with what it complained about."""
    name, address = AUTHOR.removesuffix(">").split(" <")
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {
        "LC_ALL": "C", "TZ": "UTC", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_OPTIONAL_LOCKS": "0", "GIT_CEILING_DIRECTORIES": str(directory.parent), "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": address, "GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": address} | env
    options = ("safe.directory=*", "gc.auto=0", "core.autocrlf=false", "core.abbrev=12", "diff.algorithm=myers")
    # A git ends what it does, with the lock, also when this program is interrupted: so it leaves no lock of its own.
    with subprocess.Popen(["git", *(word for option in options for word in ("-c", option)), *arguments], cwd=directory,
                          env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True, pass_fds=[each.fileno() for each in held]) as process:
        printed, said = process.communicate(stdin)
    if process.returncode:
        said = " ".join(said.decode(errors="replace").split())
        raise Error(said or f"git {' '.join(arguments)} failed in {directory}")
    return printed


class Git:
    """A repository with the kernel in it."""

    def __init__(self, directory):
        self.directory = directory

    def __call__(self, *arguments, **options):
        # Names the repository: git must not find another one further up.
        return run_git(self.directory, f"--git-dir={self.directory}/.git", f"--work-tree={self.directory}", *arguments,
                       **options)

    def line(self, *arguments):
        return self(*arguments).decode().strip()

    def words(self, *arguments):
        return [word.decode() for word in self(*arguments, "-z").split(b"\0") if word]

    def resolve(self, revision):
        """The name of a commit, or None."""
        return self.line("for-each-ref", "--format=%(objectname)", revision) or None

    def changes(self, old, new):
        """{path: A, M or D} between two commits."""
        words = self.words("diff-tree", "-r", "--no-renames", "--name-status", old, new)
        return dict(zip(words[1::2], words[::2]))

    def edits(self):
        """Files that differ from HEAD in the working tree."""
        return self.words("diff", "--name-only", "--no-renames", "HEAD")

    def hunks(self, commit, paths):
        """What a commit does to these files, without the names of blobs, which change with the base."""
        text = self("diff-tree", "-p", "--no-color", "--no-ext-diff", "--no-renames", "--full-index", "-U3",
                    "--no-commit-id", commit, "--", *sorted(paths)) if paths else b""
        return sections(re.sub(rb"^index [0-9a-f]{40}\.\.[0-9a-f]{40}( \d+)?\n", b"", text, flags=re.M))

    def checkout_set(self, name=""):
        """A checkout of the series up to the end of a set; git writes only what differs from the last one."""
        commit = self.resolve(f"refs/psi/set/{name}")
        if not commit or "\n" in commit:
            raise Error(f"patches/series has no set '{name}'")
        place = TREE.with_name(f"tree-{name}")
        if not place.exists():
            run_git(ROOT, "clone", "-q", "--shared", "--no-checkout", str(TREE), str(place))
        Git(place)("checkout", "-q", "--force", "--detach", commit)
        return place

    def sparse_clone(self, place, commit, paths):
        """A checkout of a few files of a commit."""
        shutil.rmtree(place, ignore_errors=True)
        run_git(ROOT, "clone", "-q", "--shared", "--no-checkout", str(self.directory), str(place))
        clone = Git(place)
        clone("sparse-checkout", "set", "--no-cone", *(f"/{path}" for path in paths))
        clone("checkout", "-q", "--detach", commit)
        return clone


def first_states(scratch, patches, overlays):
    """OVERLAYS as the patches bring them: before the hunks that later ones have for them, which are in SCRATCH then."""
    later = overlays.keys() & {path for patch in patches for path in patch.hunks}
    for path in later:
        (scratch / path).parent.mkdir(parents=True, exist_ok=True)
        (scratch / path).write_bytes(overlays[path][1])
    for patch in reversed(patches):
        hunks = {path: patch.hunks[path] for path in later & patch.hunks.keys()}
        try:
            if hunks:
                run_git(scratch, "apply", "-R", "--whitespace=nowarn", "-", stdin=joined(hunks))
        except Error as error:
            raise Error(f"patches/{patch.name}: does not lead to {', '.join(sorted(hunks))}: {error}") from None
    return overlays | {path: (overlays[path][0], (scratch / path).read_bytes()) for path in later}


def make_commits(git, base, author, patches, overlays):
    """The series as commits on BASE, the same ones for everybody; the last one is refs/psi/new."""
    there = set(git.words("ls-tree", "-r", "--name-only", base))
    for path in there.intersection(overlays):
        raise Error(f"overlay file {path} would overwrite a file of the kernel")
    date = int(git.line("log", "-1", "--format=%ct", base))
    stream = [f"reset refs/psi/new\nfrom {base}\n\n".encode()]

    def data(content):
        stream.append(b"data %d\n%b\n" % (len(content), content))

    with tempfile.TemporaryDirectory(prefix="psi-tree.") as scratch:
        scratch = pathlib.Path(scratch)
        touched = there.intersection(path for patch in patches for path in patch.hunks)
        if touched:
            git("--work-tree", str(scratch), "checkout", base, "--", *touched, GIT_INDEX_FILE=f"{scratch}/.index")
        overlays = first_states(scratch, patches, overlays)
        for number, patch in enumerate(patches, 1):
            for path in patch.hunks.keys() - there:
                raise Error(f"patches/{patch.name}: has a hunk for {path}, which the kernel does not have "
                            "(a new file stands at its path in the project, with an 'Overlay:' line)")
            there.update(patch.overlays)
            if not patch.hunks and not patch.overlays:
                raise Error(f"patches/{patch.name}: changes nothing")
            try:
                if patch.hunks:
                    run_git(scratch, "apply", "--whitespace=nowarn", "-", stdin=joined(patch.hunks))
            except Error as error:
                raise Error(f"patches/{patch.name}: does not apply without fuzz: {error}") from None
            head = f"commit refs/psi/new\nmark :{number}\ncommitter {author} {date + 60 * number} +0000\n"
            stream.append(head.encode())
            data(f"{patch.subject}\n\n{patch.body}\n".encode())
            files = {path: file_state(scratch / path) for path in patch.hunks if (scratch / path).is_file()}
            for path, (mode, content) in (files | {path: overlays[path] for path in patch.overlays}).items():
                stream.append(f"M {mode} inline {path}\n".encode())
                data(content)
            stream += [f"D {path}\n".encode() for path in set(patch.hunks) - set(files)]
            stream.append(f"\nreset refs/psi/set/{patch.set}\nfrom :{number}\n\n".encode())
    git("update-ref", "--stdin", stdin=git("for-each-ref", "--format=delete %(refname)", "refs/psi/set"))
    git("fast-import", "--quiet", "--force", stdin=b"".join(stream))
    return git.resolve("refs/psi/new")


# ---------------------------------------------------------------------------
# build/tree

def lock():
    """Wait until no other program works on build/tree; held until this one ends."""
    TREE.parent.mkdir(parents=True, exist_ok=True)
    held.append(open(TREE.with_name("tree.lock"), "w"))
    try:
        fcntl.flock(held[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note(f"waiting for another build, which holds {held[0].name}")
        fcntl.flock(held[0], fcntl.LOCK_EX)


def follow_base(git):
    """Have the base in build/tree as refs/psi/base."""
    done = subprocess.run([ROOT / "base" / "prepare"], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(1)     # it said why
    place = pathlib.Path(done.stdout.decode().strip())
    base = Git(place).line("rev-parse", "HEAD")
    if not TREE.exists():
        note("copying the kernel tree")
        temp = TREE.with_name("tree.new")
        try:
            shutil.rmtree(temp, ignore_errors=True)
            run_git(ROOT, "clone", "-q", "--no-tags", str(place), str(temp))
            Git(temp)("checkout", "-q", "-B", "psi")
            Git(temp)("update-ref", "refs/psi/tip", base)
            temp.rename(TREE)   # it appears complete or not at all
        finally:
            shutil.rmtree(temp, ignore_errors=True)
    elif git.resolve(BASE) != base:
        git("fetch", "-q", "--no-tags", str(place), base)
    git("update-ref", BASE, base)
    return base


def update(git, new):
    """Bring the working tree to commit NEW: only files that differ are written, and no edit is lost."""
    head, tip = git.line("rev-parse", "HEAD"), git.resolve("refs/psi/tip")
    if head != tip:
        if new != tip:
            raise Error("build/tree has commits of its own, and the project changed too: 'make refresh' before you "
                        "change the project, or 'git -C build/tree reset --hard refs/psi/tip' to drop the commits")
        note("build/tree has commits of its own: 'make refresh' takes them over")
    elif head != new:
        changes = git.changes(head, new)
        # What an interrupted run wrote already is no edit: git accepts a file that the index has as NEW has it.
        git("update-index", "--add", "--remove", "-z", "--stdin", stdin="\0".join(changes).encode())
        try:
            git("checkout", "-q", "-B", "psi", new)
        except Error as error:
            git("reset", "-q", "--", *changes)
            raise Error(f"edited in build/tree and in the project: {error}") from None
        git("update-ref", "refs/psi/tip", new)


def make_tree():
    """Bring build/tree up to date; its repository, its last commit, and the patch set that it was made from."""
    author, patches = read_series()
    overlays = read_overlays(patches)
    if not held:
        lock()
    git = Git(TREE)
    base = follow_base(git)
    head = git.line("rev-parse", "HEAD")
    if head == git.resolve("refs/psi/new"):
        git("update-ref", "refs/psi/tip", head)     # the last run may have ended right before it did this
    tip = make_commits(git, base, author, patches, overlays)
    update(git, tip)
    return types.SimpleNamespace(git=git, tip=tip, author=author, patches=patches, overlays=overlays)
