"""Discovery of a domain with differential privacy: bounds of numbers and dates, and frequent strings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp._arrays import Floats, Integers
from skdp.base import (
    ColumnLike,
    ColumnName,
    TableLike,
    check_input,
    draw_seed,
    has_float_resolution,
)
from skdp.central._base import charge
from skdp.central.statistics import (
    Batches,
    Noise,
    limit_persons,
    read_persons,
    rows_within,
    split_persons,
    to_float,
    warn_user,
)
from skdp.domain import (
    MAX_WHOLE_NUMBER,
    Categories,
    Domain,
    Interval,
    domains_of_dtypes,
)
from skdp.exact import exp_minus_bounds
from skdp.privacy import (
    Loss,
    PrivacyBudget,
    PrivacyLedger,
    check_delta,
    check_epsilon,
    largest_mu,
)
from skdp.randomness import ByteSource, check_size, uniform_integers
from skdp.readers import open_large
from skdp.tables import (
    ANY_TYPE,
    ColumnError,
    Table,
    has_integer_dtype,
    is_missing,
    name_of_dtype,
    to_dates,
    to_numbers,
    to_object_list,
    type_of_column,
)

# The days since 1970 that a date can represent.
MIN_DAY, MAX_DAY = np.array([date.min, date.max], "datetime64[D]").astype(int).tolist()

# Smallest and largest power of 2 of the distance of a cell from the center. Smaller distances
# are counted in the cell of the center, and larger distances in the outer cells.
MIN_POWER, MAX_POWER = -200, 200

# A bound that is smaller than the opposite one by more than this ratio is 0. Zeros beside
# numbers of one sign have the bound 2**MIN_POWER of the other sign, or a few octaves more.
MIN_RATIO = 2.0 ** (MIN_POWER / 2)

# The constants below were tuned by the task "bounds" of benchmarks/central_statistics.py at
# epsilon 1: half or twice of each changes errors of means of twenty columns by less than a
# tenth, unless the comment states another effect.

# Number of cells from a power of 2 to the next in the two passes. With 8 in the first one,
# errors of Student's t are twice as large; with 8 in the second one, errors of capital gains
# are six times as large.
FIRST_CELLS_PER_OCTAVE, SECOND_CELLS_PER_OCTAVE = 16, 4

# Probability that the noise of any window of a given width is mistaken for records: over all
# cells, and over cells near clear cells, where such an error costs less. With a single rate,
# errors of means of normal numbers, of triangular numbers and of rare numbers beside zeros
# are 2.5 to 3.5 times as large.
FALSE_POSITIVE_RATE, NEARBY_FALSE_POSITIVE_RATE = 1e-4, 1e-3


def discover_domain(
    X: TableLike,
    epsilon: float,
    delta: float,
    *,
    ledger: PrivacyLedger | None = None,
    max_rows_per_person: int = 1,
    person: ColumnLike | ColumnName | None = None,
    random_state: int | None = None,
) -> Domain:
    """Find the domain of a table with differential privacy.

    Columns of numbers and dates get an `Interval` with noisy bounds that contain nearly all values. Columns of text get
    the values that occur in many records. Pass the domain to other estimators. `privacy_statement` adds the guarantee
    of the domain to the guarantee of the estimator.

    Parameters
    ----------
    X : dataframe or array-like of shape (n_samples, n_features)
        Private table, or a large table that `skdp.engines` supports, which is read in batches. The names and dtypes of
        its columns are public.
    epsilon : float
        Privacy loss of all columns together, finite and > 0.
    delta : float
        Failure probability, in [0, 1). It must be > 0 if a column has text.
    ledger : PrivacyLedger, optional
        Ledger that is charged once, before noise is drawn.
    max_rows_per_person : int, default=1
        Maximum number of rows of one person; the guarantee covers all of them, and the noise is proportional to it.
        With `person`, further rows are excluded; otherwise the number is not checked.
    person : array-like of shape (n_samples,) or column name, optional
        The person of each row. If a person has more than `max_rows_per_person` rows, a random sample of them is used,
        so the guarantee covers all rows of one person.
    random_state : None or int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the release is then not private.

    Returns
    -------
    Domain
        The columns with bounds or frequent strings, with the attribute `guarantee`. An `Interval` of numbers has no
        declared bins, or one bin for each of up to ten whole numbers; dates have ten bins. Strings are in alphabetical
        order. Frequent missing values are declared. Booleans and columns whose dtype declares values (Enum, ordered
        categories of pandas) have these values, which uses no budget.

    Raises
    ------
    TypeError, ValueError
        If a parameter is out of range, a column has an unsupported dtype, such as lists or datetimes with a time zone,
        or `person` does not have one entry per row.
    BudgetExceeded
        If the ledger does not cover the release.

    Warns
    -----
    UserWarning
        If a column is not in the domain because its values are not frequent enough.

    See Also
    --------
    Domain : The declared values of columns.
    DPHistogram : Noisy counts of the values of a domain.

    Notes
    -----
    **Privacy.** Central model: the curator of the table is trusted. Adding or removing a record changes the
    distribution of the domain by at most (epsilon, delta). The dtype alone decides how a column is read: a column of
    Python objects is read as text, and objects that are neither text nor missing are not counted. Each column gets an
    equal fraction of the budget.

    Numbers, and dates as days, are counted twice in cells whose width grows with the distance from a center, up to
    2**200: around 0 with a sixteenth of the budget, and then around 0 or the noisy median with the remaining budget.
    The bounds contain all cells whose noisy counts clearly exceed the noise ([2]_). They are extended as long as the
    noisy count up to the next power of 2 is at least one standard deviation of its noise, because tails have small
    counts.

    Strings are counted with noise, and a string is released if its noisy count is at least a threshold ([1]_). A string
    that only one person has reaches the threshold with probability at most delta. With many columns,
    Gaussian noise is smaller than Laplace noise and replaces it; half of delta is then for the threshold.

    References
    ----------
    .. [1] A. Korolova, K. Kenthapadi, N. Mishra, A. Ntoulas (2009). Releasing search queries and clicks privately. WWW.
    .. [2] R. J. Wilson, C. Y. Zhang, W. Lam, D. Desfontaines, D. Simmons-Marengo, B. Gipson (2020). Differentially
       private SQL with bounded user contribution. PoPETs.

    Examples
    --------
    >>> from skdp import DPMean, discover_domain
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().frame[["age", "sex"]]
    >>> domain = discover_domain(people, epsilon=0.2, delta=1e-6, random_state=0)
    >>> domain["age"].edges[0], domain["age"].edges[-1], domain["sex"]
    (16.0, 95.0, ['Female', 'Male'])
    >>> print(domain.guarantee)
    epsilon = 0.2, delta = 0.000001, central model, adding or removing one record's values of: age, sex,
    NOT SECURE: the randomness comes from a seed
    >>> DPMean(epsilon=0.8, bounds=domain, random_state=0).fit(people[["age"]]).mean_.round(1)
    array([38.6])
    """
    # Read.
    n_rows = check_size(max_rows_per_person, name="max_rows_per_person", min_val=1)
    budget = PrivacyBudget(
        "epsilon", check_epsilon(epsilon), None, n_rows, person is not None
    )
    rows = _read_rows(X, person, n_rows, random_state)
    found, types, texts = find_types(rows.table)
    first_cells = dict.fromkeys(types, Cells(FIRST_CELLS_PER_OCTAVE))
    number_counts = _count_by_cell(rows, first_cells, types)
    text_counts: dict[Any, Counter[str | None]] = {}
    if texts:
        counts = rows.select(texts).count_texts(count_texts)
        text_counts.update(zip(texts, counts, strict=True))

    # Plan.
    exact_delta = check_delta(delta)
    if texts and not exact_delta:
        raise ValueError(
            "`delta` must be in (0, 1), got 0. The strings of columns "
            f"{texts} require delta > 0."
        )
    counted = [*types, *texts]
    if not counted:
        return Domain(found)
    noises, threshold, exact_delta, losses = _divide_budget(
        len(types), len(texts), budget, exact_delta
    )

    # Charge.
    guarantee, source = charge(
        "discover_domain",
        budget,
        ledger,
        random_state,
        mechanism=f"{noises[1].name} noise on counts of cells and texts",
        scope=counted,
        delta=exact_delta,
        losses=losses,
    )

    # Release.
    names = rows.names
    *passes, text_noise = noises
    count = partial(_count_by_cell, rows, types=types)
    found |= find_intervals(number_counts, count, types, passes, source)
    found |= find_texts(text_counts, text_noise, threshold, source)
    _warn_of_missing_columns([name for name in names if name not in found])
    domain = Domain({name: found[name] for name in names if name in found})
    words = uniform_integers(source, 1 << 32, 4)
    release_id = "".join(f"{word:08x}" for word in words)
    return domain.with_guarantee(guarantee, release_id=release_id)


def _warn_of_missing_columns(names: Sequence[Any]) -> None:
    """Warn of the columns `names` of X that have no noisy values or bounds, and so are not in the domain."""
    if names:
        warn_user(
            f"Columns {names} are not in the domain, because their values are not "
            "frequent enough for this epsilon and delta. Declare publicly known "
            "values, and convert numbers and dates of dtype object, which is read as text",
            "guide/discover_domain",
        )


# Reading


def _read_rows(X: Any, person: Any, n_rows: int, random_state: int | None) -> Batches:
    """Read the columns of a table, with at most `n_rows` rows of each person."""
    rng = np.random.default_rng(draw_seed(random_state))
    large = open_large(X)
    if large is not None:
        X = large.template
        if person is not None:
            large, X = limit_persons(large, person, n_rows, rng)
            person = None
    else:
        X, person = split_persons(X, person)
    table: Table = check_input(BaseEstimator(), X, reset=True, min_rows=0)
    if person is not None:
        is_within = rows_within(read_persons(person, table), n_rows, rng)
        table = table.take(np.flatnonzero(is_within))
    return Batches(table, large)


def find_types(
    table: Table,
) -> tuple[dict[Any, Categories | Interval], dict[Any, str], list[Any]]:
    """Find the columns whose dtypes declare their values, the numbers and dates, and the strings of a table.

    Columns of numbers and dates have the type "real", "whole" or "date".
    """
    declared: dict[Any, Categories | Interval] = {}
    types, texts = {}, []
    by_dtype = domains_of_dtypes(table)
    for name, column in zip(table.names, table.columns, strict=True):
        column_type = type_of_column(column)
        if name in by_dtype:
            declared[name] = by_dtype[name]
        elif column_type == "boolean":
            declared[name] = Categories([False, True])
        elif column_type == "number":
            types[name] = "whole" if has_integer_dtype(column) else "real"
        elif column_type in ("date", "datetime"):
            types[name] = "date"
        elif column_type in ("string", ANY_TYPE):
            texts.append(name)
        else:
            raise ValueError(
                f"Column {name!r} must have numbers, dates, text or booleans, got "
                f"dtype {name_of_dtype(column)}. Convert the column, or drop it from "
                "X."
            )
    return declared, types, texts


def _count_by_cell(
    rows: Batches, cells: Mapping[Any, Cells], types: Mapping[Any, str]
) -> dict[Any, Integers]:
    """Count the numbers of columns by cell, in one pass over the rows; see `Cells.count`."""
    if not cells:
        return {}
    count = partial(_count_numbers, cells=cells, types=types)
    counts = rows.select(list(cells)).add_up(count)
    return dict(zip(cells, counts, strict=True))


def _count_numbers(
    table: Table, *, cells: Mapping[Any, Cells], types: Mapping[Any, str]
) -> list[Integers]:
    """Count the numbers of each column of a table by cell; dates are days since 1970."""
    counts = []
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            if types[name] == "date":
                days = to_dates(column, "datetime64[D]")
                numbers = np.where(np.isnat(days), np.nan, days.astype(int))
            else:
                numbers = to_numbers(column).astype(float)
        except ColumnError as error:
            raise ValueError(f"Column {name!r} {error}.") from None
        counts.append(cells[name].count(numbers))
    return counts


def count_texts(table: Table, *, strict: bool = False) -> list[Counter[str | None]]:
    """Count the strings and missing values of each column of a table; other objects are an error if `strict`.

    The error reveals that such a record exists.
    """
    counts = list(map(_count_texts, table.columns))
    for name, column, counted in zip(table.names, table.columns, counts, strict=True):
        if strict and counted.total() < len(column):
            raise ValueError(
                f"Column {name!r} must have text, got other Python objects. Convert "
                "numbers and dates to text, or set handle_unknown='ignore' to exclude "
                "rows with other objects."
            )
    return counts


def _count_texts(column: Any) -> Counter[str | None]:
    """Count strings and missing values; ignore other objects."""
    # Methods of subclasses of str are not called, because they may run any code.
    values = to_object_list(column)
    if set(map(type, values)) <= {str, float, type(None)}:
        pairs: Iterable[tuple[Any, int]] = Counter(values).items()
    else:
        pairs = ((value, 1) for value in values)
    counts: Counter[str | None] = Counter()
    for value, n in pairs:
        if issubclass(type(value), str):
            counts[str.__str__(value)] += n
        elif is_missing(value):
            counts[None] += n
    return counts


# Planning and releasing


def _divide_budget(
    n_numeric: int, n_texts: int, budget: PrivacyBudget, delta: Fraction
) -> tuple[tuple[Noise, Noise, Noise], int, Fraction, tuple[Loss, ...]]:
    """Divide the budget among the columns of numbers and strings, each of which gets an equal fraction.

    A sixteenth of the budget for numbers is for the first pass of `find_intervals`, and the remainder for the second.
    Returns the noise of the counts of cells in both passes and of the counts of strings, the smallest noisy count of a
    string that is released, delta, and the losses of the noise; empty if the threshold of strings needs a delta.
    """
    n_columns = n_numeric + n_texts
    budget = _choose_noise(budget, delta / 2 if n_texts else delta, n_columns)
    is_laplace = budget.kind == "epsilon"
    # A record changes one count of each column by 1, so the sensitivity in L1 norm and
    # in squared L2 norm is the number of columns.
    for_numbers = budget * Fraction(n_numeric, n_columns)
    for_texts = budget * Fraction(n_texts, n_columns)
    first, second = (
        Noise.from_budget(for_numbers * part, n_numeric, n_numeric)
        for part in (Fraction(1, 16), Fraction(15, 16))
    )
    text_noise = Noise.from_budget(for_texts, n_texts, n_texts)
    noises = first, second, text_noise
    if not n_texts:
        delta = Fraction(0) if is_laplace else delta
        return noises, 0, delta, (first.loss, second.loss)
    # Gaussian noise uses the other half of delta, see `_choose_noise`.
    threshold_delta = delta if is_laplace else delta / 2
    threshold = find_threshold(text_noise, budget.rows, n_texts, threshold_delta)
    return noises, threshold, delta, ()


def find_intervals(
    first_counts: Mapping[Any, Integers],
    counts_of: Callable[[Mapping[Any, Cells]], Mapping[Any, Integers]],
    types: Mapping[Any, str],
    noises: Sequence[Noise],
    source: ByteSource,
) -> dict[Any, Interval]:
    """Find noisy bounds of columns of numbers or dates in two passes; a column without clear bounds is excluded.

    `first_counts` are the exact counts of the first pass, (n_cells + 1,) with the missing values last, `counts_of`
    returns the counts of other cells, and `noises` has the noise of the counts of each pass.
    """
    first_noise, second_noise = noises
    first_cells = Cells(FIRST_CELLS_PER_OCTAVE)
    # Cells of the second pass are narrow near the noisy median of the first one.
    first_bounds, cells = {}, {}
    for name, counts in first_counts.items():
        first = NoisyCellCounts(first_cells, counts, first_noise, source)
        bounds = first_bounds[name] = first.find_bounds()
        cells[name] = Cells(SECOND_CELLS_PER_OCTAVE)
        if bounds is not None:
            low, high, median = bounds
            if not low <= 0 <= high:
                cells[name] = Cells(SECOND_CELLS_PER_OCTAVE, median)
    intervals = {}
    for name, counts in counts_of(cells).items():
        second = NoisyCellCounts(cells[name], counts, second_noise, source)
        bounds = second.find_bounds() or first_bounds[name]
        if bounds is not None:
            low, high, _ = bounds
            intervals[name] = make_interval(types[name], low, high, second.has_missing)
    return intervals


def find_texts(
    columns: Mapping[Any, Counter[str | None]],
    noise: Noise,
    threshold: int,
    source: ByteSource,
) -> dict[Any, Categories]:
    """Find strings whose noisy counts are at least the threshold; a column without any is excluded."""
    found = {}
    for name, counts in columns.items():
        texts = sort_texts(counts)
        noisy = np.array([counts[text] for text in texts], np.int64)
        noisy = noisy + noise.draw(source, len(texts))
        is_frequent = noisy >= threshold
        frequent = [texts[index] for index in np.flatnonzero(is_frequent)]
        if any(text is not None for text in frequent):
            found[name] = Categories(frequent)
    return found


def sort_texts(texts: Iterable[str | None]) -> list[str | None]:
    """Sort strings by the alphabet, which does not depend on the rows, with missing last."""
    return sorted(texts, key=lambda text: (text is None, text or ""))


def _choose_noise(
    budget: PrivacyBudget, delta: Fraction, n_columns: int
) -> PrivacyBudget:
    """Return the budget in epsilon, or in mu if Gaussian noise of (epsilon, delta) is smaller."""
    if not delta:
        return budget
    mu = Fraction(largest_mu(budget.amount, delta))
    gaussian = replace(budget, kind="mu", amount=mu**2)
    budgets = (budget, gaussian)
    return min(
        budgets, key=lambda each: Noise.from_budget(each, n_columns, n_columns).std
    )


def make_interval(type_: str, low: float, high: float, has_missing: bool) -> Interval:
    """Return an `Interval` from `low` to `high`, with bins for dates.

    `type_` is "real", "whole" or "date". Whole numbers and dates are at least `low` and less than `high`; dates are in
    days since 1970, in up to ten bins of about equal numbers of days.
    """
    if type_ == "real" or max(-low, high) > MAX_WHOLE_NUMBER:
        return Interval(low, high, missing=has_missing, real=True)
    # The smallest and the largest whole number that is at least `low` and less than `high`.
    first, last = sorted([math.ceil(low), math.ceil(high) - 1])
    if type_ == "whole" and first < last:
        return Interval(first, last, missing=has_missing)
    if type_ == "whole":
        return Interval([first - 0.5, first + 0.5], missing=has_missing, decimals=0)
    first = min(max(first, MIN_DAY), MAX_DAY - 1)
    last = min(max(last, first + 1), MAX_DAY)
    days = np.array([first, last], "datetime64[D]").tolist()
    return Interval(*days, bins=min(10, last - first + 1), missing=has_missing)


# The threshold of strings


def find_threshold(noise: Noise, n_rows: int, n_columns: int, delta: Fraction) -> int:
    """Return the smallest safe threshold for noisy counts of strings.

    With probability at least 1 - delta, the noisy counts of all strings that occur only in the rows of one person are
    below the threshold. A person has at most `n_rows` rows, and there are `n_columns` columns of strings.
    """

    # Let a table lack, and its neighbor have, a person with m_v rows of string v, up to
    # k in each column; let z be the noise of a count, and G(y) = P(z >= y).
    #
    # *Old strings, in both tables.* Their release is a function of noisy counts, which are
    # private by themselves, with epsilon (and a fraction of delta).
    #
    # *New strings, in the neighbor only.* The first table releases none. The second releases
    # none with probability Q, for any outcome of the old strings. If p and p' are the
    # probabilities of a set of outcomes among the old strings, the second table has these
    # outcomes with a probability between
    #     Q p'  and  Q p' + 1 - Q,
    # so both directions hold with delta = 1 - Q (more than the delta of the noise):
    #     Q p' + 1 - Q <= exp(epsilon) p + (1 - Q)
    #     p = Q p + (1 - Q) p <= exp(epsilon) Q p' + (1 - Q)
    #
    # *The worst person.* 1 - Q is at most the sum of G(t - m_v) over all new strings, for a
    # threshold t. G is convex for nonnegative arguments. So among all divisions of the k
    # rows of a column into j new strings, the sum is largest with one string of k - j + 1 rows
    # and j - 1 strings of one row: G(t - k + j - 1) + (j - 1) G(t - 1). This is convex in j,
    # so the maximum is at one string with k rows, or at k strings with one row each.
    def is_safe(threshold: int) -> bool:
        one_text = _bound_tail(noise, threshold - n_rows, delta)
        many_texts = n_rows * _bound_tail(noise, threshold - 1, delta)
        return n_columns * max(one_text, many_texts) <= delta

    too_low, high = n_rows, n_rows + 1
    while not is_safe(high):
        too_low, high = high, 2 * high
    while high - too_low > 1:
        middle = (high + too_low) // 2
        too_low, high = (too_low, middle) if is_safe(middle) else (middle, high)
    return high


def _bound_tail(noise: Noise, distance: int, delta: Fraction) -> Fraction:
    """Return an upper bound of the probability that noise is at least `distance` > 0.

    Its rounding error is below 2**-60 times `delta`.
    """
    # `exp_minus_bounds(x, bits)` returns integers below and above ``e**-x * 2**bits``.
    bits = 64 + (delta.denominator // delta.numerator).bit_length()
    denominator = 1 << bits
    if not noise.is_gaussian:
        # Discrete Laplace noise: a**distance / (1 + a), with a = e**(-1 / scale).
        _, upper_power = exp_minus_bounds(distance / noise.scale, bits)
        lower_base, _ = exp_minus_bounds(1 / noise.scale, bits)
        return Fraction(upper_power, denominator + lower_base)
    # Rounded noise is at least the distance if normal noise is at least the distance minus
    # 1 / 2. For y standard deviations, the probability is at most e**(-y**2 / 2) / 2. The
    # scale of Gaussian noise is its variance.
    exponent = (distance - Fraction(1, 2)) ** 2 / (2 * noise.scale)
    # Rounding the exponent down makes the bound larger, and shortens the fraction.
    _, upper_power = exp_minus_bounds(
        Fraction(math.floor(exponent * denominator), denominator), bits
    )
    return Fraction(upper_power, 2 * denominator)


# Bounds of numbers


@dataclass(frozen=True)
class Cells:
    """Cells whose width increases with the distance from a center, which is a separate cell."""

    # Number of cells from a power of 2 to the next, a power of 2.
    cells_per_octave: int
    center: float = 0.0

    @property
    def n_side_cells(self) -> int:
        """The number of cells on each side of the center."""
        return (MAX_POWER - MIN_POWER) * self.cells_per_octave

    def count(self, numbers: Floats) -> Integers:
        """Count numbers by cell, and missing values; infinite values are not counted.

        The shape is (n_cells + 1,), with the number of missing values last.
        """
        with np.errstate(over="ignore"):
            finite = np.nan_to_num(numbers[np.isfinite(numbers)] - self.center)
        # A cell includes its lower edge, so the distance of a negative number is decreased
        # by one bit. The outer cells include all numbers beyond them.
        is_negative = finite < 0
        distances = np.abs(finite)
        distances[is_negative] = np.nextafter(distances[is_negative], 0.0)
        # Fractions from 1/2 to below 1.
        fractions, powers = np.frexp(np.maximum(distances, 2.0 ** (MIN_POWER - 1)))
        octave = self.cells_per_octave
        steps = ((2 * fractions - 1) * octave).astype(np.int64) + 1
        steps += (powers - 1 - MIN_POWER) * octave
        steps = np.clip(steps, 0, self.n_side_cells)
        steps = np.where(is_negative, -steps, steps) + self.n_side_cells
        counts = np.bincount(steps, minlength=2 * self.n_side_cells + 1)
        return np.append(counts, np.isnan(numbers).sum())

    def edges(self) -> Floats:
        """Return the edges of the cells as distances from the center, ascending; (n_cells + 1,)."""
        cells = np.arange(self.n_side_cells + 1)
        distances = np.ldexp(
            1 + cells % self.cells_per_octave / self.cells_per_octave,
            MIN_POWER + cells // self.cells_per_octave,
        )
        return np.concatenate([-distances[::-1], distances])


class NoisyCellCounts:
    """Noisy counts of the numbers of a column by cell."""

    def __init__(
        self, cells: Cells, counts: Integers, noise: Noise, source: ByteSource
    ) -> None:
        """Add noise to the counts of cells in ascending order, (n_cells + 1,) with the missing values last."""
        self.cells = cells
        self.counts = noise.add_floats(source, counts)
        # The standard deviation of each count.
        self.error = to_float(max(noise.std, Fraction(1, 2)))

    @property
    def has_missing(self) -> bool:
        """True if the count of missing values clearly exceeds the noise."""
        return bool(
            self.counts[-1] >= bound_noise_sum(1, FALSE_POSITIVE_RATE) * self.error
        )

    def find_bounds(self) -> tuple[float, float, float] | None:
        """Return noisy bounds of nearly all numbers, and their median: (low, high, median).

        None if no cell beside the center clearly has numbers, or if floats are too coarse between the bounds.
        """
        n_side_cells, center = self.cells.n_side_cells, self.cells.center
        counts = self.counts[:-1]
        clear = self._find_clear_cells(counts)
        if clear is None or clear == (n_side_cells, n_side_cells):
            return None
        first, last = clear
        edges = self.cells.edges()
        sums = np.cumsum(np.maximum(counts[first : last + 1], 0))
        cell = first + int(np.searchsorted(sums, sums[-1] / 2))
        median = edges[cell] / 2 + edges[cell + 1] / 2

        last += self._count_tail(counts[last + 1 :])
        first -= self._count_tail(counts[:first][::-1])
        low, high = float(edges[first] + center), float(edges[last + 1] + center)
        # 0 is the bound of many columns, and cells near 0 are narrow: the smaller of two
        # bounds of the same sign is replaced by 0 if their ratio is above 8.
        if center == 0 and 0 < low < high / 8:
            low = 0.0
        if center == 0 and 0 > high > low / 8:
            high = 0.0
        # Zeros are in the cell of the center, which has numbers of both signs.
        if center == 0 and low < 0 < high:
            low = 0.0 if -low < high * MIN_RATIO else low
            high = 0.0 if high < -low * MIN_RATIO else high
        if not has_float_resolution(low, high):
            return None
        return low, high, float(median + center)

    def _find_clear_cells(self, counts: Floats) -> tuple[int, int] | None:
        """Return the indices of the first and the last cell that clearly have numbers; None if there is none.

        Cells within eight octaves of clear cells are also clear with less evidence, because numbers are probable there.
        """
        clear = self._find_windows(counts, FALSE_POSITIVE_RATE)
        if clear is None:
            return None
        margin = 8 * self.cells.cells_per_octave  # eight octaves
        start = max(clear[0] - margin, 0)
        nearby = counts[start : clear[1] + margin + 1]
        found = self._find_windows(nearby, NEARBY_FALSE_POSITIVE_RATE)
        return clear if found is None else (start + found[0], start + found[1])

    def _find_windows(self, counts: Floats, rate: float) -> tuple[int, int] | None:
        """Return the indices of the first and the last cell that clearly have numbers; None if there is none.

        Numbers are detected by the noisy counts of windows of cells. `counts` are the noisy counts of neighboring
        cells, of shape (n_cells,). For each width of a window, `rate` bounds the probability that the noise of one or
        more windows is mistaken for numbers.
        """
        # Windows have 1, 2, 4, ... cells: wide windows detect numbers in many cells. A window
        # may be wider than the range of its numbers, so the last cell of the first window
        # and the first cell of the last window are used.
        #
        # Of each width, there are at most as many windows as cells.
        rate_per_window = rate / counts.size
        sums = np.append(0.0, np.cumsum(counts))
        first, last = counts.size, -1
        width = 1
        while width <= counts.size:
            in_window = sums[width:] - sums[:-width]
            limit = bound_noise_sum(width, rate_per_window) * self.error
            starts = np.flatnonzero(in_window >= limit)
            if starts.size:
                first = min(first, int(starts[0]) + width - 1)
                last = max(last, int(starts[-1]))
            width *= 2
        return (min(first, last), last) if last >= 0 else None

    def _count_tail(self, counts: Floats) -> int:
        """Return the number of cells by which a bound is extended, given noisy counts of the cells from it outward."""
        # The counts of a tail may not be clear. A bound is extended by quarters of an
        # octave as long as the count of the next octave is at least one standard deviation
        # of its noise.
        octave = self.cells.cells_per_octave
        sums = np.append(0.0, np.cumsum(counts))
        is_noise = sums[octave:] - sums[:-octave] < self.error * math.sqrt(octave)
        quarter = octave // 4
        return quarter * int(np.append(is_noise[::quarter], True).argmax())


def bound_noise_sum(width: int, rate_per_window: float) -> float:
    """Bound the sum of the noise of `width` cells, in standard deviations of one cell.

    The sum exceeds the bound with a probability of at most `rate_per_window`.
    """
    # Chernoff's bound: P(sum >= x) <= exp(-t x) M(t)**width for all t, where the moment
    # generating function of a Laplace variable of scale 1 is M(t) = 1 / (1 - t**2), and its
    # standard deviation is sqrt(2). The bound is valid for normal noise, too.
    tilts = np.linspace(0.1, 0.98, 89)
    exponents = -math.log(rate_per_window) - width * np.log1p(-(tilts**2))
    return float((exponents / tilts).min()) / math.sqrt(2)
