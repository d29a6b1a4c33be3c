"""A whole model by a method for single layers."""

from collections.abc import Callable

import psutil
import torch

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
        parts = passes(shapes, problem.calibration.numel(), psutil.virtual_memory().available)
        return QuantizedModel.of(
            {name: solve(layer) for names in parts for name, layer in problem.layers(names).items()}
        )
    answers, model = {}, problem
    for of_block in problem.blocks():
        done = {name: solve(layer) for name, layer in model.layers(of_block).items()}
        model = model.with_weights({name: torch.from_numpy(dequantized(layer)) for name, layer in done.items()})
        answers |= done
    return QuantizedModel.of(answers)


def _uncalibrated(problem: ModelProblem, name: str) -> LayerProblem:
    weight = problem.weights()[name]
    return LayerProblem.of(
        name, weight, bits=problem.bits, group_size=problem.group_size, symmetric=problem.symmetric,
        input_hessian=torch.eye(weight.shape[1]),
    )  # fmt: skip
