"""A throw-away git repository with a copy of the core and a toy track, whose methods wait for known times."""

import pathlib
import shutil
import subprocess
import textwrap
from collections.abc import Mapping

import breakeven

PACKAGE = pathlib.Path(breakeven.__file__).parent

PROBLEMS = '''
"""Waiting for so many seconds."""
import dataclasses
import torch
from breakeven.problems import Problem, Solution

@dataclasses.dataclass(frozen=True)
class Wait(Problem):
    name: str
    seconds: float
    values: torch.Tensor

    def features(self):
        return {"name": self.name, "size": len(self.values)}

    def judge(self, solution):
        return {"error": float((solution.values - self.values).abs().max())}

@dataclasses.dataclass(frozen=True)
class Waited(Solution):
    values: torch.Tensor
'''
BENCHMARKS = """
from breakeven.contract import Contest
from breakeven.sweep import Grid, Sweep

class Race(Sweep):
    contest = Contest(track="toy", name="race", question="Who waits least?", problem="Wait", axes=("size",),
                      subject_to={"error": 1e-6}, baseline="clock")
    quick = (Grid("waits", size=(3,)),)
    full = quick
"""
DATA = """
import torch
from breakeven.contract import dataset
from breakeven.problems.toy import Wait

@dataset(title="Waits")
def waits(*, size: int = 3, seed: int = 0) -> Wait:
    return Wait("waits", 1.0, torch.arange(float(size)))
"""


def method(seconds: float, before: str = "", returns: str = "problem.values.clone()") -> str:
    """An adapter that sleeps, which a busy machine disturbs less than work."""
    return textwrap.dedent(f"""
        import time
        import torch
        from breakeven.contract import adapter
        from breakeven.problems.toy import Wait, Waited

        @adapter(title="Waits")
        def solve(problem: Wait) -> Waited:
            {before or "pass"}
            time.sleep({seconds})
            return Waited({returns})
        """)


CRASHES = 'raise RuntimeError("lost")'
FILLS_MEMORY = "kept = torch.ones(8 << 20, dtype=torch.float64)"
FILES = {
    "pyproject.toml": """
        [build-system]
        requires = ["setuptools"]
        build-backend = "setuptools.build_meta"

        [project]
        name = "breakeven"
        version = "0.0.1"
        """,
    "README.md": "A toy.\n",
    ".gitignore": "__pycache__/\n",
    "breakeven/problems/toy.py": PROBLEMS,
    "benchmarks/__init__.py": "",
    "benchmarks/toy.py": BENCHMARKS,
    "datasets/__init__.py": "",
    "datasets/toy/__init__.py": "",
    "datasets/toy/waits.py": DATA,
    "baselines/__init__.py": "",
    "baselines/toy/__init__.py": "",
    "baselines/toy/clock.py": method(0.05),
    "methods/__init__.py": "",
    "methods/toy/__init__.py": "",
    "methods/toy/steady.py": method(0.05),
    "methods/toy/slowed.py": method(0.05),
    "methods/toy/broken.py": method(0.05),
    "methods/toy/crashing.py": method(0.05),
    "methods/toy/unimportable.py": method(0.05),
    "methods/toy/hungry.py": method(0.05),
    "methods/toy/dropped.py": method(0.05),
    "methods/toy/repaired.py": method(0.05, CRASHES),
}
CHANGES = {
    "methods/toy/slowed.py": method(0.1),
    "methods/toy/broken.py": method(0.05, returns="problem.values + 1"),
    "methods/toy/crashing.py": method(0.05, CRASHES),
    "methods/toy/unimportable.py": "import no_such_module\n" + method(0.05),
    "methods/toy/hungry.py": method(0.05, FILLS_MEMORY),
    "methods/toy/repaired.py": method(0.05),
    "methods/toy/added.py": method(0.05),
}


class Repository:
    """Two commits: an empty one, and the toy project."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "A tester")
        self.git("config", "user.email", "tester@example.invalid")
        self.git("commit", "-q", "--allow-empty", "-m", "Begin")
        for file in PACKAGE.glob("*.py"):
            _copy(file, folder / "breakeven" / file.name)
        _copy(PACKAGE / "problems" / "__init__.py", folder / "breakeven" / "problems" / "__init__.py")
        _copy(pathlib.Path(__file__).parents[1] / "setup.py", folder / "setup.py")
        self.write(FILES)
        self.commit("A toy project")

    def git(self, *words: str) -> str:
        answer = subprocess.run(["git", "-C", str(self.folder), *words], check=True, capture_output=True, text=True)
        return answer.stdout.strip()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))

    def delete(self, name: str) -> None:
        (self.folder / name).unlink()

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def reset(self, to: str = "HEAD") -> None:
        """Back to a commit, new files deleted."""
        self.git("reset", "-q", "--hard", to)
        self.git("clean", "-q", "-f", "-d")


def _copy(file: pathlib.Path, to: pathlib.Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, to)
