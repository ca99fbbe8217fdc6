"""Constraints and derived columns: expressions of columns, of which a few forms are evaluated and no other."""

from __future__ import annotations

import ast
import operator
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables import as_objects, objects_of, present, to_dates, to_numbers

# Limits on a hostile file: parsing and checking recurse.
_MAX_CHARACTERS = 10_000
_MAX_NODES = 1_000

_ALLOWED = (
    "Use columns (in backquotes unless they are identifiers), numbers, + - * /, "
    "comparisons, and, or, not, and text in quotes beside == or !="
)

# A string, which stays as it is, or the name of a column in backquotes.
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`([^`]+)`""")

Function: TypeAlias = Callable[..., Any]

_ARITHMETIC: dict[type, Function] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_EQUALITIES: dict[type, Function] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_COMPARISONS = _EQUALITIES | {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CONNECTIVES: dict[type, Function] = {ast.And: operator.and_, ast.Or: operator.or_}
_SIGNS: dict[type, Function] = {ast.USub: operator.neg, ast.UAdd: operator.pos}

# Families of kinds: only operands of one family are compared.
_FAMILIES = {
    "whole": "numbers",
    "real": "numbers",
    "date": "dates",
    "datetime": "dates",
    "string": "text",
    "boolean": "truth values",
}
_UNORDERED = ("text", "truth values")

_TIMES = np.dtype("datetime64[us]")
_DAY = np.timedelta64(1, "D")
_MICROSECONDS_PER_DAY = 86_400_000_000.0
# The first and the last datetime of Python, and the days between them.
_FIRST, _LAST = np.array(["0001-01-01", "9999-12-31T23:59:59.999999"], "datetime64[us]")
_MAX_DAYS = 3_652_059

# Floats represent all whole numbers up to this one.
_MAX_WHOLE = 1 << 53


class Operand(NamedTuple):
    """The kind and the data of a column, a constant or a part of an expression."""

    # A key of `_FAMILIES`; "truth" for a comparison, which alone can be combined by and,
    # or and not, unlike a column of kind "boolean".
    kind: str
    # An array of rows, or a constant.
    data: Any
    is_optional: bool = False  # missing may occur
    texts: tuple[Any, ...] = ()


def declared_operand(kind: str, values: tuple[Any, ...]) -> Operand:
    """Return the operand of a declared column without rows, by which expressions are checked."""
    dtype = {"string": object, "date": _TIMES, "datetime": _TIMES}.get(kind, float)
    texts = tuple(present(values)) if kind == "string" else ()
    return Operand(kind, np.empty(0, dtype), None in values, texts)


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression that was checked on columns without rows."""

    text: str
    tree: ast.expr
    # The columns that it reads.
    columns: Mapping[Any, Operand]
    result: Operand

    def to_column(self) -> Operand:
        """Return the result as the operand of a column: a comparison becomes a boolean column."""
        is_truth = self.result.kind == "truth"
        return self.result._replace(kind="boolean") if is_truth else self.result

    def evaluate(self, read: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Evaluate the expression; `read` returns the values of a column as `read_values` does."""
        columns = {}
        for name, operand in self.columns.items():
            columns[name] = operand._replace(data=read(name))
        with np.errstate(all="ignore"):
            values: NDArray[Any] = _evaluate(self.tree, columns).data
        return values

    def compute(self, read: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Evaluate the expression as a derived column, whose dtype follows from the declared columns."""
        values = self.evaluate(read)
        kind = self.result.kind
        if kind == "date":
            return values.astype("datetime64[D]")
        if kind in ("whole", "real"):
            values = np.where(np.isfinite(values), values, np.nan)
        # Integers cannot be missing.
        if kind != "whole" or self.result.is_optional:
            return values
        if not ((np.rint(values) == values) & (np.abs(values) <= _MAX_WHOLE)).all():
            raise ValueError(
                f"derived column {self.text!r:.200}: expected whole numbers up to 2**53, "
                "as its columns declare, got other or missing ones; declare real=True or "
                "missing=True"
            )
        return values.astype(np.int64)


def read_constraints(
    texts: Any, operands: Mapping[Any, Operand]
) -> tuple[Expression, ...]:
    """Parse and check the constraints of a domain."""
    if not isinstance(texts, list | tuple):
        raise TypeError(
            f"constraints must be a list of expressions, got {type(texts).__name__}"
        )
    constraints = []
    for text in texts:
        constraint = _check(text, f"constraint {text!r:.200}", operands)
        if constraint.result.kind != "truth":
            raise ValueError(
                f"constraint {text!r:.200}: expected a comparison, such as "
                "'end >= start'"
            )
        constraints.append(constraint)
    return tuple(constraints)


def read_derived(texts: Any, operands: Mapping[Any, Operand]) -> dict[Any, Expression]:
    """Parse and check derived columns, which may read one another."""
    if not isinstance(texts, Mapping):
        raise TypeError(
            "derived must be a mapping from column name to expression, got "
            f"{type(texts).__name__}"
        )
    declared = [name for name in texts if name in operands]
    if declared:
        raise ValueError(
            f"derived columns {declared} are also declared; remove them from the declared "
            "columns"
        )
    # A column is checked after the columns that it reads.
    sources = {}
    for name, text in texts.items():
        sources[name] = _names(_parse(text, _title(name, text))) & texts.keys()
    try:
        order = list(TopologicalSorter(sources).static_order())
    except CycleError as error:
        raise ValueError(
            f"derived columns must not depend on each other in a cycle: {error.args[1]}"
        ) from None
    known = dict(operands)
    derived = {}
    for name in order:
        title = _title(name, texts[name])
        derived[name] = _check(texts[name], title, known)
        if _FAMILIES.get(derived[name].result.kind) in _UNORDERED:
            raise ValueError(f"{title}: expected numbers, dates or a comparison")
        known[name] = derived[name].to_column()
    return {name: derived[name] for name in texts}


def _title(name: Any, text: Any) -> str:
    return f"derived column {name!r}, {text!r:.200}"


def read_values(column: Any, kind: str) -> NDArray[Any]:
    """Read a column as `Expression.evaluate` takes it: floats, microseconds or objects."""
    if kind == "string":
        return as_objects(objects_of(column))
    if kind in ("date", "datetime"):
        # A declared day has no time of the day.
        unit = np.dtype("datetime64[D]" if kind == "date" else "datetime64[us]")
        return to_dates(column, unit).astype("datetime64[us]")
    return to_numbers(column, truth=kind == "boolean").astype(float)


def _check(text: Any, title: str, operands: Mapping[Any, Operand]) -> Expression:
    # Evaluated on columns without rows, which finds all errors of kinds.
    tree = _parse(text, title)
    try:
        with np.errstate(all="ignore"):
            result = _evaluate(tree, operands)
    except ValueError as error:
        raise ValueError(f"{title}: {error}") from None
    columns = {name: operands[name] for name in _names(tree)}
    if not columns:
        raise ValueError(f"{title}: expected at least one column, got constants")
    return Expression(text, tree, columns, result)


def _parse(text: Any, title: str) -> ast.expr:
    """Parse an expression; the identifiers of the tree are the names of columns."""
    if not isinstance(text, str):
        raise TypeError(f"{title}: expected text, got {type(text).__name__}")
    names: dict[str, str] = {}

    # Each name in backquotes becomes an identifier, which Python can parse.
    def name_column(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        identifier = f"_column_{len(names)}_"
        names[identifier] = match[2]
        return identifier

    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"{title}: expected at most {_MAX_CHARACTERS:,} characters")
    try:
        tree = ast.parse(_QUOTED.sub(name_column, text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{title}: not an expression. {_ALLOWED}") from None
    nodes = list(ast.walk(tree))
    if len(nodes) > _MAX_NODES:
        raise ValueError(f"{title}: the expression is too long; write two constraints")
    for node in nodes:
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return tree


def _names(tree: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _evaluate(node: ast.expr, columns: Mapping[Any, Operand]) -> Operand:
    """Evaluate a node of an expression; forms that are not listed raise an error."""
    match node:
        case ast.Name(id=name):
            return _find_column(name, columns)
        case ast.Constant(value=bool() as truth):
            return Operand("boolean", float(truth))
        case ast.Constant(value=str() as text):
            return Operand("string", text, texts=(text,))
        case ast.Constant(value=int() | float() as number):
            is_whole = isinstance(number, int)
            if abs(number) > (_MAX_WHOLE if is_whole else sys.float_info.max):
                raise ValueError("expected finite numbers, whole ones up to 2**53")
            return Operand("whole" if is_whole else "real", np.float64(number))
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return Operand("truth", ~_evaluate_truth(part, columns))
        case ast.BoolOp(op=connective, values=parts):
            truths = [_evaluate_truth(part, columns) for part in parts]
            return Operand("truth", reduce(_CONNECTIVES[type(connective)], truths))
        case ast.UnaryOp(op=sign, operand=part) if type(sign) in _SIGNS:
            operand = _evaluate(part, columns)
            if _FAMILIES.get(operand.kind) != "numbers":
                raise ValueError(f"{_quote(node)} requires a number")
            return operand._replace(data=_SIGNS[type(sign)](operand.data))
        case ast.BinOp(left=left, op=operation, right=right):
            sides = _evaluate(left, columns), _evaluate(right, columns)
            if type(operation) in _ARITHMETIC:
                return _calculate(node, type(operation), *sides)
        case ast.Compare(left=left, ops=comparisons, comparators=rights):
            compared = [_evaluate(part, columns) for part in (left, *rights)]
            results = [
                _compare(node, type(comparison), one, other)
                for one, comparison, other in zip(
                    compared[:-1], comparisons, compared[1:], strict=True
                )
            ]
            return Operand("truth", reduce(operator.and_, results))
    raise ValueError(f"{_quote(node)} is not allowed. {_ALLOWED}")


def _quote(node: ast.expr) -> str:
    return f"{ast.unparse(node)!r:.200}"


def _find_column(name: str, columns: Mapping[Any, Operand]) -> Operand:
    if name not in columns:
        raise ValueError(
            f"{name!r} is not a column of the domain, which has {list(columns)}"
        )
    if columns[name].kind not in _FAMILIES:
        raise ValueError(
            f"column {name!r} must declare numbers, text, truth values, or dates "
            f"without a time zone, got {columns[name].kind}"
        )
    return columns[name]


def _evaluate_truth(node: ast.expr, columns: Mapping[Any, Operand]) -> Any:
    operand = _evaluate(node, columns)
    if operand.kind != "truth":
        raise ValueError(
            f"{_quote(node)} is not a comparison; and, or and not combine "
            "comparisons, such as x == True"
        )
    return operand.data


def _compare(
    node: ast.expr, comparison: type, left: Operand, right: Operand
) -> NDArray[np.bool_]:
    """Compare; missing values satisfy no comparison."""
    family = _FAMILIES.get(left.kind)
    if comparison not in _COMPARISONS or family is None:
        raise ValueError(f"{_quote(node)} is not allowed. {_ALLOWED}")
    if family != _FAMILIES.get(right.kind):
        raise ValueError(f"{_quote(node)} compares {left.kind} with {right.kind}")
    if family in _UNORDERED and comparison not in _EQUALITIES:
        raise ValueError(f"{_quote(node)}: {family} are compared by == or != alone")
    if family == "text" and not set(left.texts) & set(right.texts):
        raise ValueError(f"{_quote(node)} compares values that are not declared")
    is_true = _COMPARISONS[comparison](left.data, right.data)
    missing: NDArray[np.bool_] = pd.isna(left.data) | pd.isna(right.data)
    return is_true & ~missing


def _calculate(
    node: ast.expr, operation: type, left: Operand, right: Operand
) -> Operand:
    """Calculate with numbers and dates; two dates differ by a number of days."""
    # A division by 0 is missing, and so is a date beyond the calendar.
    kind = _kind_of_result(left.kind, operation, right.kind)
    if kind is None:
        raise ValueError(
            f"{_quote(node)} is neither arithmetic of numbers, nor a date minus a "
            "date, nor a date plus or minus a number of days"
        )
    calculate = _ARITHMETIC[operation]
    is_optional = left.is_optional or right.is_optional or operation is ast.Div
    if kind in ("date", "datetime"):
        if _FAMILIES[right.kind] == "dates":
            left, right = right, left
        data = _move_dates(calculate, left.data, right.data)
        return Operand(kind, data, is_optional=True)
    data = calculate(left.data, right.data)
    if _FAMILIES[left.kind] == "dates":
        data = data / _DAY
    return Operand(kind, data, is_optional)


def _kind_of_result(left: str, op: type, right: str) -> str | None:
    """Return the kind of a sum, difference, product or quotient; None if there is none."""
    # Days are whole numbers, and times of the day are fractions of them.
    families = _FAMILIES.get(left), _FAMILIES.get(right)
    is_whole = {left, right} == {"whole"}
    is_of_days = {left, right} <= {"whole", "date"}
    if families == ("numbers", "numbers"):
        return "whole" if is_whole and op is not ast.Div else "real"
    if families == ("dates", "dates") and op is ast.Sub:
        return "whole" if is_of_days else "real"
    if families == ("dates", "numbers") and op in (ast.Add, ast.Sub):
        return "date" if is_of_days else "datetime"
    if families == ("numbers", "dates") and op is ast.Add:
        return "date" if is_of_days else "datetime"
    return None


def _move_dates(calculate: Callable[[Any, Any], Any], dates: Any, days: Any) -> Any:
    """Add days to dates, or subtract them; dates outside of years 1 to 9999 become missing."""
    days = np.where(np.abs(days) <= _MAX_DAYS, days, np.nan)
    duration = np.rint(days * _MICROSECONDS_PER_DAY).astype("timedelta64[us]")
    moved = calculate(dates, duration)
    is_known = (moved >= _FIRST) & (moved <= _LAST)
    return np.where(is_known, moved, np.datetime64("NaT", "us"))
