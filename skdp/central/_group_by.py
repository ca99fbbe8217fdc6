"""Counts, means and sums of groups by key columns, declared or found privately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    Bounds,
    ColumnName,
    check_choice,
    check_confidence_level,
    read_bounds,
    read_numbers,
)
from skdp.central._base import CentralStatistic, Plan, Unknown
from skdp.central.statistics import (
    GRID,
    LARGEST,
    GroupSums,
    GroupTally,
    Noise,
    check_bounds_share,
    check_discovery,
    code_together,
    count_estimates,
    declared_domain,
    find_codes,
    join_codes,
    keyed_frame,
    library_of,
    losses_of,
    mean_estimates,
    missing_error,
    n_numbers,
    read_values,
    sum_estimates,
    undeclared_error,
    warn_of_kinds,
    warn_of_objects,
)
from skdp.domain import Domain, DomainLike
from skdp.privacy import Loss, Mu, PrivacyLedger, Rho, Share, check_delta
from skdp.randomness import ByteSource
from skdp.tables import LargeTable, Table, as_objects

Statistic = Literal["count", "mean", "sum"]
_MOST_GROUPS = 1 << 20
_COLUMNS = ("", "_std_error", "_lower", "_upper")


class DPGroupBy(CentralStatistic):
    """Count the rows of each group, and release means and sums of its columns, private for the whole record.

    Every declared group gets an answer, also one without rows.

    Parameters
    ----------
    by : column name, or list of column names
        The keys: rows with the same values in these columns are a group. The other columns of X are numbers.
    epsilon : float, Rho or Mu, default=1.0
        Privacy loss of all groups and statistics together, finite and > 0. A share of a budget in rho or mu
        (`skdp.privacy.Rho`, `skdp.privacy.Mu`) gets Gaussian noise where that is less.
    delta : float, default=0.0
        Failure probability, in [0, 1), for private keys: above 0, as a key that one person has may then be published by
        accident.
    keys : Domain, mapping of column name to values, list of values a column, Interval or "private"
        The values of each key column, as the `domain` of `DPHistogram`: declared from what is publicly known. The
        groups are all combinations. None among the values declares missing as a key. ``"private"``, for all of
        them together, finds the combinations that enough persons have; rows of others are in no group.
    keys_share : float, default=0.2
        The share of epsilon that finds private keys.
    statistics : {"count", "mean", "sum"} or list of these, default=("count", "mean")
        What is released: the number of rows of each group, and the mean and the sum of each column in it.
    missing : {"ignore", "error"}, default="ignore"
        What `fit` does with a missing number: it adds nothing to the mean and the sum of its column; or it is an error,
        as is an infinite value, which reveals that there is one. Then all columns share one count, and noise is less.
    bounds : pair of float, mapping of column name to pair, array-like of shape (n_columns, 2), or "private"
        The lowest and the highest value of all columns that are no keys, or of each, from what is publicly known.
        Values outside are clipped to them. ``"private"``, for all columns or in place of a pair, finds bounds that hold
        nearly all values, as in `DPMean`.
    bounds_share : float, default=0.2
        The share of epsilon that finds bounds, if some are private.
    handle_unknown : {"error", "ignore"}, default="error"
        What `fit` does with a key that is not declared: an error reveals that there is one; if it is ignored, its row
        is in no group.
    confidence_level : float, default=0.95
        The coverage of each interval, between 0 and 1.
    max_rows_per_person : int, default=1
        The most rows of one person, all of which the guarantee is for: noise is in proportion to it. Further rows are
        left out if `fit` is given ``groups``; without, the number is taken on trust.
    ledger : PrivacyLedger, optional
        What each `fit` is charged to, before anything is drawn.
    random_state : None or int, default=None
        None for secure random bits; an int for experiments, without a guarantee against those who know it.

    Attributes
    ----------
    estimates_ : dict of str to ndarray of shape (n_groups, 4)
        For ``"count"``, ``"<column>_mean"`` and ``"<column>_sum"``: the noisy statistic of each group, the standard
        deviation of its noise, and the ends of its interval. Relative to the clipped values of this table, not to a
        population. The last three of a mean or sum are infinite where private bounds are not found.
    keys_ : list of ndarray of object, each of shape (n_groups,)
        For each key column, the value of each group; of an `Interval`, the name of the bin.
    bounds_ : ndarray of shape (n_columns, 2)
        The bounds: those declared, or found.
    guarantee_ : PrivacyGuarantee
        The guarantee of this `fit`.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of columns; their names, if all of them are strings.

    See Also
    --------
    DPHistogram : Counts with hierarchies and ranges.
    DPMean : Means of whole columns, by other mechanisms too.

    Notes
    -----
    **Privacy.** Central model: a curator who holds the table is trusted. Adding or removing a record changes the
    distribution of all that is released by at most ``(epsilon, delta)``, with ``delta = 0`` for declared keys;
    replacing one by ``(2 epsilon, (1 + e**epsilon) delta)``. The number of rows of each group is protected too. Values
    are placed on a grid of 2**30 steps between the bounds and summed as integers, and noise is drawn exactly. Not
    covered: an error under ``handle_unknown="error"`` reveals that some key is not declared.

    A record is in one group. It changes its number of rows by 1 and, for each column, the number of values by 1 at most
    and the sum of their distances from the middle of the bounds by half a width at most. In these units all numbers of
    a group get noise of the K-norm mechanism of the maximum norm ([1]_), in one draw: groups do not share epsilon, as
    they have no record in common. The k rows of a person may be in several groups, of which the largest changes add up
    to k, and the noise is k times as large.

    Private keys are found by a noisy threshold as the categories of `DPOneHotEncoder`, with `keys_share` of epsilon and
    all of delta; the noise of the statistics is another one, so that intervals hold for what is published. A record
    with a key of another kind than those that are published is in no group, and a warning says so if such keys reach
    the threshold, too.

    References
    ----------
    .. [1] M. Hardt, K. Talwar (2010). On the geometry of differential privacy. STOC.

    Examples
    --------
    >>> from skdp import DPGroupBy
    >>> from skdp.datasets import load_adult
    >>> adult = load_adult()
    >>> people = adult.data[["sex", "hours-per-week"]]
    >>> sexes = {"sex": ["Female", "Male"]}
    >>> groups = DPGroupBy("sex", 0.1, keys=sexes, bounds=(0, 100), random_state=0).fit(people)
    >>> groups.to_frame().iloc[:, [0, 4, 5]].round(2)
            count  hours-per-week_mean  hours-per-week_mean_std_error
    sex
    Female  10790                36.48                           0.12
    Male    21781                42.41                           0.06

    Keys that nobody has declared:

    >>> by_work = DPGroupBy("workclass", keys="private", delta=1e-6, random_state=0).fit(adult.data[["workclass"]])
    >>> len(by_work.to_frame()), by_work.guarantee_.delta
    (7, 1e-06)
    """

    def __init__(
        self,
        by: ColumnName | Sequence[ColumnName],
        epsilon: float | Rho | Mu = 1.0,
        *,
        delta: float = 0.0,
        keys: DomainLike | Literal["private"] | None = None,
        keys_share: float = 0.2,
        statistics: Statistic | Sequence[Statistic] = ("count", "mean"),
        missing: Unknown = "ignore",
        bounds: Bounds | None = None,
        bounds_share: float = 0.2,
        handle_unknown: Unknown = "error",
        confidence_level: float = 0.95,
        max_rows_per_person: int = 1,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.by = by
        self.epsilon = epsilon
        self.delta = delta
        self.keys = keys
        self.keys_share = keys_share
        self.statistics = statistics
        self.missing = missing
        self.bounds = bounds
        self.bounds_share = bounds_share
        self.handle_unknown = handle_unknown
        self.confidence_level = confidence_level
        self.max_rows_per_person = max_rows_per_person
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def to_frame(self) -> Any:
        """Return the groups as a table.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Of the kind of X (pandas for an array), a row for each group: its keys, as columns, or in pandas as the
            index; and for each statistic the columns ``<statistic>``, ``<statistic>_std_error``, ``<statistic>_lower``
            and ``<statistic>_upper``.
        """
        check_is_fitted(self)
        columns: dict[str, NDArray[Any]] = {}
        for name, estimate in self.estimates_.items():
            columns |= {
                name + end: column
                for end, column in zip(_COLUMNS, estimate.T, strict=True)
            }
        for end in ("", "_lower", "_upper") if "count" in columns else ():
            columns[f"count{end}"] = columns[f"count{end}"].astype(np.int64)
        names = self._key_names
        if self._library == "pandas":
            index = pd.Index(self.keys_[0], name=names[0]) if len(names) == 1 else None
            keys = (
                pd.MultiIndex.from_arrays(self.keys_, names=names)
                if index is None
                else index.infer_objects()
            )
            return pd.DataFrame(columns, index=keys)
        return keyed_frame(
            dict(zip(names, self.keys_, strict=True)), columns, self._library
        )

    @property
    def _key_names(self) -> list[Any]:
        return list(self.by) if isinstance(self.by, list) else [self.by]

    def _released(self, columns: Sequence[Any]) -> list[str]:
        """Check `statistics`; return those that there are for some columns."""
        asked: list[str] = (
            [self.statistics]
            if isinstance(self.statistics, str)
            else list(self.statistics)
        )
        for statistic in asked:
            check_choice("statistics", statistic, get_args(Statistic))
        kept = [statistic for statistic in asked if statistic == "count" or columns]
        if not kept:
            raise ValueError(
                f"X has no columns for statistics={self.statistics!r} beside the keys {self._key_names}"
            )
        return kept

    def _names(self, columns: Sequence[Any]) -> list[str]:
        """Name what is released of some columns."""
        released = self._released(columns)
        of_columns = [
            f"{name}_{statistic}"
            for name in columns
            for statistic in released
            if statistic != "count"
        ]
        return (["count"] if "count" in released else []) + of_columns

    def _bounded(self, table: Table) -> Table:
        keys = self._key_names
        if unknown := [name for name in keys if name not in table.names]:
            raise ValueError(
                f"by must name columns of X, got {unknown}; X has {list(table.names)}"
            )
        if not keys or len(set(keys)) < len(keys):
            raise ValueError(
                f"by must name one or several different columns of X, got {keys}"
            )
        others = [name for name in table.names if name not in keys]
        if self._released(others) == ["count"]:
            others = []
        named = [
            *keys,
            *(name + end for name in self._names(others) for end in _COLUMNS),
        ]
        if len(set(named)) < len(named):
            twice = next(
                name for place, name in enumerate(named) if name in named[:place]
            )
            raise ValueError(
                f"two columns of the result would be called {twice!r}; rename a column of X"
            )
        return _columns(table, others)

    def _declared_bounds(self) -> Any:
        return None if self._released([None]) == ["count"] else self.bounds

    def _plan(
        self, table: Table, large: LargeTable | None, share: Share, bounds: Any
    ) -> Plan:
        level = check_confidence_level(self.confidence_level)
        check_choice("missing", self.missing, get_args(Unknown))
        check_choice("handle_unknown", self.handle_unknown, get_args(Unknown))
        measured = self._bounded(table)
        released, shared = self._released(measured.names), self.missing == "error"
        ends = (
            [(low, high) for low, high in read_bounds(bounds, measured.names).tolist()]
            if measured.names
            else []
        )
        if shared:
            numbers = read_numbers(measured)
        else:
            warn_of_objects(measured)
            numbers = read_values(measured)
        add = partial(_sums, columns=numbers, ends=ends)
        mechanism, delta, of_keys = "", Fraction(0), tuple[Loss, ...]()
        if isinstance(self.keys, str) and self.keys == "private":
            part = check_bounds_share(self.keys_share, "keys_share")
            discovery = check_discovery("keys", large, share * part, self.delta)(
                1, persons=table.persons is not None
            )
            values, codes = code_together(table, self._key_names, "keys")
            mechanism, delta = (
                f", {discovery.name} noise and thresholds on keys",
                check_delta(self.delta),
            )
            of_keys = ((share * part).loss(delta),)
            share *= 1 - part

            def sums_of(source: ByteSource) -> tuple[list[NDArray[Any]], GroupSums]:
                (published,) = discovery.find(source, [(values, codes)], table.persons)
                warn_of_kinds(
                    zip(self._key_names, published.other_kinds, strict=False)
                )  # of no values, one list
                n_groups = len(published.places)
                group = np.full(len(values) + 1, n_groups)
                group[published.places] = np.arange(n_groups)
                keys = zip(*(values[place] for place in published.places), strict=True)
                return [as_objects(column) for column in keys], add(
                    group[codes], n_groups
                )
        else:
            domain = declared_domain(
                _columns(table, self._key_names), self.keys, "keys"
            )
            if domain.size > _MOST_GROUPS:
                raise ValueError(
                    f"keys has {domain.size:,} combinations; at most {_MOST_GROUPS:,} are released"
                )
            sums = self._declared_sums(table, large, domain, measured.names, ends, add)
            combined = zip(
                *product(*(domain[name].labels for name in domain.columns)), strict=True
            )
            listed = [
                as_objects(one) for one in combined
            ]  # an index of pandas would make nan of None

            def sums_of(source: ByteSource) -> tuple[list[NDArray[Any]], GroupSums]:
                return listed, sums

        size = n_numbers(len(ends), squares=False, shared_count=shared) + (
            "count" in released and not shared
        )
        noise = Noise.joint(share, GRID, size) if ends else Noise.of(share)

        def release(source: ByteSource) -> None:
            keys, sums = sums_of(source)
            self.keys_ = keys or [as_objects([]) for _ in self._key_names]
            exact = (
                sums.numbers(rows="count" in released, shared=shared)
                if ends
                else sums.rows[:, np.newaxis]
            )
            noisy = exact + noise.draw_each(source, *exact.shape)
            if (
                noisy.dtype == object
            ):  # with a tiny epsilon noise is larger than all of them
                noisy = np.clip(noisy, -(LARGEST**2), LARGEST**2)
            noisy = noisy.astype(float)
            self.estimates_ = _estimates(
                noisy, measured.names, released, ends, noise, level, shared=shared
            )
            self._library = library_of(table)

        what = "counts" if not ends else "counts and sums"
        return Plan(
            f"{noise.name} on {what} of groups{mechanism}",
            release,
            delta,
            (*of_keys, *losses_of([noise])),
        )

    def _leave_open(self, hidden: NDArray[np.bool_]) -> None:
        measured = [
            name for name in self.guarantee_.scope if name not in self._key_names
        ]
        for name in (
            name for name, is_hidden in zip(measured, hidden, strict=True) if is_hidden
        ):
            for statistic in ("mean", "sum"):
                if f"{name}_{statistic}" in self.estimates_:
                    self.estimates_[f"{name}_{statistic}"][:, 1:] = (
                        np.inf,
                        -np.inf,
                        np.inf,
                    )

    def _declared_sums(
        self,
        table: Table,
        large: LargeTable | None,
        domain: Domain,
        names: Sequence[Any],
        ends: Sequence[tuple[float, float]],
        add: Callable[[NDArray[Any], int], GroupSums],
    ) -> GroupSums:
        """Add up the rows of each combination of declared keys."""
        code = partial(find_codes, handle_unknown=self.handle_unknown)
        codes, undeclared = code(_columns(table, domain.columns), domain)
        if undeclared:
            raise undeclared_error(undeclared[0], domain, "keys")
        if large is None:
            return add(join_codes(domain, codes), domain.size)
        tally = GroupTally(domain, code, ends, self.handle_unknown == "error")
        outside, *sums = large.add_up([*domain.columns, *names], tally)
        if outside.any():
            raise undeclared_error(
                domain.columns[int(np.flatnonzero(outside)[0])], domain, "keys"
            )
        found = GroupSums(*sums)
        if self.missing == "error" and found.odd.any():
            raise missing_error(names[int(np.flatnonzero(found.odd)[0])])
        return found


def _columns(table: Table, names: Sequence[Any]) -> Table:
    """Select some columns."""
    columns = tuple(table.columns[table.names.index(name)] for name in names)
    return replace(table, names=tuple(names), columns=columns)


def _sums(
    groups: NDArray[Any], n_groups: int, *, columns: Sequence[Any], ends: Sequence[Any]
) -> GroupSums:
    sums = GroupSums.zeros(n_groups, len(ends))
    sums.add(groups, columns, ends)
    return sums


def _estimates(
    noisy: NDArray[np.float64],
    names: Sequence[Any],
    released: Sequence[str],
    ends: Sequence[tuple[float, float]],
    noise: Noise,
    level: float,
    *,
    shared: bool,
) -> dict[str, NDArray[np.float64]]:
    """Turn the noisy numbers of all groups into statistics."""
    found = (
        {"count": count_estimates(noisy[:, 0], noise, level, GRID if ends else 1)}
        if "count" in released
        else {}
    )
    rest = noisy if shared else noisy[:, "count" in released :]
    for place, (name, pair) in enumerate(zip(names, ends, strict=True)):
        total, count = (
            (rest[:, 1 + place], rest[:, 0])
            if shared
            else (rest[:, 2 * place + 1], rest[:, 2 * place])
        )
        for statistic, estimate in (("mean", mean_estimates), ("sum", sum_estimates)):
            if statistic in released:
                found[f"{name}_{statistic}"] = estimate(
                    total, count, pair, noise, level
                )
    return found
