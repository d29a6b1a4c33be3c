"""Sweeps: which cells a contest has, how they are measured one after the other, and how asv sees them.

``benchmarks/<track>.py`` declares a subclass of `Sweep` per contest. `breakeven run` and `asv run` measure the same cells
and share the records: whoever comes second finds them measured.
"""

import abc
import contextlib
import dataclasses
import fcntl
import functools
import glob
import itertools
import os
import pathlib
import statistics
import sys
import tempfile
import time
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from breakeven import devices, registry
from breakeven.cell import Cell, Limits, measure
from breakeven.contract import PEAK_BYTES, BadInput, Contest, Metric
from breakeven.records import Record, Side, Store

PROFILES = ("quick", "full")
DEFAULT_LIMITS = {"quick": Limits(30.0, 2.0), "full": Limits(300.0, 8.0)}


class Grid:
    """A data set and the sizes to make it at: every combination, for every seed.

    ``Grid("set_cover", rows=(100, 300), batch=(1, 16))`` are four problems.
    """

    def __init__(self, dataset: str, *, seeds: tuple[int, ...] = (0,), **sizes: tuple):
        self.dataset, self.seeds, self.sizes = dataset, seeds, sizes

    def problems(self) -> Iterator[tuple[dict, int]]:
        for values in itertools.product(*self.sizes.values()):
            for seed in self.seeds:
                yield dict(zip(self.sizes, values, strict=True)), seed


@dataclasses.dataclass(frozen=True)
class Choice:
    """What of a contest is to be measured; empty means everything that its profile has."""

    profile: str = "quick"
    methods: tuple[str, ...] = ()
    device: str = "cpu"
    threads: int = 0
    files: tuple[str, ...] = ()
    dataset: str = ""
    sizes: Mapping[str, int | float | str] = dataclasses.field(default_factory=dict)
    seed: int | None = None


def plan(sweep: type["Sweep"], choice: Choice, listings: list[registry.Listing]) -> list[Cell]:
    """The cells of a contest, small ones first.

    Where it ranks by time, the baseline against itself (A/A) is among them; values of equals would tell nothing.

    Raises `BadInput` for names that do not exist.
    """
    contest = sweep.contest
    everyone = registry.entrants(contest, listings)
    named = {entrant.name: entrant for entrant in everyone}
    if contest.baseline not in named:
        listing = registry.find("method", f"{contest.track}/{contest.baseline}", listings)
        raise BadInput(f"{contest.path}: its baseline {listing.entry.path} has no function for {contest.problem}")
    wanted = [name.removeprefix(f"{contest.track}/") for name in choice.methods]
    for name in wanted:
        if name not in named:
            registry.find("method", f"{contest.track}/{name.split(':')[0]}", listings)
            raise registry.unknown(f"entrant of {contest.path}", name, list(named))
    device = devices.check(choice.device)
    threads = choice.threads or devices.available_cores()
    if not 1 <= threads <= devices.available_cores():
        raise BadInput(f"{threads} threads asked, but this process may use 1 to {devices.available_cores()}")
    # Variants are many and close to each other, and peers of the baseline are many: they are measured where they are asked for,
    # and in the full profile.
    usual = [name for name, entrant in named.items() if choice.profile == "full" or _is_usual(name, entrant, contest)]
    usual = [name for name in usual if name != contest.baseline or contest.rank_by.is_time]
    cells = []
    for grid in _grids(sweep, choice, listings):
        data = registry.find("dataset", f"{contest.track}/{grid.dataset}", listings)
        for sizes, seed in grid.problems():
            for name in wanted or usual:
                cells.append(Cell(contest, named[name], named[contest.baseline], data, sizes, seed, device, threads))
    return sorted(cells, key=lambda cell: _difficulty(cell.sizes))


def _is_usual(name: str, entrant: registry.Entrant, contest: Contest) -> bool:
    return ":" not in name and (entrant.listing.entry.role == "method" or name == contest.baseline)


