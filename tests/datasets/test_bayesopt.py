"""Black boxes and observations: their minima, their bounds, and two outside judges of BBOB that agree."""

import sys

import numpy as np
import pytest
import scipy.optimize

from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.bayesopt import _functions
from breakeven.datasets.bayesopt.held_out import held_out
from breakeven.datasets.bayesopt.hyperparameters import hyperparameters
from breakeven.datasets.bayesopt.observations import observations
from breakeven.datasets.bayesopt.synthetic import synthetic


@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize("name", _functions.FUNCTIONS)
def test_the_minimum_is_zero_and_lies_in_the_box(name, rotated):
    problem = synthetic(function=name, dimension=5, rotated=rotated, seed=2)
    optimum, bounds = problem.function.optimum, problem.bounds.numpy()
    assert problem.function(optimum[None])[0] == pytest.approx(0, abs=1e-9)
    assert ((optimum > bounds[:, 0]) & (optimum < bounds[:, 1])).all()
    around = optimum + 0.05 * np.ptp(bounds, axis=1) * np.random.default_rng(0).standard_normal((500, 5))
    assert (problem.function(around) > 0).all()
    found = scipy.optimize.minimize(lambda x: problem.function(x[None])[0], optimum + 1e-3, method="Nelder-Mead")
    assert found.fun == pytest.approx(0, abs=1e-3)
    assert problem.typical > 0


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("ackley", [1.0, 1.0], 3.6253849384403627),
        ("rastrigin", [1.0, 0.5], 21.25),
        ("rosenbrock", [0.0, 0.0], 1.0),
        ("levy", [1.0, 1.0], 0.0),
        ("griewank", [np.pi, 0.0], 2 + np.pi**2 / 4000),
        ("sphere", [3.0, 4.0], 25.0),
    ],
)
def test_values_are_those_of_the_literature(name, at, value):
    moved = {"rosenbrock": 1.0, "levy": 1.0}.get(name, 0.0)  # these two have their minimum at 1
    function = _functions.Function(name, np.full(2, moved), None)
    assert function(np.array([at]))[0] == pytest.approx(value, abs=1e-12)


def test_rotations_turn_and_seeds_move():
    plain, turned, other = (synthetic(dimension=3, rotated=r, seed=s) for r, s in ((False, 0), (True, 0), (False, 1)))
    x = np.ones((1, 3))
    assert len({float(p.function(x)[0]) for p in (plain, turned, other)}) == 3
    assert float(synthetic(dimension=3).function(x)[0]) == float(plain.function(x)[0])
    rotation = turned.function.rotation
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("sizes", [{"function": "hill"}, {"dimension": 0}, {"function": "rosenbrock", "dimension": 1}])
def test_what_does_not_exist_is_unsupported(sizes):
    with pytest.raises(Unsupported):
        synthetic(**sizes)


@pytest.mark.parametrize("kind", ["uniform", "clustered", "trajectory"])
def test_observations_are_what_they_say(kind):
    problem = observations(points=500, dimension=6, kind=kind, batch=7)
    again = observations(points=500, dimension=6, kind=kind, batch=7)
    assert problem.features() == {"name": f"ackley_{kind}", "points": 500, "dimension": 6, "batch": 7}
    assert (problem.x == again.x).all()
    assert len(np.unique(problem.x.numpy(), axis=0)) == 500
    np.testing.assert_allclose(problem.y, problem.function(problem.x.numpy()))


def test_runs_are_where_runs_go():
    """Values fall along a trajectory, and most clustered points are near the best."""
    walk, cluster, even = (
        observations(points=600, dimension=6, kind=k) for k in ("trajectory", "clustered", "uniform")
    )
    assert walk.y[-100:].median() < walk.y[:12].median()

    def near(problem):
        width = np.ptp(problem.bounds.numpy(), axis=1)
        apart = np.abs(problem.x.numpy() - problem.x.numpy()[problem.y.argmin()]) / width
        return float((apart <= 0.2).all(axis=1).mean())

    assert near(cluster) > 0.6
    assert near(even) < 0.1


def test_noise_is_a_share_of_the_spread():
    quiet, noisy = (observations(points=4000, dimension=4, kind="uniform", noise=noise) for noise in (0.0, 0.5))
    assert not quiet.noisy
    assert noisy.noisy
    ratio = float((noisy.y - quiet.y).std() / quiet.y.std())
    assert ratio == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("where", ["near", "everywhere"])
def test_test_points_are_inside_and_new(where):
    problem = held_out(points=200, dimension=3, where=where)
    known = {row.tobytes() for row in problem.x.numpy()}
    assert not any(row.tobytes() in known for row in problem.test_x.numpy())
    assert (problem.test_x >= problem.bounds[:, 0]).all()
    assert (problem.test_x <= problem.bounds[:, 1]).all()


