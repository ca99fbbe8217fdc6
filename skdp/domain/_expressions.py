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
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.tables import as_objects, objects_of, to_dates, to_numbers

# Limits on a hostile file: parsing and checking recurse.
_MAX_CHARACTERS = 10_000
_MAX_NODES = 1_000

_ALLOWED = (
    "Use columns (in backquotes unless they are identifiers), numbers, + - * /, "
    "comparisons, and, or, not, and text in quotes beside == or !="
)

# A string, which stays as it is, or the name of a column in backquotes.
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`([^`]+)`""")

_ARITHMETIC = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_EQUALITIES = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_COMPARISONS = _EQUALITIES | {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_CONNECTIVES = {ast.And: operator.and_, ast.Or: operator.or_}
_SIGNS = {ast.USub: operator.neg, ast.UAdd: operator.pos}

# What is compared with each other, by kind.
_FAMILIES = {
    "whole": "numbers",
    "real": "numbers",
    "date": "dates",
    "datetime": "dates",
    "string": "text",
    "boolean": "truth values",
}
_UNORDERED = ("text", "truth values")

_DAY = np.timedelta64(1, "D")
_MICROSECONDS_PER_DAY = 86_400_000_000.0
# The first and the last time that Python has, and the days between them.
_FIRST, _LAST = np.array(["0001-01-01", "9999-12-31T23:59:59.999999"], "datetime64[us]")
_MAX_DAYS = 3_652_059

# Floats represent all whole numbers up to this one.
_MAX_WHOLE = 1 << 53


class Operand(NamedTuple):
    """The kind of a column, a constant or a part of an expression."""

    kind: str
    is_optional: bool = False  # missing may occur
    values: tuple[Any, ...] = ()  # of text


@dataclass(frozen=True)
class Expression:
    """An expression that was checked against the columns that it reads."""

    text: str
    columns: frozenset[Any]
    operand: Operand
    tree: ast.expr

    def as_column(self) -> Operand:
        """Return the operand that a column of these values is."""
        is_truth = self.operand.kind == "truth"
        return Operand("boolean") if is_truth else self.operand

    def evaluate(self, column: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Evaluate the expression on columns as of `read_values`."""
        with np.errstate(all="ignore"):
            result: NDArray[Any] = _value(self.tree, column)
        return result

    def compute(self, column: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """Evaluate the expression as a derived column, whose dtype follows from the declared columns."""
        values = self.evaluate(column)
        if self.operand.kind == "date":
            return values.astype("datetime64[D]")
        if self.operand.kind in ("whole", "real"):
            values = np.where(np.isfinite(values), values, np.nan)
        # Integers cannot be missing.
        if self.operand.kind != "whole" or self.operand.is_optional:
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
        constraint = _read(text, f"constraint {text!r:.200}", operands)
        if constraint.operand.kind != "truth":
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
            f"the columns {declared} are declared and derived; leave what is computed "
            "out of the declared columns"
        )
    sources = {}
    for name, text in texts.items():
        sources[name] = _names(_parse(text, _title(name, text))) & texts.keys()
    try:
        order = list(TopologicalSorter(sources).static_order())
    except CycleError as error:
        raise ValueError(
            f"derived columns are computed from each other: {error.args[1]}"
        ) from None
    known = dict(operands)
    derived = {}
    for name in order:
        title = _title(name, texts[name])
        derived[name] = _read(texts[name], title, known)
        if _FAMILIES.get(derived[name].operand.kind) in _UNORDERED:
            raise ValueError(f"{title}: expected numbers, dates or a comparison")
        known[name] = derived[name].as_column()
    return {name: derived[name] for name in texts}


def _title(name: Any, text: Any) -> str:
    return f"derived column {name!r}, {text!r:.200}"


def read_values(column: Any, kind: str) -> NDArray[Any]:
    """Read a column as `Expression.evaluate` takes it: floats, microseconds or objects."""
    if kind == "string":
        return as_objects(objects_of(column))
    if kind in ("date", "datetime"):
        # Of a declared day, a time of the day does not count.
        unit = np.dtype("datetime64[D]" if kind == "date" else "datetime64[us]")
        return to_dates(column, unit).astype("datetime64[us]")
    return to_numbers(column, truth=kind == "boolean").astype(float)


def _read(text: Any, title: str, operands: Mapping[Any, Operand]) -> Expression:
    tree = _parse(text, title)
    try:
        operand = _check(tree, operands)
    except ValueError as error:
        raise ValueError(f"{title}: {error}") from None
    columns = _names(tree)
    if not columns:
        raise ValueError(f"{title}: expected at least one column, got constants")
    return Expression(text, frozenset(columns), operand, tree)


def _parse(text: Any, title: str) -> ast.expr:
    """Parse an expression; the tree has the names of columns as identifiers."""
    if not isinstance(text, str):
        raise TypeError(f"{title}: expected text, got {type(text).__name__}")
    names: dict[str, str] = {}

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


def _check(node: ast.expr, operands: Mapping[Any, Operand]) -> Operand:
    """Check that a part of an expression has one of the allowed forms, and return its kind."""
    match node:
        case ast.Name(id=name):
            return _check_column(name, operands)
        case ast.Constant(value=bool()):
            return Operand("boolean")
        case ast.Constant(value=str() as text):
            return Operand("string", values=(text,))
        case ast.Constant(value=int() | float() as number):
            is_whole = isinstance(number, int)
            if abs(number) > (_MAX_WHOLE if is_whole else sys.float_info.max):
                raise ValueError("expected finite numbers, whole ones up to 2**53")
            return Operand("whole" if is_whole else "real")
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return _check_truth([part], operands)
        case ast.BoolOp(values=parts):
            return _check_truth(parts, operands)
        case ast.UnaryOp(op=op, operand=part) if type(op) in _SIGNS:
            operand = _check(part, operands)
            if _FAMILIES.get(operand.kind) == "numbers":
                return operand
            raise ValueError(f"{_shown(node)} needs a number")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            one, other = _check(left, operands), _check(right, operands)
            kind = _kind_of_result(one.kind, type(op), other.kind)
            if kind is None:
                raise ValueError(
                    f"{_shown(node)} is neither arithmetic of numbers, nor a date "
                    "minus a date, nor a date plus or minus a number of days"
                )
            is_optional = one.is_optional or other.is_optional
            return Operand(kind, is_optional or isinstance(op, ast.Div))
        case ast.Compare(left=left, ops=ops, comparators=rights):
            sides = [_check(part, operands) for part in (left, *rights)]
            for one, op, other in zip(sides[:-1], ops, sides[1:], strict=True):
                _check_comparison(node, one, type(op), other)
            return Operand("truth")
    raise ValueError(f"{_shown(node)} is not allowed. {_ALLOWED}")


def _shown(node: ast.expr) -> str:
    return f"{ast.unparse(node)!r:.200}"


def _check_column(name: str, operands: Mapping[Any, Operand]) -> Operand:
    if name not in operands:
        raise ValueError(
            f"{name!r} is not a column of the domain, which has {list(operands)}"
        )
    operand = operands[name]
    if operand.kind not in _FAMILIES:
        raise ValueError(
            f"column {name!r} must declare numbers, text, truth values, or dates "
            f"without a time zone, got {operand.kind}"
        )
    return operand


def _check_truth(parts: list[ast.expr], operands: Mapping[Any, Operand]) -> Operand:
    for part in parts:
        if _check(part, operands).kind != "truth":
            raise ValueError(
                f"{_shown(part)} is not a comparison; and, or and not combine "
                "comparisons, such as x == True"
            )
    return Operand("truth")


def _check_comparison(node: ast.expr, one: Operand, op: type, other: Operand) -> None:
    family = _FAMILIES.get(one.kind)
    if op not in _COMPARISONS or family is None:
        raise ValueError(f"{_shown(node)} is not allowed. {_ALLOWED}")
    if family != _FAMILIES.get(other.kind):
        raise ValueError(f"{_shown(node)} compares {one.kind} with {other.kind}")
    if family in _UNORDERED and op not in _EQUALITIES:
        raise ValueError(f"{_shown(node)}: {family} are compared by == or != alone")
    if family == "text" and not set(one.values) & set(other.values):
        raise ValueError(f"{_shown(node)} compares values that are not declared")


def _kind_of_result(left: str, op: type, right: str) -> str | None:
    """Return the kind of a sum, difference, product or quotient; None if there is none."""
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


def _value(node: ast.expr, column: Callable[[Any], NDArray[Any]]) -> Any:
    """Evaluate a part of an expression that `_check` has allowed."""
    match node:
        case ast.Name(id=name):
            return column(name)
        case ast.Constant(value=str() as text):
            return text
        case ast.Constant(value=bool() | int() | float() as number):
            return np.float64(number)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return ~_value(part, column)
        case ast.UnaryOp(op=op, operand=part):
            return _SIGNS[type(op)](_value(part, column))
        case ast.BoolOp(op=connective, values=parts):
            values = [_value(part, column) for part in parts]
            return reduce(_CONNECTIVES[type(connective)], values)
        case ast.BinOp(left=left, op=operation, right=right):
            function = _ARITHMETIC[type(operation)]
            return _calculate(function, _value(left, column), _value(right, column))
        case ast.Compare(left=left, ops=ops, comparators=rights):
            sides = [_value(part, column) for part in (left, *rights)]
            results = [
                _compare(_COMPARISONS[type(op)], one, other)
                for one, op, other in zip(sides[:-1], ops, sides[1:], strict=True)
            ]
            return reduce(operator.and_, results)
    raise ValueError(f"{_shown(node)} is not allowed")


def _compare(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Compare; missing values satisfy no comparison."""
    return compare(left, right) & ~(pd.isna(left) | pd.isna(right))


def _calculate(calculate: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Calculate with numbers and dates; a date differs from another by days."""
    are_dates = [np.asarray(side).dtype.kind == "M" for side in (left, right)]
    if all(are_dates):
        return (left - right) / _DAY
    if not any(are_dates):
        return calculate(left, right)
    if are_dates[1]:
        left, right = right, left
    days = np.where(np.abs(right) <= _MAX_DAYS, right, np.nan)
    duration = np.rint(days * _MICROSECONDS_PER_DAY).astype("timedelta64[us]")
    dates = calculate(left, duration)
    # Libraries have no objects for dates beyond.
    is_known = (dates >= _FIRST) & (dates <= _LAST)
    return np.where(is_known, dates, np.datetime64("NaT", "us"))
