"""Columns of sets of values, reported by set selection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import ColumnLike, check_choice, read_domain, undeclared_error
from skdp.domain import Domain, DomainLike
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol import (
    Channel,
    Codes,
    OracleField,
    Randomness,
    ReportProtocol,
    ShareOf,
    estimate_counts,
    guarantee_of_all,
)
from skdp.oracles import (
    SetSelection,
    check_size,
    pad_sets,
)
from skdp.privacy import PrivacyLedger, check_epsilon
from skdp.tables import ColumnError, Table, flatten_lists

# Codes of padded sets, in a block of rows: 32 MB.
_CELLS = 1 << 22

SetPostprocess = Literal["none", "clip"]


@dataclass(frozen=True, eq=False, repr=False)
class SetField(OracleField):
    """A column of sets, by an oracle for sets."""

    # The codes of a row are bytes: its distinct values, ascending.

    domain: Domain
    oracle: SetSelection
    unknown: str = "error"

    def prepare(self, columns: Sequence[Any]) -> Codes:
        self.oracle.check_size(len(columns[0]))
        return [read_sets(self.domain, self.columns[0], columns[0], self.unknown)]

    def report(self, codes: Codes, randomness: Randomness) -> NDArray[Any]:
        oracle = self.oracle
        # Another source draws the values of a longer list. Blocks bound the memory of the
        # padded sets.
        choice_source = randomness("kept", *self.columns)
        source = randomness("report", *self.columns)
        parts = []
        for block in blocks_of(codes[0], oracle):
            values, sizes = joined(block, oracle.k)
            padded = pad_sets(values, sizes, oracle.k, oracle.max_size, choice_source)
            parts.append(oracle.report(padded, source))
        return np.concatenate(parts)

    def channels(self, most_entries: int) -> list[Iterator[Channel]] | None:
        if _entries(self.oracle, most_entries) > most_entries:
            return None
        return [self.oracle.channels()]


def check_postprocess(postprocess: Any) -> None:
    """Check the postprocessing of counts."""
    check_choice("postprocess", postprocess, get_args(SetPostprocess))


def blocks_of(
    codes: NDArray[np.object_], oracle: SetSelection
) -> list[NDArray[np.object_]]:
    """Split coded rows into blocks, at least one, whose padded sets fit into the memory."""
    step = max(1, _CELLS // oracle.max_size)
    return [codes[start : start + step] for start in range(0, max(len(codes), 1), step)]


def _entries(oracle: SetSelection, most: int) -> float:
    """Return the size of a channel, or infinity if listing its rows would take long."""
    # 12 values have at most 2**12 sets.
    if oracle.k > 12 or oracle.n_reports > most:
        return float("inf")
    return len(oracle.sets()) * oracle.n_reports


def read_sets(
    domain: Domain, name: Any, column: Any, unknown: str
) -> NDArray[np.object_]:
    """Read a column of lists: the distinct codes of each row, ascending, as bytes."""
    message = None
    try:
        flat, sizes = flatten_lists(column)
    except ColumnError as error:
        message = f"column {name!r}: {error}"
    if message is not None:
        raise ValueError(message)
    (codes,) = domain.select([name]).encode([flat])
    k = len(domain[name])
    if unknown == "error" and codes.max(initial=0) == k:
        raise undeclared_error(name, domain[name], what="lists with a value")
    rows = np.repeat(np.arange(sizes.size), sizes)
    # A value of a row is one number, ``row * k + code``: sorted, and each once
    # (`np.unique` takes five times as long).
    is_known = codes < k
    pairs = np.sort(rows[is_known] * k + codes[is_known].astype(np.int64))
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    values = (pairs % k).astype(_dtype(k))
    packed = values.tobytes()
    n_bytes = np.bincount(pairs // k, minlength=sizes.size) * values.itemsize
    ends = np.cumsum(n_bytes)
    starts = ends - n_bytes
    sets = np.empty(sizes.size, object)
    for row, span in enumerate(map(slice, starts.tolist(), ends.tolist())):
        sets[row] = packed[span]
    return sets


def joined(
    sets: NDArray[np.object_], k: int
) -> tuple[NDArray[np.unsignedinteger], NDArray[np.int64]]:
    """Return the concatenated codes of all sets, and the size of each set."""
    dtype = _dtype(k)
    sizes = np.fromiter(map(len, sets), np.int64, len(sets)) // dtype.itemsize
    return np.frombuffer(b"".join(sets.tolist()), dtype), sizes


def _dtype(k: int) -> np.dtype[Any]:
    return np.min_scalar_type(k).newbyteorder("<")


class SetValuedEncoder(ReportTransformer):
    """Privatize columns of lists of declared values with set selection.

    >>> import pandas as pd
    >>> from skdp import SetValuedEncoder
    >>> people = pd.DataFrame({"symptoms": [["cough"], ["cough", "fever"], []] * 500})
    >>> values = {"symptoms": ["cough", "fever", "rash"]}
    >>> encoder = SetValuedEncoder(2.0, categories=values, max_size=2)
    >>> counts = encoder.estimate_counts(encoder.fit_transform(people))

    One epsilon protects the whole set and its size. A report is a
    random set of values that is likely to meet the true one ("set selection", [1]_):
    the output has a bit ``<column>_<value>`` for each value. The guide page "Lists of
    values" has its errors.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, in equal parts, > 0.
    categories : mapping, list of array-like, or Domain
        The values that may be in the lists of each column, at least two: required, and
        never read from the data. An `Interval` puts numbers into bins.
    max_size : int or mapping of column name to int, default=5
        Number of values of a list that are reported, from public knowledge. A smaller
        number has a smaller error. From a longer list, `max_size` values are drawn at
        random, and its record counts less for each value.
    handle_unknown : {"error", "ignore"}, default="error"
        Treatment of undeclared values. ``"error"`` raises an error, which reveals that
        such a value occurs; ``"ignore"`` excludes them from the set.
    ledger : PrivacyLedger, optional
        Charged with `guarantee_` at each call of `transform`, before any draw.
    random_state : int, optional
        None is secure. An int is reproducible, and not private: for tests only.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        The guarantee of one call of `transform` for one record.
    domain_ : Domain
        The declared values of each column.
    oracles_ : tuple of SetSelection
        The protocol of each column, with its exact probabilities.

    See Also
    --------
    FrequencyOracleEncoder : Columns with one value a record.

    Notes
    -----
    **Privacy.** Local model: for each record, under replacement of its lists in the
    fitted columns by any other lists, of any length. The order and repetition of values
    in a list do not matter. `fit` reads column names only. Each `transform` is a new
    release. The guide page "What all encoders share" explains what is not covered.

    The cells of a column are lists, tuples, sets or 1-D arrays (pandas, NumPy), or of
    the List types of polars and pyarrow. Other cells, including missing ones, raise an
    error. Use an empty list for no values.

    References
    ----------
    .. [1] S. Wang et al. (2018). PrivSet: set-valued data analyses with locale
       differential privacy. INFOCOM.
    """

    domain_: Domain
    oracles_: tuple[SetSelection, ...]
    _most_cells: float = 1 << 32
    """Of the values of a column."""

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: DomainLike | None = None,
        max_size: int | Mapping[Any, int] = 5,
        handle_unknown: Literal["error", "ignore"] = "error",
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.max_size = max_size
        self.handle_unknown = handle_unknown
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def _make_protocol(self, table: Table) -> ReportProtocol:
        check_choice("handle_unknown", self.handle_unknown, ("error", "ignore"))
        domain = read_lists_domain(table, self.categories)
        max_sizes = read_sizes(self.max_size, domain)
        if max(domain.sizes) >= self._most_cells:
            raise ValueError(f"{max(domain.sizes):,} values are too many")
        # Columns have equal shares: no size of a column is a reason for another one.
        share = check_epsilon(self.epsilon) / len(domain.columns)
        oracles = []
        fields = []
        for name, k, max_size in zip(
            domain.columns, domain.sizes, max_sizes, strict=True
        ):
            oracle = SetSelection(k, max_size, share)
            oracles.append(oracle)
            fields.append(SetField(domain.select([name]), oracle, self.handle_unknown))
        guarantee = guarantee_of_all(
            oracles,
            scope=domain.columns,
            mechanism="set selection",
            secure=self.random_state is None,
        )
        return ReportProtocol("SetValuedEncoder", tuple(fields), guarantee)

    def _set_fitted(self, protocol: Any) -> None:
        self.domain_, self.oracles_ = protocol.domain, protocol.oracles

    def _declared_row(self, sample: Table | None, names: Sequence[Any]) -> pd.DataFrame:
        if not isinstance(self.categories, Mapping | Domain):
            raise ValueError(
                "which columns a list of categories is for is not known from a large "
                "table: declare them by name, as a "
                "mapping or Domain, or fit the transformer before"
            )
        declared: Any = self.categories
        if isinstance(self.categories, Domain):
            declared = self.categories.columns
        return pd.DataFrame({name: pd.Series([[]], dtype=object) for name in declared})

    def estimate_counts(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: SetPostprocess = "none",
        confidence_level: float = 0.95,
        rows: ShareOf = "table",
    ) -> pd.DataFrame:
        """Estimate the number of records of the table with each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatized rows, or their sums.
        columns : sequence of column names, optional
            The columns to count; by default all.
        postprocess : {"none", "clip"}, default="none"
            ``"none"``: unbiased, possibly negative. ``"clip"``: clipped to [0, n];
            biased.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        rows : {"table", "population"}, default="table"
            Target of inference: the records themselves, or the population from which
            they were drawn at random, whose intervals are wider.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by value for one column, and by
            (column, value) for several. A record with s > `max_size` values counts as
            ``max_size / s`` for each of them: the counts of such records are too small
            by the sum of ``1 - max_size / s``, at most their number, and nothing else
            is biased. The standard error is for the unbiased estimate (a plug-in of its
            variance), without the random choice of the values of such records, which
            adds at most half the root of their number; the interval is a normal
            approximation.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is
            out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
        check_postprocess(postprocess)
        _, tally = self._read_reports(reports)
        return estimate_counts(
            self.protocol_,
            tally,
            columns,
            postprocess=postprocess,
            confidence_level=confidence_level,
            rows=rows,
        )

    def estimate_frequencies(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: SetPostprocess = "none",
        confidence_level: float = 0.95,
        rows: ShareOf = "population",
        sample_weight: ColumnLike | None = None,
    ) -> pd.DataFrame:
        """Estimate the proportion of the population with each value, from a random sample.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatized rows, or their sums.
        columns, postprocess, confidence_level : optional
            As for `estimate_counts`.
        rows : {"population", "table"}, default="population"
            Target of inference: the population from which the records were drawn at
            random, or the records themselves, whose intervals are narrower.
        sample_weight : array-like of shape (n_samples,), optional
            As for the `estimate_frequencies` of `RandomizedResponseEncoder`.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``, indexed as by `estimate_counts`,
            whose values these are, divided by the number of reports. The frequencies of
            a column add up to the mean number of values that records keep.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is
            out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable. Weights are not
        privatized: the analyst has them beside the reports.
        """
        check_postprocess(postprocess)
        options: dict[str, Any] = {
            "postprocess": postprocess,
            "confidence_level": confidence_level,
            "rows": rows,
        }
        if sample_weight is not None:
            return self._weighted_frequencies(
                reports, sample_weight, columns=columns, **options
            )
        _, tally = self._read_reports(reports)
        return estimate_counts(
            self.protocol_, tally, columns, what="frequency", **options
        )

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports.

        Returns
        -------
        list
            A table for each column: a row for each set of at most `max_size` values, the smallest sets first, a column
            a report, each entry a Fraction. For few values.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if there are more than 2**16 reports.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.protocol_.oracles]


def read_lists_domain(table: Table, categories: Any) -> Domain:
    """Read the declared values of columns of lists, which the data never declare."""
    if categories is None or isinstance(categories, str):
        raise ValueError(
            "categories must be a mapping of column to values, from public knowledge, got "
            f"{categories!r}."
        )
    domain = read_domain(table, categories)
    for column, size in zip(domain.columns, domain.sizes, strict=True):
        if size < 2:
            raise ValueError(
                f"Column {column!r} must have at least 2 values, got {size}."
            )
    return domain


def read_sizes(max_size: Any, domain: Domain) -> list[int]:
    """Read the number of reported values of a list, at most the number of declared values."""
    sizes_of = max_size
    if not isinstance(max_size, Mapping):
        sizes_of = dict.fromkeys(domain.columns, max_size)
    if set(sizes_of) != set(domain.columns):
        raise ValueError(
            f"max_size must have the columns {list(domain.columns)}, got "
            f"{list(max_size)}."
        )
    sizes = []
    for name, k in zip(domain.columns, domain.sizes, strict=True):
        title = "max_size"
        if isinstance(max_size, Mapping):
            title = f"max_size of column {name!r}"
        sizes.append(min(k, check_size(sizes_of[name], least=1, name=title)))
    return sizes
