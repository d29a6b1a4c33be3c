"""Finds methods, baselines, data sets and contests: by folder, and by entry point in other distributions.

No adapter is ever imported here: heavy libraries, thread counts and crashes stay out of the harness. What adapters say
of themselves is collected once by a separate process (``python -m breakeven.registry``) and cached by source hash.
"""

import dataclasses
import difflib
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import pathlib
import pkgutil
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import typing

import platformdirs
from packaging import requirements

from breakeven.contract import BadInput, Contest

ROLES = {"methods": "method", "baselines": "baseline", "datasets": "dataset"}

IMPORT_SECONDS = 120.0
"""For the import of one module; heavy libraries take ten to twenty on a busy machine."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One file of methods/, baselines/ or datasets/, or one entry point of another distribution."""

    role: str
    track: str
    name: str
    module: str
    file: str
    distribution: str = ""

    @property
    def path(self) -> str:
        return f"{self.track}/{self.name}"

    def source(self) -> str:
        """A hash of the code that decides how this entry behaves: its file, the track's kernels and private helpers, and for a
        baseline or a data set the methods' kernels where one of these imports them."""
        return _hash_files([pathlib.Path(self.file), *self._shared()])

    def compiled(self) -> str:
        """A hash of the code beside its own file that its compiled functions may have taken in: by this a cache of machine code
        has to differ. Entries of one track have it in common, and with it the minutes that compiling takes."""
        return self.source() if self.distribution else _hash_files(self._shared())

    def _shared(self) -> list[pathlib.Path]:
        folder = pathlib.Path(self.file).parent
        shared = [] if self.distribution else sorted([*folder.glob("_*.py"), *folder.glob("kernels/**/*.py")])
        kernels = f"breakeven.methods.{self.track}.kernels"
        files = [pathlib.Path(self.file), *shared]
        if self.role != "method" and any(kernels.encode() in file.read_bytes() for file in files):
            methods = pathlib.Path(next(iter(importlib.import_module("breakeven.methods").__path__)))
            shared += sorted(methods.glob(f"{self.track}/kernels/**/*.py"))
        return shared


@dataclasses.dataclass(frozen=True)
class Listing:
    """What the catalogue knows of an entry.

    ``error`` says why it could not be imported, and ``extra`` names the extra of this project to install, where that is all
    that is missing: a peer which is not there is no fault.
    """

    entry: Entry
    title: str = ""
    paper: str = ""
    derived: str = ""
    devices: tuple[str, ...] = ()
    packages: typing.Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    isolated: bool = False
    functions: typing.Mapping[str, dict] = dataclasses.field(default_factory=dict)
    source: str = ""
    real: bool = False
    sizes: typing.Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)
    error: str = ""
    extra: str = ""

    @property
    def faults(self) -> str:
        """In which cases its functions are known to answer wrongly, as they declare it."""
        return "; ".join(dict.fromkeys(f["faults"] for f in self.functions.values() if f.get("faults")))


@dataclasses.dataclass(frozen=True)
class Entrant:
    """A method or baseline as it enters a contest: a function with its variant's options."""

    name: str
    listing: Listing
    options: typing.Mapping[str, typing.Any]


def entries() -> list[Entry]:
    """Every adapter and data set, found without importing any."""
    found = {}
    for group, role in ROLES.items():
        root = importlib.import_module(f"breakeven.{group}")
        for folder in sorted(pathlib.Path(next(iter(root.__path__))).iterdir()):
            if folder.is_dir() and folder.name.isidentifier():
                for file in sorted(folder.glob("[!_]*.py")):
                    module = f"breakeven.{group}.{folder.name}.{file.stem}"
                    found[role, folder.name, file.stem] = Entry(role, folder.name, file.stem, module, str(file))
        for point in importlib.metadata.entry_points(group=f"breakeven.{group}"):
            track, _, name = point.name.partition("/")
            file = _file_of(point.module)
            if name and file and (role, track, name) not in found:
                owner = point.dist.name if point.dist else point.module
                found[role, track, name] = Entry(role, track, name, point.module, file, owner)
    return list(found.values())


def cache_folder() -> pathlib.Path:
    """Where what can be made again is kept: the folder ``BREAKEVEN_CACHE``, or the user's cache folder."""
    return pathlib.Path(os.environ.get("BREAKEVEN_CACHE") or platformdirs.user_cache_dir("breakeven"))


_absent: dict[pathlib.Path, dict] = {}
"""What has been found to need an extra that is not installed, by the file in which its facts would be kept."""


