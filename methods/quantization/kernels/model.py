"""A whole model by a method for single layers."""

from collections.abc import Callable, Sequence

import psutil
import torch

from breakeven.contract import BadInput
from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel, dequantized
from breakeven.problems.quantization.calibration import passes


def quantized_model(
    problem: ModelProblem,
    solve: Callable[[LayerProblem], QuantizedLayer],
    *,
    sequential: bool = False,
    calibrate: bool = True,
) -> QuantizedModel:
    """Every layer by ``solve``, with the inputs and gradients that it has in the model.

    Args:
        sequential: a block's inputs are those that the quantized blocks before it produce.
        calibrate: without it, layers come with the identity for a Hessian.
    """
    shapes = problem.linears()
    if not calibrate:
        return QuantizedModel.of({name: solve(_uncalibrated(problem, name)) for name in shapes})
    if not sequential:
        return QuantizedModel.of(_solved(problem, list(shapes), solve))
    answers, model = {}, problem
    for of_block in problem.blocks():
        done = _solved(model, of_block, solve)
        model = model.with_weights({name: torch.from_numpy(dequantized(layer)) for name, layer in done.items()})
        answers |= done
    return QuantizedModel.of(answers)


def _solved(
    problem: ModelProblem, names: Sequence[str], solve: Callable[[LayerProblem], QuantizedLayer]
) -> dict[str, QuantizedLayer]:
    """Some layers, in as many passes over the calibration data as memory asks for."""
    shapes = problem.linears()
    try:
        parts = passes(
            {name: shapes[name] for name in names}, problem.calibration.numel(), psutil.virtual_memory().available
        )
    except BadInput as error:
        raise MemoryError(str(error)) from error  # with more memory the problem would do
    return {name: solve(layer) for some in parts for name, layer in problem.layers(some).items()}


def _uncalibrated(problem: ModelProblem, name: str) -> LayerProblem:
    weight = problem.weights()[name]
    return LayerProblem.of(
        name, weight, bits=problem.bits, group_size=problem.group_size, symmetric=problem.symmetric,
        input_hessian=torch.eye(weight.shape[1]),
    )  # fmt: skip
