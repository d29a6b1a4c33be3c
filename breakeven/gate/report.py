"""The gate's answer as a table for a terminal, as Markdown for a pull request, and as JUnit for a CI system."""

import collections
import math
import traceback
import xml.etree.ElementTree as ElementTree

import rich.box
import rich.console
import rich.markup
import rich.table

from breakeven.gate.builds import HarnessFailed
from breakeven.gate.decision import FASTER, SAME, UNDECIDED
from breakeven.gate.verdicts import (
    FAILING,
    FIXED,
    HARNESS_FAILED,
    NEW,
    OPEN,
    PASSED,
    REGRESSED,
    REMOVED,
    CellResult,
    Report,
)

UNCOMPARED = (NEW, REMOVED, FAILING)
WORDS = {PASSED: "passed", REGRESSED: "regressed", OPEN: "undecided", HARNESS_FAILED: "the harness failed"}
_COLOURS = dict.fromkeys((SAME, FASTER, FIXED), "green")


def headline(report: Report) -> str:
    """One sentence: the outcome and how many cells came out how."""
    counts = collections.Counter(cell.verdict for cell in _ordered(report))
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    unchanged = f"{report.unchanged} unchanged and not measured" if report.unchanged else ""
    return f"{WORDS[report.exit_code]}: {'; '.join(part for part in (told, unchanged) if part) or 'no cells'}"


def print_report(out: rich.console.Console, report: Report) -> None:
    """The table of what was compared, regressions first, then what a reader has to know."""
    escape = rich.markup.escape
    out.print(f"{escape(report.head)} against {escape(report.base)}", soft_wrap=True)
    compared = [cell for cell in _ordered(report) if cell.verdict not in UNCOMPARED]
    if compared:
        table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
        for column in ("verdict", "contest", "method", "problem", "time HEAD/BASE [95 %]", "pairs", "base", "head"):
            table.add_column(column, overflow="fold")
        for cell in compared:
            colour = "red" if cell.regressed else _COLOURS.get(cell.verdict, "yellow")
            pairs = str(cell.ratio.blocks) if cell.ratio else ""
            texts = [cell.contest, cell.method, cell.problem, _ratio(cell), pairs, *map(_seconds, cell.seconds)]
            table.add_row(f"[{colour}]{cell.verdict}[/]", *map(escape, texts))
        out.print(table)
    for cell in compared:
        for note in cell.notes:
            out.print(escape(f"{cell.verdict}: {_label(cell)}: {note}"), soft_wrap=True)
    for line in _uncompared(report):
        out.print(escape(line), soft_wrap=True)
    for note in report.notes:
        out.print(f"note: {escape(note)}", soft_wrap=True)
    colour = {PASSED: "green", REGRESSED: "red"}.get(report.exit_code, "yellow")
    out.print(f"[bold {colour}]{escape(headline(report))}[/]  ({report.wall_seconds:.0f} s)", soft_wrap=True)


def markdown(report: Report) -> str:
    """For a pull request: what needs a look stands open, what passed is folded away."""
    lines = [f"### breakeven gate: {headline(report)}", "", f"`{report.head}` against `{report.base}`", ""]
    looked_at = [cell for cell in _ordered(report) if cell.regressed or cell.verdict == UNDECIDED]
    others = [cell for cell in _ordered(report) if cell not in looked_at and cell.verdict not in UNCOMPARED]
    if looked_at:
        lines += [*_markdown_table(looked_at), ""]
    if others:
        lines += [
            f"<details><summary>{len(others)} other cells</summary>",
            "",
            *_markdown_table(others),
            "",
            "</details>",
            "",
        ]
    lines += [f"- {_markdown_text(note)}" for note in [*_uncompared(report), *report.notes]]
    return "\n".join(lines).rstrip() + "\n"


def junit(report: Report) -> str:
    """A test case per cell: a regression is a failure, an undecided cell an error, a cell without a counterpart skipped."""
    suite = ElementTree.Element("testsuite", name="breakeven gate", time=f"{report.wall_seconds:.1f}")
    counts: collections.Counter = collections.Counter()
    for cell in _ordered(report):
        case = ElementTree.SubElement(suite, "testcase", classname=cell.contest, name=f"{cell.method} {cell.problem}")
        kind = _junit_kind(cell)
        counts[kind] += 1
        message = "; ".join(part for part in (cell.verdict, _ratio(cell), *cell.notes) if part)
        if kind:
            attributes = {"message": _xml_text(message)} | ({} if kind == "skipped" else {"type": cell.verdict})
            ElementTree.SubElement(case, kind, attributes)
        else:
            ElementTree.SubElement(case, "system-out").text = _xml_text(message)
    for attribute, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(counts[kind]))
    suite.set("tests", str(len(report.cells)))
    ElementTree.SubElement(suite, "system-out").text = _xml_text("\n".join([headline(report), *report.notes]))
    return _document(suite)


