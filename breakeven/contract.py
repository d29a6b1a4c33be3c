"""The vocabulary of breakeven: what a contributor of a method, a data set or a contest needs to know.

An **adapter** is one function from a problem to a solution; a **data set** is one function from sizes and a seed to a
problem; a **contest** is a question with one number to rank by. Everything else is done by the harness.
"""

import dataclasses
import inspect
import math
import typing
from collections.abc import Callable, Mapping


class Unsupported(Exception):
    """Raised by an adapter or a data set that cannot take what it was given; the cell is shown as such, never as a loss."""


class BadInput(ValueError):
    """Input from outside that cannot be used. The message says what is wrong, where, and what to do about it."""


@dataclasses.dataclass(frozen=True)
class Metric:
    """A number that is measured on every solution, with the direction in which it gets better, and how two are compared.

    It is the judge's number of this name; only `SECONDS` and `PEAK_BYTES`, whose names are reserved, are the harness's own.

    Attributes:
        unit: ``"s"`` and ``"B"`` are printed in units that fit (ms, MiB).
        scale: ``"ratio"`` for numbers that are positive and of any magnitude (seconds, bytes, a divergence), compared by their
            logarithms; ``"difference"`` for those of a fixed range (an accuracy).
        margin: up to which a difference is no win, however sure. On the scale of ratios 0.05, for 5 %, unless given; on that
            of differences a number in the metric's unit, which must be given.
        best: the best value that there can be, such as 1 for an accuracy; None where there is none.
    """

    name: str
    unit: str = ""
    lower_is_better: bool = True
    about: str = ""
    scale: str = "ratio"
    margin: float | None = None
    best: float | None = None

    def __post_init__(self):
        if self.scale not in ("ratio", "difference"):
            raise ValueError(f"metric {self.name}: no scale is called {self.scale!r}; there are: ratio, difference")
        if self.margin is None and self.scale == "ratio":
            object.__setattr__(self, "margin", 0.05)
        if self.margin is None or not 0 < self.margin < math.inf:
            raise ValueError(
                f"metric {self.name}: its margin is {self.margin}; give a positive number up to which a {self.scale} is no win"
            )

    @property
    def is_time(self) -> bool:
        """Whether it is measured by duels; every other one is a value of each side."""
        return self.name == SECONDS.name


SECONDS = Metric("seconds", unit="s", about="median wall-clock time of one call, after a first call that compiles")
PEAK_BYTES = Metric(
    "peak_bytes", unit="B", about="peak memory of one call above what was there before, in its own process"
)


@dataclasses.dataclass(frozen=True)
class Floor:
    """What an answer takes at the least: bytes that are read or written, and operations.

    At the rates that `breakeven doctor` measured of a machine, that is the time drawn as the machine's limit: a yardstick of what
    is left to gain, not a proof, since rates are measured and a method may find another way. Counts are *derived*, by whoever
    wrote the contest.

    Attributes:
        about: what is counted, such as ``"every code is read once"``, and of which methods, where not of all.
        bytes: how many, from the problem's sizes and features (``{"rows": 512, "columns": 1024, ...}``).
        operations: how many multiplications and additions of ``dtype``, likewise.
        dtype: ``"float32"`` or ``"float64"``.
    """

    about: str
    bytes: Callable[[Mapping[str, typing.Any]], float] | None = None
    operations: Callable[[Mapping[str, typing.Any]], float] | None = None
    dtype: str = "float32"


@dataclasses.dataclass(frozen=True)
class Contest:
    """A question that methods compete to answer, on problems of one type.

    ``problem`` names the class in ``breakeven.problems.<track>`` that entrants take as their first argument.
    ``subject_to`` are upper limits on numbers that the judge measures on the solution: beyond one, a solution is *wrong*.
    ``given`` are the keyword options that every entrant receives alike. ``axes`` are the sizes along which break-even
    is looked for; a size is either asked of the data set (``batch``) or read off the problem (``nonzeros``).
    ``floor``, of contests by time, is what an answer takes at the least.
    """

    track: str
    name: str
    question: str
    problem: str
    axes: tuple[str, ...]
    baseline: str
    rank_by: Metric = SECONDS
    subject_to: Mapping[str, float] = dataclasses.field(default_factory=dict)
    given: Mapping[str, typing.Any] = dataclasses.field(default_factory=dict)
    floor: Floor | None = None

    @property
    def path(self) -> str:
        return f"{self.track}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Adapter:
    """What the ``@adapter`` decorator records of a function."""

    title: str
    paper: str
    derived: str
    faults: str
    devices: tuple[str, ...]
    variants: Mapping[str, Mapping[str, typing.Any]]
    packages: tuple[str, ...]
    isolated: bool
    problem: type
    options: Mapping[str, typing.Any]


