"""A whole model by a method for single layers."""

from collections.abc import Callable

import torch

from breakeven.problems.quantization import LayerProblem, ModelProblem, QuantizedLayer, QuantizedModel, dequantized


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
    names = list(problem.linears())
    if not calibrate:
        return QuantizedModel.of({name: solve(_uncalibrated(problem, name)) for name in names})
    if not sequential:
        return QuantizedModel.of({name: solve(layer) for name, layer in problem.layers(names).items()})
    answers, model = {}, problem
    for block in range(problem.blocks):
        of_block = [name for name in names if name.startswith(f"block{block}.")]
        done = {name: solve(layer) for name, layer in model.layers(of_block).items()}
        model = model.with_weights({name: torch.from_numpy(dequantized(layer)) for name, layer in done.items()})
        answers |= done
    return QuantizedModel.of(answers)


def _uncalibrated(problem: ModelProblem, name: str) -> LayerProblem:
    weight = problem.parts()[name]
    return LayerProblem.of(
        name, weight, bits=problem.bits, group_size=problem.group_size, symmetric=problem.symmetric,
        input_hessian=torch.eye(weight.shape[1]),
    )  # fmt: skip
