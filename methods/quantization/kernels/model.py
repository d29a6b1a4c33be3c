"""A whole model, one block after the other, by a method for single layers."""

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
    answers, model = {}, problem
    for block in range(problem.blocks):
        names = [name for name in problem.linears() if name.startswith(f"block{block}.")]
        layers = model.layers(names) if calibrate else {name: _uncalibrated(problem, name) for name in names}
        answers |= {name: solve(layers[name]) for name in names}
        if sequential:
            model = model.with_weights({name: torch.from_numpy(dequantized(answers[name])) for name in names})
    return QuantizedModel.of(answers)


def _uncalibrated(problem: ModelProblem, name: str) -> LayerProblem:
    weight = problem.parts()[name]
    return LayerProblem.of(
        name, weight, bits=problem.bits, group_size=problem.group_size, symmetric=problem.symmetric,
        input_hessian=torch.eye(weight.shape[1]),
    )  # fmt: skip
