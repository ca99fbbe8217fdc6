"""Linear relations between columns, which are declared in words and hold in all rows."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linprog

from skdp.domain import Categories, Domain, Interval
from skdp.synthesis.tables._draws import ends_of, listed_values
from skdp.tables import kind_of

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d*)?)|(?P<name>[^\W\d]\w*)|`(?P<quoted>[^`]+)`"
    r"|(?P<sign><=|>=|==|=|<|>)|(?P<operator>[-+*]))"
)
_EXPONENT = re.compile(r"[eE][-+]?\d")
_FORM = (
    "a relation is such as 'total = a + b', 'end >= start' or 'a + 2 * b <= 100'; names "
    "with other characters than letters, digits and _ stand between backticks"
)
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}

_LARGEST_SUM = 1 << 62
"""The most steps of the last decimal in a sum, as they are added in 64 bits."""

_MOST_DIGITS = 15
"""Of a number before and behind its point: a float holds no more."""

_INFEASIBLE = 2
"""The status of a linear program that has no solution."""

_EXACT = 1e-9
"""The share of the largest term below which a difference is rounding."""


class Term(NamedTuple):
    """A column with a coefficient, or a number."""

    coefficient: Fraction
    column: Any = None


Side = tuple[Term, ...]
Values = Mapping[Any, NDArray[Any]]


@dataclass(frozen=True)
class Relation:
    """A linear equality or inequality of columns."""

    text: str
    left: Side
    sign: str
    right: Side

    @property
    def columns(self) -> list[Any]:
        """The columns of both sides."""
        return columns_of((*self.left, *self.right))

    @property
    def difference(self) -> Side:
        """The terms of the left side minus the right."""
        negative = [Term(-number, column) for number, column in self.right]
        return (*self.left, *negative)

    @property
    def compared_columns(self) -> tuple[Any, Any] | None:
        """The lower and the upper column, if it compares two columns."""
        if self.sign == "=" or not (_is_column(self.left) and _is_column(self.right)):
            return None
        pair = (self.left[0].column, self.right[0].column)
        return pair[::-1] if self.sign in (">", ">=") else pair

    def error(self, reason: str) -> ValueError:
        """Make an error that names the relation."""
        return ValueError(f"the relation {self.text!r}: {reason}")


class Sum(NamedTuple):
    """A column that follows from others by an equality."""

    relation: Relation
    column: Any
    terms: Side

    def __str__(self) -> str:
        """Say what the column follows from."""
        sides = [side.strip("= ") for side in self.relation.text.split("=", 1)]
        parts = [side for side in sides if side.strip("`") != str(self.column)]
        # Where it is on a side with others, the whole relation says how it follows.
        text = parts[0] if len(parts) == 1 else self.relation.text
        return f"{self.column} follows from {text}"


def columns_of(terms: Iterable[Term]) -> list[Any]:
    """List the columns of terms."""
    return [column for _, column in terms if column is not None]


def _is_column(side: Side) -> bool:
    return len(side) == 1 and side[0].column is not None and side[0].coefficient == 1


@dataclass(frozen=True)
class Relations:
    """What is declared of the rows: sums that follow from their parts, and bounds."""

    texts: tuple[str, ...] = ()
    sums: tuple[Sum, ...] = ()
    """Each after those that it is made of."""
    bounds: tuple[Relation, ...] = ()
    decimals: Mapping[Any, int | None] = field(default_factory=dict)
    """Of the numbers of each column that they name; None for any number."""

    def __str__(self) -> str:
        """Say what rows keep."""
        return f"rows that keep {', '.join(map(repr, self.texts))}"

    @property
    def derived(self) -> list[Any]:
        """The columns that follow from others."""
        return [derived.column for derived in self.sums]

    @property
    def columns(self) -> list[Any]:
        """All columns that relations name."""
        names: list[Any] = []
        for derived in self.sums:
            names += derived.relation.columns
        for bound in self.bounds:
            names += bound.columns
        return list(dict.fromkeys(names))

    def check_not_derived(self, parameter: str, names: Iterable[Any]) -> None:
        """Refuse columns that follow from others where a model is asked for them."""
        for derived in self.sums:
            if derived.column in names:
                parts = columns_of(derived.terms)
                raise ValueError(
                    f"{parameter}: column {derived.column!r} is not modelled, as it "
                    f"follows by the relation {derived.relation.text!r}: name {parts}, "
                    "or take it from synthetic rows"
                )

    def coarsen(self, domain: Domain) -> Domain:
        """Give each column that follows from others a single bin."""
        columns = {name: domain[name] for name in domain.columns}
        for name in self.derived:
            values = domain[name]
            assert isinstance(values, Interval)
            columns[name] = Interval(
                edges=[values.edges[0], values.edges[-1]],
                missing=values.missing,
                real=values.real,
                decimals=values.decimals,
            )
        return Domain(columns) if self.sums else domain

    @property
    def rules(self) -> list[tuple[Any, str, Any]]:
        """The bounds that compare two columns which are modelled, as rules."""
        rules: list[tuple[Any, str, Any]] = []
        for bound in self._modelled:
            if bound.compared_columns is not None:
                lower, upper = bound.compared_columns
                rules.append((lower, "<=", upper))
        return rules

    @property
    def _modelled(self) -> list[Relation]:
        """The bounds of columns that do not follow from others."""
        derived = set(self.derived)
        return [bound for bound in self.bounds if not derived & set(bound.columns)]

    def zeros(
        self, domain: Domain, max_cells: int
    ) -> Iterator[tuple[tuple[int, ...], NDArray[np.bool_]]]:
        """Yield the columns of bounds, and which of their cells break them."""
        for bound in self._modelled:
            names = sorted(bound.columns, key=domain.columns.index)
            sizes = [len(domain[name]) for name in names]
            if np.prod(sizes, dtype=float) <= max_cells:
                is_broken = _broken_cells(bound, domain, names)
                if is_broken.any():
                    yield tuple(map(domain.columns.index, names)), is_broken

    def derive(self, rows: DrawnRows, given: Values) -> None:
        """Set the columns that follow from others."""
        for derived in self.sums:
            if derived.column not in rows.domain.columns:
                continue
            place = rows.domain.columns.index(derived.column)
            interval = rows.domain[derived.column]
            assert isinstance(interval, Interval)
            values = {}
            is_missing = rows.codes[place] == len(interval.edges) - 1
            for name in columns_of(derived.terms):
                values[name], part_is_missing = rows.read(name, given)
                is_missing = is_missing | part_is_missing
            numbers = _add(derived.terms, values, self.decimals, interval.decimals)
            drawn = rows.numbers[derived.column]
            numbers = np.where(is_missing, drawn, numbers).astype(drawn.dtype)
            rows.numbers[derived.column] = numbers
            if interval.missing:
                codes = np.where(is_missing, len(interval.edges) - 1, 0)
                rows.codes[place] = codes.astype(rows.codes[place].dtype)

    def find_broken(self, rows: DrawnRows, given: Values) -> NDArray[np.bool_]:
        """Mark the rows that break a bound, or have a sum beyond its ends."""
        is_broken = np.zeros(rows.n_rows, bool)
        for derived in self.sums:
            if derived.column in rows.domain.columns:
                values = rows.domain[derived.column]
                assert isinstance(values, Interval)
                numbers, is_missing = rows.read(derived.column, given)
                low, high = values.edges[0], values.edges[-1]
                is_inside = (numbers >= low) & (numbers <= high)
                is_broken |= ~(is_inside | is_missing)
        for bound in self.bounds:
            names = bound.columns
            is_drawn = any(name in rows.domain.columns for name in names)
            if not is_drawn or not all(rows.has(name, given) for name in names):
                continue
            values_of_columns = {}
            is_missing = np.zeros(rows.n_rows, bool)
            for name in names:
                values_of_columns[name], column_is_missing = rows.read(name, given)
                is_missing |= column_is_missing
            is_kept = self._keeps(bound, values_of_columns)
            is_broken |= ~(is_kept | is_missing)
        return is_broken

    def _keeps(self, bound: Relation, values: Values) -> NDArray[np.bool_]:
        """Compare both sides, as they are written and without errors of floats."""
        compare = _COMPARISONS[bound.sign]
        left = _as_written(bound.left, values)
        right = _as_written(bound.right, values)
        is_kept = np.asarray(compare(left, right))
        decimals = _decimals_of(bound.difference, self.decimals)
        if decimals is not None and bound.sign in ("<", ">"):
            is_kept = is_kept & (np.round(left - right, decimals) != 0)
        return is_kept


@dataclass(eq=False)
class DrawnRows:
    """Rows as codes, and the numbers and dates that were drawn within their bins."""

    domain: Domain
    codes: list[NDArray[np.integer]]
    numbers: dict[Any, NDArray[Any]]

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.codes[0])

    def has(self, name: Any, given: Values) -> bool:
        """Return whether a column was drawn, or is given."""
        return name in self.domain.columns or name in given

    def read(self, name: Any, given: Values) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the values of a column, and which are missing."""
        if name not in self.domain.columns:
            values = given[name]
            return values, np.asarray(pd.isna(values))
        codes = self.codes[self.domain.columns.index(name)]
        declared = self.domain[name]
        if isinstance(declared, Interval):
            return self.numbers[name], codes >= len(declared.edges) - 1
        values = listed_values(declared)[codes]
        return values, np.asarray(pd.isna(values))

    def replace(
        self,
        places: NDArray[np.intp],
        rows: DrawnRows,
        chosen: NDArray[np.intp],
    ) -> None:
        """Put some of other rows in the place of some rows."""
        for codes, other_codes in zip(self.codes, rows.codes, strict=True):
            codes[places] = other_codes[chosen]
        for name, numbers in rows.numbers.items():
            self.numbers[name][places] = numbers[chosen]