def _grids(sweep: type["Sweep"], choice: Choice, listings: list[registry.Listing]) -> list[Grid]:
    if choice.files:
        of_files = reader_of_files(sweep.contest, listings)
        if of_files is None:
            raise BadInput(f"{sweep.contest.path} has no data set that reads files")
        _check_sizes(choice, of_files)
        sizes = {"file": choice.files, **sweep.of_a_file, **_asked(choice, of_files)}
        return [Grid(of_files.entry.name, seeds=(choice.seed or 0,), **sizes)]
    if choice.dataset:
        data = registry.find("dataset", f"{sweep.contest.track}/{choice.dataset}", listings)
        _check_sizes(choice, data)
        asked = Grid(choice.dataset, seeds=(choice.seed or 0,), **_asked(choice, data))
        swept = [grid for grid in getattr(sweep, choice.profile, ()) if grid.dataset == choice.dataset]
        return [asked] if choice.sizes or choice.seed is not None or not swept else swept
    if choice.profile not in PROFILES:
        raise registry.unknown("profile", choice.profile, list(PROFILES))
    return list(getattr(sweep, choice.profile))


def _asked(choice: Choice, data: registry.Listing) -> dict[str, tuple]:
    """The sizes that were asked for; names of files become absolute, since workers run elsewhere."""

    def placed(value):
        known = "file" in data.sizes and isinstance(value, str) and glob.glob(os.path.expanduser(value), recursive=True)
        return os.path.abspath(os.path.expanduser(value)) if known else value

    return {name: (placed(value),) for name, value in choice.sizes.items()}


def reader_of_files(contest: Contest, listings: list[registry.Listing]) -> registry.Listing | None:
    """The data set that makes a contest's problems of files."""
    reads = (x for x in listings if x.entry.track == contest.track and "file" in x.sizes)
    return next((x for x in reads if contest.problem in x.functions), None)


def _check_sizes(choice: Choice, data: registry.Listing) -> None:
    for name in choice.sizes:
        if name not in data.sizes:
            raise registry.unknown(f"size of data set {data.entry.name}", name, list(data.sizes))


def measured_between(cells: Sequence[Cell], records: Iterable[Record], grids: Iterable[Grid]) -> list[Cell]:
    """Cells at sizes that refinement has added to a plan: each lies on a line of planned cells, between two of them.

    Args:
        cells: the plan.
        records: of any cells; those of other devices, threads or methods are passed over, and so is what is no whole record.
        grids: all that the contest sweeps, in whichever profile: their sizes are nobody's refinement.
    """
    swept = {(grid.dataset, name, value) for grid in grids for name, values in grid.sizes.items() for value in values}
    lines: dict[tuple, dict[float, Cell]] = {}
    for cell in cells:
        for name in cell.sizes:
            place = _place(cell.contest.path, cell.method.name, cell.dataset.entry.name, cell, name)
            lines.setdefault(place, {})[cell.sizes[name]] = cell
    found: dict[tuple, Cell] = {}
    for record in records:
        with contextlib.suppress(AttributeError, TypeError):  # a record of which the fields are not what they should be
            for name, value in record.sizes.items():
                line = lines.get(_place(record.contest, record.method.name, record.dataset, record, name), {})
                numbers = [size for size in line if not isinstance(size, str)]
                if (record.dataset, name, value) in swept or len(numbers) < 2:
                    continue
                if min(numbers) < value < max(numbers) and value not in line:
                    cell = line[numbers[0]]
                    cell = dataclasses.replace(cell, sizes={**cell.sizes, name: value})
                    found[(cell.method.name, cell.dataset.entry.name, cell.seed, str(cell.sizes))] = cell
    return list(found.values())


def _place(contest: str, method: str, dataset: str, of: Cell | Record, moving: str) -> tuple:
    """What cells have in common that differ in one size alone."""
    fixed = frozenset((name, value) for name, value in of.sizes.items() if name != moving)
    return contest, method, dataset, of.seed, of.device, of.threads, moving, fixed


def _difficulty(sizes: Mapping) -> tuple:
    numbers = [value for value in sizes.values() if not isinstance(value, str)]
    product = 1.0
    for value in numbers:
        product *= value
    return (product, str(sizes))


def is_answered_by(record: Record | None, limits: Limits) -> bool:
    """Whether a record settles its cell, or a longer limit or a larger budget could still change it."""
    if record is None:
        return False
    timed_out = "timeout" in (record.method.status, record.baseline.status)
    if timed_out and limits.call_seconds > record.limit_seconds:
        return False
    return not (record.stopped == "budget" and limits.sampling_seconds > record.budget_seconds)


