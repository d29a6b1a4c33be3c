"""What is no such LP, and what is no solution of one."""

import dataclasses
import math
import typing

import torch

from breakeven.contract import BadInput
from breakeven.problems import Wrong
from breakeven.problems.lp.statuses import STATUS_NAMES

if typing.TYPE_CHECKING:
    from breakeven.problems.lp import LPBatch, LPSolution


def check_form(problem: "LPBatch") -> None:
    """Shapes, dtypes and devices."""
    name, matrix = problem.name, problem.matrix
    for field in dataclasses.fields(problem):
        value = getattr(problem, field.name)
        if field.type is torch.Tensor and not isinstance(value, torch.Tensor):
            raise BadInput(f"{name}: {field.name} is a {type(value).__name__}; give a torch tensor")
    if matrix.layout != torch.sparse_csr or matrix.dim() != 2:
        raise BadInput(
            f"{name}: matrix is {matrix.dim()}-dimensional, {matrix.layout}; give a CSR matrix (`sparse_matrix`)"
        )
    if matrix.dtype not in (torch.float32, torch.float64):
        raise BadInput(f"{name}: matrix is {matrix.dtype}; give float64 or float32")
    rows, columns = matrix.shape
    if columns == 0:
        raise BadInput(f"{name}: the LP has no variables; give at least one")
    children = problem.branch_variable.numel()
    if children == 0:
        raise BadInput(f"{name}: the batch has no children; give at least one branching")
    shapes = {"m": (rows,), "n": (columns,), "B": (children,)}
    dtypes = {"branch_variable": torch.int64, "parent_column_basis": torch.int8, "parent_row_basis": torch.int8}
    for field, letter in _VECTORS.items():
        value, dtype = getattr(problem, field), dtypes.get(field, matrix.dtype)
        if tuple(value.shape) != shapes[letter]:
            raise BadInput(f"{name}: {field} has shape {tuple(value.shape)}; it must be ({letter},) = {shapes[letter]}")
        if value.dtype != dtype:
            raise BadInput(f"{name}: {field} is {value.dtype}; it must be {dtype}, as the matrix is {matrix.dtype}")
        if value.device != matrix.device:
            raise BadInput(f"{name}: {field} is on {value.device}, the matrix on {matrix.device}; use one device")
    for field, length in (("child_objective", columns), ("child_row_lower", rows), ("child_row_upper", rows)):
        value = getattr(problem, field)
        if value is None:
            continue
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != (length, children):
            what = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise BadInput(f"{name}: {field} is {what}; it must be a tensor of shape {(length, children)}, or None")
        if value.dtype != matrix.dtype or value.device != matrix.device:
            raise BadInput(
                f"{name}: {field} is {value.dtype} on {value.device}; the matrix is {matrix.dtype} on {matrix.device}"
            )
    if (problem.child_row_lower is None) != (problem.child_row_upper is None):
        raise BadInput(f"{name}: child_row_lower and child_row_upper come together; give both or neither")
    if not math.isfinite(problem.offset):
        raise BadInput(f"{name}: offset is {problem.offset}; give a finite number")


_VECTORS = {
    "objective": "n", "lower": "n", "upper": "n", "parent_x": "n", "parent_column_basis": "n",
    "row_lower": "m", "row_upper": "m", "parent_y": "m", "parent_row_basis": "m",
    "branch_variable": "B", "branch_lower": "B", "branch_upper": "B", "reference": "B",
}  # fmt: skip


