"""Constraints and derived columns: expressions on columns, evaluated without running code."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp._arrays import ColumnName, Mask
from skdp.domain._attributes import read_texts
from skdp.domain._bins import MAX_EXACT
from skdp.tables import drop_missing, to_dates, to_numbers, to_object_list, to_objects

_ALLOWED = (
    "Use columns (in backquotes unless they are identifiers), numbers, + - * /, "
    "comparisons, and, or, not, missing(COLUMN), and text in quotes beside == or !=. A constraint may "
    "be count(EXPRESSION) <= 1, == 1, >= 1 or 1 <= count(EXPRESSION) <= 2, "
    "first(EXPRESSION) or last(EXPRESSION)."
)

# A string in quotes, or the name of a column in backquotes.
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|`([^`]+)`""")

_NUMBER, _DATE, _TEXT, _TRUTH = "numbers", "dates", "text", "truth values"

# The family of each `type_of_declared`: only values of one family can be compared.
_FAMILIES = {
    "whole": _NUMBER,
    "unsigned": _NUMBER,
    "real": _NUMBER,
    "date": _DATE,
    "datetime": _DATE,
    "string": _TEXT,
    "boolean": _TRUTH,
}

_ARITHMETIC: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARISONS: dict[type, Callable[..., Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

# The smallest and largest number of events for a comparison with n.
_LIMITS: dict[type, Callable[[int], tuple[int, float]]] = {
    ast.Eq: lambda n: (n, n),
    ast.LtE: lambda n: (0, n),
    ast.GtE: lambda n: (n, math.inf),
}

_TIMES = np.dtype("datetime64[us]")


class Operand(NamedTuple):
    """A column, a constant or the result of a subexpression, with its type and its values."""

    family: str
    # Array of shape (n_rows,), or a scalar for a constant. Numbers, and columns of truth
    # values that may be missing, are floats; dates are microseconds; text is objects.
    data: Any
    # True for whole numbers, and for dates without a time of day.
    is_whole: bool = False
    # Declared values of a text column, or the text of a constant.
    texts: tuple[str, ...] = ()

    def with_column(self, column: object) -> Operand:
        """Return the operand with the values of a column of a table, instead of none, for the declared type."""
        if self.family == _TEXT:
            texts = to_objects(to_object_list(read_texts(column)))
            texts[pd.isna(texts)] = None  # comparisons with pandas.NA raise an error
            return self._replace(data=texts)
        if self.family == _DATE:
            unit = np.dtype("datetime64[D]") if self.is_whole else _TIMES
            return self._replace(data=to_dates(column, unit).astype(_TIMES))
        numbers = to_numbers(column, allow_bool=self.family == _TRUTH)
        return self._replace(data=numbers.astype(float))

    def to_truth(self) -> Mask:
        """Return truth values as booleans, with False for missing."""
        if self.family != _TRUTH:
            raise ValueError(
                f"requires comparisons or truth values, got {self.family}."
            )
        return self.data == 1


# Function from a column name to its operand.
Reader = Callable[[Any], Operand]


def declare_operand(declared_type: str, attribute: Any) -> Operand:
    """Return the operand of a declared column without rows, on which expressions are checked.

    `declared_type` is a type such as "whole" or "datetime". The family is numbers,
    dates, text or truth values; only operands of one family are compared. Text may only
    be compared with the declared strings of the attribute.
    """
    family = _FAMILIES.get(declared_type, declared_type)
    dtype = {_TEXT: np.dtype(object), _DATE: _TIMES}.get(family, np.dtype(float))
    return Operand(
        family,
        np.empty(0, dtype),
        is_whole=declared_type in ("whole", "unsigned", "date"),
        texts=tuple(map(str, drop_missing(attribute.values)))
        if family == _TEXT
        else (),
    )


class Expression:
    """A parsed expression, such as "end >= start".

    `columns` are the names of the columns that it reads; `title` names it in errors.
    """

    counts = False
    """True for "low <= count(expression) <= high", on the events of a person for which the expression is true."""
    low: int = 0
    high: float = 0
    place: str | None = None
    """"first" or "last" if the expression is true for the first or the last event of a person only."""

    def __init__(self, text: str, title: str, *, may_count: bool = False) -> None:
        # `text` is Python syntax with column names, and `title` its name in errors.
        # `_tree` is the syntax tree of the text, and `columns` are the names in it.
        self.text = text
        self.title = f"{title}{text!r:.200}"
        if not isinstance(text, str):
            raise TypeError(f"{self.title}: expected text, got {type(text).__name__}.")
        # Names in backquotes are replaced by identifiers, because Python cannot parse them.
        names: list[str] = []

        def replace_name(match: re.Match[str]) -> str:
            # Strings are not changed, even if they contain backquotes.
            if match[1]:
                return match[1]
            names.append(match[2])
            return f"_column_{len(names) - 1}_"

        try:
            source = _QUOTED.sub(replace_name, text.strip())
            self._tree = ast.parse(source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"{self.title}: not an expression. {_ALLOWED}") from None
        if may_count:
            self._read_form()
        identifiers = {f"_column_{index}_": name for index, name in enumerate(names)}
        self.columns = set()
        functions = [n.func for n in ast.walk(self._tree) if isinstance(n, ast.Call)]
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Name) and node not in functions:
                node.id = identifiers.get(node.id, node.id)
                self.columns.add(node.id)

    @property
    def is_on_rows(self) -> bool:
        """True for an expression on single rows, and not on several events of a person."""
        return not self.counts and self.place is None

    def _read_form(self) -> None:
        """Read "count(expression) <= 1", "1 <= count(expression) <= 2", "first(expression)" and "last(expression)"."""
        match self._tree:
            case ast.Call(ast.Name("first" | "last" as place), [event], []):
                self._tree, self.place, self.high = event, place, math.inf
                return
            case ast.Compare(
                ast.Call(ast.Name("count"), [event], []),
                [op],
                [ast.Constant(int() as number)],
            ) if type(op) in _LIMITS:
                self.low, self.high = _LIMITS[type(op)](number)
            case ast.Compare(
                ast.Constant(int() as low),
                [ast.LtE(), ast.LtE()],
                [ast.Call(ast.Name("count"), [event], []), ast.Constant(int() as high)],
            ):
                self.low, self.high = low, high
            case _:
                return
        if self.low > self.high:
            raise ValueError(
                f"{self.title}: the smallest number of events must be at most the largest "
                f"one, got {self.low} and {self.high}."
            )
        self._tree, self.counts = event, True

    @property
    def limits(self) -> list[tuple[Any, float, bool]]:
        """The numbers with which columns are compared: the column, the number, and True for a limit after it."""
        limits = []
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.Compare):
                continue
            parts = pairwise([node.left, *node.comparators])
            for op, (left, right) in zip(node.ops, parts, strict=True):
                is_swapped = isinstance(right, ast.Name)
                name, number = (right, left) if is_swapped else (left, right)
                try:
                    value = ast.literal_eval(number)
                except (ValueError, TypeError):
                    continue
                if not isinstance(name, ast.Name) or not isinstance(value, int | float):
                    continue
                # For "45 >= age" and "age <= 45", 45 is the last number of its part.
                after = (ast.GtE, ast.Lt) if is_swapped else (ast.LtE, ast.Gt)
                is_equality = isinstance(op, ast.Eq | ast.NotEq)
                if is_equality or isinstance(op, after):
                    limits.append((name.id, value, True))
                if is_equality or not isinstance(op, after):
                    limits.append((name.id, value, False))
        return limits

    def check(self, operands: Mapping[Any, Operand]) -> Operand:
        """Check the names and types of an expression on columns without rows, and return its result.

        `operands` maps each column to its declared type, as an operand without rows.
        """

        def get_operand(name: ColumnName) -> Operand:
            if name not in operands:
                raise ValueError(
                    f"{name!r} is not a column of the domain, which has "
                    f"{list(operands)}. Write text in quotes."
                )
            if operands[name].family not in _FAMILIES.values():
                raise ValueError(
                    f"column {name!r} must declare numbers, text, truth values or "
                    f"dates, got {operands[name].family}."
                )
            return operands[name]

        try:
            result = self.evaluate(get_operand)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{self.title}: {error}") from None
        if not self.columns:
            raise ValueError(
                f"{self.title}: expected at least one column, got constants."
            )
        return result

    @property
    def marked(self) -> set[Any]:
        """The columns in "missing(column)"."""
        calls = [n for n in ast.walk(self._tree) if isinstance(n, ast.Call)]
        return {n.id for call in calls for n in call.args if isinstance(n, ast.Name)}

    def evaluate(self, get_operand: Reader) -> Operand:
        """Evaluate the expression on the columns that `get_operand` returns."""
        with np.errstate(all="ignore"):
            return _evaluate_node(self._tree, get_operand)

    def compare(self, get_operand: Reader) -> list[Mask]:
        """Return the truth values of each comparison in the expression, of shape (n_rows,)."""
        compared = [n for n in ast.walk(self._tree) if isinstance(n, ast.Compare)]
        with np.errstate(all="ignore"):
            return [_evaluate_node(node, get_operand).to_truth() for node in compared]

    def compute(self, get_operand: Reader) -> NDArray[Any]:
        """Return the values of a derived column in a table, of shape (n_rows,).

        `get_operand` returns the values of a column. Numbers are integers if they are
        whole by declaration and none is missing.
        """
        result = self.evaluate(get_operand)
        if result.family == _TRUTH:
            return result.to_truth()
        values: NDArray[Any] = result.data
        if result.family == _DATE:
            # A date plus a number of days with a fraction has a time of day.
            days = values.astype("datetime64[D]")
            are_days = result.is_whole and bool(
                ((days == values) | np.isnat(days)).all()
            )
            return days if are_days else values
        is_integer = (np.rint(values) == values) & (np.abs(values) <= MAX_EXACT)
        if result.is_whole and is_integer.all():
            return values.astype(np.int64)
        return np.where(np.isfinite(values), values, np.nan)