def _reduced(rows: Iterable[Mapping[Any, Fraction]]) -> list[dict[Any, Fraction]]:
    """Return the reduced echelon form of rows of coefficients, without zeros."""
    reduced: dict[Any, dict[Any, Fraction]] = {}
    for coefficients in rows:
        row = dict(coefficients)
        for pivot, other in reduced.items():
            row = _subtract(row, other, pivot)
        if not row:
            continue
        pivot = next(iter(row))
        row = {name: number / row[pivot] for name, number in row.items()}
        for other_pivot, other in reduced.items():
            reduced[other_pivot] = _subtract(other, row, pivot)
        reduced[pivot] = row
    return list(reduced.values())


def _subtract(
    row: Mapping[Any, Fraction], other: Mapping[Any, Fraction], pivot: Any
) -> dict[Any, Fraction]:
    """Subtract the multiple of another row with which the pivot vanishes."""
    factor = row.get(pivot, Fraction(0))
    difference = {}
    for name in [*row, *(name for name in other if name not in row)]:
        number = row.get(name, Fraction(0)) - factor * other.get(name, Fraction(0))
        if number != 0:
            difference[name] = number
    return difference


def _broken_cells(
    bound: Relation, domain: Domain, names: Sequence[Any]
) -> NDArray[np.bool_]:
    """Mark the cells of columns in which no values keep a bound."""
    # The least of left - right in each cell; or the most of it, if it is to be large.
    sign = -1 if bound.sign in (">", ">=") else 1
    coefficients = {}
    constant = 0.0
    for number, column in bound.difference:
        if column is None:
            constant += sign * float(number)
        else:
            coefficients[column] = sign * float(number)
    least = np.full((1,) * len(names), constant)
    size = abs(constant)
    for axis, name in enumerate(names):
        low, high = _ends_of_cells(domain[name])
        ends = low if coefficients[name] > 0 else high
        terms = coefficients[name] * ends
        size += float(np.abs(terms).max())
        column = np.full(len(domain[name]), -np.inf)
        is_present = [label is not None for label in domain[name].labels]
        column[is_present] = terms
        shape = [1] * len(names)
        shape[axis] = column.size
        least = least + column.reshape(shape)
    return least > _EXACT * size


