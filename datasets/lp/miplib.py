"""Instances of MIPLIB 3 (Bixby, Ceria, McZeal and Savelsbergh, Optima 58, 1998), or of any other folder of models."""

import gzip
import hashlib
import os
import pathlib
import re

import platformdirs

from breakeven.contract import BadInput, Unsupported, dataset
from breakeven.datasets.lp._strong_branching import branch, read_model
from breakeven.problems.lp import LPBatch

COLLECTION = "https://github.com/coin-or-tools/Data-miplib3"

# SHA-256 of the MPS text, whether it is compressed or not. Numbers that are published need the same input everywhere.
CHECKSUMS = {
    "10teams": "d061e23a021877b9779558e4b9996f6c229721c8041b5a408ddf7d7fb7c1902a",
    "air05": "1ca185a7d8d6eaa48d959a8b4c00e3b0d6faf0f9e4ec4411c3228224dca074e3",
    "danoint": "09ed14e0f1b2db4cf0c8a738b17384fa64a0bf73c6ff4667d276356eec2b8e2b",
    "gesa2": "fe43df9f95b79fbceae3b4c5f8a152e9498facf5adf750f6255fe4c693af02c3",
    "khb05250": "951e36f03a1562d4adae3223db2026c3bba4ccd7cf38d59482298e9e7e5d0fc2",
    "l152lav": "c797f70b0b84f34653686c9914a7842872a9c39330a9ec127d1db6b367241034",
    "misc03": "caba4f42b1827e41cdd62c6548435cc786b9f9092f984f170cab8df939a84acb",
    "mkc": "ca676a5cad5b01d946038e2063a3b79c838b333fa4dcaa6ef3447cc7f9e17873",
    "p0201": "8352d7f121289185f443fdc67080fa9de01e5b9bf11b0bf41087fba4277c07a4",
    "p2756": "0ed6b86a8baa033c9a3e46c66eee74dd670585eb3d096ea590c3646f8b4b47c8",
    "qiu": "98277ce24052dbb5a24a8eb0205ef8c479cb4e03458cc51eda03676273de262a",
    "rout": "d8f75b5adec2c8547c14ddcedb1812a5105da019062df0fde596d96b0f3e9690",
    "set1ch": "d001258f10bf0970215fe857b4bd0a425a736cc018ce763a4ec533f924bf2867",
    "seymour": "48bcd17a805be73c68e0af115d7fcbc520a5e52da2fb81dde51beaa4d396aa69",
    "stein27": "b8889994eda0853d71bad6ba9bf45755d4e59f33a13a3f43008e1ba681738c5b",
}


@dataset(title="MIPLIB 3", source=COLLECTION, real=True, packages=("highspy",))
def miplib(*, instance: str, batch: int = 64, seed: int = 0) -> LPBatch:
    """The children of the root node of a MIPLIB instance, read from a file on this machine.

    ``<instance>.mps``, ``.mps.gz``, ``.lp`` or ``.lp.gz`` is looked for in the folders that the environment variable
    ``BREAKEVEN_DATA`` lists, then in ``data`` and ``../shared/data`` beside the repository, then in the user's cache,
    each with all that is below it. Raises `Unsupported`, which says what to put where, if it is in none of them.

    Args:
        instance: the name, such as ``"10teams"``.
        batch: children, up to twice the number of fractional variables at the root.
        seed: of the order of the children.
    """
    return branch(read_model(_find(instance)), batch=batch, seed=seed)


def _find(instance: str) -> pathlib.Path:
    if not re.fullmatch(r"[\w.+-]*\w", instance):
        raise BadInput(
            f"{instance!r} is no name of an instance; give one such as '10teams', without a folder or an ending"
        )
    folders = _folders()
    names = [f"{instance}{ending}" for ending in (".mps.gz", ".mps", ".lp.gz", ".lp")]
    found = [path for folder in folders for name in names for path in sorted(folder.rglob(name)) if path.is_file()]
    checksum = CHECKSUMS.get(instance)
    for path in found:
        if checksum is None or _checksum(path) == checksum:
            return path
    if found:
        raise BadInput(
            f"{found[0]}: is not the {instance} of MIPLIB 3 (SHA-256 of its text differs from {checksum[:12]}...); replace it "
            f"by {instance}.gz of {COLLECTION}, or use the data set `mps` for a file of your own"
        )
    raise Unsupported(
        f"{instance} is not on this machine: put {instance}.gz of {COLLECTION}, renamed to {instance}.mps.gz, "
        f"into {folders[0]} (or set BREAKEVEN_DATA to the folder that has it)"
    )


def _folders() -> list[pathlib.Path]:
    """Where to look, in this order; the first that the user named comes first, whether it exists or not."""
    named = [pathlib.Path(folder) for folder in os.environ.get("BREAKEVEN_DATA", "").split(os.pathsep) if folder]
    repository = pathlib.Path(__file__).resolve().parents[2]
    return [
        *named,
        repository / "data",
        repository.parent / "shared" / "data",
        platformdirs.user_cache_path("breakeven"),
    ]


def _checksum(path: pathlib.Path) -> str:
    content = path.read_bytes()
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise BadInput(f"{path}: is not a complete gzip file ({error}); copy it again") from error
    return hashlib.sha256(content).hexdigest()
