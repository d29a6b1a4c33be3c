"""`breakeven new`: the file of a new adapter, as little of it as possible."""

import importlib
import inspect
import keyword
import pathlib
import re

from breakeven import registry
from breakeven.contract import BadInput
from breakeven.problems import Solution

TEMPLATE = '''"""{title}: say in a sentence what the method does.

Source: paper, equation numbers; label every step that you derived yourself.
"""

from breakeven.contract import Unsupported, adapter
from breakeven.problems.{track} import {problem}, {solution}


@adapter(title="{title}", paper="", devices=("cpu",))
def solve(problem: {problem}{options}) -> {solution}:
    """Solve `problem`; shapes and meanings are in `breakeven.problems.{track}`.

    The problem's tensors are on the device already and must not be changed. Neither time nor print anything. Raise
    `Unsupported` for problems that the method cannot take: they are shown as such, never as a loss.

    Raises:
        Unsupported: always, until it is written.
    """
    # The answer is {article} {solution} with these fields:
{fields}
    raise Unsupported("{name} is not written yet")
'''


def write(path: str, group: str) -> pathlib.Path:
    """Write the adapter ``track/name`` into ``methods`` or ``baselines``; nothing that exists is overwritten.

    Raises:
        BadInput: for an unknown track, a name that cannot be a module's, or one that is taken.
    """
    track, _, name = path.partition("/")
    contests = [sweep.contest for sweep in registry.sweeps(track)]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise BadInput(f"{path!r}: write TRACK/NAME, the name in lower case, such as {track}/my_solver")
    for entry in registry.entries():
        if entry.path == path and entry.role != "dataset":
            raise BadInput(f"{path} exists already: {entry.file}")
    folder = pathlib.Path(importlib.import_module(f"breakeven.{group}").__path__[0], track)
    if not folder.is_dir():
        raise BadInput(
            f"{folder} does not exist; adapters are written into a checkout of breakeven, not an installed copy"
        )
    file = folder / f"{name}.py"
    file.write_text(_text(contests[0], track, name))
    return file


def _text(contest, track: str, name: str) -> str:
    module = importlib.import_module(f"breakeven.problems.{track}")
    problem = getattr(module, contest.problem)
    solution = next(
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Solution) and value is not Solution
    )
    source = inspect.getsource(solution)
    fields = re.findall(r"^    (\w+: .+)$", source, re.MULTILINE)
    options = "".join(f", {option}: {type(value).__name__} = {value!r}" for option, value in contest.given.items())
    return TEMPLATE.format(
        title=name.replace("_", " ").capitalize(),
        track=track,
        name=name,
        problem=problem.__name__,
        solution=solution.__name__,
        article="an" if solution.__name__[0] in "AEFHILMNORSX" else "a",
        options=", *" + options if options else "",
        fields="\n".join(f"    #   {field}" for field in fields),
    )