def run(
    cells: list[Cell],
    store: Store,
    limits: Limits,
    *,
    again: bool = False,
    until: float | None = None,
    on_start: Callable[[Cell], None] = lambda cell: None,
    on_end: Callable[[Cell, Record, bool], None] = lambda cell, record, measured: None,
    on_wait: Callable[[str], None] = lambda message: None,
    on_bad_input: Callable[[str], None] | None = None,
) -> list[Record]:
    """Measure the cells that have no record yet; each record is appended as soon as it exists.

    Args:
        again: measure cells anew that have a record.
        until: a time by `time.monotonic` after which no further cell is started.
        on_end: hears each cell's record, and whether it was measured now or found.
        on_bad_input: hears of each broken problem once, and the sweep goes on with others; without it, `BadInput` is raised.
    """
    records = []
    broken = set()
    for cell in cells:
        problem = (cell.dataset.entry.name, tuple(value for value in cell.sizes.values() if isinstance(value, str)))
        if problem in broken:
            continue
        if until is not None and time.monotonic() > until:
            break
        with device_lock(cell.device, on_wait):
            # Read afresh under the lock: another sweep may have measured this cell while this one waited.
            known = store.newest(cell.contest.path, devices.this_machine().name)
            record = next((record for record in known if record.key == cell.key), None)
            measured = again or not is_answered_by(record, limits)
            if measured:
                on_start(cell)
                try:
                    record = _implied(cell, known, limits) or measure(
                        cell, limits, baseline_ended=_ended_smaller(cell, cell.baseline.name, known, limits)
                    )
                except BadInput as error:
                    if on_bad_input is None:
                        raise
                    broken.add(problem)
                    on_bad_input(str(error))
                    continue
                store.append(record)
        records.append(record)
        on_end(cell, record, measured)
    return records


def _implied(cell: Cell, known: list[Record], limits: Limits) -> Record | None:
    """A time-out record without a run, where the method outlasted the limit on a smaller problem of the same line."""
    ended = _ended_smaller(cell, cell.method.name, known, limits)
    if ended is None:
        return None
    baseline = Side(cell.baseline.name, status="skipped", reason="not run: the method is known to time out")
    return Record(
        key=cell.key, contest=cell.contest.path, dataset=cell.dataset.entry.name, sizes=dict(cell.sizes), seed=cell.seed,
        device=cell.device, threads=cell.threads, given=dict(cell.contest.given), method=ended, baseline=baseline,
        machine=devices.this_machine().name, started_at=time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        limit_seconds=limits.call_seconds, budget_seconds=limits.sampling_seconds, command=cell.command,
        rank_by=cell.contest.rank_by,
    )  # fmt: skip


def _ended_smaller(cell: Cell, name: str, known: list[Record], limits: Limits) -> Side | None:
    """How an entrant timed out on a problem that is nowhere larger: censored by implication, and said so."""
    for record in known:
        same = (record.dataset, record.device, record.threads) == (cell.dataset.entry.name, cell.device, cell.threads)
        if not same or record.sizes == dict(cell.sizes) or not _nowhere_larger(record.sizes, cell.sizes):
            continue
        for side in (record.method, record.baseline):
            if side.name == name and side.status == "timeout" and (side.at_least_seconds or 0) >= limits.call_seconds:
                sizes = " ".join(f"{key}={value}" for key, value in record.sizes.items())
                reason = f"implied: it took longer than {side.at_least_seconds:g} s at {sizes}"
                return Side(name, status="timeout", reason=reason, at_least_seconds=side.at_least_seconds)
    return None


def _nowhere_larger(smaller: Mapping, larger: Mapping) -> bool:
    return smaller.keys() == larger.keys() and all(
        smaller[name] == larger[name] if isinstance(larger[name], str) else smaller[name] <= larger[name]
        for name in larger
    )


