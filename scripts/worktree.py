# SPDX-License-Identifier: GPL-2.0
"""The working tree build/tree: the base, and the series as commits on it.

Only files whose content differs are ever written, so that kbuild compiles no
more than it must.  An edit made in build/tree is never lost: where the project
wants to change the same file, that is an error.

Owns build/tree and the refs of its repository, see patchset.py.
"""
import dataclasses
import glob
import os
import pathlib
import shutil
import stat
import subprocess
import time

import patchset
from patchset import Error, Git, ROOT, TREE


held = []       # the lock on build/tree, until the program ends


def prepared_base():
    """The directory of the prepared base, and its only commit."""
    result = subprocess.run([ROOT / "base" / "prepare"], stdout=subprocess.PIPE, check=False)
    if result.returncode:
        raise SystemExit(1)     # it said why
    base = pathlib.Path(result.stdout.decode().strip().split("\n")[-1])
    commit = Git(base).resolve("HEAD^{commit}") if base.is_dir() else None
    if commit is None:
        raise Error(f"base/prepare printed {base}, which is not a git repository with a commit")
    return base, commit


def copy_base(base, commit):
    """A fresh build/tree at the base commit.  It appears complete or not at all."""
    temp = TREE.with_name("tree.new")
    shutil.rmtree(temp, ignore_errors=True)
    patchset.note("copying the kernel tree")
    try:
        patchset.git_output(["clone", "--quiet", "--no-tags", str(base), str(temp)], ROOT)
        git = Git(temp)
        git("checkout", "--quiet", "-B", "psi", commit)
        for ref in ("base", "tip"):
            git("update-ref", f"refs/psi/{ref}", commit)
        if TREE.exists():
            TREE.rename(TREE.with_name("tree.old"))
        temp.rename(TREE)
    finally:
        for rest in (temp, TREE.with_name("tree.old")):
            shutil.rmtree(rest, ignore_errors=True)


def is_open(path):
    """Whether a process has this file open."""
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) == str(path):
                return True
        except OSError:
            pass            # the process ended, or is somebody else's
    return False


def drop_stale_locks(git):
    """Remove what a git that was killed left behind; wait for one that lives."""
    for lock in [*git.git_dir.glob("*.lock"), *git.git_dir.glob("psi-index.*")]:
        deadline = time.monotonic() + 60
        while is_open(lock):
            if time.monotonic() > deadline:
                raise Error(f"another git works in build/tree and holds {lock}")
            time.sleep(0.1)
        lock.unlink(missing_ok=True)


def edits(git):
    """Tracked files that differ from HEAD in the working tree."""
    listing = git("diff", "--name-only", "--no-renames", "-z", "HEAD")
    return [path.decode() for path in listing.split(b"\0") if path]


def file_state(path):
    """(mode, content) of a file as git sees it, or None."""
    try:
        info = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISLNK(info.st_mode):
        return "120000", os.readlink(path).encode()
    return ("100755" if info.st_mode & 0o100 else "100644"), path.read_bytes()


def tree_state(git, tree, path):
    """(mode, content) of PATH in TREE, or None."""
    entry = git("ls-tree", "-z", tree, "--", f":(literal){path}")
    if not entry:
        return None
    mode, _, blob = entry.decode().split("\t")[0].split()
    return mode, git("cat-file", "blob", blob)


def story(git, tip):
    """What the commits up to TIP change and say, whoever made them and when."""
    return git("log", "--format=%T %B", f"refs/psi/base..{tip}")


def update(git, new):
    """Bring the working tree from refs/psi/tip to commit NEW.

    A file may hold what the old tip had, what NEW has, or what an interrupted
    run was about to write.  Anything else is an edit, which is not ours to lose.
    """
    old = git.resolve("refs/psi/tip")
    pending = git.line("for-each-ref", "--format=%(objectname)", "refs/psi/pending").split()
    head = git.resolve("HEAD")
    commits = {old, new, *pending}
    if head not in commits and story(git, head) == story(git, new):
        commits.add(head)       # the project took them over
    if head not in commits:
        if new != old:
            raise Error("build/tree has commits of its own, and the project changed too: "
                        "run 'make refresh' to take the commits over, "
                        "or 'git -C build/tree reset --hard refs/psi/tip' to drop them")
        patchset.note("build/tree has commits of its own: 'make refresh' takes them over")
        return

    if commits == {new} and head == new:
        return
    paths = {path for commit in commits for path in git.changes(old, commit)}
    write, lost = {}, []
    for path in sorted(paths):
        is_now = file_state(TREE / path)
        wanted = tree_state(git, new, path)
        if is_now == wanted:
            continue
        if all(is_now != tree_state(git, commit, path) for commit in commits):
            lost.append(path)
        write[path] = wanted
    if lost:
        raise Error(f"edited in build/tree and in the project: {', '.join(lost)}: run 'make refresh' before you "
                    "change the project, or 'git -C build/tree checkout FILE' to drop the edit there")

    git("update-ref", f"refs/psi/pending/{new}", new)
    for path, wanted in write.items():
        if wanted is None:
            (TREE / path).unlink(missing_ok=True)
        else:
            patchset.write_file(TREE / path, wanted[1], 0o755 if wanted[0] == "100755" else 0o644)
    git("symbolic-ref", "HEAD", "refs/heads/psi")
    git("update-ref", "refs/heads/psi", new)
    try:
        if pending:
            raise patchset.GitError("the index may be that of an interrupted run, also where old and new agree")
        # Keeps what the index knows about the files that did not change.
        git("read-tree", "-m", old, new)
    except patchset.GitError:
        git("read-tree", new)
        git("update-index", "-q", "--refresh")
    git("update-ref", "refs/psi/tip", new)
    for commit in {*pending, new}:
        git("update-ref", "-d", f"refs/psi/pending/{commit}")


@dataclasses.dataclass
class Tree:
    """build/tree, up to date, and the patch set it was made from."""
    git: Git
    base: pathlib.Path      # repository of the prepared base
    author: str
    patches: list
    overlays: dict
    trees: list             # before the first patch, after the first, ...
    tip: str                # the last commit of the series


def make_tree():
    """Bring build/tree up to date."""
    base, base_commit = prepared_base()
    patches = patchset.read_series()
    overlays = patchset.read_overlays(patches)
    author = patchset.read_cover_letter()[0]

    git = Git(TREE)
    if not held:
        held.append(patchset.lock(TREE.with_name("tree.lock")))
    drop_stale_locks(git)
    known = git.resolve("refs/psi/base") if git.git_dir.is_dir() else None
    if known != base_commit:
        if known and (edits(git) or git.resolve("HEAD") != git.resolve("refs/psi/tip")):
            raise Error("the base changed, and build/tree has edits of its own: "
                        "'git -C build/tree diff refs/psi/tip' shows them; save them, remove build/tree, run this again")
        copy_base(base, base_commit)

    key = patchset.fingerprint(base_commit, author, patches, sorted(overlays.items()))
    memory = git.git_dir / "psi-memory"
    known_key, *trees = memory.read_text().split() if memory.is_file() else [None]
    if known_key == key:
        tip = trees.pop()
    else:
        trees = patchset.make_trees(git, base_commit, patches, overlays)
        tip = patchset.make_commits(git, base_commit, patches, trees, author)
    update(git, tip)
    patchset.write_file(memory, "\n".join([key, *trees, tip]).encode())
    return Tree(git, base, author, patches, overlays, trees, tip)
