"""Turns a commit, or the working tree, into an environment of its own that runs exactly that code.

The source is built as a wheel and unpacked into a folder of its own; a small virtual environment puts that folder before the
installed packages, without the editable install that would lend a commit those files it lacks. The packages are those of the
running environment where they meet what the commit asks for (its dependencies and its pins); else an environment is
installed for it, which takes minutes and is kept.
"""

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile

import packaging.requirements
import packaging.utils

from breakeven import registry

BUILD_SECONDS = 600
INSTALL_SECONDS = 3600
KEPT = 8
"""Builds that are kept, the last used ones; of installed environments, which take gigabytes, a quarter as many."""


class HarnessFailed(Exception):
    """The gate cannot do its work: says what, where and what to do; ``tail`` are the last lines of what failed."""

    def __init__(self, message: str, tail: str = ""):
        super().__init__(message)
        self.tail = tail


@dataclasses.dataclass(frozen=True)
class Commit:
    """A commit, or the working tree where ``tree`` is set: its files as they are, whether committed or not."""

    name: str
    sha: str
    root: pathlib.Path
    tree: bool = False


@dataclasses.dataclass(frozen=True)
class Build:
    """An environment that runs one commit.

    ``python`` is its interpreter, ``folder`` comes first on its path. ``packages`` names where its installed packages
    are, and ``own_packages`` says why these are not the running environment's.
    """

    commit: Commit
    folder: pathlib.Path
    python: pathlib.Path
    packages: str
    own_packages: str = ""


def repository(folder: pathlib.Path) -> pathlib.Path:
    """The root of the checkout that a folder lies in."""
    try:
        return pathlib.Path(git(folder, "rev-parse", "--show-toplevel"))
    except HarnessFailed as error:
        raise HarnessFailed(
            f"{folder} is in no git repository; run `breakeven gate` in a checkout of the project", error.tail
        ) from None


def commit(root: pathlib.Path, name: str) -> Commit:
    """The commit that a name stands for; where it is not there, the error says how to fetch it."""
    try:
        sha = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except HarnessFailed:
        if git(root, "rev-parse", "--is-shallow-repository") == "true":
            raise HarnessFailed(
                f"this clone is shallow and does not hold {name!r}; fetch it with `git fetch --depth=1 origin {name}` and name "
                f"it FETCH_HEAD, or everything with `git fetch --unshallow` (in GitHub Actions: `fetch-depth: 0`)"
            ) from None
        raise HarnessFailed(
            f"there is no commit {name!r} in {root}; `git fetch origin` may bring it, `git branch -a` lists branches"
        ) from None
    return Commit(name, sha, root)


def working_tree(root: pathlib.Path) -> Commit:
    """The files as they are, or the commit that is checked out where they do not differ from it."""
    head = commit(root, "HEAD")
    return dataclasses.replace(head, name="working tree", tree=True) if changes(root) else head


def changes(root: pathlib.Path) -> list[str]:
    """Files of the working tree that differ from the commit that is checked out, as far as they may be built."""
    tracked = git(root, "diff", "--name-only", "HEAD").splitlines()
    return tracked + [f"{path} (new)" for path in _new_files(root)]


def _new_files(root: pathlib.Path) -> list[str]:
    """Files that git does not know, in folders of packages: not data or results that lie beside them."""
    packages = {path.split("/")[0] for path in git(root, "ls-files", "*/__init__.py").splitlines()}
    others = git(root, "ls-files", "--others", "--exclude-standard").splitlines()
    return [path for path in others if path.split("/")[0] in packages]


def missing_commits(base: Commit, head: Commit) -> int | None:
    """How many commits BASE holds that HEAD lacks; None where the history is too short to tell."""
    if git(base.root, "rev-parse", "--is-shallow-repository") == "true":
        return None
    return int(git(base.root, "rev-list", "--count", f"{head.sha}..{base.sha}"))


def build(which: Commit) -> Build:
    """The environment of a commit: made, or found where the same files have been built before."""
    with tempfile.TemporaryDirectory(prefix="breakeven-gate-") as temporary:
        source = pathlib.Path(temporary, "source")
        source.mkdir()
        _extract(which, source)
        if not (source / "pyproject.toml").exists():
            raise HarnessFailed(f"{which.name} ({which.sha[:12]}) has no pyproject.toml, so nothing can be built")
        python, own_packages = _packages(which, source)
        made = registry.cache_folder() / "gate" / _fingerprint(source, str(python), sys.version)
        if not made.exists():
            partial = made.with_name(f"{made.name}.{os.getpid()}")
            try:
                _wheel(which, source, python, pathlib.Path(temporary), partial / "packages")
                _environment(python, partial)
                partial.replace(made)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    made.touch()
    _forget_old(made.parent, KEPT)
    return Build(which, made / "packages", made / "environment" / "bin" / "python", str(python), own_packages)


def git(root: pathlib.Path, *words: str) -> str:
    """What git answers, without the newline at its end."""
    try:
        answer = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    except OSError as error:
        raise HarnessFailed(f"git cannot be started: {error}") from None
    if answer.returncode:
        raise HarnessFailed(f"`git {' '.join(words)}` failed in {root}", tail(answer.stderr))
    return answer.stdout.rstrip("\n")


def tail(text: str, lines: int = 20) -> str:
    return "\n".join(text.strip().splitlines()[-lines:])


def _extract(which: Commit, source: pathlib.Path) -> None:
    """Write the files of a commit into a folder; the repository is only read."""
    if which.tree:
        listed = git(which.root, "ls-files", "-z").split("\0") + _new_files(which.root)
        for name in listed:
            file = which.root / name
            if name and file.is_file():  # a deleted file is still listed
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, source / name, follow_symlinks=False)
        return
    archive = source.with_name("source.tar")
    git(which.root, "archive", "--format=tar", f"--output={archive}", which.sha)
    with tarfile.open(archive) as files:
        files.extractall(source, filter="data")