def parse_constraints(
    texts: Sequence[Any], operands: Mapping[Any, Operand]
) -> tuple[Expression, ...]:
    """Parse the constraints of a domain, and check that they are comparisons of columns.

    `operands` maps each column to its declared type, as an operand without rows.
    """
    constraints = []
    for text in texts:
        is_parsed = isinstance(text, Expression)  # from another domain
        constraint = (
            text if is_parsed else Expression(text, "Constraint ", may_count=True)
        )
        if constraint.check(operands).family != _TRUTH:
            raise ValueError(
                f"{constraint.title}: expected a comparison, such as 'end >= start'."
            )
        constraints.append(constraint)
    return tuple(constraints)


def find_excluded(
    constraint: Expression,
    columns: Sequence[Any],
    derived: Mapping[Any, Expression],
    operands: Mapping[Any, Operand],
) -> list[Any]:
    """List the columns without whose values a constraint on rows is false, if it does not name them in "missing"."""
    excluded = []
    for column in columns if constraint.is_on_rows else ():
        missing, truths = {column}, dict[Any, bool | None]()
        for name, expression in derived.items():
            if operands[name].family == _TRUTH:
                truths[name] = _find_truth(expression._tree, missing, truths)
            elif expression.columns & missing:
                missing.add(name)
        is_false = _find_truth(constraint._tree, missing, truths) is False
        if is_false and column not in constraint.marked:
            excluded.append(column)
    return excluded


