"""Layers of random weights whose input and output spectra are chosen: what a method gains from either is known.

Their true Hessian is exactly a Kronecker product, which a network's is not: an upper bound for methods that assume one.
"""

import numpy as np
import torch

from breakeven.contract import Unsupported, dataset
from breakeven.problems.quantization import LayerProblem

SPECTRA = ("isotropic", "power_law", "spiked", "low_rank")
OUTLIERS = 1e-3  # of the weights, eight times as large


@dataset(title="Synthetic layer")
def synthetic_layer(
    *,
    rows: int = 0,
    columns: int = 256,
    bits: int = 3,
    group_size: int = 64,
    spectrum: str = "power_law",
    output_spectrum: str = "power_law",
    outliers: str = "no",
    tokens: int = 0,
    gradients: int = 256,
    seed: int = 0,
) -> LayerProblem:
    """Normal weights; eigenvalues k^-1 (``power_law``), all 1 (``isotropic``), 5 of them with 99.9 % of all (``spiked``), or
    half of them 0 (``low_rank``), in random directions.

    The judge weighs errors by these Hessians themselves; a method sees the input Hessian as ``tokens`` normal inputs show it,
    and the output Hessian as ``gradients`` independent normal gradients do.

    Args:
        rows: as many as columns for 0.
        group_size: columns that share a scale; 0 for one per row.
        outliers: ``yes`` for one weight in a thousand that is eight times as large.
        tokens: calibration tokens, four times as many as columns for 0.
        gradients: behind the output Hessian. 256 are as many as `trained_lm` has sequences: the tokens of one share a text, and
            each sequence is counted once.
    """
    rows, tokens, group_size = rows or columns, tokens or 4 * columns, group_size or columns
    if spectrum not in SPECTRA or output_spectrum not in SPECTRA or outliers not in ("no", "yes"):
        raise Unsupported(f"spectrum={spectrum} output_spectrum={output_spectrum} outliers={outliers}: spectra are "
                          f"{', '.join(SPECTRA)}; outliers yes or no")  # fmt: skip
    if min(rows, tokens, gradients) < 1 or not 1 <= bits <= 8 or columns < 1 or columns % group_size:
        raise Unsupported(f"rows={rows} columns={columns} bits={bits} group_size={group_size} tokens={tokens} "
                          f"gradients={gradients}: at least one of each, up to 8 bits, and a group size "
                          "that divides the columns")  # fmt: skip
    rng = np.random.default_rng([seed, rows, columns])
    weight = rng.standard_normal((rows, columns))
    if outliers == "yes":
        weight[rng.random(weight.shape) < OUTLIERS] *= 8
    true_input, seen_input = _hessians(columns, spectrum, tokens, rng)
    true_output, seen_output = _hessians(rows, output_spectrum, gradients, rng)
    name = f"{spectrum}_{output_spectrum}_{rows}x{columns}_{bits}bit" + ("_outliers" if outliers == "yes" else "")
    none = [torch.zeros(0, 0, columns), torch.zeros(0, 0, rows)]
    return LayerProblem(
        name, *_float32(weight, seen_input, seen_output), *none, *none, *_float32(true_input, true_output),
        bits, group_size, True, float("nan"),
    ).with_reference()  # fmt: skip


def _hessians(size: int, spectrum: str, samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The true one, of mean diagonal 1, and the second moments of normal samples."""
    eigenvalues = np.ones(size)
    if spectrum == "power_law":
        eigenvalues = np.arange(1.0, size + 1) ** -1
    elif spectrum == "spiked" and size > 5:
        eigenvalues[:5] = 999 * (size - 5) / 5
    elif spectrum == "low_rank":
        eigenvalues[max(1, size // 2) :] = 0.0
    eigenvalues *= size / eigenvalues.sum()
    roots = np.linalg.qr(rng.standard_normal((size, size)))[0] * np.sqrt(eigenvalues)
    drawn = rng.standard_normal((samples, size)) @ roots.T
    return roots @ roots.T, drawn.T @ drawn / samples


def _float32(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(array.astype(np.float32)) for array in arrays]
