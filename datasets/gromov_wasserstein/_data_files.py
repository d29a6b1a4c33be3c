"""Files that are not part of this repository: where they are looked for, and how they are downloaded once."""

import hashlib
import http.client
import os
import pathlib
import tempfile
import urllib.request

from breakeven.contract import BadInput, Unsupported
from breakeven.registry import cache_folder


def find(name: str, checksum: str, source: str, *, first: tuple[pathlib.Path, ...] = ()) -> pathlib.Path | None:
    """The file of this name and SHA-256, None where there is none of this name.

    It is looked for in ``first``, in the folders that ``BREAKEVEN_DATA`` lists, in ``data`` and ``../shared/data`` beside the
    repository, and among the downloads, each with all that is below it. Raises `BadInput` where only others have its name.
    """
    found = [path for folder in (*first, *_folders()) for path in sorted(folder.rglob(name)) if path.is_file()]
    for path in found:
        if _sha256(path.read_bytes()) == checksum:
            return path
    if found:
        raise BadInput(f"{found[0]}: is not the {name} of {source} (its SHA-256 is not {checksum[:12]}...); replace it")
    return None


def download(url: str, checksum: str, source: str) -> pathlib.Path:
    """Fetch a file into the cache folder, where `find` will see it; raises `Unsupported`, which says what to put where."""
    folder = downloads()
    name = url.rpartition("/")[2]
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            content = answer.read()
    except (OSError, ValueError, http.client.HTTPException) as error:  # no network, no such page, half an answer
        reason = f"cannot be downloaded ({error})"
    else:
        if _sha256(content) == checksum:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as partial:
                partial.write(content)
            pathlib.Path(partial.name).replace(folder / name)
            return folder / name
        reason = f"its download has another SHA-256 than {checksum[:12]}..."
    raise Unsupported(
        f"{name} is not on this machine, and {reason}: put {name} of {source} into {_folders()[0]} (or set BREAKEVEN_DATA to "
        "the folder that has it)"
    )


def downloads() -> pathlib.Path:
    return cache_folder() / "gromov_wasserstein"


def _folders() -> list[pathlib.Path]:
    named = [pathlib.Path(folder) for folder in os.environ.get("BREAKEVEN_DATA", "").split(os.pathsep) if folder]
    repository = pathlib.Path(__file__).resolve().parents[2]
    return [*named, repository / "data", repository.parent / "shared" / "data", downloads()]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