def check_values(problem: "LPBatch") -> None:
    """Every number is one that an LP may have. One look at the device says whether all are; only then which is not."""
    p, matrix, inf = problem, problem.matrix, math.inf
    crow, column, n = matrix.crow_indices(), matrix.col_indices(), matrix.shape[1]
    finite = "give a finite number"
    rules = [
        ("matrix", ~torch.isfinite(matrix.values()), f"is NaN or infinite; {finite}"),
        (
            "matrix",
            (column < 0) | (column >= n),
            f"has a column index outside 0..{n - 1}; make it with `sparse_matrix`",
        ),
        ("matrix", crow.diff() < 0, "has row pointers that fall; make it with `sparse_matrix`"),
        ("objective", ~torch.isfinite(p.objective), f"is NaN or infinite; {finite}"),
        ("parent_x", ~torch.isfinite(p.parent_x), f"is NaN or infinite; {finite}"),
        ("parent_y", ~torch.isfinite(p.parent_y), f"is NaN or infinite; {finite}"),
        ("row_lower", p.row_lower.isnan() | (p.row_lower == inf), "is NaN or +inf; use -inf for no bound"),
        ("row_upper", p.row_upper.isnan() | (p.row_upper == -inf), "is NaN or -inf; use inf for no bound"),
        ("lower", p.lower.isnan() | (p.lower == inf), "is NaN or +inf; use -inf for no bound"),
        ("upper", p.upper.isnan() | (p.upper == -inf), "is NaN or -inf; use inf for no bound"),
        ("branch_lower", p.branch_lower.isnan() | (p.branch_lower == inf), "is NaN or +inf; use -inf for no bound"),
        ("branch_upper", p.branch_upper.isnan() | (p.branch_upper == -inf), "is NaN or -inf; use inf for no bound"),
        (
            "row_lower",
            p.row_lower > p.row_upper,
            "is above row_upper: the parent is infeasible; correct one of the two",
        ),
        ("lower", p.lower > p.upper, "is above upper: the parent is infeasible; correct one of the two"),
        (
            "branch_variable",
            (p.branch_variable < 0) | (p.branch_variable >= n),
            f"is outside 0..{n - 1}; name a column",
        ),
        (
            "parent_column_basis",
            (p.parent_column_basis < 0) | (p.parent_column_basis > 4),
            "is no basis code; use 0..4",
        ),
        ("parent_row_basis", (p.parent_row_basis < 0) | (p.parent_row_basis > 4), "is no basis code; use 0..4"),
    ]
    if p.child_objective is not None:
        rules.append(("child_objective", ~torch.isfinite(p.child_objective), f"is NaN or infinite; {finite}"))
    if p.child_row_lower is not None:
        low, high = p.child_row_lower, p.child_row_upper
        rules += [
            ("child_row_lower", low.isnan() | (low == inf), "is NaN or +inf; use -inf for no bound"),
            ("child_row_upper", high.isnan() | (high == -inf), "is NaN or -inf; use inf for no bound"),
            ("child_row_lower", low > high, "is above child_row_upper: no x can be between; correct one of the two"),
        ]
    if torch.stack([broken.any() for _, broken, _ in rules]).any():
        field, broken, message = next(rule for rule in rules if rule[1].any())
        where = ", ".join(str(index) for index in broken.nonzero()[0].tolist())
        raise BadInput(f"{p.name}: {field}{' entry' if field == 'matrix' else ''} [{where}] {message}")


def check_solution(problem: "LPBatch", solution: "LPSolution") -> None:
    """Raises `Wrong` unless the parts of a solution have the shapes and dtypes that they must, and no NaN."""
    (rows, columns), children = problem.matrix.shape, problem.branch_variable.shape[0]
    expected = {
        "x": ((columns, children), None),
        "y": ((rows, children), None),
        "status": ((children,), torch.int8),
        "dual_bound": ((children,), None),
        "iterations": ((children,), torch.int64),
    }
    for field, (shape, dtype) in expected.items():
        value = getattr(solution, field)
        if not isinstance(value, torch.Tensor):
            raise Wrong(f"{field} is a {type(value).__name__}, not a tensor")
        if tuple(value.shape) != shape:
            raise Wrong(f"{field} has shape {tuple(value.shape)}, not {shape}")
        if value.dtype != dtype if dtype else not value.is_floating_point():
            raise Wrong(f"{field} is {value.dtype}, not {dtype or 'floating point'}")
    for field in ("x", "y"):
        broken = ~torch.isfinite(getattr(solution, field))
        if broken.any():
            row, child = broken.nonzero()[0].tolist()
            raise Wrong(f"{field}[{row}, {child}] is {float(getattr(solution, field)[row, child])}")
    if solution.dual_bound.isnan().any():
        raise Wrong(f"dual_bound[{int(solution.dual_bound.isnan().nonzero()[0])}] is NaN")
    unknown = (solution.status < 0) | (solution.status >= len(STATUS_NAMES))
    if unknown.any():
        raise Wrong(f"status[{int(unknown.nonzero()[0])}] is {int(solution.status[unknown][0])}, which is no status")
    if (solution.iterations < 0).any():
        raise Wrong("iterations are negative")
