"""Names of files and of places on pages, and small words that all pages use."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
CHECKOUT = ROOT if (ROOT / "pyproject.toml").is_file() else None
"""The repository that this code runs from. An installed package has none: no documents, and no paths to link to."""


class Names:
    """Letters, digits, hyphens and underscores, whatever the records hold; no two alike, and the same ones in every build."""

    def __init__(self):
        self._taken: dict[str, int] = {}

    def make(self, *parts: str) -> str:
        plain = "-".join(filter(None, (re.sub(r"[^a-z0-9_]+", "-", part.lower()).strip("-") for part in parts)))
        plain = plain[:100].strip("-") or "x"
        number = self._taken[plain] = self._taken.get(plain, 0) + 1
        return plain if number == 1 else self.make(f"{plain[:92]}-{number}")


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