def _as_written(side: Side, values: Values) -> Any:
    """Add the terms of a side from left to right, in floats, as NumPy does."""
    total: Any = None
    for number, column in side:
        if column is None:
            term: Any = _plain(abs(number))
        else:
            factor = abs(number)
            term = values[column] if factor == 1 else _plain(factor) * values[column]
        if total is None:
            total = -term if number < 0 else term
        else:
            total = total - term if number < 0 else total + term
    return total


def _plain(number: Fraction) -> int | float:
    return int(number) if number.denominator == 1 else float(number)


def _add(
    terms: Side,
    values: Values,
    decimals_of: Mapping[Any, int | None],
    decimals: int | None,
) -> Any:
    """Add terms: without errors of floats, if the sum has decimals that are declared."""
    if decimals is None:
        return _as_written(terms, values)
    # Columns as whole numbers of steps of their last decimal, which are multiplied by
    # whole numbers: a sum of decimals is one of the same decimals.
    steps: Any = 0
    for number, column in terms:
        if column is None:
            steps = steps + int(number * 10**decimals)
            continue
        own_decimals = decimals_of[column]
        assert own_decimals is not None
        present = np.nan_to_num(values[column])
        own_steps = np.rint(present * 10.0**own_decimals).astype(np.int64)
        steps = steps + int(number * 10 ** (decimals - own_decimals)) * own_steps
    return steps / 10**decimals if decimals else steps