def describe_excluded(constraint: Expression, columns: Sequence[Any]) -> str:
    """Return the text of a warning: a constraint excludes missing values of `columns`; state one that keeps them."""
    names = [str(name) for name in columns]
    quoted = [name if name.isidentifier() else f"`{name}`" for name in names]
    kept = " or ".join([constraint.text, *(f"missing({name})" for name in quoted)])
    return (
        f"Constraint {constraint.text!r} is false where a value of {list(columns)} is missing, so "
        "synthetic rows have no missing values of these columns, although they are declared. "
        f"Write {kept!r} to keep them, or declare the columns without missing values"
    )


def parse_derived(
    texts: Mapping[Any, Any], operands: dict[Any, Operand]
) -> dict[Any, Expression]:
    """Parse and check derived columns, and add them to `operands`, because later columns may read them."""
    declared = [name for name in texts if name in operands]
    if declared:
        raise ValueError(
            f"Derived columns must not be declared columns, got {declared}. Remove "
            "them from the declared columns."
        )
    derived = {}
    for name, text in texts.items():
        expression = Expression(text, f"Derived column {name!r}, ")
        operand = expression.check(operands)
        if operand.family == _TEXT:
            raise ValueError(
                f"{expression.title}: expected numbers, dates or a comparison, got "
                "text."
            )
        operands[name] = operand
        derived[name] = expression
    return derived