def catalogue() -> list[Listing]:
    """What every adapter and data set says of itself, or why it cannot be imported."""
    known = entries()
    cache = cache_folder() / "catalogue"
    core = _hash_files([pathlib.Path(__file__), *sorted(pathlib.Path(__file__).parent.glob("problems/**/*.py"))])
    cached, missing = {}, []
    for entry in known:
        name = hashlib.sha256(f"{core} {sys.version} {sys.prefix} {entry} {entry.source()}".encode()).hexdigest()[:20]
        file = cache / f"{name}.json"
        try:
            facts = _absent.get(file) or json.loads(file.read_text())
        except (OSError, ValueError):
            facts = None
        if facts and all(_version(package) == version for package, version in facts.get("packages", {}).items()):
            cached[entry] = _listing(entry, facts)
        else:
            missing.append((entry, file))
    for entry, facts in _describe([entry for entry, _ in missing]).items():
        cached[entry] = _listing(entry, facts)
        file = dict(missing)[entry]
        if facts.get("extra"):
            _absent[file] = facts  # until this process ends; next time its package may be there
        elif not facts.get("error"):
            file.parent.mkdir(parents=True, exist_ok=True)
            partial = file.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(facts))
            partial.replace(file)
    return [cached[entry] for entry in known]


@functools.cache
def _contests() -> tuple[dict[str, type], dict[str, str]]:
    """Sweep classes by contest path, and the benchmark modules that could not be imported, with the reason."""
    sweeps, broken = {}, {}
    package = importlib.import_module("breakeven.benchmarks")
    for info in pkgutil.iter_modules(package.__path__):
        try:
            module = importlib.import_module(f"breakeven.benchmarks.{info.name}")
        except Exception as error:  # one broken track must not take the others down
            broken[info.name] = f"{type(error).__name__}: {error}"
            continue
        for value in vars(module).values():
            if inspect.isclass(value) and isinstance(getattr(value, "contest", None), Contest):
                sweeps[value.contest.path] = value
    return sweeps, broken


def sweeps(path: str | None = None) -> list[type]:
    """The sweep classes of all contests, of one track, or the one of ``track/contest``."""
    known, broken = _contests()
    track = (path or "").split("/")[0]
    if track in broken:
        raise BadInput(f"benchmarks/{track}.py cannot be imported: {broken[track]}")
    if not path:
        return list(known.values())
    chosen = [sweep for name, sweep in known.items() if name == path or name.split("/")[0] == path]
    if not chosen:
        raise unknown("contest" if "/" in path else "track", path, [*known, *{name.split("/")[0] for name in known}])
    return chosen


def entrants(contest: Contest, listings: list[Listing]) -> list[Entrant]:
    """Everything that can enter a contest: baselines first, then methods, each variant by itself."""
    found = []
    for listing in sorted(listings, key=lambda item: (item.entry.name != contest.baseline, item.entry.role)):
        if listing.entry.role != "dataset" and listing.entry.track == contest.track:
            function = listing.functions.get(contest.problem)
            if function:
                for variant, options in {"": {}, **function["variants"]}.items():
                    name = f"{listing.entry.name}:{variant}" if variant else listing.entry.name
                    found.append(Entrant(name, listing, options))
    return found


def find(role: str, path: str, listings: list[Listing]) -> Listing:
    """The listing of ``track/name``; raises `BadInput` with the nearest match, or with the import error."""
    roles = ("method", "baseline") if role == "method" else (role,)
    for listing in listings:
        if listing.entry.path == path and listing.entry.role in roles:
            if listing.error:
                raise BadInput(f"{path} cannot be imported: {listing.error}")
            return listing
    raise unknown(role, path, [item.entry.path for item in listings if item.entry.role in roles])


def unknown(kind: str, name: str, known: list[str]) -> BadInput:
    """The error for a name that does not exist, with the nearest one that does."""
    known = sorted(set(known))
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
    return BadInput(f"no {kind} is called {name!r}; {hint}")


def load(module: str, problem: str) -> typing.Callable:
    """Import an adapter's module (in a worker) and return its function for a problem type."""
    for function in _decorated(importlib.import_module(module), "adapter"):
        if function.adapter.problem.__name__ == problem:
            return function
    raise BadInput(f"{module} has no function for problems of type {problem}")


def load_dataset(module: str) -> typing.Callable:
    """Import a data set's module (in a worker) and return its function."""
    return _decorated(importlib.import_module(module), "dataset")[0]


def _decorated(module, mark: str) -> list[typing.Callable]:
    functions = [
        value
        for value in vars(module).values()
        # A module that is imported may hold an adapter of this name itself.
        if callable(value) and hasattr(value, mark) and value.__module__ == module.__name__
    ]
    if not functions:
        raise BadInput(f"{module.__name__} defines no function with @{mark}")
    return functions