@dataclasses.dataclass(frozen=True)
class DataSet:
    """What the ``@dataset`` decorator records of a function."""

    title: str
    source: str
    real: bool
    packages: tuple[str, ...]
    problem: type
    sizes: Mapping[str, typing.Any]


def adapter(
    *,
    title: str,
    paper: str = "",
    derived: str = "",
    faults: str = "",
    devices: tuple[str, ...] = ("cpu",),
    variants: Mapping[str, Mapping[str, typing.Any]] | None = None,
    packages: tuple[str, ...] = (),
    isolated: bool = False,
) -> Callable:
    """Make a function ``solve(problem, *, option=default, ...) -> solution`` an entrant of every contest on its problem type.

    Args:
        title: the name that readers see.
        paper: where the method is described, such as ``"arXiv:2601.21990"``.
        derived: which steps were derived here since the source could not be read; shown wherever the method is.
        faults: in which cases a peer's library is known to answer wrongly, such as ``"returns a plan of zeros where epsilon is
            small beside the costs"``; for baselines alone, and shown wherever the baseline is.
        devices: the device kinds it runs on, of ``"cpu"`` and ``"cuda"``.
        variants: named sets of options, each an entrant of its own, called ``method:variant``.
        packages: distributions whose versions belong to the record.
        isolated: its import changes global state (thread counts, say), so that it must not share a process.
    """

    def decorate(function: Callable) -> Callable:
        problem, options = _signature(function)
        for name, chosen in (variants or {}).items():
            unknown = sorted(set(chosen) - set(options))
            if unknown:
                raise TypeError(f"variant {name!r} of {function.__module__} sets {unknown}, which it has no option for")
        function.adapter = Adapter(
            title,
            paper,
            derived,
            faults,
            tuple(devices),
            dict(variants or {}),
            tuple(packages),
            isolated,
            problem,
            options,
        )
        return function

    return decorate


def dataset(*, title: str, source: str = "generated", real: bool = False, packages: tuple[str, ...] = ()) -> Callable:
    """Make a function ``name(*, size=default, ..., seed=0) -> problem`` a data set.

    It raises `Unsupported` for sizes that do not exist ("10teams has 308 children") and `BadInput` for input that is broken.
    The same sizes and seed give the same problem, always.
    """

    def decorate(function: Callable) -> Callable:
        hints = typing.get_type_hints(function)
        sizes = {name: p.default for name, p in inspect.signature(function).parameters.items() if name != "seed"}
        if "return" not in hints or "seed" not in inspect.signature(function).parameters:
            raise TypeError(f"data set {function.__module__} needs a return annotation and a `seed` argument")
        function.dataset = DataSet(title, source, real, tuple(packages), hints["return"], sizes)
        return function

    return decorate


def _signature(function: Callable) -> tuple[type, dict[str, typing.Any]]:
    """The problem type (the annotation of the first argument) and the options with their defaults."""
    parameters = list(inspect.signature(function).parameters.values())
    hints = typing.get_type_hints(function)
    if not parameters or parameters[0].name not in hints:
        raise TypeError(
            f"{function.__module__}.{function.__qualname__}: annotate the first argument with its problem type"
        )
    for option in parameters[1:]:
        if option.kind is not option.KEYWORD_ONLY or option.default is option.empty:
            raise TypeError(
                f"{function.__module__}.{function.__qualname__}: option {option.name!r} must be keyword-only, with a default"
            )
    return hints[parameters[0].name], {option.name: option.default for option in parameters[1:]}