def _decimals_of(
    terms: Iterable[Term], decimals_of: Mapping[Any, int | None]
) -> int | None:
    """Return how many decimals a sum of terms may have; None for any number."""
    most = 0
    for number, column in terms:
        decimals = 0 if column is None else decimals_of[column]
        if decimals is None:
            return None
        # A coefficient was written with decimals: its denominator divides a power of 10.
        n_digits = 0
        while 10**n_digits % number.denominator:
            n_digits += 1
        most = max(most, decimals + n_digits)
    return most


def _decimals(values: Categories | Interval) -> int | None:
    """Return the decimals of numbers; of a list, if they are whole."""
    if isinstance(values, Interval):
        return values.decimals
    numbers = [value for value in values.values if value is not None]
    return 0 if all(float(number).is_integer() for number in numbers) else None


def read_relations(relations: Any, domain: Domain) -> Relations:
    """Read the parameter `relations`, and refuse what contradicts the declared values."""
    if relations is None:
        return Relations()
    if isinstance(relations, str) or not isinstance(relations, Iterable):
        kind = type(relations).__name__
        raise TypeError(f"relations must be a list of texts, got {kind}; {_FORM}")
    parsed_relations = []
    for text in relations:
        if not isinstance(text, str):
            kind = type(text).__name__
            raise TypeError(f"relations must be texts, got a {kind}; {_FORM}")
        relation = _read_relation(text, domain)
        _check_kinds(relation, domain)
        _check_size(relation, domain)
        parsed_relations.append(relation)
    decimals = {}
    for relation in parsed_relations:
        for name in relation.columns:
            decimals[name] = _decimals(domain[name])
    equalities = [relation for relation in parsed_relations if relation.sign == "="]
    sums = _read_sums(equalities, domain, decimals)
    _check_possible(parsed_relations, domain)
    bounds = tuple(relation for relation in parsed_relations if relation.sign != "=")
    texts = tuple(relation.text for relation in parsed_relations)
    return Relations(texts, sums, bounds, decimals)


def _read_relation(text: str, domain: Domain) -> Relation:
    """Read a relation; its errors name it."""
    names = {str(name): name for name in domain.columns}
    tokens = _tokens(text)
    kinds = [kind for kind, _ in tokens]
    n_signs = kinds.count("sign")
    if n_signs != 1:
        advice = ""
        if n_signs > 1:
            advice = " (write 'a <= b <= c' as two relations, 'a <= b' and 'b <= c')"
        raise ValueError(
            f"the relation {text!r} must have exactly one of {sorted(_COMPARISONS)}, it "
            f"has {n_signs}{advice}; {_FORM}"
        )
    middle = kinds.index("sign")
    sign = tokens[middle][1]
    left = _read_side(text, tokens[:middle], names)
    right = _read_side(text, tokens[middle + 1 :], names)
    relation = Relation(text, left, "=" if sign == "==" else sign, right)
    if not relation.columns:
        raise relation.error("it must name a column")
    if len(set(relation.columns)) < len(relation.columns):
        raise relation.error("a column may occur once")
    return relation


def _tokens(text: str) -> list[tuple[str, str]]:
    """Split a relation into numbers, names, signs and operators."""
    tokens = []
    place = 0
    text_end = len(text.rstrip())
    while place < text_end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise ValueError(
                f"the relation {text!r} cannot be read from place {place + 1}; {_FORM}"
            )
        tokens.append((match.lastgroup, match[match.lastgroup]))
        place = match.end()
        if match.lastgroup == "number" and _EXPONENT.match(text, place):
            raise ValueError(
                f"the relation {text!r}: numbers are written without an exponent, such "
                "as 100 or 0.01"
            )
    return tokens


