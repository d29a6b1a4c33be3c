"""Made-up records for tests of the site: no machine ever measured them, and their machine is called ``synthetic-...``.

Times follow simple laws (a set-up plus work per child), so that every kind of verdict and every ending occurs.
"""

import dataclasses
import itertools
import math

import simulation

from breakeven.contract import Metric
from breakeven.records import Record, Side

CONTEST = "lp/strong_branching"
MACHINE = "synthetic-machine-2c"
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quotes\" & 'apostrophes'",
    "\u202egnp.exe \u05e9\u05dc\u05d5\u05dd",
    "n" * 300,
    "$\\frac{1}{2}$ {{ 7 * 7 }} {% raw %}",
    "lone surrogate \ud800",
)

# name, nonzeros, pivots per child, iterations per child: the simplex pays for pivots, the other for iterations and a set-up.
INSTANCES = (
    ("misc03", 2053, 14, 900),
    ("danoint", 3232, 160, 1400),
    ("10teams", 12150, 420, 640),
    ("qiu", 3432, 70, 700),
    ("seymour", 33549, 60, 2600),
    ("air05", 52121, 35, 5200),
)
BATCHES = (1, 4, 16, 64)


def record(
    method: float,
    baseline: float,
    *,
    instance: str = "10teams",
    batch: int = 4,
    name: str = "batched_pdhg",
    nonzeros: int = 12150,
    seed: int = 0,
    **changes,
) -> Record:
    """A cell whose sides truly take ``method`` and ``baseline`` seconds per call."""
    key = f"{name}-{instance}-{batch}-{changes.get('threads', 2)}-{seed}-{changes.get('machine', MACHINE)}"
    blocks, stopped = simulation.duel(
        method, baseline, simulation.QUIET, seed=ascii(key), budget_seconds=120 * (method + baseline)
    )
    made = Record(
        key=key,
        contest=CONTEST,
        dataset="miplib",
        sizes={"instance": instance, "batch": batch},
        seed=seed,
        device="cpu",
        threads=2,
        given={"tolerance": 1e-4},
        method=Side(
            name, first_call_seconds=3 * method + 0.4, peak_bytes=nonzeros * 900, judged={"relative_kkt": 8.1e-5}
        ),
        baseline=Side("simplex", first_call_seconds=baseline, judged={"relative_kkt": 2e-12}),
        blocks=blocks,
        stopped=stopped,
        problem={"name": instance, "nonzeros": nonzeros, "children": batch},
        machine=MACHINE,
        versions={"torch": "2.9.0", "highspy": "1.12.0"},
        commit="0123456789",
        started_at="2026-01-02T03:04:05+00:00",
        limit_seconds=30.0,
        budget_seconds=2.0,
        command=f"breakeven run {CONTEST} --method {name} --dataset miplib --size instance={instance} --size batch={batch}",
    )
    return dataclasses.replace(made, **changes)


def ended(made: Record, side: str, status: str, reason: str, **changes) -> Record:
    """The same cell, where one side ended badly and was not timed."""
    blocks = tuple(dataclasses.replace(block, **{side: ()}) for block in made.blocks)
    if status in ("unsupported", "skipped"):
        blocks = ()
    was = dataclasses.replace(getattr(made, side), status=status, reason=reason, judged={}, **changes)
    return dataclasses.replace(made, **{side: was}, blocks=blocks, stopped="")


def timed_out(made: Record, side: str, reason: str = "") -> Record:
    return ended(made, side, "timeout", reason or "one call took longer than 30 s", at_least_seconds=30.0)


def wrong(made: Record) -> Record:
    """Timed like any other, and then judged wrong."""
    reason = "relative_kkt is 0.0123, limit 0.0001"
    side = dataclasses.replace(made.method, status="wrong", reason=reason, judged={"relative_kkt": 0.0123})
    return dataclasses.replace(made, method=side)


def sweep(name: str = "batched_pdhg", speed: float = 1.0, **changes) -> list[Record]:
    """One method on all instances and batch sizes, with endings of every kind among them."""
    made = []
    for instance, nonzeros, pivots, iterations in INSTANCES:
        for batch in BATCHES:
            simplex = batch * (2e-4 + pivots * nonzeros * 1.6e-9 + pivots * 1e-5)
            pdhg = (
                1.2e-3 + iterations * (1.5e-5 + nonzeros * (0.25 + 0.75 * batch) * 1.1e-10 * math.sqrt(batch))
            ) / speed
            one = record(pdhg, simplex, instance=instance, batch=batch, nonzeros=nonzeros, name=name, **changes)
            claims = {"iterations_median": float(iterations), "status_optimal": float(batch)}
            made.append(
                dataclasses.replace(
                    one,
                    method=dataclasses.replace(one.method, claims=claims),
                    baseline=dataclasses.replace(one.baseline, claims={"iterations_median": float(pivots)}),
                )
            )
    for batch in BATCHES:
        klein = record(1.0, 1.0, instance="klein1", batch=batch, nonzeros=696, name=name, **changes)
        made.append(ended(klein, "method", "unsupported", "no fractional variable at the root"))
    for batch in (1, 4):
        made.append(wrong(record(0.02, 0.05, instance="p0201", batch=batch, nonzeros=1923, name=name, **changes)))
    made.append(
        timed_out(record(2.0, 50.0, instance="mkc", batch=64, nonzeros=17038, name=name, **changes), "baseline")
    )
    made.append(timed_out(record(60.0, 8.0, instance="mkc", batch=1, nonzeros=17038, name=name, **changes), "method"))
    both = record(60.0, 50.0, instance="mkc", batch=16, nonzeros=17038, name=name, **changes)
    made.append(timed_out(timed_out(both, "method"), "baseline"))
    crash = record(1.0, 0.3, instance="mkc", batch=4, nonzeros=17038, name=name, **changes)
    made.append(
        ended(crash, "method", "crash", "the worker died: signal 11", stderr="Fatal Python error:\nSegmentation fault")
    )
    for rows, law in ((50, 0.5), (150, 0.95), (450, 2.5)):
        for batch in (4, 32):
            for seed in (0, 1):
                time = 1e-5 * rows * batch * (1 + 0.1 * seed)
                one = record(
                    time * law / speed, time, batch=batch, nonzeros=rows * 40 + seed, name=name, seed=seed, **changes
                )
                sizes = {"rows": rows, "batch": batch}
                problem = {"name": f"set_cover_{rows}x{rows * 2}", "nonzeros": rows * 40 + seed, "children": batch}
                key = one.key.replace("10teams", f"set_cover-{rows}")
                made.append(dataclasses.replace(one, key=key, dataset="set_cover", sizes=sizes, problem=problem))
    return made


