"""A small language model of bytes, trained once on the standard library's sources, and kept in the cache.

Training runs in a process of one thread, so that the model does not depend on how many there are: ``python -m
breakeven.datasets.quantization._trained SIZE TRAINING FILE``. It depends on the versions of Python, whose sources differ, and
of torch, and may depend on the CPU and its BLAS, which choose the order of sums.
"""

import hashlib
import math
import os
import pathlib
import subprocess
import sys
import sysconfig
import typing

import numpy as np
import torch

from breakeven import registry
from breakeven.problems.quantization import ByteModel, ModelProblem

CONTEXT = 128
HELD_OUT = 10  # every so many files are not trained on
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}


class Size(typing.NamedTuple):
    architecture: ByteModel
    steps: int
    batch: int
    rate: float


SIZES = {"tiny": Size(ByteModel(32, 1, 2, 64), 120, 8, 1e-2), "small": Size(ByteModel(128, 4, 4, 384), 1000, 16, 4e-3)}


def text(held_out: bool) -> np.ndarray:
    """Bytes of the standard library's sources, uint8, of all files but every tenth, or of those alone."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    files = sorted(file for file in root.rglob("*.py") if not LEFT_OUT & set(file.relative_to(root).parts))
    chosen = [file for k, file in enumerate(files) if (k % HELD_OUT == 0) == held_out]
    return np.frombuffer(b"\n".join(file.read_bytes() for file in chosen), np.uint8)


def windows(of: np.ndarray, count: int, length: int, rng: np.random.Generator) -> torch.Tensor:
    """Pieces of the text from random places, (count, length) int64."""
    starts = rng.integers(0, len(of) - length, count)
    return torch.from_numpy(of[starts[:, None] + np.arange(length)].astype(np.int64))


def model(
    size: str,
    training: int,
    calibration: torch.Tensor,
    held_out: torch.Tensor,
    bits: int,
    group_size: int,
    symmetric: bool,
) -> ModelProblem:
    """A trained model of a size, with text to calibrate on and to be judged by."""
    return ModelProblem(
        f"stdlib_{size}", parameters(size, training), calibration, held_out, SIZES[size].architecture, bits, group_size,
        symmetric,
    )  # fmt: skip


def parameters(size: str, training: int = 0) -> torch.Tensor:
    """Of a cached model, float32; it is trained first where it is not there: seconds for tiny, minutes for small.

    Args:
        training: the seed of the first weights and of the order of the text.
    """
    source = pathlib.Path(__file__).read_bytes()
    key = hashlib.sha256(f"{sys.version} {torch.__version__} {SIZES[size]}".encode() + source).hexdigest()[:16]
    file = registry.cache_folder() / "quantization" / f"{size}-{training}-{key}.npy"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.npy")
        one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, "-m", __name__, size, str(training), str(partial)], env=os.environ | one_thread, check=True
        )
        partial.replace(file)
    return torch.from_numpy(np.load(file))


def trained(size: str, training: int) -> torch.Tensor:
    """By AdamW with a warm-up and a cosine, from normal weights; deterministic on one machine."""
    torch.set_num_threads(1)
    shape, generator = SIZES[size], torch.Generator().manual_seed(training)
    rng, of = np.random.default_rng(training), text(held_out=False)
    any_text = windows(of, 1, 2, rng)
    architecture = shape.architecture
    empty = torch.zeros(sum(math.prod(one) for one in architecture.shapes().values()))
    problem = ModelProblem(size, empty, any_text, any_text, architecture, 4, 1, True)
    depth = math.sqrt(2 * architecture.blocks)
    for name, part in problem.parts().items():
        if part.dim() == 1:
            part.fill_(1.0)
        else:
            part.normal_(std=part.shape[1] ** -0.5, generator=generator)
            if name.endswith((".o", ".down")):
                part.div_(depth)
    problem.parts()["embedding"].mul_(math.sqrt(architecture.width) / 2)
    weights = problem.parameters.requires_grad_()
    optimizer = torch.optim.AdamW([weights], lr=shape.rate, betas=(0.9, 0.95), weight_decay=0.01)
    for step in range(shape.steps):
        warm, done = (step + 1) / 50, step / shape.steps
        optimizer.param_groups[0]["lr"] = (
            shape.rate * min(1.0, warm) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))
        )
        tokens = windows(of, shape.batch, CONTEXT + 1, rng)
        logits = problem.logits(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([weights], 1.0)
        optimizer.step()
        if step % 100 == 0 or step == shape.steps - 1:
            print(f"{size}: step {step} of {shape.steps}, {loss.item():.3f} nats per byte", file=sys.stderr, flush=True)
    return weights.detach()


if __name__ == "__main__":
    np.save(sys.argv[3], trained(sys.argv[1], int(sys.argv[2])).numpy())