def _file_of(module: str) -> str | None:
    """The file of a module in another distribution; its package is located, not imported."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    if not rest:
        return spec.origin
    base = pathlib.Path(spec.origin).parent.joinpath(*rest)
    return next((str(path) for path in (base.with_suffix(".py"), base / "__init__.py") if path.exists()), None)


def _hash_files(paths: list[pathlib.Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def judge_source(track: str) -> str:
    """A hash of the code that defines and judges a track's problems."""
    folder = pathlib.Path(__file__).parent / "problems"
    return _hash_files(
        [folder / "__init__.py", *sorted(folder.glob(f"{track}.py")), *sorted(folder.glob(f"{track}/*.py"))]
    )


def _listing(entry: Entry, facts: dict) -> Listing:
    return Listing(entry, **{name: tuple(v) if name == "devices" else v for name, v in facts.items()})


def _describe(missing: list[Entry]) -> dict[Entry, dict]:
    """Ask a separate process about entries; where it dies or hangs, the entry at hand is to blame and the rest goes on."""
    described: dict[Entry, dict] = {}
    while todo := [entry for entry in missing if entry not in described]:
        names = [[entry.role, entry.module] for entry in todo]
        read, write = os.pipe()
        with tempfile.TemporaryFile("w+", errors="replace") as stderr, open(read) as answers:
            process = subprocess.Popen(
                [sys.executable, "-m", "breakeven.registry", str(write), json.dumps(names)],
                pass_fds=[write], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip
            os.close(write)
            lines = []
            while len(lines) < len(todo):
                since = time.monotonic()
                limit = threading.Timer(IMPORT_SECONDS, process.kill)
                limit.start()
                line = answers.readline()
                limit.cancel()
                if not line:
                    break
                lines.append(json.loads(line))
            else:
                process.kill()  # all is said; a thread that an import left behind would keep it from ending
            process.wait()
            stderr.seek(0)
            last = (stderr.read().strip().splitlines() or ["no message"])[-1]
        described.update(zip(todo, lines, strict=False))
        if len(lines) < len(todo):
            hung = time.monotonic() - since >= IMPORT_SECONDS
            how = (
                f"took longer than {IMPORT_SECONDS:g} s"
                if hung
                else f"ended the process ({process.returncode}): {last}"
            )
            described[todo[len(lines)]] = {"error": f"its import {how}"}
    return described


def _facts(role: str, module_name: str) -> dict:
    """What one module says of itself, as JSON; runs in the separate process."""
    mark = "dataset" if role == "dataset" else "adapter"
    functions = _decorated(importlib.import_module(module_name), mark)
    first = getattr(functions[0], mark)
    facts = {"title": first.title, "packages": {name: _version(name) for name in first.packages}}
    if role == "dataset":
        sizes = {n: None if d is inspect.Parameter.empty else d for n, d in first.sizes.items()}
        return facts | {
            "source": first.source, "real": first.real, "sizes": sizes, "functions": {first.problem.__name__: {}},
        }  # fmt: skip
    return facts | {
        "paper": first.paper,
        "derived": first.derived,
        "devices": first.devices,
        "isolated": first.isolated,
        "functions": {
            f.adapter.problem.__name__: {
                "variants": f.adapter.variants,
                "options": f.adapter.options,
                "faults": f.adapter.faults,
            }
            for f in functions
        },
    }


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _extras() -> dict[str | None, str]:
    """The extra of this project that a distribution is part of, for those that nothing but an extra asks for."""
    found = {}
    for text in importlib.metadata.requires("breakeven") or []:
        wanted = requirements.Requirement(text)
        for extra in re.findall(r"extra == ['\"]([^'\"]+)", str(wanted.marker or "")):
            if extra != "test":
                found[wanted.name] = extra
    return found


def main() -> None:
    """Describe the modules named in the second argument, one JSON line each, on the descriptor named in the first."""
    with open(int(sys.argv[1]), "w") as answers:
        for role, module in json.loads(sys.argv[2]):
            try:
                facts = _facts(role, module)
                line = json.dumps(facts)
            except BaseException as error:
                package = error.name if isinstance(error, ModuleNotFoundError) else None
                extra = _extras().get(package, "")
                hint = f"; install it with: python -m pip install {package}" if package else ""
                if not extra:
                    traceback.print_exc()
                line = json.dumps({"error": f"{type(error).__name__}: {error}{hint}", "extra": extra})
            answers.write(line + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