def _evaluate_node(node: ast.expr, get_operand: Reader) -> Operand:
    """Evaluate a node of a syntax tree; all forms that are not listed here raise an error.

    `get_operand` returns the type and the values of a column.
    """
    match node:
        case ast.Name(id=name):
            return get_operand(name)
        case ast.Constant(value=bool() | str() | int() | float() as value):
            return _make_constant(value)
        case ast.Call(ast.Name("missing"), [ast.Name(name)], []):
            return Operand(_TRUTH, _find_missing(get_operand(name)))
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return Operand(_TRUTH, ~_evaluate_node(part, get_operand).to_truth())
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as op, operand=part):
            number = _evaluate_node(part, get_operand)
            if number.family != _NUMBER:
                raise ValueError(f"a sign requires a number, got {number.family}.")
            is_negative = isinstance(op, ast.USub)
            return number._replace(data=-number.data if is_negative else number.data)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            calculate = _ARITHMETIC[type(op)]
            return _calculate(
                calculate,
                _evaluate_node(left, get_operand),
                _evaluate_node(right, get_operand),
            )
        # `a and b and c` is one node with three parts.
        case ast.BoolOp(op=op, values=parts):
            truths = [_evaluate_node(part, get_operand).to_truth() for part in parts]
            return _combine(truths, isinstance(op, ast.And))
        # `a < b < c` is `a < b and b < c`.
        case ast.Compare(left=left, ops=ops, comparators=rights):
            if {type(op) for op in ops} <= _COMPARISONS.keys():
                operands = [
                    _evaluate_node(part, get_operand) for part in (left, *rights)
                ]
                pairs = zip(ops, pairwise(operands), strict=True)
                truths = [
                    _compare_operands(_COMPARISONS[type(op)], *pair)
                    for op, pair in pairs
                ]
                return _combine(truths, True)
    # **Security.** Calls, attributes and indexing, which could run code, raise an error here.
    raise ValueError(f"{ast.unparse(node)!r:.200} is not allowed. {_ALLOWED}")


def _find_truth(
    node: ast.expr, missing: Collection[ColumnName], truths: Mapping[Any, bool | None]
) -> bool | None:
    """Return the truth value of a node if the columns `missing` are missing; None if it depends on other values.

    `truths` are the truth values of derived columns, as far as they are known.
    """
    match node:
        case ast.BoolOp(op=op, values=parts):
            known = [_find_truth(part, missing, truths) for part in parts]
            decisive = isinstance(op, ast.Or)
            if decisive in known:
                return decisive
            return None if None in known else not decisive
        case ast.UnaryOp(op=ast.Not(), operand=part):
            truth = _find_truth(part, missing, truths)
            return None if truth is None else not truth
        case ast.Name(name) if name not in missing:
            return truths.get(name)
        case ast.Compare(left=left, comparators=rights):
            is_false = any(_is_missing(part, missing) for part in (left, *rights))
        case _:
            is_false = isinstance(node, ast.Name)
    if is_false:
        return False
    is_marked = isinstance(node, ast.Call) and _is_missing(node.args[0], missing)
    return True if is_marked else None


