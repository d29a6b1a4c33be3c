"""Data sets of LPs: the same every time, nested in the batch size, right in their references, clear about broken input."""

import functools
import gzip
import hashlib
import http.server
import math
import os
import pathlib
import threading

import numpy as np
import pytest
import scipy.optimize
import torch

from breakeven.baselines.lp import simplex
from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.lp import _files
from breakeven.datasets.lp import miplib as miplib_module
from breakeven.datasets.lp import netlib as netlib_module
from breakeven.datasets.lp.axial_assignment import axial_assignment
from breakeven.datasets.lp.combinatorial_auction import combinatorial_auction
from breakeven.datasets.lp.facility_location import facility_location
from breakeven.datasets.lp.generalized_assignment import generalized_assignment
from breakeven.datasets.lp.independent_set import independent_set
from breakeven.datasets.lp.miplib import miplib
from breakeven.datasets.lp.mps import mps
from breakeven.datasets.lp.multicommodity_flow import multicommodity_flow
from breakeven.datasets.lp.netlib import netlib
from breakeven.datasets.lp.set_cover import set_cover
from breakeven.datasets.lp.transport import transport
from breakeven.problems.lp import OPTIMAL

KNAPSACK = """\
maximize
 obj: 5 x + 4 y + 3 z + 7
subject to
 c: 2 x + 3 y + z <= 4
 d: 4 x + y + 2 z <= 5
bounds
 x <= 1
 y <= 1
 z <= 1
general
 x y z
end
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def knapsack(tmp_path):
    file = tmp_path / "knapsack.lp"
    file.write_text(KNAPSACK)
    return file


def real(pattern: str) -> list[pathlib.Path]:
    """Files among the data at hand: those of $BREAKEVEN_DATA, or beside the repository."""
    beside = pathlib.Path(miplib_module.__file__).parents[3] / "shared" / "data"
    folders = os.environ.get("BREAKEVEN_DATA", str(beside)).split(os.pathsep)
    return sorted(file for folder in folders for file in pathlib.Path(folder).rglob(pattern))


MODELS = [
    (set_cover, {"rows": 100}),
    (facility_location, {"facilities": 10, "customers": 25}),
    (combinatorial_auction, {"items": 40}),
    (independent_set, {"nodes": 120}),
    (generalized_assignment, {"agents": 5, "jobs": 25}),
    (axial_assignment, {"size": 8}),
    (multicommodity_flow, {"nodes": 6, "commodities": 4}),
]
GENERATED = [
    *(
        (make, {**sizes, "question": question, "batch": 4})
        for make, sizes in MODELS
        for question in ("branching", "tightening")
    ),
    (facility_location, {"facilities": 5, "customers": 10, "question": "scenarios", "batch": 4}),
    *(
        (transport, {"plants": 3, "customers": 5, "change": change, "batch": 4})
        for change in ("demand", "cost", "both")
    ),
]
IDS = [f"{make.__name__} {sizes.get('question') or sizes['change']}" for make, sizes in GENERATED]


def same(left, right, children=slice(None)) -> bool:
    """Whether two problems are bit for bit the same, in the children that are named."""
    left, right = left.children(children).tensors(), right.children(children).tensors()
    parts = [
        [tensor.to_dense() if tensor.layout == torch.sparse_csr else tensor for tensor in (left[name], right[name])]
        for name in left
    ]
    return left.keys() == right.keys() and all(
        torch.equal(one.nan_to_num(7.7), two.nan_to_num(7.7)) for one, two in parts
    )


@pytest.mark.parametrize(("make", "sizes"), GENERATED, ids=IDS)
def test_the_same_sizes_and_seed_give_the_same_problem(make, sizes):
    one, two = make(**sizes, seed=4), make(**sizes, seed=4)
    assert same(one, two)
    assert not torch.equal(
        one.parent_x, make(**sizes, seed=2 if make in (facility_location, independent_set) else 6).parent_x
    )


@pytest.mark.parametrize(("make", "sizes"), GENERATED, ids=IDS)
def test_a_smaller_batch_is_the_beginning_of_a_larger_one(make, sizes):
    assert same(make(**sizes | {"batch": 2}, seed=4), make(**sizes, seed=4), slice(2))


@pytest.mark.parametrize(("make", "sizes"), GENERATED, ids=IDS)
def test_references_are_exact(make, sizes):
    problem = make(**sizes, seed=4)
    matrix = problem.matrix.to_dense().numpy()
    for child in range(len(problem.reference)):
        part = {name: getattr(problem, name).numpy().copy() for name in ("objective", "row_lower", "row_upper")}
        for name in part:
            if (own := getattr(problem, f"child_{name}")) is not None:
                part[name] = own[:, child].numpy()
        lower, upper = problem.lower.numpy().copy(), problem.upper.numpy().copy()
        variable = problem.branch_variable[child]
        lower[variable], upper[variable] = problem.branch_lower[child], problem.branch_upper[child]
        rows = scipy.optimize.LinearConstraint(matrix, part["row_lower"], part["row_upper"])
        bounds = scipy.optimize.Bounds(lower, upper)
        if (lower > upper).any():
            continue
        answer = scipy.optimize.milp(part["objective"], constraints=rows, bounds=bounds)
        exact = math.inf if answer.status == 2 else answer.fun + problem.offset
        assert problem.reference[child].item() == pytest.approx(exact, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(("make", "sizes"), MODELS, ids=lambda part: getattr(part, "__name__", ""))
def test_branching_cuts_off_the_parent_s_optimum(make, sizes):
    problem = make(**sizes, batch=4, seed=4)
    parent = problem.parent_x[problem.branch_variable]
    assert ((parent < problem.branch_lower) | (parent > problem.branch_upper)).all()


@pytest.mark.parametrize(("make", "sizes"), MODELS, ids=lambda part: getattr(part, "__name__", ""))
def test_tightened_bounds_hold_the_root_and_lie_within_the_old_ones(make, sizes):
    problem, plain = make(**sizes, batch=16, question="tightening", seed=4), make(**sizes, batch=4, seed=4)
    assert problem.matrix.shape[0] == plain.matrix.shape[0] + 1
    value = (plain.objective @ plain.parent_x).item()
    assert problem.row_upper[-1].item() == pytest.approx(value + 0.05 * max(1, abs(value)))
    variable = problem.child_objective.abs().argmax(0)
    least, most = problem.reference[::2], -problem.reference[1::2]
    assert torch.equal(variable[::2], variable[1::2])
    assert (problem.child_objective[variable, torch.arange(16)] == torch.tensor([1.0, -1.0]).repeat(8)).all()
    root, tiny = problem.parent_x[variable[::2]], 1e-7
    assert ((problem.lower[variable[::2]] <= least + tiny) & (least <= root + tiny)).all()
    assert ((root <= most + tiny) & (most <= problem.upper[variable[::2]] + tiny)).all()


@pytest.mark.parametrize(("make", "sizes"), MODELS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_single_lp_has_nothing_to_start_from(make, sizes):
    problem, plain = make(**sizes, batch=1, question="single", seed=4), make(**sizes, batch=1, seed=4)
    assert problem.starts_from_slacks
    assert (problem.parent_row_basis == 1).all()
    assert not problem.parent_y.any()
    root = (plain.objective @ plain.parent_x).item() + plain.offset
    assert problem.reference.item() == pytest.approx(root, rel=1e-8)
    with pytest.raises(Unsupported, match="a single LP has a batch of 1, 2 asked"):
        make(**sizes, batch=2, question="single")


@pytest.mark.parametrize(("make", "sizes"), GENERATED, ids=IDS)
def test_the_baseline_solves_what_is_generated(make, sizes):
    judged = make(**sizes, seed=4).judge(simplex.solve(make(**sizes, seed=4)))
    assert judged["relative_kkt"] <= 1e-8
    assert judged["status_errors"] == 0
    assert judged["bound_violation"] <= 1e-9
    assert judged["score_rank"] == 0 or math.isnan(judged["score_rank"])


def test_scenarios_of_transport_have_their_optima_by_hand():
    """One plant, one customer: what cannot be sent is missed at a cost of 3."""
    problem = transport(plants=1, customers=1, batch=50, change="both", seed=1)
    capacity, demand = problem.child_row_upper[0], problem.child_row_upper[1]
    distance, missing = problem.child_objective
    sent = torch.minimum(capacity, demand)
    value = torch.where(distance < missing, sent * distance + (demand - sent) * missing, demand * missing)
    assert torch.allclose(value[:32], problem.reference[:32], rtol=1e-9)
    assert problem.reference[32:].isnan().all()
    found = simplex.solve(problem)
    assert torch.allclose(value, (problem.child_objective * found.x).sum(0), rtol=1e-9)


def test_nothing_else_can_be_asked():
    with pytest.raises(
        BadInput, match="no question is called 'guess'; there are: branching, tightening, scenarios, single"
    ):
        set_cover(rows=50, question="guess")
    with pytest.raises(BadInput, match="cannot change 'weather'"):
        transport(change="weather")
    with pytest.raises(Unsupported, match="has 200 children, 201 asked"):
        set_cover(rows=50, question="tightening", batch=201)


def test_the_parent_is_optimal_by_its_duals():
    problem = facility_location(facilities=10, customers=25, batch=4, seed=2)
    reduced = problem.objective - problem.matrix.to_dense().T @ problem.parent_y
    below, above = problem.parent_x - problem.lower, problem.upper - problem.parent_x
    assert (reduced.clamp(min=0) * below).max() < 1e-6
    assert (reduced.clamp(max=0).abs() * above).max() < 1e-6


def test_formulations_have_the_sizes_that_they_say():
    problem = facility_location(facilities=10, customers=25, batch=4, seed=0)
    assert tuple(problem.matrix.shape) == (25 + 10 + 250, 250 + 10)
    assert problem.features()["nonzeros"] == 4 * 250 + 10
    cover = set_cover(rows=50, batch=8, seed=0)
    assert tuple(cover.matrix.shape) == (50, 100)
    assert (cover.matrix.values() == 1).all()
    jobs = generalized_assignment(agents=5, jobs=25, batch=2)
    assert tuple(jobs.matrix.shape) == (5 + 25, 5 * 25)
    axial = axial_assignment(size=5, batch=2)
    assert tuple(axial.matrix.shape) == (15, 125)
    assert (axial.matrix.to_dense().sum(0) == 3).all()
    assert (axial.matrix.to_dense().sum(1) == 25).all()
    flow = multicommodity_flow(nodes=6, commodities=4, batch=2)
    assert tuple(flow.matrix.shape) == (6 * 4 + 24 + 24 * 4, 24 * 5)
    assert tuple(transport(plants=3, customers=5, batch=2).matrix.shape) == (8, 20)


def test_a_cover_of_cliques_covers_every_edge_and_nothing_else():
    import networkx

    problem = independent_set(nodes=60, batch=2, seed=3)
    rng = np.random.default_rng([3, 60, 4])
    graph = networkx.barabasi_albert_graph(60, 4, seed=int(rng.integers(2**31)))
    members = problem.matrix.to_dense().numpy()
    together = (members.T @ members > 0) & ~np.eye(60, dtype=bool)
    assert np.array_equal(together, networkx.to_numpy_array(graph) > 0)


def test_a_maximisation_is_turned_around(knapsack):
    problem = mps(file=str(knapsack), batch=2, seed=0)
    assert problem.objective.tolist() == [-5, -4, -3]
    assert problem.offset == -7
    best = max(
        5 * x + 4 * y + 3 * z + 7
        for x in np.linspace(0, 1, 81) for y in np.linspace(0, 1, 81) for z in np.linspace(0, 1, 81)
        if 2 * x + 3 * y + z <= 4 + 1e-9 and 4 * x + y + 2 * z <= 5 + 1e-9
    )  # fmt: skip
    parent = problem.objective @ problem.parent_x + problem.offset
    assert -best - 0.2 <= parent.item() <= -best + 1e-9
    assert (problem.reference >= parent - 1e-9).all()


def test_compressed_files_are_the_same_model(knapsack, tmp_path):
    packed = tmp_path / "packed.lp.gz"
    packed.write_bytes(gzip.compress(KNAPSACK.encode()))
    assert torch.equal(mps(file=str(packed), batch=2).parent_x, mps(file=str(knapsack), batch=2).parent_x)


def test_the_root_is_solved_once_and_kept(knapsack, tmp_path, monkeypatch):
    first = mps(file=str(knapsack), batch=2)
    kept = list((tmp_path / "cache").rglob("*.npz"))
    assert kept
    monkeypatch.setattr("highspy.Highs.run", lambda self: pytest.fail("solved again"))
    monkeypatch.setattr("highspy._core._Highs.run", lambda self: pytest.fail("solved again"), raising=False)
    assert torch.equal(mps(file=str(knapsack), batch=2).reference, first.reference)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("garbage.mps", "this is no model", "garbage.mps: HiGHS cannot read it"),
        ("empty.mps", "", "empty.mps"),
        ("model.txt", KNAPSACK, "the ending does not say what it is"),
        ("crossing.lp", KNAPSACK.replace("x <= 1", "3 <= x <= 1"), "crossing"),
        ("nan.lp", KNAPSACK.replace("5 x +", "nan x +"), "nan.lp"),
    ],
)
def test_broken_files_are_told_by_name(tmp_path, name, text, said):
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(BadInput, match=said):
        mps(file=str(file), batch=2)


def test_what_does_not_exist_is_told():
    with pytest.raises(BadInput, match="there is no such file"):
        mps(file="/nowhere/model.mps")
    with pytest.raises(BadInput, match="ask for at least 1"):
        set_cover(rows=50, batch=0)
    with pytest.raises(Unsupported, match=r"has \d+ children, 100000 asked"):
        set_cover(rows=50, batch=100000)
    for make, sizes in (
        (facility_location, {"facilities": 1, "customers": 0}),
        (combinatorial_auction, {"items": 1}),
        (independent_set, {"nodes": 4}),
        (generalized_assignment, {"agents": 1}),
        (axial_assignment, {"size": 2}),
        (multicommodity_flow, {"nodes": 4}),
        (transport, {"plants": 0}),
    ):
        with pytest.raises(BadInput, match=rf"{make.__name__}: .*ask for (an affinity of )?at least"):
            make(**sizes)


def test_models_without_a_question_are_unsupported(tmp_path):
    continuous = tmp_path / "continuous.lp"
    continuous.write_text(KNAPSACK.replace("general\n x y z\n", ""))
    with pytest.raises(Unsupported, match="no fractional variable at the root"):
        mps(file=str(continuous))
    infeasible = tmp_path / "infeasible.lp"
    infeasible.write_text(KNAPSACK.replace("end", "").replace("<= 4", "<= -4") + "end\n")
    with pytest.raises(Unsupported, match="the root LP has no optimum: infeasible"):
        mps(file=str(infeasible))


def test_a_missing_instance_says_which_file_to_put_where(tmp_path, monkeypatch):
    monkeypatch.setenv("BREAKEVEN_DATA", str(tmp_path))
    monkeypatch.setattr(_files, "data_folders", lambda: [tmp_path])
    monkeypatch.setattr(
        _files.Collection, "_download", lambda self, instance: " and could not be downloaded (NoNetwork)"
    )
    with pytest.raises(
        Unsupported, match=r"not on this machine and could not .*: put .*/10teams.gz, renamed to 10teams.mps.gz"
    ):
        miplib(instance="10teams")
    with pytest.raises(Unsupported, match="afiro is not on this machine"):
        netlib(instance="afiro")
    with pytest.raises(Unsupported, match="unheard_of is not on this machine: put"):
        netlib(instance="unheard_of")
    with pytest.raises(BadInput, match="no name of an instance"):
        miplib(instance="../10teams")
    (tmp_path / "10teams.mps").write_text("NAME something else\n")
    with pytest.raises(BadInput, match="10teams"):
        miplib(instance="10teams")


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A server on this machine that has one tiny model, and a collection that is published there; nothing else is found."""
    pytest.importorskip("pooch", reason="the extra breakeven[data] is not installed")
    served = tmp_path / "served"
    served.mkdir()
    text = b"NAME tiny\nROWS\n N cost\n G row\nCOLUMNS\n x cost 1 row 2\nRHS\n rhs row 3\nENDATA\n"
    (served / "tiny.mps.gz").write_bytes(gzip.compress(text))
    (served / "other.mps.gz").write_bytes(gzip.compress(text))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *about):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=served))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    home = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(_files, "data_folders", lambda: [tmp_path / "none", tmp_path / "user"])
    monkeypatch.setattr(_files.platformdirs, "user_cache_path", lambda name: tmp_path / "user")
    sums = {"tiny": hashlib.sha256(text).hexdigest(), "other": "0" * 64, "absent": "0" * 64}
    yield _files.Collection("Mirror", home, home + "/{instance}.mps.gz", "mirror", sums)
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_instance_is_downloaded_once_and_checked(mirror, tmp_path):
    path = mirror.find("tiny")
    assert path == tmp_path / "user" / "data" / "mirror" / "tiny.mps.gz"
    problem = mps(file=str(path), batch=1, question="single")
    assert problem.reference.item() == 1.5
    (tmp_path / "served" / "tiny.mps.gz").unlink()
    assert mirror.find("tiny") == path  # it is kept
    with pytest.raises(Unsupported, match="what was downloaded is another file"):
        mirror.find("other")
    assert not list((tmp_path / "user").rglob("other*"))
    with pytest.raises(Unsupported, match="could not be downloaded \\(HTTPError\\)"):
        mirror.find("absent")


