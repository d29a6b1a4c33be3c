"""Collections of models: found on this machine, or downloaded once, and checked against what was measured here."""

import dataclasses
import gzip
import hashlib
import importlib.util
import os
import pathlib
import re
from collections.abc import Mapping

import platformdirs

from breakeven.contract import BadInput, Unsupported

ENDINGS = (".mps.gz", ".mps", ".lp.gz", ".lp")


@dataclasses.dataclass(frozen=True)
class Collection:
    """Instances that are published together.

    Attributes:
        name: as it stands in messages.
        home: where people find it.
        url: of one file, with ``{instance}`` in it.
        folder: of local files, for which it is looked first; others count too.
        checksums: SHA-256 of the MPS text by instance, whether the file is compressed or not. Numbers that are published
            need the same input everywhere.
    """

    name: str
    home: str
    url: str
    folder: str
    checksums: Mapping[str, str]

    def find(self, instance: str) -> pathlib.Path:
        """The file of an instance: on this machine, or else downloaded into the user's cache.

        ``<instance>.mps``, ``.mps.gz``, ``.lp`` or ``.lp.gz`` is looked for in the folders that the environment variable
        ``BREAKEVEN_DATA`` lists, then in ``data`` and ``../shared/data`` beside the repository, then in the cache, each
        with all that is below it. Only instances with a checksum are downloaded.

        Raises:
            Unsupported: it is in none of them and cannot be downloaded; says what to put where.
            BadInput: no name of an instance, or a file that is not what it should be.
        """
        if not re.fullmatch(r"[\w.+-]*\w", instance):
            raise BadInput(
                f"{instance!r} is no name of an instance; give one such as {next(iter(self.checksums))!r}, without a folder or "
                "an ending"
            )
        folders = data_folders()
        names = [f"{instance}{ending}" for ending in ENDINGS]
        found = [path for folder in folders for name in names for path in sorted(folder.rglob(name)) if path.is_file()]
        found.sort(key=lambda path: path.parent.name != self.folder)  # another collection may have one of this name
        checksum = self.checksums.get(instance)
        for path in found:
            if checksum is None or _checksum(path) == checksum:
                return path
        if found:
            raise BadInput(
                f"{found[0]}: is not the {instance} of {self.name} (SHA-256 of its text differs from {checksum[:12]}...); "
                f"replace it by that of {self.home}, or use the data set `mps` for a file of your own"
            )
        reason = "" if checksum is None else self._download(instance)
        if not reason and checksum is not None:
            return self.find(instance)
        where = self.url.format(instance=instance)
        raise Unsupported(
            f"{instance} is not on this machine{reason}: put {where}, renamed to {instance}.mps.gz, into {folders[0]} (or set "
            "BREAKEVEN_DATA to the folder that has it)"
        )

    def _download(self, instance: str) -> str:
        """Fetch a file into the cache; why that was not possible, or nothing."""
        if not importlib.util.find_spec("pooch"):
            return " (and is not downloaded without the extra breakeven[data])"
        import pooch

        folder, name = platformdirs.user_cache_path("breakeven") / "data" / self.folder, f"{instance}.mps.gz"
        try:
            downloader = pooch.HTTPDownloader(progressbar=False, timeout=20)
            pooch.get_logger().setLevel("WARNING")
            # What is checked is the text: the same file is packed differently from mirror to mirror.
            pooch.retrieve(self.url.format(instance=instance), None, fname=name, path=folder, downloader=downloader)
        except Exception as error:  # no network, no such host, a broken transfer: requests has many names for it
            return f" and could not be downloaded ({type(error).__name__})"
        if _checksum(folder / name) != self.checksums[instance]:
            (folder / name).unlink()
            return " and what was downloaded is another file"
        return ""


def data_folders() -> list[pathlib.Path]:
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