def _is_missing(node: ast.expr, missing: Collection[ColumnName]) -> bool:
    """Return True for a column, or for arithmetic with a column, that is missing."""
    parts = list(ast.walk(node))
    is_value = not any(
        isinstance(n, ast.Compare | ast.BoolOp | ast.Call) for n in parts
    )
    return is_value and any(isinstance(n, ast.Name) and n.id in missing for n in parts)


def _combine(truths: list[Mask], is_and: bool) -> Operand:
    """Combine truth values, arrays or constants, by `and` or `or`."""
    combined = truths[0]
    for truth in truths[1:]:
        combined = combined & truth if is_and else combined | truth
    return Operand(_TRUTH, combined)


def _make_constant(value: bool | str | int | float) -> Operand:
    """Return the operand of a constant of an expression."""
    if isinstance(value, bool):
        return Operand(_TRUTH, np.float64(value))
    if isinstance(value, str):
        return Operand(_TEXT, value, texts=(value,))
    return Operand(_NUMBER, np.float64(value), isinstance(value, int))


def _compare_operands(
    comparison: Callable[..., Any], left: Operand, right: Operand
) -> Mask:
    """Compare two operands of one family, such as numbers or text; comparisons with missing values are False."""
    family = left.family
    if family != right.family:
        raise ValueError(
            f"a comparison must have two operands of one type, got {family} and "
            f"{right.family}."
        )
    is_equality = comparison in (operator.eq, operator.ne)
    if family in (_TEXT, _TRUTH) and not is_equality:
        raise ValueError(f"a comparison requires == or !=, as {family} have no order.")
    if family == _TEXT and not set(left.texts) & set(right.texts):
        raise ValueError(
            "a comparison of text must be with a declared value, or of two columns with a "
            "common value, got neither."
        )
    # NumPy compares None equal to None, and NaN unequal to NaN.
    is_true = comparison(left.data, right.data)
    missing: Mask = pd.isna(left.data) | pd.isna(right.data)
    return is_true & np.logical_not(missing)


def _find_missing(operand: Operand) -> Mask:
    """Mark the missing values of an operand; numbers that are not finite, as after a division by 0, are missing."""
    if operand.family == _NUMBER:
        return ~np.isfinite(operand.data)
    return np.asarray(pd.isna(operand.data))


def _calculate(calculate: Callable[..., Any], left: Operand, right: Operand) -> Operand:
    """Apply an arithmetic operator to numbers and dates; numbers beside dates are days."""
    families = left.family, right.family
    is_sum = calculate is operator.add
    is_difference = calculate is operator.sub
    is_quotient = calculate is operator.truediv
    is_whole = left.is_whole and right.is_whole and not is_quotient
    if families == (_NUMBER, _NUMBER):
        return Operand(_NUMBER, calculate(left.data, right.data), is_whole)
    if families == (_DATE, _DATE) and is_difference:
        return Operand(
            _NUMBER, (left.data - right.data) / np.timedelta64(1, "D"), is_whole
        )
    if families == (_DATE, _NUMBER) and (is_sum or is_difference):
        # Rounded to microseconds, because NumPy would truncate.
        span = np.rint(right.data * 86_400e6).astype("timedelta64[us]")
        return Operand(_DATE, calculate(left.data, span), is_whole)
    if families == (_NUMBER, _DATE) and is_sum:
        return _calculate(calculate, right, left)
    raise ValueError(
        "arithmetic requires two numbers, a date minus a date, or a date plus or minus "
        f"a number of days, got {families[0]} and {families[1]}."
    )
