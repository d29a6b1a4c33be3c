"""The landscape explorer on shapes whose symmetries are known, and against all permutations of tiny ones."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from breakeven import registry
from breakeven.contract import BadInput
from breakeven.methods.gromov_wasserstein.landscape import draw, isometry, minima, mirror_pairs, search
from breakeven.methods.gromov_wasserstein.landscape.__main__ import main
from breakeven.methods.gromov_wasserstein.landscape.symmetry import Pictures
from breakeven.problems.gromov_wasserstein import METRICS, PRECOMPUTED, MatchingProblem, Plan, loss_of

BOX = np.array(list(itertools.product((-3.0, 3), (-2.0, 2), (-1.0, 1))))
SIGNS = list(itertools.product((1, -1), repeat=3))


def permuted(problem: MatchingProblem, order) -> Plan:
    n = len(problem.x)
    return Plan(torch.arange(n), torch.as_tensor(np.asarray(order)), torch.full((n,), 1 / n, dtype=torch.float64), 0)


def linearised(problem: MatchingProblem, order: np.ndarray) -> np.ndarray:
    """The cost of sending one point to another beside a permutation: L_ij = mean over k of (c(i, k) - c(j, order[k]))^2."""
    x, y = (costs.numpy() for costs in problem.costs())
    return ((x[:, None, :] - y[:, order][None]) ** 2).mean(axis=2)


def random_problem(n: int, m: int, metric: str = "sqeuclidean", seed: int = 0, weights: bool = False):
    rng = np.random.default_rng(seed)
    a, b = (side / side.sum() for side in (rng.random(n) + 0.2, rng.random(m) + 0.2))
    given = {"x_weights": a, "y_weights": b} if weights else {}
    return MatchingProblem.of("random", rng.standard_normal((n, 3)), rng.standard_normal((m, 2)), metric, **given)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", range(3))
def test_all_permutations_of_six_points(metric, seed):
    problem = random_problem(6, 6, metric, seed)
    found = minima(problem, starts=64)
    brute = min(loss_of(problem, permuted(problem, order)) for order in itertools.permutations(range(6)))
    assert found[0].loss == pytest.approx(brute, rel=1e-9)
    for one in found:
        order = one.plan.column.numpy()[np.argsort(one.plan.row.numpy())]
        cost = linearised(problem, order)
        cheapest = min(cost[np.arange(6), other].sum() for other in map(np.array, itertools.permutations(range(6))))
        assert cost[np.arange(6), order].sum() <= cheapest * (1 + 1e-9)
        assert one.loss == pytest.approx(loss_of(problem, permuted(problem, order)), rel=1e-12)
    assert sum(one.share for one in found) == pytest.approx(1)
    assert [one.loss for one in found] == sorted(one.loss for one in found)


def test_a_box_has_the_eight_symmetries_of_a_box():
    problem = MatchingProblem.of("box", BOX, BOX, "sqeuclidean")
    zero = [one for one in minima(problem, starts=64) if one.loss < 1e-9]
    assert len(zero) == 8
    first = zero[0].plan.column.numpy()
    wanted = {
        0: "the same way round",
        1: "mirrored along axis {}",
        2: "turned by 180° about axis {}",
        3: "reflected in the centre",
    }
    met = set()
    for one in zero:
        # Which coordinates change their signs between where both send the corners.
        signs = BOX[one.plan.column.numpy()] * np.sign(BOX[first])
        signs = np.sign(signs[0])
        assert np.array_equal(BOX[one.plan.column.numpy()], BOX[first] * signs)
        flipped = np.flatnonzero(signs < 0)
        axis = {1: flipped, 2: np.flatnonzero(signs > 0)}.get(len(flipped), [0])[0] + 1
        assert one.relation.words == wanted[len(flipped)].format(axis)
        assert one.relation.determinant == (-1) ** len(flipped)
        assert one.relation.residual < 1e-6
        met.add(tuple(signs))
    assert met == set(SIGNS)
    pairs = mirror_pairs(problem, [one.plan for one in zero])
    assert sorted(itertools.chain(*pairs)) == list(range(8))
    assert all(isometry(problem, zero[i].plan, zero[j].plan).mirrors for i, j in pairs)
    turned = [one.plan for one in zero if one.relation.determinant == 1]
    assert len(turned) == 4
    assert mirror_pairs(problem, turned) == []


def test_swapped_axes_of_a_box_are_minima_at_a_known_height():
    """Where axis k is sent to axis s(k), the loss is 8 (sum of a_k^4 - sum of a_k^2 a_s(k)^2), a the half sides."""
    problem = MatchingProblem.of("box", BOX, BOX, "sqeuclidean")
    squares = np.array([9.0, 4, 1])
    heights = {round(8 * (squares**2).sum() - 8 * squares @ squares[list(p)]) for p in itertools.permutations(range(3))}
    found = {round(one.loss, 6) for one in minima(problem, starts=400)}
    assert heights <= found


def test_a_square_turns_and_mirrors():
    square = [[0, 0], [1, 0], [1, 1], [0, 1]]
    found = minima(MatchingProblem.of("square", square, square, "sqeuclidean"), starts=64)
    zero = [one.relation for one in found if one.loss < 1e-9]
    assert len(zero) == 8
    assert sorted(relation.determinant for relation in zero) == [-1] * 4 + [1] * 4
    assert sorted(relation.words for relation in zero if relation.determinant == 1) == [
        "the same way round", "turned by 180°", "turned by 90°", "turned by 90°",
    ]  # fmt: skip
    assert all(relation.mirrors for relation in zero if relation.determinant == -1)


@pytest.mark.parametrize("metric", METRICS)
def test_a_shape_without_symmetry_has_one_minimum_at_zero_and_higher_ones(metric):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 3)) * [3, 2, 1] + rng.exponential(size=(30, 3))
    order, turn = rng.permutation(30), np.linalg.qr(rng.standard_normal((3, 3)))[0]
    problem = MatchingProblem.of("odd", x, (x @ turn + 7)[order], metric, truth=np.argsort(order))
    found = minima(problem)
    assert found[0].loss < 1e-9 * found[1].loss
    assert found[0].accuracy == 1
    assert found[0].excess == 0
    assert all(one.excess > 1 and one.accuracy < 1 for one in found[1:])


def test_a_noisy_copy_of_a_symmetric_shape_comes_in_mirror_pairs():
    """Points to the left and right of a plane: the mirror image fits nearly as well, from front to back it does not."""
    rng = np.random.default_rng(1)
    half = rng.random((40, 3)) * [6, 2, 1.5] + rng.exponential(size=(40, 3)) * [2, 0.5, 0.4]
    shape = np.vstack([half, half * [1, -1, 1]])
    x, y = (shape + 0.01 * rng.standard_normal(shape.shape) for _ in range(2))
    problem = MatchingProblem.of("mirrored", x, y, "sqeuclidean")
    one, other, third = minima(problem, starts=32)[:3]
    assert other.relation.words == "mirrored along axis 2"
    assert other.loss < 0.2 * third.loss
    assert third.relation.mirrors
    assert mirror_pairs(problem, [third.plan, one.plan, other.plan]) == [(1, 2)]
    assert mirror_pairs(problem, [one.plan, third.plan]) == []  # a mirror image, but of another loss


@pytest.mark.parametrize("angle", [20, 90, 130])
@pytest.mark.parametrize(("sign", "words"), [(1, "turned by"), (-1, "mirrored along")])
def test_any_turn_is_recognised_and_any_mirror_image_with_one(angle, sign, words):
    """A plan that sends the points of a sphere to where a known map sends them, as near as 400 points allow."""
    places = np.arange(400) + 0.5
    height, around = 1 - places / 200, np.pi * (1 + math.sqrt(5)) * places
    ring = np.sqrt(1 - height**2)
    sphere = np.column_stack([ring * np.cos(around), ring * np.sin(around), height])
    problem = MatchingProblem.of("sphere", sphere, sphere, "sqeuclidean")
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    known = np.array([[sign, 0, 0], [0, cosine, sine], [0, -sine, cosine]])
    plan = permuted(problem, np.argmax(sphere @ known @ sphere.T, axis=1))
    found = isometry(problem, permuted(problem, np.arange(400)), plan)
    assert found.residual < 0.15
    pictures = Pictures(problem)
    carried, there = pictures.of(permuted(problem, np.arange(400))) @ found.matrix, pictures.of(plan)
    missed, spread = ((part**2).sum(axis=1).mean() for part in (carried - there, there - there.mean(axis=0)))
    assert math.sqrt(missed / spread) == pytest.approx(found.residual, rel=0.02)
    assert found.determinant == sign
    assert math.degrees(math.acos((np.trace(found.matrix) - sign) / 2)) == pytest.approx(angle, abs=1)
    assert found.words.startswith(words)
    assert not found.mirrors


def test_a_plan_at_random_is_no_isometry():
    problem = random_problem(60, 60)
    rng = np.random.default_rng(3)
    found = isometry(problem, *(permuted(problem, rng.permutation(60)) for _ in range(2)))
    assert found.residual > 0.9
    assert not found.clear
    assert found.words == ""
    assert not found.mirrors


def test_flat_spaces_do_not_tell_a_turn_from_a_mirror_image():
    """Points on a line in the plane: the second axis holds no spread, and is left out."""
    line = np.array([[0.0, 0], [1, 0], [3, 0], [4, 0]])
    found = minima(MatchingProblem.of("line", line, line, "sqeuclidean"), starts=16)
    zero = [one for one in found if one.loss < 1e-12]
    assert [one.relation.words for one in zero] == ["the same way round", "mirrored along axis 1"]
    assert zero[1].relation.matrix.shape == (1, 1)


@pytest.mark.parametrize(("n", "m", "metric"), [(9, 5, "sqeuclidean"), (4, 11, "euclidean"), (1, 3, "euclidean")])
def test_unequal_weights_and_sizes(n, m, metric):
    problem = random_problem(n, m, metric, weights=True)
    for one in minima(problem, starts=16):
        judged = problem.judge(one.plan)
        assert judged["marginal_violation"] < 1e-9
        assert judged["loss"] == one.loss


def test_matrices_of_costs_answer_as_the_points_do():
    problem = random_problem(12, 12)
    costs = MatchingProblem.of("costs", *(matrix.numpy() for matrix in problem.costs()), PRECOMPUTED)
    one, other = minima(problem, starts=9), minima(costs, starts=9)
    assert other[0].loss == pytest.approx(one[0].loss, rel=1e-9)


def test_points_in_one_place_are_one_minimum():
    """Which of two coincident points is meant changes no plan that anyone could see."""
    corners = [[0.0, 0], [4, 0], [4, 1], [4, 1], [0, 2], [0, 2], [0, 0], [4, 0]]
    problem = MatchingProblem.of("doubled", corners, corners, "sqeuclidean")
    found = minima(problem, starts=64)
    assert len([one for one in found if one.loss < 1e-12]) == 1
    exchanged = permuted(problem, [6, 7, 3, 2, 5, 4, 0, 1])
    agreement = search._Agreement(problem)
    assert agreement.share(permuted(problem, range(8)), exchanged) == pytest.approx(1)
    assert agreement.share(permuted(problem, range(8)), permuted(problem, [1, 0, *range(2, 8)])) == pytest.approx(6 / 8)
    together = minima(MatchingProblem.of("together", [[1.0, 1]] * 3, [[2.0]] * 4, "euclidean"), starts=3)
    assert [(one.loss, one.share, one.relation.words) for one in together] == [(0.0, 1.0, "")]


def test_a_point_without_weight_is_left_alone():
    corners = np.vstack([BOX, [[99, 99, 99]]])
    weights = np.append(np.full(8, 1 / 8), 0)
    found = minima(MatchingProblem.of("box", corners, BOX, "sqeuclidean", x_weights=weights), starts=12)
    assert found[0].loss < 1e-12
    assert all(8 not in one.plan.row for one in found)


def test_a_seed_answers_the_same_twice_and_float32_is_taken():
    problem = random_problem(25, 25)
    one, other = minima(problem, seed=4), minima(problem, seed=4)
    assert [a.loss for a in one] == [b.loss for b in other]
    assert all(torch.equal(a.plan.column, b.plan.column) for a, b in zip(one, other, strict=True))
    assert [a.share for a in one] == [b.share for b in other]
    rounded = minima(problem.astype(torch.float32), seed=4)
    assert rounded[0].loss == pytest.approx(one[0].loss, rel=1e-4)


def test_what_it_cannot_explore_is_told():
    problem = random_problem(5, 5)
    with pytest.raises(BadInput, match="0 starts; give at least 1"):
        minima(problem, starts=0)
    ring = np.array([[min((i - j) % 5, (j - i) % 5) == 1 for j in range(5)] for i in range(5)], dtype=float)
    with pytest.raises(BadInput, match="the costs of x are not the squared distances of any vectors"):
        minima(MatchingProblem.of("ring", ring, ring, PRECOMPUTED))
    with pytest.raises(BadInput, match="a point of x has a cost of 1 to itself"):
        minima(MatchingProblem.of("kernel", np.eye(4), np.eye(4), PRECOMPUTED))
    large = np.zeros((2001, 1))
    with pytest.raises(BadInput, match=r"2001 x 2001 points; .* take a sample"):
        minima(MatchingProblem.of("large", large, large, "sqeuclidean"))
    with pytest.raises(BadInput, match=r"the ending must be .svg or .png"):
        draw(problem, minima(problem, starts=1), "picture.gif")


def command(*words: str, fails: bool = False) -> str:
    answer = CliRunner().invoke(main, list(words))
    if answer.exception and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    assert (answer.exit_code != 0) == fails, answer.output
    return " ".join(answer.output.split())


def test_the_command_prints_the_minima_and_draws_them_the_same_twice(tmp_path):
    words = ["blobs", "points=20", "seed=3", "--starts", "12", "--seed", "1", "--picture"]
    said = command(*words, str(tmp_path / "one.svg"))
    assert "20 x 20 points, 12 starts, seed 1" in said
    assert "the lowest" in said
    assert "100%" in said  # the accuracy of the true match
    command(*words, str(tmp_path / "other.svg"))
    one, other = ((tmp_path / name).read_text() for name in ("one.svg", "other.svg"))
    assert one == other
    assert "local minima" in one
    command(*words, str(tmp_path / "one.png"))
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["blbs"], "no data set is called 'blbs'; did you mean 'blobs'?"),
        (["blobs", "points"], "'points' is not NAME=VALUE, such as points=300"),
        (["blobs", "pints=30"], "did you mean 'points'?"),
        (["blobs", "points=many"], "points is a whole number, such as 500"),
        (["blobs", "noise=little"], "noise is a number, such as 0.002"),
        (["blobs", "points=1"], "points=1"),
        (["blobs", "seed=1.5"], "seed is a whole number, such as 0"),
        (["blobs", "--starts", "0"], "0 is not in the range x>=1"),
        (["blobs", "--picture", "blobs.gif"], "the ending must be .svg or .png"),
        (["blobs", "points=5", "--picture", "/nowhere/blobs.svg"], "name a file in a folder that is there"),
    ],
)
def test_what_the_command_cannot_do_is_said_in_a_line(words, said):
    output = command(*words, fails=True)
    assert said in output
    assert "Traceback" not in output


def test_it_runs_as_a_module_and_is_no_method():
    module = "breakeven.methods.gromov_wasserstein.landscape"
    answer = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=True)
    assert f"python -m {module}" in answer.stdout
    assert not [entry for entry in registry.entries() if "landscape" in entry.module]