def against_itself(count: int = 6, **changes) -> list[Record]:
    """A/A cells."""
    return [record(0.05, 0.05, instance=f"aa{place}", name="simplex", **changes) for place in range(count)]


def hostile() -> list[Record]:
    """Names that a page must show and not obey."""
    made = []
    for place, text in enumerate(HOSTILE):
        one = record(0.01, 0.02, instance=text, batch=1 + place)
        side = dataclasses.replace(one.method, name=text)
        made.append(dataclasses.replace(one, key=f"hostile-{place}", method=side, machine="synthetic-hostile"))
        bad = dataclasses.replace(one, key=f"hostile-wrong-{place}", machine="synthetic-hostile", command=text)
        made.append(ended(bad, "method", "crash", text, stderr=text))
    return made


def of_contest(sweep) -> list[Record]:
    """Two methods on the full profile of a contest, at most 40 problems; nothing of it but its sizes and metric is true."""
    contest, made = sweep.contest, []
    metric = contest.rank_by
    cells = itertools.chain.from_iterable(((grid.dataset, *one) for one in grid.problems()) for grid in sweep.full)
    for place, (dataset, sizes, seed) in enumerate(itertools.islice(cells, 40)):
        for way, name in enumerate(("one", "two:variant")):
            numbers = [value for value in sizes.values() if isinstance(value, int | float)]
            size = 1 + sum(numbers) + seed
            key = f"{contest.path}-{place}-{name}"
            read_off = {axis: size for axis in contest.axes if axis not in sizes}
            first, second = 1e-5 * size ** (0.9 + way / 4), 1e-4 * size**0.8
            if metric.scale == "difference":
                first, second = first % 1, second % 1
            one = (
                record(first, second, name=name, seed=seed)
                if metric.is_time
                else record(1.0, 1.0, name=name, seed=seed)
            )
            given = {} if metric.is_time else {"judged": {metric.name: first}, "peak_bytes": int(1e9 * first)}
            taken = {} if metric.is_time else {"judged": {metric.name: second}, "peak_bytes": int(1e9 * second)}
            made.append(
                dataclasses.replace(
                    one,
                    key=key,
                    contest=contest.path,
                    dataset=dataset,
                    sizes=sizes,
                    given=dict(contest.given),
                    problem={"name": dataset, **read_off},
                    method=dataclasses.replace(one.method, **given),
                    baseline=dataclasses.replace(one.baseline, name=contest.baseline, **taken),
                    rank_by=metric,
                    command=f"breakeven run {contest.path}",
                )
            )
    return made


ERROR = Metric("error", scale="ratio", about="of what was asked")


def many(problems: int = 200, batches: int = 10, methods: int = 10) -> list[Record]:
    """A large contest: ``problems * batches * methods`` cells, by a judged number, which takes no time to compare."""
    made = []
    for method, problem, power in itertools.product(range(methods), range(problems), range(batches)):
        value, other = 1e-3 * 2**power * (1 + problem / 50), 2e-3 * 1.6**power * (1 + method / 9) * (1 + problem / 70)
        name, batch = f"problem{problem:03d}", 2**power
        made.append(
            Record(
                key=f"many-{method}-{problem}-{power}",
                contest="synthetic/many",
                dataset="made_up",
                sizes={"instance": name, "batch": batch},
                seed=0,
                device="cpu",
                threads=1,
                given={},
                method=Side(f"method{method}", judged={"error": other}),
                baseline=Side("standard", judged={"error": value}),
                problem={"name": name, "nonzeros": 500 + 37 * problem},
                machine=MACHINE,
                started_at="2026-01-02T03:04:05+00:00",
                command=f"breakeven run synthetic/many --method method{method} --size instance={name} --size batch={batch}",
                rank_by=ERROR,
            )
        )
    return made


def use_many(tab) -> None:
    """What a reader does in a browser's ``tab`` with the contest of `many`: another method, a cell's figures, the ranking."""
    tab.locator(".picker a").nth(5).click()
    tab.locator(".view:visible .cell").nth(50).hover()
    assert "error ratio" in tab.locator(".view:visible .card").inner_text()
    tab.locator(".ranking thead button").nth(1).click()
    tab.locator(".filter input").fill("method7")
    assert tab.locator(".ranking tbody tr:visible").count() == 1
