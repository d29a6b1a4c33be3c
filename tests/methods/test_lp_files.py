"""Statuses of real files: tiny LPs on which first-order solvers go wrong, HiGHS's own odd ones, and Netlib.

Truths are those of the simplex and the interior-point method of HiGHS, which agree. Files are looked for as the data set
`miplib` looks for its own.
"""

import pytest

from breakeven.contract import BadInput
from breakeven.datasets.lp._files import data_folders
from breakeven.methods.lp.batched_pdhg import solve
from breakeven.problems.lp import STATUS_NAMES
from breakeven.problems.lp.readers import from_mps

SMALL = {  # an optimum, or a status
    "edge/allfixed_ok.mps": 3.0, "edge/badscale.mps": 1e-6, "edge/degenerate_face.mps": 10.0, "edge/emptyrow_feas.mps": -4.0,
    "edge/bigrhs_hides.mps": 2.0, "edge/ortools3956.mps": -5.6e8, "edge/zero_obj.mps": 0.0,
    "edge/crossing_bounds.mps": "infeasible", "edge/emptyrow_infeas.mps": "infeasible", "edge/norows_unbounded.mps": "unbounded",
    "edge/unbounded_free.mps": "unbounded", "edge/unbounded_presolve.mps": "unbounded",
    "edge/zerocol_unbounded.mps": "unbounded",
    "highs/2122.lp": 187604.067, "highs/avgas.mps": -7.75, "highs/blending.mps": -3200.0, "highs/bound_implied.mps": 0.0,
    "highs/chip.mps": -900.0, "highs/infeasible-mip0.mps": 21580.3162, "highs/infeasible-mip1.mps": 153.675,
    "highs/issue-2095.mps": 3.0, "highs/qap04.mps": 32.0, "highs/small_mip.mps": 3.23684211, "highs/smalllp.mps": 54.0,
    "highs/sp150x300d.mps": 4.89111184, "highs/bgetam.mps": "infeasible", "highs/box1.mps": "infeasible",
    "highs/cplex1.mps": "infeasible",  # it has a ray, too, but no point
    "highs/ex72a.mps": "infeasible", "highs/forest6.mps": "infeasible", "highs/galenet.mps": "infeasible",
    "highs/gas11.mps": "unbounded", "highs/klein1.mps": "infeasible", "highs/refinery.mps": "infeasible",
    "highs/warnings.mps": "infeasible", "highs/woodinfe.mps": "infeasible",
    "netlib/afiro.mps.gz": -464.753143, "netlib/sc50b.mps.gz": -70.0, "netlib/sc50a.mps.gz": -64.5750771,
    "netlib/sc105.mps.gz": -52.2020612, "netlib/kb2.mps.gz": -1749.90013, "netlib/stocfor1.mps.gz": -41131.9762,
    "netlib/adlittle.mps.gz": 225494.963, "netlib/blend.mps.gz": -30.8121498, "netlib/recipe.mps.gz": -266.616,
    "netlib/boeing2.mps.gz": -315.018728, "netlib/sctap1.mps.gz": 1412.25, "netlib/israel.mps.gz": -896644.822,
    "netlib/brandy.mps.gz": 1518.5099, "netlib/scsd1.mps.gz": 8.66666667, "netlib/bandm.mps.gz": -158.628018,
    "netlib/degen2.mps.gz": -1435.178,
}  # fmt: skip

LONG = {
    "netlib/scagr7.mps.gz": -2331389.82, "netlib/share2b.mps.gz": -415.732241, "netlib/vtpbase.mps.gz": 129831.462,
    "netlib/e226.mps.gz": -11.6389291, "netlib/agg.mps.gz": -35991767.3, "netlib/scsd8.mps.gz": 905.0,
    "netlib/stocfor2.mps.gz": -39024.4085, "netlib/sierra.mps.gz": 15394362.2, "netlib/fit1d.mps.gz": -9146.37809,
    "netlib/25fv47.mps.gz": 5501.84589, "netlib/ship08l.mps.gz": 1909055.21, "netlib/degen3.mps.gz": -987.294,
    "netlib/woodw.mps.gz": 1.30447633, "netlib/d2q06c.mps.gz": 122784.211, "netlib/dfl001.mps.gz": 11266396.0,
    "netlib/fit2p.mps.gz": 68464.2933, "netlib/fit2d.mps.gz": -68464.2933, "netlib/maros-r7.mps.gz": 1497185.17,
    "netlib/pilot87.mps.gz": 301.710347,
    "netlib/forplan.mps.gz": -664.218961,
}  # fmt: skip

REFUSED = {
    "highs/nan0.mps": r"objective \[0\] is NaN", "highs/nan1.mps": r"matrix entry \[3\] is NaN",
    "highs/nan2.mps": "cannot read", "highs/garbage.mps": "cannot read", "highs/garbage.lp": "cannot read",
}  # fmt: skip


def found(name):
    for folder in data_folders():
        for path in (folder / "lp" / name, folder / name):
            if path.is_file():
                return path
    pytest.skip(f"lp/{name} is in none of the folders of data")


def check(name, truth):
    problem = from_mps(found(name))
    solution = solve(problem)
    judged = problem.judge(solution)
    status = STATUS_NAMES[solution.status[0]]
    assert status == (truth if isinstance(truth, str) else "optimal")
    assert judged["relative_kkt"] <= 1e-4  # with a proof, or a ray
    if not isinstance(truth, str):
        value = float(problem.objective @ solution.x[:, 0]) + problem.offset
        assert value == pytest.approx(truth, rel=1e-2, abs=1e-2)
        assert float(solution.dual_bound[0]) <= truth + 1e-6 * (1 + abs(truth))


@pytest.mark.parametrize("name", SMALL)
def test_statuses_of_small_files(name):
    check(name, SMALL[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_statuses_of_larger_files(name):
    check(name, LONG[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["netlib/pilot4.mps.gz", "netlib/greenbea.mps.gz"])
def test_what_is_given_up_is_called_so(name):
    assert STATUS_NAMES[solve(from_mps(found(name)), iteration_limit=20_000).status[0]] == "limit"


@pytest.mark.parametrize("name", REFUSED)
def test_files_without_an_lp_are_refused(name):
    with pytest.raises(BadInput, match=REFUSED[name]):
        from_mps(found(name))