OPTIMA = {
    "afiro": -464.75314286, "adlittle": 225494.96316, "blend": -30.812149846, "kb2": -1749.9001299, "sc50b": -70.0,
    "israel": -896644.82186, "share2b": -415.73224074, "scagr7": -2331389.8243, "sctap1": 1412.25, "stocfor1": -41131.976219,
    "25fv47": 5501.8458883, "degen2": -1435.178, "brandy": 1518.5098965, "e226": -18.751929066, "recipe": -266.616,
}  # fmt: skip


@pytest.mark.parametrize("instance", OPTIMA)
def test_netlib_s_optima_are_those_that_are_published(instance):
    if not real(f"netlib/{instance}.mps*"):
        pytest.skip("no Netlib files at hand; name their folder in BREAKEVEN_DATA")
    problem = netlib(instance=instance)
    found = simplex.solve(problem)
    value = (problem.objective @ found.x[:, 0]).item() + problem.offset
    assert found.status.item() == OPTIMAL
    # Netlib leaves out the constant of e226's objective, which is in the file.
    assert value - (7.113 if instance == "e226" else 0) == pytest.approx(OPTIMA[instance], rel=1e-8)
    assert problem.reference.item() == pytest.approx(value, rel=1e-9)
    assert problem.judge(found)["relative_kkt"] <= 1e-8


