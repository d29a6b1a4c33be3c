"""Products with quantized weights: the judge against the definition, the formats against each other, the entrants."""

import dataclasses

import numpy as np
import pytest
import torch

from breakeven.baselines.quantization import torch_bfloat16, torch_float32, torch_int4
from breakeven.contract import BadInput, Unsupported
from breakeven.datasets.quantization.quantized_matrix import quantized_matrix
from breakeven.methods.quantization import packed_codes
from breakeven.problems import Wrong
from breakeven.problems.quantization import Product, ProductProblem, QuantizedLayer
from breakeven.problems.quantization.packing import unpack

PROBES = ProductProblem.probes()


def by_entries(problem):
    """``x Q^T`` by three loops over the stored codes."""
    m, n = problem.weight.shape
    codes = unpack(problem.packed.numpy(), problem.bits, n)
    y = np.zeros((len(problem.x), m))
    for b in range(len(problem.x)):
        for i in range(m):
            for j in range(n):
                k = j // problem.group_size
                q = float(problem.scales[i, k]) * (int(codes[i, j]) - float(problem.zeros[i, k]))
                y[b, i] += q * float(problem.x[b, j])
    return y


@pytest.mark.parametrize("name", ["three_bits", "odd_groups", "asymmetric"])
def test_the_error_is_that_of_the_definition(name):
    problem = PROBES[name]
    exact = by_entries(problem)
    assert problem.judge(Product(torch.from_numpy(exact)))["relative_error"] < 1e-14
    off = exact + 0.1 * np.linalg.norm(exact) / exact.size**0.5
    assert problem.judge(Product(torch.from_numpy(off)))["relative_error"] == pytest.approx(0.1)
    assert problem.judge(Product(torch.from_numpy(0 * exact)))["relative_error"] == 1.0


@pytest.mark.parametrize("name", PROBES)
def test_all_formats_hold_the_same_weight(name):
    problem = PROBES[name]
    m, n = problem.weight.shape
    codes = unpack(problem.packed.numpy(), problem.bits, n)
    scales, zeros = (np.repeat(part.numpy(), problem.group_size, axis=1) for part in (problem.scales, problem.zeros))
    assert np.array_equal(problem.weight.numpy(), scales * (codes - zeros))
    assert torch.equal(problem.bfloat16.view(torch.bfloat16), problem.weight.bfloat16())
    assert len(problem.torch_int4) == (m if name in ("four_bits", "asymmetric") else 0)


@pytest.mark.parametrize("name", PROBES)
def test_everybody_multiplies(name):
    problem = PROBES[name].astype(torch.float32)
    assert problem.judge(packed_codes.solve(problem))["relative_error"] < 5e-5
    assert problem.judge(torch_float32.solve(problem))["relative_error"] < 1e-6
    assert problem.judge(torch_bfloat16.solve(problem))["relative_error"] < 0.01
    if len(problem.torch_int4):
        assert problem.judge(torch_int4.solve(problem))["relative_error"] < 0.01
    else:
        with pytest.raises(Unsupported, match="no int4 kernel for these sizes"):
            torch_int4.solve(problem)
    wide = PROBES[name]
    assert wide.judge(packed_codes.solve(wide))["relative_error"] < 1e-13
    for half in (torch_bfloat16, torch_int4):
        with pytest.raises(Unsupported, match="no answer in float64"):
            half.solve(wide)


def test_half_precision_does_not_round_the_answer_once_more():
    problem = quantized_matrix(rows=64, columns=256, batch=2)
    y = torch_bfloat16.solve(problem).y
    assert (y != y.bfloat16().float()).any()


def test_the_data_set_holds_nearest_codes():
    problem = quantized_matrix(rows=16, columns=128, bits=2, group_size=0)
    assert problem.group_size == 128
    weight = np.random.default_rng([0, 16, 128]).standard_normal((16, 128), dtype=np.float32)
    assert (np.abs(weight - problem.weight.numpy()) <= problem.scales.numpy() * 0.5001).all()
    for wrong in ({"bits": 5}, {"columns": 100}, {"batch": 0}):
        with pytest.raises(Unsupported, match=r"2, 3, 4, 8 bits, and a group size that divides"):
            quantized_matrix(**wrong)


def test_answers_that_are_none():
    problem = PROBES["two_bits"]
    with pytest.raises(Wrong, match=r"y has shape \(9,\), not \(1, 9\)"):
        problem.judge(Product(torch.zeros(9)))
    with pytest.raises(Wrong, match="must be a Product"):
        problem.judge(Product(torch.zeros(1, 9, dtype=torch.int64)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: {"packed": p.packed[:, :-1]}, "packed has shape"),
        (lambda p: {"scales": p.scales * np.nan}, "scales has an entry that is NaN"),
        (lambda p: {"x": p.x.half()}, "x is torch.float16; give float32 or float64"),
        (lambda p: {"x": p.x[:, :5]}, "x has shape"),
        (lambda p: {"group_size": 5}, "group size 5 does not divide"),
    ],
)
def test_problems_that_are_none(change, words):
    problem = PROBES["two_bits"]
    with pytest.raises(BadInput, match=words):
        dataclasses.replace(problem, **change(problem))


def test_codes_that_cannot_be_packed():
    layer = QuantizedLayer(
        torch.zeros(2, 8, dtype=torch.uint8), torch.ones(2, 1), torch.zeros(2, 1), torch.empty(0, dtype=torch.int64)
    )
    with pytest.raises(BadInput, match="codes of 5 bits cannot be packed"):
        ProductProblem.of("five", layer, torch.ones(1, 8), bits=5, group_size=8)
    ordered = dataclasses.replace(layer, permutation=torch.arange(8))
    with pytest.raises(BadInput, match="groups by a permutation"):
        ProductProblem.of("ordered", ordered, torch.ones(1, 8), bits=4, group_size=8)