@contextlib.contextmanager
def device_lock(device: str, on_wait: Callable[[str], None] = lambda message: None) -> Iterator[None]:
    """One cell at a time per device and machine: two sweeps take turns instead of disturbing each other's clocks."""
    path = pathlib.Path(tempfile.gettempdir(), f"breakeven-{_on_this_node(device).replace(':', '-')}.lock")
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
    with contextlib.suppress(PermissionError):
        path.chmod(0o666)  # another user's sweep waits as well
    with open(descriptor, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait(f"waiting for another sweep on {device} (process {file.read().strip() or 'unknown'})")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def _on_this_node(device: str) -> str:
    """The device among all of the machine: SLURM shows a job its own GPUs alone, and every job calls its first one cuda:0."""
    mine, index = os.environ.get("SLURM_JOB_GPUS", "").split(","), int(device.partition(":")[2] or 0)
    return f"cuda:{mine[index]}" if device != "cpu" and mine[0] and index < len(mine) else device


def results_folder(beside: str | None = None) -> pathlib.Path:
    """Where records are kept: ``$BREAKEVEN_RESULTS``, else results/ beside asv.conf.json of the checkout, else ./results."""
    if chosen := os.environ.get("BREAKEVEN_RESULTS"):
        return pathlib.Path(chosen)
    root = pathlib.Path(beside or __file__).resolve().parents[1]
    return root / "results" if (root / "asv.conf.json").exists() else pathlib.Path.cwd() / "results"


class Sweep(abc.ABC):
    """A contest and the cells that sweep it; what asv finds in benchmarks/.

    A subclass names its ``contest``, the grids of the ``quick`` and the ``full`` profile, and in ``of_a_file`` the sizes to
    sweep on a user's own file. asv's parameters are the entrant, the problem and, where the last axis is asked of the data
    set, its size. The profile, device and threads come from ``BREAKEVEN_PROFILE``, ``_DEVICE`` and ``_THREADS``.

    Sizes that `--refine` has measured on this machine are parameters as well, from the next discovery on. asv counts
    parameters by their position, so nothing should be refined while it runs.
    """

    @property
    @abc.abstractmethod  # keeps asv from taking this class itself, imported into every benchmark module, for a benchmark
    def contest(self) -> Contest: ...

    quick: typing.ClassVar[tuple[Grid, ...]] = ()
    full: typing.ClassVar[tuple[Grid, ...]] = ()
    of_a_file: typing.ClassVar[Mapping[str, tuple]] = {}

    timeout = 3600.0
    version = "1"

    def __init_subclass__(cls):
        super().__init_subclass__()
        cls.param_names = ["method", "problem", cls.contest.axes[-1]]
        cls.params = _Parameters(cls)
        for name in cls.contest.subject_to:
            setattr(cls, f"track_{name}", _judged_tracker(name))
        metric = cls.contest.rank_by
        if not metric.is_time and metric.name != PEAK_BYTES.name:  # those two have trackers of their own
            track = _metric_tracker(metric)
            setattr(cls, track.__name__, track)

    @classmethod
    def cells_by_parameters(cls, listings: list[registry.Listing] | None = None) -> dict[tuple, Cell]:
        """This environment's cells, by asv's parameters; of a catalogue as it is now, or as it was."""
        choice = Choice(
            profile=os.environ.get("BREAKEVEN_PROFILE", "quick"),
            device=os.environ.get("BREAKEVEN_DEVICE", "cpu"),
            threads=int(os.environ.get("BREAKEVEN_THREADS", "0")),
        )
        axis = cls.contest.axes[-1]
        cells: dict[tuple, Cell] = {}
        planned = plan(cls, choice, registry.catalogue() if listings is None else listings)
        for cell in sorted([*planned, *cls._refined(planned)], key=lambda cell: _difficulty(cell.sizes)):
            cells[_parameters(cell.method.name, cell.dataset.entry.name, cell, axis)] = cell
        return cells

    @classmethod
    def parameters_of(cls, record: Record) -> tuple[str, str, int | str]:
        """asv's parameters of the cell that a record is of, whether or not this environment's sweep has it."""
        return _parameters(record.method.name, record.dataset, record, cls.contest.axes[-1])

    @classmethod
    def _refined(cls, planned: Sequence[Cell]) -> list[Cell]:
        """What refinement has added by the records of this machine; none where they cannot be read, which asv must survive."""
        try:
            with warnings.catch_warnings(action="ignore"):  # torn lines: `run` tells of them
                known = cls._store().newest(cls.contest.path, devices.this_machine().name)
            return measured_between(planned, known, [*cls.quick, *cls.full])
        except Exception as error:
            print(f"{cls.contest.path}: sizes of --refine are left out: {error}", file=sys.stderr)
            return []

    @classmethod
    def _store(cls) -> Store:
        return Store(results_folder(sys.modules[cls.__module__].__file__))

    def setup(self, method: str, problem: str, size: int) -> None:
        cell = self.cells_by_parameters().get((method, problem, size))
        if cell is None:
            raise NotImplementedError("this combination is not in the sweep")
        profile = os.environ.get("BREAKEVEN_PROFILE", "quick")
        (self.record,) = run(
            [cell], self._store(), DEFAULT_LIMITS[profile], on_wait=lambda text: print(text, file=sys.stderr)
        )
        if self.record.status != "ok":
            # asv has one kind of failure for all; ours are told apart in the record, and must not stop `asv publish`.
            raise NotImplementedError(f"{self.record.status}: {self.record.method.reason}")

    def track_seconds(self, method: str, problem: str, size: int):
        return {"samples": [seconds for block in self.record.blocks for seconds in block.method], "number": 1}

    track_seconds.unit = "seconds"

    def track_ratio(self, method: str, problem: str, size: int) -> float:
        """Median time ratio to the baseline; below 1 the method is faster."""
        ratios = [
            mine / theirs
            for block in self.record.blocks
            for mine, theirs in zip(block.method, block.baseline, strict=False)
        ]
        return statistics.median(ratios) if ratios else float("nan")

    track_ratio.unit = "ratio"

    def track_peak_memory(self, method: str, problem: str, size: int) -> float:
        return float("nan") if self.record.method.peak_bytes is None else float(self.record.method.peak_bytes)

    track_peak_memory.unit = "bytes"


def _parameters(method: str, dataset: str, of: Cell | Record, axis: str) -> tuple[str, str, int | str]:
    rest = " ".join(str(v) if isinstance(v, str) else f"{k}={v}" for k, v in of.sizes.items() if k != axis)
    size = of.sizes.get(axis, 0)
    return method, f"{dataset} {rest} seed={of.seed}", f"{size:g}" if isinstance(size, float) else size


@functools.cache
def _catalogue() -> list[registry.Listing]:
    """One for all contests of a discovery: what cannot be imported is tried anew for each catalogue, which takes seconds."""
    return registry.catalogue()


class _Parameters:
    """asv's parameter grid, made when asv asks: importing a benchmark module must stay cheap and cannot fail.

    asv asks many times for each benchmark, and must get the same answer: it is made once per process and environment.
    """

    def __init__(self, sweep: type[Sweep]):
        self._sweep = sweep
        self._known: dict[tuple, list[list]] = {}

    def _lists(self) -> list[list]:
        chosen = tuple(os.environ.get(f"BREAKEVEN_{name}") for name in ("PROFILE", "DEVICE", "THREADS", "RESULTS"))
        if chosen not in self._known:
            self._known[chosen] = self._made()
        return self._known[chosen]

    def _made(self) -> list[list]:
        try:
            cells = self._sweep.cells_by_parameters(_catalogue())
        except BadInput as error:  # raised here, it would take every other track's benchmarks with it
            print(f"{self._sweep.contest.path} is left out: {error}", file=sys.stderr)
            cells = {}
        return [list(dict.fromkeys(values)) for values in zip(*cells, strict=True)] or [[], [], []]

    def __iter__(self):
        return iter(self._lists())

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index):
        return self._lists()[index]


def _judged_tracker(name: str) -> Callable:
    def track(self, method: str, problem: str, size: int) -> float:
        return self.record.method.judged.get(name, float("nan"))

    track.__name__ = f"track_{name}"
    track.unit = ""
    return track


def _metric_tracker(metric: Metric) -> Callable:
    """What a contest ranks by, for asv, which takes lower for better: else what is missing to the best, or the negative."""
    turned = "" if metric.lower_is_better else "negative_" if metric.best is None else "missing_"

    def track(self, method: str, problem: str, size: int) -> float:
        value = self.record.method.value(metric)
        if value is None:
            return float("nan")
        return value if metric.lower_is_better else (metric.best or 0.0) - value

    track.__name__ = f"track_{turned}{metric.name}"
    track.unit = metric.unit
    return track
