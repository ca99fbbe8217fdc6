"""Constraints and derived columns: expressions of which a few forms are evaluated, and no others."""

from __future__ import annotations

import ast
import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables import as_objects, objects_of, present, to_dates, to_numbers

# Limit on a file of a stranger, because parsing recurses.
_MAX_CHARACTERS = 10_000

_ALLOWED = (
    "Use columns (in backquotes unless they are identifiers), numbers, + - * /, "
    "comparisons, and, or, not, and text in quotes beside == or !="
)

# A string, which stays as it is, or the name of a column in backquotes.
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`([^`]+)`""")

_NUMBER, _DATE, _TEXT, _TRUTH = "numbers", "dates", "text", "truth values"

# The family of each kind of declared values: only values of one family are compared.
_FAMILIES = {
    "whole": _NUMBER,
    "unsigned": _NUMBER,
    "real": _NUMBER,
    "date": _DATE,
    "datetime": _DATE,
    "string": _TEXT,
    "boolean": _TRUTH,
}

# The operators that expressions may have.
_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.And: np.logical_and,
    ast.Or: np.logical_or,
    ast.Not: np.logical_not,
}

_TIMES = np.dtype("datetime64[us]")
_DAY = np.timedelta64(1, "D")
_MICROSECONDS_PER_DAY = 86_400_000_000.0
# The first and the last datetime of Python, and the days between them.
_FIRST, _LAST = np.array(["0001-01-01", "9999-12-31T23:59:59.999999"], _TIMES)
_MAX_DAYS = 3_652_059

# Floats represent all whole numbers up to this one.
_MAX_WHOLE = 1 << 53


class Operand(NamedTuple):
    """A column, a constant or a part of an expression: its type, and its values."""

    family: str
    # For numbers, whole; for dates, without a time of the day.
    is_whole: bool
    # An array of rows, or a constant.
    data: Any
    is_optional: bool = False  # missing may occur
    texts: tuple[str, ...] = ()


def declare_operand(kind: str, values: tuple[Any, ...]) -> Operand:
    """Return a declared column without rows, by which expressions are checked."""
    if any(getattr(value, "tzinfo", None) for value in values):
        kind = "times with a time zone"
    family = _FAMILIES.get(kind, kind)
    dtype = {_TEXT: np.dtype(object), _DATE: _TIMES}.get(family, np.dtype(float))
    texts = tuple(present(values)) if family == _TEXT else ()
    is_whole = kind in ("whole", "unsigned", "date")
    return Operand(family, is_whole, np.empty(0, dtype), None in values, texts)


def read_values(column: Any, operand: Operand) -> NDArray[Any]:
    """Read a column as the data of an operand: floats, microseconds or objects."""
    if operand.family == _TEXT:
        return as_objects(objects_of(column))
    if operand.family == _DATE:
        unit = np.dtype("datetime64[D]") if operand.is_whole else _TIMES
        return to_dates(column, unit).astype(_TIMES)
    return to_numbers(column, truth=operand.family == _TRUTH).astype(float)


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression that was checked on columns without rows."""

    text: str
    tree: ast.expr
    # The columns that it reads, and the result, without rows.
    columns: Mapping[Any, Operand]
    result: Operand

    def evaluate(self, read: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Evaluate the expression; `read` returns the data of a column."""
        columns = {}
        for name, operand in self.columns.items():
            columns[name] = operand._replace(data=read(name))
        with np.errstate(all="ignore"):
            values: NDArray[Any] = _evaluate(self.tree, columns).data
        # A column of truth values is read as floats.
        return values == 1 if self.result.family == _TRUTH else values

    def compute(self, read: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Evaluate the expression as a derived column, whose dtype follows from the declared columns."""
        values = self.evaluate(read)
        family, is_whole = self.result.family, self.result.is_whole
        if family == _DATE and is_whole:
            return values.astype("datetime64[D]")
        if family != _NUMBER:
            return values
        values = np.where(np.isfinite(values), values, np.nan)
        # Integers cannot be missing.
        if not is_whole or self.result.is_optional:
            return values
        if not ((np.rint(values) == values) & (np.abs(values) <= _MAX_WHOLE)).all():
            raise ValueError(
                f"derived column {self.text!r:.200}: expected whole numbers up to 2**53, "
                "as its columns declare, got other or missing ones; declare real=True or "
                "missing=True"
            )
        return values.astype(np.int64)


def check_constraints(texts: Any) -> list[Any]:
    """Check that constraints are a list."""
    if not isinstance(texts, list | tuple):
        raise TypeError(
            f"constraints must be a list of expressions, got {type(texts).__name__}"
        )
    return list(texts)


def check_derived(texts: Any) -> dict[Any, Any]:
    """Check that derived columns are a mapping."""
    if not isinstance(texts, Mapping):
        raise TypeError(
            "derived must be a mapping from column name to expression, got "
            f"{type(texts).__name__}"
        )
    return dict(texts)


def read_constraints(
    texts: Any, operands: Mapping[Any, Operand]
) -> tuple[Expression, ...]:
    """Parse and check the constraints of a domain."""
    constraints = []
    for text in check_constraints(texts):
        title = f"constraint {text!r:.200}"
        constraint = _check(_parse(text, title), text, title, operands)
        if constraint.result.family != _TRUTH:
            raise ValueError(f"{title}: expected a comparison, such as 'end >= start'")
        constraints.append(constraint)
    return tuple(constraints)


def read_derived(texts: Any, operands: Mapping[Any, Operand]) -> dict[Any, Expression]:
    """Parse and check derived columns, which may read one another."""
    texts = check_derived(texts)
    declared = [name for name in texts if name in operands]
    if declared:
        raise ValueError(
            f"derived columns {declared} are also declared; remove them from the declared "
            "columns"
        )
    # Texts and trees of all columns come first, because they decide the order.
    titles = {name: f"derived column {name!r}, {texts[name]!r:.200}" for name in texts}
    trees = {name: _parse(texts[name], titles[name]) for name in texts}
    sources = {name: _names(tree) & texts.keys() for name, tree in trees.items()}
    try:
        order = list(TopologicalSorter(sources).static_order())
    except CycleError as error:
        raise ValueError(
            f"derived columns must not depend on each other in a cycle: {error.args[1]}"
        ) from None
    # A column is checked after the columns that it reads.
    known = dict(operands)
    derived = {}
    for name in order:
        derived[name] = _check(trees[name], texts[name], titles[name], known)
        known[name] = derived[name].result
        if known[name].family == _TEXT:
            raise ValueError(
                f"{titles[name]}: expected numbers, dates or a comparison, got text"
            )
    return {name: derived[name] for name in texts}


def _parse(text: Any, title: str) -> ast.expr:
    """Parse an expression; the identifiers of the tree are the names of columns."""
    if not isinstance(text, str):
        raise TypeError(f"{title}: expected text, got {type(text).__name__}")
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"{title}: expected at most {_MAX_CHARACTERS:,} characters")
    names: dict[str, str] = {}

    # Each name in backquotes becomes an identifier, which Python can parse.
    def name_column(match: re.Match[str]) -> str:
        if match[1]:
            return match[1]
        identifier = f"_column_{len(names)}_"
        names[identifier] = match[2]
        return identifier

    try:
        tree = ast.parse(_QUOTED.sub(name_column, text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{title}: not an expression. {_ALLOWED}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return tree


def _names(tree: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _check(
    tree: ast.expr, text: str, title: str, operands: Mapping[Any, Operand]
) -> Expression:
    """Find all errors of types by evaluating the expression on columns without rows."""
    try:
        with np.errstate(all="ignore"):
            result = _evaluate(tree, operands)
    except ValueError as error:
        raise ValueError(f"{title}: {error}") from None
    except RecursionError:
        raise ValueError(f"{title}: expected fewer nested operations") from None
    columns = {name: operands[name] for name in _names(tree)}
    if not columns:
        raise ValueError(f"{title}: expected at least one column, got constants")
    return Expression(text, tree, columns, result)


def _evaluate(node: ast.expr, columns: Mapping[Any, Operand]) -> Operand:
    """Evaluate a node of an expression; forms that are not listed raise an error."""
    symbols: list[Any]
    match node:
        case ast.Name(id=name):
            return _find_column(name, columns)
        case ast.Constant(value=bool() | str() | int() | float() as value):
            return _read_constant(value)
        case ast.UnaryOp(op=symbol, operand=part):
            symbols, parts = [symbol], [part]
        case ast.BinOp(left=left, op=symbol, right=right):
            symbols, parts = [symbol], [left, right]
        # `a and b and c` is one node with three parts.
        case ast.BoolOp(op=symbol, values=parts):
            symbols = [symbol] * (len(parts) - 1)
        case ast.Compare(left=left, ops=symbols, comparators=rights):
            parts = [left, *rights]
        case _:
            # A call, an attribute or an index is no operator, and therefore refused.
            symbols, parts = [node], []
    functions = [_OPERATORS.get(type(symbol)) for symbol in symbols]
    if None in functions:
        raise ValueError(f"{ast.unparse(node)!r:.200} is not allowed. {_ALLOWED}")
    try:
        return _apply(node, functions, [_evaluate(part, columns) for part in parts])
    except _WrongTypes as error:
        raise ValueError(f"{ast.unparse(node)!r:.200} {error}") from None


class _WrongTypes(Exception):
    """An operator has operands of other families; the message continues the text of the operation."""


def _apply(
    node: ast.expr, functions: Sequence[Any], operands: Sequence[Operand]
) -> Operand:
    """Apply the operators of a node to its operands."""
    function = functions[0]
    if isinstance(node, ast.BinOp):
        return _calculate(function, *operands)
    if isinstance(node, ast.UnaryOp):
        return _apply_sign(function, *operands)
    truths = []
    if isinstance(node, ast.Compare):
        for comparison, pair in zip(functions, pairwise(operands), strict=True):
            truths.append(_compare(comparison, *pair))
        # `a < b < c` is `a < b and b < c`.
        function = np.logical_and
    else:
        truths.extend(map(_to_truth, operands))
    return Operand(_TRUTH, False, reduce(function, truths))


def _apply_sign(function: Callable[..., Any], operand: Operand) -> Operand:
    if function is np.logical_not:
        return Operand(_TRUTH, False, function(_to_truth(operand)))
    if operand.family != _NUMBER:
        raise _WrongTypes(f"requires a number, got {operand.family}")
    return operand._replace(data=function(operand.data))


def _find_column(name: str, columns: Mapping[Any, Operand]) -> Operand:
    if name not in columns:
        raise ValueError(
            f"{name!r} is not a column of the domain, which has {list(columns)}"
        )
    family = columns[name].family
    if family not in _FAMILIES.values():
        raise ValueError(
            f"column {name!r} must declare numbers, text, truth values, or dates "
            f"without a time zone, got {family}"
        )
    return columns[name]


def _read_constant(value: bool | str | int | float) -> Operand:
    if isinstance(value, bool):
        return Operand(_TRUTH, False, float(value))
    if isinstance(value, str):
        return Operand(_TEXT, False, value, texts=(value,))
    is_whole = isinstance(value, int)
    if abs(value) > (_MAX_WHOLE if is_whole else sys.float_info.max):
        raise ValueError("expected finite numbers, whole ones up to 2**53")
    return Operand(_NUMBER, is_whole, np.float64(value))


def _to_truth(operand: Operand) -> Any:
    """Return truth values as booleans; missing is False."""
    if operand.family != _TRUTH:
        raise _WrongTypes(f"requires comparisons or truth values, got {operand.family}")
    return operand.data == 1


def _compare(
    comparison: Callable[..., Any], left: Operand, right: Operand
) -> NDArray[np.bool_]:
    """Compare; missing values satisfy no comparison."""
    family = left.family
    if family != right.family:
        raise _WrongTypes(f"compares {family} with {right.family}")
    is_equality = comparison in (operator.eq, operator.ne)
    if family in (_TEXT, _TRUTH) and not is_equality:
        raise _WrongTypes(f"requires == or !=, as {family} have no order")
    if family == _TEXT and not set(left.texts) & set(right.texts):
        raise _WrongTypes("compares values that are not declared")
    # NaN and NaT are unequal to all values, and None is equal to None.
    is_true = comparison(left.data, right.data)
    missing: NDArray[np.bool_] = pd.isna(left.data) | pd.isna(right.data)
    return is_true & ~missing


def _calculate(calculate: Callable[..., Any], left: Operand, right: Operand) -> Operand:
    """Calculate with numbers and dates; two dates differ by a number of days."""
    families = left.family, right.family
    is_sum = calculate is operator.add
    is_difference = calculate is operator.sub
    is_quotient = calculate is operator.truediv
    is_whole = left.is_whole and right.is_whole and not is_quotient
    is_optional = left.is_optional or right.is_optional or is_quotient
    if families == (_NUMBER, _NUMBER):
        data = calculate(left.data, right.data)
        return Operand(_NUMBER, is_whole, data, is_optional)
    if families == (_DATE, _DATE) and is_difference:
        days = (left.data - right.data) / _DAY
        return Operand(_NUMBER, is_whole, days, is_optional)
    # Dates outside of the calendar are missing.
    if families == (_DATE, _NUMBER) and (is_sum or is_difference):
        data = _move_dates(calculate, left.data, right.data)
        return Operand(_DATE, is_whole, data, is_optional=True)
    if families == (_NUMBER, _DATE) and is_sum:
        return _calculate(calculate, right, left)
    raise _WrongTypes(
        "is neither arithmetic of numbers, nor a date minus a date, nor a date plus or "
        "minus a number of days"
    )


def _move_dates(calculate: Callable[[Any, Any], Any], dates: Any, days: Any) -> Any:
    """Add days to dates, or subtract them; dates outside of years 1 to 9999 become missing."""
    days = np.where(np.abs(days) <= _MAX_DAYS, days, np.nan)
    duration = np.rint(days * _MICROSECONDS_PER_DAY).astype("timedelta64[us]")
    moved = calculate(dates, duration)
    is_known = (moved >= _FIRST) & (moved <= _LAST)
    return np.where(is_known, moved, np.datetime64("NaT", "us"))