def failure(error: BaseException) -> HarnessFailed:
    """Any exception as the harness's failure; of one that nobody foresaw, with where it was raised."""
    if isinstance(error, HarnessFailed):
        return error
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    return HarnessFailed(f"the gate ended early: {said}", "".join(traceback.format_exception(error)).rstrip())


def print_failure(out: rich.console.Console, error: HarnessFailed) -> None:
    if error.tail:
        out.print(rich.markup.escape(error.tail), soft_wrap=True)
    out.print(f"[bold yellow]{WORDS[HARNESS_FAILED]}:[/] {rich.markup.escape(str(error))}", soft_wrap=True)


def failed_markdown(error: HarnessFailed) -> str:
    """The same where the harness failed."""
    quoted = ["", "```", error.tail.replace("```", "'''"), "```"] if error.tail else []
    return "\n".join([f"### breakeven gate: {WORDS[HARNESS_FAILED]}", "", _markdown_text(str(error)), *quoted]) + "\n"


def failed_junit(error: HarnessFailed) -> str:
    suite = ElementTree.Element("testsuite", name="breakeven gate", tests="1", failures="0", errors="1", skipped="0")
    case = ElementTree.SubElement(suite, "testcase", classname="breakeven.gate", name="harness")
    problem = ElementTree.SubElement(case, "error", message=_xml_text(str(error)), type="harness")
    problem.text = _xml_text(error.tail)
    return _document(suite)


def _document(suite: ElementTree.Element) -> str:
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _junit_kind(cell: CellResult) -> str:
    if cell.regressed:
        return "failure"
    if cell.verdict in UNCOMPARED:
        return "skipped"
    return "error" if cell.verdict == UNDECIDED else ""


def _ordered(report: Report) -> list[CellResult]:
    """Regressions first, then what is undecided, then the rest; each in the order of the plan."""
    return sorted(report.cells, key=lambda cell: (not cell.regressed, cell.verdict != UNDECIDED))


def _uncompared(report: Report) -> list[str]:
    """Cells with nothing to compare, one line for all of a method that came out alike."""
    groups: dict[tuple, list[CellResult]] = {}
    for cell in report.cells:
        if cell.verdict in UNCOMPARED:
            groups.setdefault((cell.verdict, cell.contest, cell.method), []).append(cell)
    return [
        f"{verdict}: {contest} {method}, {len(cells)} of its cells such as {cells[0].problem}: {'; '.join(cells[0].notes)}"
        for (verdict, contest, method), cells in groups.items()
    ]


def _label(cell: CellResult) -> str:
    return f"{cell.contest} {cell.method} {cell.problem}"


def _ratio(cell: CellResult) -> str:
    """The estimate with its plain 95 % interval; the decision is made by a corrected one."""
    if cell.ratio is None:
        return ""
    low, high = (math.exp(min(end, 700.0)) for end in cell.ratio.interval(0.05))
    return f"{cell.ratio.estimate:.3g} [{low:.3g}, {high:.3g}]"


def _seconds(value: float) -> str:
    if math.isnan(value):
        return ""
    return next(
        (f"{value * scale:.3g} {unit}" for unit, scale in (("s", 1), ("ms", 1e3)) if value * scale >= 1),
        f"{value * 1e6:.3g} us",
    )


def _markdown_table(cells: list[CellResult]) -> list[str]:
    lines = ["| verdict | cell | time HEAD/BASE [95 %] | notes |", "|---|---|---|---|"]
    for cell in cells:
        texts = (cell.verdict, _label(cell), _ratio(cell), "; ".join(cell.notes))
        lines.append("| " + " | ".join(_markdown_text(text) for text in texts) + " |")
    return lines


def _markdown_text(text: str) -> str:
    """Text that came from elsewhere, in one line that no table and no tag breaks."""
    for character in "\\|`*_[]":
        text = text.replace(character, "\\" + character)
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())


def _xml_text(text: str) -> str:
    """Without the control characters that XML forbids and that programs write to their errors."""
    return "".join(
        c for c in text if c in "\t\n\r" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")
    )