def _fingerprint(source: pathlib.Path, *more: str) -> str:
    digest = hashlib.sha256("\0".join(more).encode())
    for file in sorted(source.rglob("*")):
        if file.is_file():
            digest.update(f"\0{file.relative_to(source)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:20]


def _packages(which: Commit, source: pathlib.Path) -> tuple[pathlib.Path, str]:
    """An interpreter whose packages are what a commit asks for, and why it is not the running one."""
    project = tomllib.loads((source / "pyproject.toml").read_text())
    asked = project.get("project", {}).get("dependencies", [])
    pins = source / "constraints.txt"
    pinned = _requirements(pins.read_text()) if pins.exists() else []
    complaints = unmet(asked, pinned)
    if not complaints:
        return pathlib.Path(sys.executable), ""
    name = hashlib.sha256("\n".join([sys.version, *sorted(asked), *sorted(pinned)]).encode()).hexdigest()[:20]
    folder = registry.cache_folder() / "gate-environments" / name
    python = folder / "bin" / "python"
    if not folder.exists():
        partial = folder.with_name(f"{name}.{os.getpid()}")
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(source)]
        words += ["--constraint", str(pins)] if pins.exists() else []
        try:
            _run([sys.executable, "-m", "venv", str(partial)], which, "making a virtual environment for", BUILD_SECONDS)
            _run([str(partial / "bin" / "python"), *words], which, "installing the packages of", INSTALL_SECONDS)
            partial.replace(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    folder.touch()
    _forget_old(folder.parent, KEPT // 4)
    return python, "; ".join(complaints)


def unmet(asked: list[str], pinned: list[str]) -> list[str]:
    """What a list of dependencies and pins asks for that the running environment does not have, one line each."""
    pins: dict[str, packaging.requirements.Requirement] = {}
    for text in pinned:
        pin = packaging.requirements.Requirement(text)
        pins[packaging.utils.canonicalize_name(pin.name)] = pin
    complaints, seen = [], set()
    todo = [packaging.requirements.Requirement(text) for text in asked]
    while todo:
        wanted = todo.pop()
        name = packaging.utils.canonicalize_name(wanted.name)
        if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in ["", *wanted.extras]):
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            complaints.append(f"{wanted} is not installed")
            continue
        for rule in (wanted, pins.get(name)):
            if rule is not None and not rule.specifier.contains(distribution.version, prereleases=True):
                complaints.append(f"{name} {distribution.version} is installed, {rule} is asked for")
        if (name, *wanted.extras) in seen:
            continue
        seen.add((name, *wanted.extras))
        for text in distribution.requires or []:
            needed = packaging.requirements.Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in ["", *wanted.extras]):
                needed.marker = None
                todo.append(needed)
    return sorted(set(complaints))


def _requirements(text: str) -> list[str]:
    """The lines of a constraints file that name a package."""
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("-")]


def _wheel(
    which: Commit, source: pathlib.Path, python: pathlib.Path, temporary: pathlib.Path, packages: pathlib.Path
) -> None:
    """Build the source and unpack it: an editable install would follow the checkout instead."""
    project = tomllib.loads((source / "pyproject.toml").read_text())
    backend = project.get("build-system", {}).get("requires", ["setuptools"])
    words = ["-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", str(temporary)]
    if python == pathlib.Path(sys.executable) and not unmet(backend, []):
        words.append("--no-build-isolation")  # needs no network
    _run([str(python), *words, str(source)], which, "building", BUILD_SECONDS)
    for wheel in temporary.glob("*.whl"):
        with zipfile.ZipFile(wheel) as files:
            files.extractall(packages)
    if not (packages / "breakeven" / "__init__.py").exists():
        raise HarnessFailed(f"building {which.name} ({which.sha[:12]}) gave no package called breakeven")


def _environment(python: pathlib.Path, folder: pathlib.Path) -> None:
    """A virtual environment with the built package first and the installed ones after it."""
    environment = folder / "environment"
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(environment)], check=True, capture_output=True)
    code = "import json, sys; print(json.dumps([p for p in sys.path if p.endswith('-packages')]))"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True, env=clean)
    installed = [pathlib.Path(path) for path in json.loads(answer.stdout)]
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "0.pth").write_text("".join(f"{path}\n" for path in [folder.with_suffix("") / "packages", *installed]))
    # What .pth files in these folders say is not heard there: other projects' editable installs are told anew.
    for file in (file for path in installed for file in sorted(path.glob("*.pth"))):
        if not re.match(r"(__editable__\.)?breakeven-\d", file.name):
            shutil.copy(file, site / file.name)


def _run(words: list[str], which: Commit, doing: str, seconds: float) -> None:
    try:
        answer = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        said = error.stdout or b""
        raise HarnessFailed(
            f"{doing} {which.name} ({which.sha[:12]}) took longer than {seconds:g} s",
            tail(said if isinstance(said, str) else said.decode(errors="replace")),
        ) from None
    if answer.returncode:
        raise HarnessFailed(f"{doing} {which.name} ({which.sha[:12]}) failed", tail(answer.stdout))


def _forget_old(folder: pathlib.Path, kept: int) -> None:
    """Delete all but the last used; folders that are being made have a dot in their name."""
    made = sorted((path for path in folder.iterdir() if "." not in path.name), key=lambda path: -path.stat().st_mtime)
    for old in made[kept:]:
        shutil.rmtree(old, ignore_errors=True)
