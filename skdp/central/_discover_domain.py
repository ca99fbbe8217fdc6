"""Discovery of a domain with differential privacy: bounds of numbers and dates, and frequent strings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp._arrays import ColumnLike, ColumnName, Floats, Integers, TableLike
from skdp.base import check_input, has_float_resolution
from skdp.central._base import Plan, charge
from skdp.central._limits import (
    LimitSearch,
    NoisyCounts,
    Start,
    format_beyond,
    warn_about_guesses,
    warn_about_rows_beyond,
)
from skdp.central.statistics import (
    Noise,
    choice_name,
    choose_noise,
    count_texts,
    draw_frequent,
    find_threshold,
    read_private_rows,
    warn_user,
)
from skdp.domain import (
    MAX_WHOLE_NUMBER,
    Categories,
    Domain,
    Interval,
    domains_of_dtypes,
)
from skdp.privacy import (
    PrivacyBudget,
    PrivacyLedger,
    Split,
    check_delta,
    check_epsilon,
    gaussian_loss,
)
from skdp.randomness import ByteSource, check_size, uniform_integers
from skdp.tables import (
    ANY_TYPE,
    ColumnError,
    Table,
    has_integer_dtype,
    name_of_dtype,
    to_dates,
    to_numbers,
    type_of_column,
)

# The days since 1970 that a date can represent.
MIN_DAY, MAX_DAY = np.array([date.min, date.max], "datetime64[D]").astype(int).tolist()

# The smaller one of two bounds of the same sign is 0 if it is less than this part of the other.
MAX_ZERO_RATIO = 1 / 8


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
        If a column is not in the domain because its values are not frequent enough, or if bounds may be noise or
        exclude many rows.

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

    Bounds of numbers, and of dates as days, are found as by estimators with open ends: a window with about half of the
    numbers is chosen with a quarter of the budget of the column, and then distances from its center are counted with
    noise in quarters of octaves. The bounds contain all cells whose noisy counts clearly exceed the noise, and further
    ones as long as the noisy count of the next octave is at least one standard deviation of its noise. Weak cells of a
    tail count together, and a column with one number in most rows has bounds from 0 to twice this number where noise
    hides the others. The noisy number of rows beyond the bounds is in the ``method`` of the guarantee, and a warning
    states that more than a tenth of the rows may be beyond them; without a warning, it was a mean of 0.6 % of the rows
    of public columns, with epsilon 1 and up to five columns.

    Strings are counted with noise, and a string is released if its noisy count is at least a threshold ([1]_). A string
    that only one person has reaches the threshold with probability at most delta. With many columns,
    Gaussian noise is smaller than Laplace noise and replaces it; half of delta is then for the threshold.

    References
    ----------
    .. [1] A. Korolova, K. Kenthapadi, N. Mishra, A. Ntoulas (2009). Releasing search queries and clicks privately. WWW.

    Examples
    --------
    >>> from skdp import DPMean, discover_domain
    >>> from skdp.datasets import load_adult
    >>> people = load_adult().frame[["age", "sex"]]
    >>> domain = discover_domain(people, epsilon=0.2, delta=1e-6, random_state=1)
    >>> domain["age"].edges[0], domain["age"].edges[-1], domain["sex"]
    (17.0, 95.0, ['Female', 'Male'])
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
    rows = read_private_rows(X, person, n_rows, random_state, _read_private_table)
    found, types, texts = find_types(rows.table)
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
    plan = _divide_budget(len(types), len(texts), budget, exact_delta)
    for_numbers, threshold = plan.budget, plan.exact
    (text_noise,) = plan.noises
    search = LimitSearch(
        tuple(types),
        np.tile([-math.inf, math.inf], (len(types), 1)),
        np.ones(len(types), bool),
        within=False,
        budget=for_numbers,
        rest=for_numbers,
        read=partial(_read_number_columns, types=types),
        # Whole numbers less than 8 from the center have a cell each.
        cells_per_octave=4,
        # Counts decide which numbers are in the domain.
        parts=Split(rest="counts", windows=Fraction(1, 5), zooms=Fraction(1, 20)),
    )
    number_counts = search.count(rows) if types else []

    # Charge.
    guarantee, source = charge(
        "discover_domain",
        budget,
        ledger,
        random_state,
        mechanism=plan.mechanism,
        scope=counted,
        delta=plan.delta,
        losses=plan.stated_losses,
    )

    # Release.
    names = rows.names
    if types:
        located = search.locate(rows, number_counts, source)
        intervals, beyond = find_number_domains(types, located, source)
        found |= intervals
        guarantee = replace(guarantee, method={"beyond": beyond} if beyond else ())
    for name, by_text in text_counts.items():
        frequent = draw_frequent(by_text, text_noise, threshold, source)
        if frequent.keys() - {None}:
            found[name] = Categories(list(frequent))
    missing = [name for name in names if name not in found]
    if missing:
        warn_user(
            f"Columns {missing} are not in the domain, because their values are not "
            "frequent enough for this epsilon and delta. Declare publicly known "
            "values, and convert numbers and dates of dtype object, which is read as text",
            "guide/discover_domain",
        )
    domain = Domain({name: found[name] for name in names if name in found})
    words = uniform_integers(source, 1 << 32, 4)
    release_id = "".join(f"{word:08x}" for word in words)
    return domain.with_guarantee(guarantee, release_id=release_id)


# Reading


def _read_private_table(X: TableLike, **_: object) -> Table:
    """Read the columns of a table, which may have no rows."""
    return check_input(BaseEstimator(), X, reset=True, min_rows=0)


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


def _read_number_columns(table: Table, *, types: Mapping[Any, str]) -> list[Floats]:
    """Read the columns of numbers of a table, and dates as days since 1970."""
    columns = []
    for name, column in zip(table.names, table.columns, strict=True):
        try:
            if types[name] == "date":
                days = to_dates(column, "datetime64[D]")
                columns.append(np.where(np.isnat(days), np.nan, days.astype(int)))
            else:
                columns.append(to_numbers(column).astype(float))
        except ColumnError as error:
            raise ValueError(f"Column {name!r} {error}.") from None
    return columns


# Planning and releasing


def _divide_budget(
    n_numeric: int, n_texts: int, budget: PrivacyBudget, delta: Fraction
) -> Plan[int]:
    """Divide the budget among the columns of numbers and strings, each of which gets an equal fraction.

    The plan has the threshold and the noise of counts of strings, and the budget of numbers.
    """
    n_columns = n_numeric + n_texts
    budget = choose_noise(budget, delta / 2 if n_texts else delta, n_columns)
    is_laplace = budget.kind == "epsilon"
    # A record changes one count of each column of strings by 1, so the sensitivity in L1
    # norm and in squared L2 norm is the number of columns.
    for_numbers = budget * Fraction(n_numeric, n_columns)
    for_texts = budget * Fraction(n_texts, n_columns)
    noise = Noise.from_budget(for_texts if n_texts else budget, n_texts, n_texts)
    choice = choice_name(for_numbers)
    mechanism = f"{choice} of windows, {noise.name} noise on counts of cells and texts"
    if not n_texts:
        delta = Fraction(0) if is_laplace else delta
        loss = budget.loss() if is_laplace else gaussian_loss(budget.mu_squared)
        return Plan(0, for_numbers, (noise,), mechanism, (loss,), delta=delta)
    # Gaussian noise uses the other half of delta, see `choose_noise`.
    threshold_delta = delta if is_laplace else delta / 2
    threshold = find_threshold(noise, budget.rows_per_person, n_texts, threshold_delta)
    return Plan(threshold, for_numbers, (noise,), mechanism, (), delta=delta)


def find_number_domains(
    types: Mapping[Any, str],
    located: Iterable[tuple[Start, Integers]],
    source: ByteSource,
) -> tuple[dict[Any, Interval], list[str]]:
    """Find noisy bounds of columns of numbers or dates; a column without clear bounds is excluded.

    Also return the numbers of rows beyond the bounds for the note of method. `located` has the center of each column
    and the exact counts around it; see `LimitSearch.locate`.
    """
    intervals, beyond, guessed, exceeding = {}, [], [], []
    for (name, type_), (start, counts) in zip(types.items(), located, strict=True):
        noisy, n_beyond, n_missing = NoisyCounts.draw_with_missing(
            start, counts, source
        )
        limits = noisy.find_domain(n_beyond, is_whole=type_ != "real")
        if limits is None:
            continue
        low, high = limits.low, limits.high
        if type_ != "real":
            low, high = float(math.ceil(low)), float(math.floor(high))
        if 0 < low < high * MAX_ZERO_RATIO:
            low = 0.0
        if 0 > high > low * MAX_ZERO_RATIO:
            high = 0.0
        # Noise alone exceeds nine times its scale with a probability below 1e-4.
        has_missing = n_missing > 9 * noisy.scale
        if type_ != "real" or has_float_resolution(low, high):
            intervals[name] = make_interval(type_, low, high, has_missing)
            beyond.append(format_beyond(name, limits.n_beyond, limits.error))
            if noisy.is_remote:
                guessed.append(name)
            elif limits.may_exclude:
                exceeding.append(name)
    warn_about_guesses(guessed, "discover_domain")
    warn_about_rows_beyond(exceeding, "discover_domain")
    return intervals, beyond


def make_interval(type_: str, low: float, high: float, has_missing: bool) -> Interval:
    """Return an `Interval` from `low` to `high`, with bins for dates.

    `type_` is "real", "whole" or "date". Dates are days since 1970, in up to ten bins of about equal numbers of days.
    """
    if type_ == "real" or max(-low, high) > MAX_WHOLE_NUMBER:
        return Interval(low, high, missing=has_missing, real=True)
    first, last = int(low), int(high)
    if type_ == "whole" and first < last:
        return Interval(first, last, missing=has_missing)
    if type_ == "whole":
        return Interval([first - 0.5, first + 0.5], missing=has_missing, decimals=0)
    first = min(max(first, MIN_DAY), MAX_DAY - 1)
    last = min(max(last, first + 1), MAX_DAY)
    days = np.array([first, last], "datetime64[D]").tolist()
    return Interval(*days, bins=min(10, last - first + 1), missing=has_missing)