def test_every_file_at_hand_that_has_a_checksum_is_the_right_one():
    at_hand = [
        (module.COLLECTION, file)
        for module in (miplib_module, netlib_module)
        for file in real(f"{module.COLLECTION.folder}/*.mps.gz")
    ]
    if not at_hand:
        pytest.skip("no files at hand; name their folder in BREAKEVEN_DATA")
    for collection, file in at_hand:
        assert collection.find(file.name.removesuffix(".mps.gz")) == file


def test_real_instances_have_the_optima_that_are_published():
    if not real("misc03.mps*"):
        pytest.skip("no MIPLIB files at hand; name their folder in BREAKEVEN_DATA")
    for name, optimum in {"misc03": 1910, "p0201": 6875, "stein27": 13, "qiu": -931.638846}.items():
        problem = miplib(instance=name, batch=2)
        parent = (problem.objective @ problem.parent_x).item() + problem.offset
        assert parent == pytest.approx(optimum, rel=1e-8)


@pytest.mark.parametrize("file", [*real("highs/*.mps"), *real("highs/*.lp"), *real("edge/*.mps")], ids=lambda f: f.name)
def test_odd_files_end_in_a_problem_or_in_a_clear_error(file):
    try:
        problem, said = mps(file=str(file), batch=2), ""
    except (BadInput, Unsupported) as error:
        problem, said = None, str(error)
    if problem is None:
        assert file.name.split(".")[0] in said
        assert "\n" not in said
    else:
        assert problem.judge(simplex.solve(problem))["relative_kkt"] <= 1e-6