@pytest.mark.parametrize("sizes", [{"kind": "somewhere"}, {"points": 0}, {"function": "hill"}])
def test_observations_that_do_not_exist_are_unsupported(sizes):
    for dataset in (observations, held_out):
        with pytest.raises(Unsupported):
            dataset(**sizes)
    with pytest.raises(Unsupported, match="where=far"):
        held_out(where="far")


@pytest.mark.parametrize(("model", "dimension"), [("svm", 2), ("weighted_svm", 66), ("lasso", 10)])
def test_hyperparameters_matter_and_are_deterministic(model, dimension):
    problem = hyperparameters(model=model)
    assert problem.dimension == dimension
    middle = problem.bounds.numpy().mean(axis=1)[None]
    good = np.where(np.arange(dimension) == 0, 1.0, np.where(np.arange(dimension) == 1, -1.5, 1.0))[None]
    value = problem.function(good if model != "lasso" else middle)
    assert 0 <= value[0] < problem.typical
    assert problem.function(good if model != "lasso" else middle)[0] == value[0]


def test_another_model_is_unsupported():
    with pytest.raises(Unsupported, match="one of svm, weighted_svm, lasso"):
        hyperparameters(model="oracle")


@pytest.mark.parametrize("function", range(1, 25))
def test_two_judges_of_bbob_agree(function):
    pytest.importorskip("ioh", reason="needs the extra 'bbob'")
    cocoex = pytest.importorskip("cocoex", reason="needs the extra 'bbob'")
    from breakeven.datasets.bayesopt.bbob import bbob

    suite = cocoex.Suite("bbob", "", "dimensions:5 instance_indices:1-2")
    for instance in (1, 2):
        problem = bbob(function=function, instance=instance, dimension=5)
        theirs = suite.get_problem_by_function_dimension_instance(function, 5, instance)
        x = np.random.default_rng(function).uniform(-5, 5, (20, 5))
        np.testing.assert_allclose(problem.function(x), [theirs(point) for point in x], rtol=1e-9)
        assert (problem.function(x) >= problem.best).all()
        np.testing.assert_allclose(
            problem.function(np.array([problem.function.problem.optimum.x])), problem.best, rtol=1e-9
        )


def test_data_sets_of_an_extra_say_which_one_is_missing(monkeypatch):
    from breakeven.datasets.bayesopt.bbob import bbob
    from breakeven.datasets.bayesopt.bipedal_walker import bipedal_walker
    from breakeven.datasets.bayesopt.lunar_lander import lunar_lander

    for module, dataset, extra in (
        ("ioh", bbob, "bbob"),
        ("gymnasium", lunar_lander, "games"),
        ("gymnasium", bipedal_walker, "games"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(Unsupported, match=f"the extra '{extra}'"):
            dataset()


def test_bbob_has_no_twenty_fifth_function():
    from breakeven.datasets.bayesopt.bbob import bbob

    with pytest.raises(Unsupported, match="functions 1 to 24"):
        bbob(function=25)


def test_a_lander_lands_by_the_usual_parameters():
    pytest.importorskip("gymnasium", reason="needs the extra 'games'")
    pytest.importorskip("Box2D", reason="needs the extra 'games'")
    from breakeven.datasets.bayesopt.lunar_lander import USUAL, lunar_lander

    problem = lunar_lander(moons=3)
    value = problem.function(USUAL[None])
    assert value[0] < -200
    assert problem.function(USUAL[None])[0] == value[0]
    assert problem.best < value[0] < problem.typical
    with pytest.raises(BadInput, match="moons=0"):
        lunar_lander(moons=0)


def test_a_walker_is_paid_for_its_way_and_no_more_than_the_whole_of_it():
    pytest.importorskip("gymnasium", reason="needs the extra 'games'")
    pytest.importorskip("Box2D", reason="needs the extra 'games'")
    from gymnasium.envs.box2d import bipedal_walker as world

    from breakeven.datasets.bayesopt.bipedal_walker import REACHABLE, bipedal_walker

    problem = bipedal_walker(paths=2)
    assert problem.dimension == 100
    still = problem.function(np.zeros((1, 100)))
    assert problem.function(np.zeros((1, 100))) == still
    assert problem.best < still[0] < 150
    assert -150 < problem.typical < 150
    way = world.TERRAIN_STEP * (world.TERRAIN_LENGTH - world.TERRAIN_GRASS - world.TERRAIN_STARTPAD / 2)
    assert 130 * way / world.SCALE < -REACHABLE
    with pytest.raises(BadInput, match="paths=0"):
        bipedal_walker(paths=0)