def _read_side(
    text: str, tokens: Sequence[tuple[str, str]], names: Mapping[str, Any]
) -> Side:
    """Read terms, which `+` and `-` join: a number, a column, or their product."""
    terms: list[Term] = []
    rest = list(tokens)
    while rest or not terms:
        sign = 1
        if rest and rest[0] in (("operator", "+"), ("operator", "-")):
            sign = -1 if rest.pop(0)[1] == "-" else 1
        elif terms:
            raise ValueError(f"the relation {text!r} lacks a + or -; {_FORM}")
        factors = [_pop_factor(text, rest, names)]
        while rest and rest[0] == ("operator", "*"):
            rest.pop(0)
            factors.append(_pop_factor(text, rest, names))
        columns = [column for column, _ in factors if column is not None]
        if len(columns) > 1:
            raise ValueError(
                f"the relation {text!r} is not linear: it has a product of columns"
            )
        coefficient = Fraction(sign)
        for _, number in factors:
            coefficient *= number
        if columns and coefficient == 0:
            raise ValueError(f"the relation {text!r}: a coefficient must not be 0")
        if coefficient:
            limit = 10**_MOST_DIGITS
            if not Fraction(1, limit) <= abs(coefficient) < limit:
                raise _too_long(text)
        terms.append(Term(coefficient, columns[0] if columns else None))
    return tuple(terms)


def _pop_factor(
    text: str, tokens: list[tuple[str, str]], names: Mapping[str, Any]
) -> tuple[Any, Fraction]:
    """Take a column or a number from the front of tokens."""
    if not tokens or tokens[0][0] not in ("number", "name", "quoted"):
        raise ValueError(f"the relation {text!r} lacks a column or a number; {_FORM}")
    kind, value = tokens.pop(0)
    if kind == "number":
        if len(value) > 2 * _MOST_DIGITS + 1:
            raise _too_long(text)
        return None, Fraction(value)
    if value not in names:
        raise ValueError(
            f"the relation {text!r}: there is no column {value!r}; the columns are "
            f"{list(names.values())}"
        )
    return names[value], Fraction(1)


def _too_long(text: str) -> ValueError:
    return ValueError(
        f"the relation {text!r}: a number must have at most {_MOST_DIGITS} digits "
        "before its point, and as many behind it"
    )


def _check_kinds(relation: Relation, domain: Domain) -> None:
    """Make sure that numbers are added and compared with numbers, and dates compared with dates."""
    kinds = set()
    for name in relation.columns:
        kind = _kind(domain[name])
        if kind not in ("number", "date", "datetime"):
            raise relation.error(
                f"column {name!r} must be declared as numbers or dates, not {kind}s"
            )
        if kind != "number" and relation.sign == "=":
            raise relation.error(
                f"column {name!r} has {kind}s, which cannot follow from other columns "
                "by =: compare two columns by <, <=, > or >="
            )
        if kind != "number" and relation.compared_columns is None:
            raise relation.error(
                f"column {name!r} has {kind}s, which can be compared with another "
                "column, and not be added"
            )
        kinds.add(kind)
    if len(kinds) > 1:
        raise relation.error(f"it compares {'s with '.join(sorted(kinds))}s")


def _check_size(relation: Relation, domain: Domain) -> None:
    """Make sure that sums of whole numbers can be computed as such."""
    largest = Fraction(0)
    is_whole = False
    for number, name in relation.difference:
        size = 1.0
        if name is not None:
            if relation.compared_columns is not None or _decimals(domain[name]) != 0:
                continue
            is_whole = True
            size = max(map(abs, _ends(domain[name])))
        largest += abs(number) * Fraction(size)
    if is_whole and largest >= _LARGEST_SUM:
        raise relation.error(
            f"its terms are larger than {_LARGEST_SUM:.0e}, which whole numbers of 64 "
            "bits do not hold: divide it by a number, or declare columns with real=True"
        )


def _kind(values: Categories | Interval) -> str:
    """Return the kind of declared values."""
    if isinstance(values, Interval):
        return kind_of(values.edges[0])
    kinds = {kind_of(value) for value in values.values if value is not None}
    return kinds.pop() if len(kinds) == 1 else "missing value"


def _read_sums(
    equalities: Iterable[Relation],
    domain: Domain,
    decimals: Mapping[Any, int | None],
) -> tuple[Sum, ...]:
    """Find the column that follows from each equality; sort them by what they need."""
    sums: dict[Any, Sum] = {}
    for relation in equalities:
        if _is_column(relation.left):
            column, terms = relation.left[0].column, relation.right
        elif _is_column(relation.right):
            column, terms = relation.right[0].column, relation.left
        else:
            raise relation.error(
                "one side of an equality must be a column alone, which follows from "
                "the other side"
            )
        if column in sums:
            raise relation.error(
                f"column {column!r} follows from {sums[column].relation.text!r} already"
            )
        sums[column] = Sum(relation, column, terms)
        _check_sum(sums[column], domain, decimals)
    needs = {column: columns_of(item.terms) for column, item in sums.items()}
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        raise ValueError(
            f"the relations go round in a circle: {error.args[1]}"
        ) from None
    return tuple(sums[column] for column in order if column in sums)


def _check_sum(
    derived: Sum, domain: Domain, decimals_of: Mapping[Any, int | None]
) -> None:
    """Make sure that a column can have what follows for it, as it is declared."""
    relation, column, terms = derived
    values = domain[column]
    if not isinstance(values, Interval):
        raise relation.error(
            f"column {column!r} follows from others, and must be declared as an Interval"
        )
    for name in columns_of(terms):
        if None in domain[name].labels and not values.missing:
            raise relation.error(
                f"column {column!r} must declare missing (missing=True), as {name!r} "
                "does: it is missing where a part is"
            )
    if values.decimals is None:
        return
    decimals = _decimals_of(terms, decimals_of)
    if decimals is None or decimals > values.decimals:
        n_decimals = "any number of" if decimals is None else str(decimals)
        raise relation.error(
            f"column {column!r} declares {values.decimals} decimals, and what it "
            f"follows from has {n_decimals}: set decimals= of its Interval, or real=True"
        )
    largest = Fraction(0)
    for number, name in terms:
        size = 1.0 if name is None else max(map(abs, _ends(domain[name])))
        largest += abs(number) * Fraction(size)
    if largest * 10**values.decimals >= _LARGEST_SUM:
        raise relation.error(
            f"sums of these columns have more than {_LARGEST_SUM:.0e} steps of "
            f"{values.decimals} decimals: declare column {column!r} with real=True"
        )


def _ends_of_cells(
    values: Categories | Interval,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the ends of each present cell, of dates in microseconds."""
    low, high = ends_of(values)
    if low.dtype.kind == "M":
        low = low.astype("datetime64[us]")
        high = high.astype("datetime64[us]")
    return low.astype(float), high.astype(float)


def _ends(values: Categories | Interval) -> tuple[float, float]:
    """Return the least and the largest declared number, or date in microseconds."""
    low, high = _ends_of_cells(values)
    return float(low.min()), float(high.max())


def _check_strict(relation: Relation, domain: Domain) -> None:
    """Refuse < and > where the sides can be equal at most: a linear program has no such signs."""
    if relation.sign not in ("<", ">"):
        return
    sign = 1 if relation.sign == "<" else -1
    least = Fraction(0)
    for number, name in relation.difference:
        if name is None:
            least += sign * number
        else:
            least += min(sign * number * Fraction(end) for end in _ends(domain[name]))
    if least >= 0:
        raise relation.error(
            f"no declared values of {relation.columns} keep it: their declared ends "
            "contradict it"
        )


def _check_possible(relations: Sequence[Relation], domain: Domain) -> None:
    """Refuse the first relation that no declared values keep, together with those before."""
    # A linear program without a goal: each column between its ends, in a unit of the
    # largest of these.
    names = list(dict.fromkeys(name for item in relations for name in item.columns))
    units = {}
    ends = []
    for name in names:
        low, high = _ends(domain[name])
        units[name] = max(abs(low), abs(high), _EXACT)
        ends.append((low / units[name], high / units[name]))
    rows: dict[str, list[NDArray[np.float64]]] = {"=": [], "<=": []}
    limits: dict[str, list[float]] = {"=": [], "<=": []}
    for relation in relations:
        _check_strict(relation, domain)
        sign = -1.0 if relation.sign in (">", ">=") else 1.0
        row = np.zeros(len(names))
        limit = 0.0
        for number, name in relation.difference:
            if name is None:
                limit -= sign * float(number)
            else:
                row[names.index(name)] = sign * float(number) * units[name]
        size = np.abs(row).max()
        kind = "=" if relation.sign == "=" else "<="
        rows[kind].append(row / size)
        limits[kind].append(limit / size)
        program = linprog(
            np.zeros(len(names)),
            A_ub=np.array(rows["<="]) if rows["<="] else None,
            b_ub=limits["<="] or None,
            A_eq=np.array(rows["="]) if rows["="] else None,
            b_eq=limits["="] or None,
            bounds=ends,
        )
        if program.status == _INFEASIBLE:
            raise relation.error(
                f"no declared values of {relation.columns} keep it, together with the "
                "relations before: their declared ends contradict it"
            )
