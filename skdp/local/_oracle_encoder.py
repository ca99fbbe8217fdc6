"""What all encoders with frequency oracles share: parameters that make a protocol."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    ColumnLike,
    ReportStrategy,
    TableLike,
    apply_set_output,
    check_choice,
    read_domain,
    warn_of_observed,
)
from skdp.domain import Domain, Interval, copy_guarantee, domains_of_dtypes
from skdp.local._memo import Memo, MemoisedReports
from skdp.local._protocol_file import read_and_tally
from skdp.local._transformer import ReportTransformer
from skdp.local.protocol import (
    CategoryField,
    ReportProtocol,
    Sampling,
    ShareOf,
    ValueField,
    attributes_of,
    check_columns,
    count_variances,
    estimate_counts,
    guarantee_of_all,
    guarantee_of_one,
    joint_counts,
    read_weights,
)
from skdp.oracles import FrequencyOracle, Postprocess, TwoRoundUnaryEncoding
from skdp.privacy import (
    PrivacyGuarantee,
    check_epsilon,
)
from skdp.tables import Table, as_objects

Shares: TypeAlias = Literal["uniform", "proportional"] | Mapping[Any, float]
"""How "split" divides epsilon."""

Categories: TypeAlias = (
    Literal["auto"] | Sequence[ArrayLike] | Mapping[Any, Any] | Domain
)
"""The declared values: a list a column, by column name, or as a domain."""

# The form of the reports of an oracle that reports bits.
Output: TypeAlias = Literal["bits", "unbiased"]

STRATEGIES = get_args(ReportStrategy)
OUTPUTS = get_args(Output)

_CHANGING = (
    "memoize=True draws the permanent reports of all records again, at their full "
    "cost, when the categories change, as those of the data do"
)


class OracleEncoder(MemoisedReports, ReportTransformer):
    """Base of the encoders that report columns with frequency oracles."""

    # A subclass names the mechanism and makes the oracle of an attribute.

    strategy: Any
    shares: Any
    categories: Any
    handle_unknown: Any

    _takes_categories = True

    domain_: Domain
    oracles_: tuple[FrequencyOracle, ...]
    _mechanism: str
    _reports_values: bool = False
    # Of the values of an attribute.
    _most_cells: float = 1 << 32

    @abstractmethod
    def _make_oracle(self, k: int, epsilon: Any) -> FrequencyOracle:
        """Make the oracle of an attribute with k values."""

    def _check_parameters(self) -> Fraction | None:
        """Check the parameters before a table is read, and return epsilon."""
        check_choice("output", self._output, OUTPUTS)
        check_choice("strategy", self.strategy, STRATEGIES)
        self._check_memo()
        return self._check_epsilon()

    @property
    def _output(self) -> Any:
        # Encoders with one form of reports have no such parameter.
        return getattr(self, "output", "bits")

    def _check_epsilon(self) -> Fraction | None:
        return check_epsilon(self.epsilon)

    def _make_protocol(self, table: Table) -> ReportProtocol:
        epsilon = self._check_parameters()
        domain = read_domain(
            table, self.categories, why_declared=_CHANGING if self.memoize else ""
        )
        unknown = unknown_codes(self.handle_unknown, domain)
        # An attribute is what one oracle reports: a column, or all of them ("joint").
        attributes = attributes_of(domain, self.strategy)
        sizes = self._attribute_sizes(domain, attributes)
        oracles, again = self._make_oracles(epsilon, attributes, sizes)
        fields = self._fields(domain, attributes, oracles, again, unknown)
        owner = type(self).__name__
        # The class is part of what permanent reports depend on: two encoders with one
        # key share no random bits.
        memo = None
        if self.memoize:
            memo = Memo(self.secret_key, owner, fields)
        guarantee = self._promise(oracles, domain, fields if self.memoize else ())
        # With p and q, the guarantee is what says epsilon.
        if again:
            self._check_round(guarantee)
        sampling = self._sampling(len(fields))
        self.categories_ = []
        for name, column in zip(domain.columns, table.columns, strict=True):
            like = column if self._reports_values else None
            self.categories_.append(_list_categories(domain, name, like))
        return ReportProtocol(owner, fields, guarantee, sampling, memo=memo)

    def _attribute_sizes(
        self, domain: Domain, attributes: Sequence[tuple[Any, ...]]
    ) -> list[int]:
        """Return the number of values of each attribute, neither 1 nor too many."""
        check_several_values(domain)
        sizes = [domain.select(columns).size for columns in attributes]
        if max(sizes) >= self._most_cells:
            raise ValueError(
                f"{max(sizes):,} joint cells are too many; use strategy='split', or "
                "fewer columns"
            )
        return sizes

    def _sampling(self, n_fields: int) -> Sampling | None:
        return Sampling((1,) * n_fields, 1) if self.strategy == "sample" else None

    def _fields(
        self,
        domain: Domain,
        attributes: Sequence[tuple[Any, ...]],
        oracles: Sequence[FrequencyOracle],
        again: Sequence[Any],
        unknown: Any,
    ) -> tuple[CategoryField, ...]:
        """Return what each attribute reports, with a second round by these epsilons."""
        settings: dict[str, Any] = {"unknown": unknown, "output": self._output}
        kind = CategoryField
        if self._reports_values:
            kind = ValueField
            settings["is_sampled"] = self.strategy == "sample"
        # Attributes of one size share an oracle, as it takes time to make one.
        second_round: Any = cache(TwoRoundUnaryEncoding)
        fields = []
        for place, columns in enumerate(attributes):
            oracle = oracles[place]
            values = domain.select(columns)
            if again:
                rounds = second_round(oracle, again[place])
                field = kind(values, rounds, permanent=oracle, **settings)
            else:
                field = kind(values, oracle, **settings)
            fields.append(field)
        return tuple(fields)

    def _make_oracles(
        self,
        epsilon: Fraction | None,
        attributes: Sequence[tuple[Any, ...]],
        sizes: Sequence[int],
    ) -> tuple[tuple[FrequencyOracle, ...], list[Any]]:
        """Make the oracle of each attribute.

        With a second round of noise, also return the epsilons of single reports.
        """
        epsilons = attribute_epsilons(
            epsilon, attributes, sizes, self.strategy, self.shares
        )
        oracles = tuple(map(cache(self._make_oracle), sizes, epsilons))
        if self._report_epsilon is None:
            return oracles, []
        report_epsilon = check_epsilon(
            self._report_epsilon, name="instantaneous_epsilon"
        )
        again: list[Any] = attribute_epsilons(
            report_epsilon, attributes, sizes, self.strategy, self.shares
        )
        return oracles, again

    def _check_round(self, guarantee: PrivacyGuarantee) -> None:
        """Check that a single report has less epsilon than all of a value together."""
        epsilon = guarantee.epsilon if self.epsilon is None else self.epsilon
        if check_epsilon(self._report_epsilon) >= epsilon:
            raise ValueError(
                "instantaneous_epsilon must be smaller than epsilon, got "
                f"{self._report_epsilon} and {epsilon}"
            )

    def _promise(
        self,
        oracles: Sequence[FrequencyOracle],
        domain: Domain,
        permanent: Sequence[CategoryField],
    ) -> PrivacyGuarantee:
        """State what a report of these oracles promises.

        Given permanent fields, state what all reports of an unchanged value promise.
        """
        mechanism = self._mechanism
        secure = self.random_state is None
        if permanent:
            # The random bits come from the key.
            secure = True
            most = max(field.n_states for field in permanent)
            # What a permanent report is of: a value, or the bucket of one. In the order
            # of the columns, each once.
            states = " or ".join(dict.fromkeys(oracle.state for oracle in oracles))
            unit = "the columns together" if self.strategy == "joint" else "a column"
            mechanism += (
                f", memoised: epsilon per distinct {states} of {unit}, at most {most} "
                "of them"
            )
        statement: dict[str, Any] = {
            "scope": domain.columns,
            "mechanism": mechanism,
            "secure": secure,
        }
        # Which column a record reports does not depend on its values.
        if self.strategy == "sample":
            return guarantee_of_one(oracles, is_permanent=bool(permanent), **statement)
        return guarantee_of_all(oracles, **statement)

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        assert protocol.domain is not None
        self.domain_ = copy_guarantee(protocol.domain, self.categories)
        self.oracles_ = protocol.oracles
        fields = cast(tuple[CategoryField, ...], protocol.fields)
        # What an earlier fit has set is replaced in its place, so that nothing tells of
        # it.
        if protocol.memo is not None:
            self.permanent_oracles_ = tuple(field.first_round for field in fields)
        else:
            self.__dict__.pop("permanent_oracles_", None)
        if any(field.permanent for field in fields):
            self.instantaneous_guarantee_ = self._promise(
                protocol.oracles, protocol.domain, ()
            )
        else:
            self.__dict__.pop("instantaneous_guarantee_", None)

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Show `categories_` in scikit-learn's HTML as in `domain_`."""
        # Without values that were read from the data.
        attributes: Any = super()._get_fitted_attr_html(doc_link)
        if "categories_" in attributes:
            domain = self.domain_
            values = list(map(domain.__getitem__, domain.columns))
            attributes["categories_"]["value"] = values
        return attributes

    def _encode(self, X: TableLike) -> Any:
        """Encode a table as `transform` does, without noise: not private."""
        self._check_encodable()
        encoded = self.protocol_.encode(self._read(X), self._randomness())
        return apply_set_output(self, encoded)

    def _check_encodable(self) -> None:
        """Check that there is an encoding without noise."""
        check_is_fitted(self)
        self.protocol_.check_encodable()

    def _declared_domain(self) -> Domain:
        """Return the declared values of the columns, before or after `fit`."""
        if hasattr(self, "domain_"):
            return self.domain_
        if isinstance(self.categories, Mapping):
            return Domain(self.categories)
        if isinstance(self.categories, Domain):
            return self.categories
        raise ValueError(
            "categories must be a mapping or a Domain: without a table, nothing else "
            "names the columns"
        )

    def _declared_row(self, sample: Table | None, names: Sequence[Any]) -> pd.DataFrame:
        if sample is None or not isinstance(self.categories, str):
            return super()._declared_row(sample, names)
        levels, observed_levels = domains_of_dtypes(sample)
        # Permanent reports would be drawn again, at their full privacy loss, whenever
        # categories that are read from the data change.
        if not self.memoize:
            levels |= observed_levels
        undeclared = [name for name in names if not levels.get(name)]
        if undeclared:
            raise ValueError(
                f"`categories` must declare the columns {undeclared} if the table is not "
                "in memory, got 'auto'. Pass a dict or Domain, or use an Enum dtype."
            )
        observed = [name for name in names if name in observed_levels]
        if observed:
            warn_of_observed(observed, "categories")
        row = {}
        for name in names:
            row[name] = pd.Categorical([levels[name][0]], levels[name], ordered=True)
        return pd.DataFrame(row)

    def estimate_counts(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        postprocess: Postprocess = "none",
        confidence_level: float = 0.95,
        rows: ShareOf = "table",
    ) -> pd.DataFrame:
        """Estimate how many records of the table truly have each value.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        columns : sequence of column names, optional
            The columns to count; by default all. Under "joint", counts are summed over
            the other columns.
        postprocess : str, default="none"
            ``"none"`` is unbiased, possibly negative. ``"clip"`` and ``"simplex"`` are
            not negative, and biased; the guide page "What all encoders share" compares
            them.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        rows : {"table", "population"}, default="table"
            Target of inference: the records themselves, or the population from which
            they were drawn at random, whose intervals are wider.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by value for one column, by
            (column, value) for several, and by the values of all columns under "joint".
            Standard error and interval (normal approximation) are those of the unbiased
            estimate; with a postprocess, the interval is cut to [0, n]. By (column,
            value), truth values are ``"True"`` and ``"False"`` if another column has 0
            or 1.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the reports come from another encoder, or a parameter is
            out of range.

        Warns
        -----
        UserWarning
            If an estimate is more than six standard errors below 0 or above the number
            of records: the reports come from another encoder or epsilon, or were
            edited.

        See Also
        --------
        debias : Values of each record, for estimates with strata, clusters or weights.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable.
        """
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
        postprocess: Postprocess = "none",
        confidence_level: float = 0.95,
        rows: ShareOf = "population",
        sample_weight: ColumnLike | None = None,
    ) -> pd.DataFrame:
        """Estimate the proportion of each value in the population, from a random sample of it.

        Parameters
        ----------
        reports : what `transform` returns, or ReportTally
            Privatised rows, or their sums.
        columns, postprocess, confidence_level : optional
            As for `estimate_counts`.
        rows : {"population", "table"}, default="population"
            Target of inference: the population from which the records were drawn at
            random, or the records themselves, whose intervals are narrower.
        sample_weight : array-like of shape (n_samples,), optional
            The design weight of each record, at least 0: how many people it stands for.
            A frequency is then the weighted mean of the values of `debias` (Hájek),
            with its linearized error [1]_. Requires the reports, and
            ``rows="population"``. `shuffled_guarantee` does not cover weighted sums.

        Returns
        -------
        pandas.DataFrame
            ``frequency, std_error, lower, upper``, indexed as by `estimate_counts`,
            whose values these are, divided by the number of reports; ``attrs["rows"]``
            is the target.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            As for `estimate_counts`, or if weights are negative or not of this shape.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable. Weights are not
        privatised: the analyst has them beside the reports.

        With fewer than about 60 people, or where fewer than 5 are expected to have a
        value, or not to have it, intervals cover less than is stated:
        docs/background/estimates.md has the figures.

        References
        ----------
        .. [1] T. Lumley (2004). Analysis of complex survey samples. Journal of
           Statistical Software 9(8).
        """
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

    def count_variances(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Return the variances of the unbiased counts, given the true counts.

        Parameters
        ----------
        counts : array-like of shape (n_cells,)
            True counts, in the order of the rows of `estimate_counts`.

        Returns
        -------
        ndarray of shape (n_cells,)
            Exact, by the closed form of the oracle; under "sample", for equal samples
            of the records.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the counts are of another number than the cells,
            negative, or do not add up to the same n in each column.
        """
        check_is_fitted(self)
        return count_variances(self.protocol_, counts)

    def estimate_joint_counts(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        confidence_level: float = 0.95,
        rows: ShareOf = "table",
    ) -> pd.DataFrame:
        """Estimate the joint counts, in the table, of columns that were reported separately.

        Reports of columns are independent given the record, so the product of their
        unbiased values (`debias`) is unbiased for the combination.

        Parameters
        ----------
        reports : same kind as what `transform` returns
            Privatised rows of an encoder with ``strategy="split"``.
        columns : sequence of column names, optional
            The columns to combine; by default all.
        confidence_level : float, default=0.95
            Coverage of each interval, between 0 and 1.
        rows : optional
            As for `estimate_counts`.

        Returns
        -------
        pandas.DataFrame
            ``count, std_error, lower, upper``, indexed by the values of the columns.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the encoder has another strategy, a column is unknown,
            or a parameter is out of range.

        Notes
        -----
        **Privacy.** Post-processing of reports: free, and repeatable. The error grows
        quickly with the number of columns.
        """
        check_is_fitted(self)
        protocol = self.protocol_
        # The product of estimates needs reports that are independent given the record.
        if protocol.strategy != "split":
            raise ValueError(
                "joint counts are estimated from strategy='split', not "
                f"{protocol.strategy!r}"
            )
        arrays, _ = read_and_tally(reports, self)
        joint_columns = list(protocol.columns)
        if columns is not None:
            joint_columns = check_columns(joint_columns, columns)
        return joint_counts(
            protocol,
            arrays,
            joint_columns,
            confidence_level=confidence_level,
            rows=rows,
        )

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact probabilities of the reports.

        Returns
        -------
        list
            A table for each attribute: one for each column, or one for all under
            "joint". A row a true value, a column a report, each entry a Fraction.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.protocol_.oracles]


def unknown_codes(handle_unknown: Any, domain: Domain) -> str | dict[Any, int]:
    """Return "error", "uniform", or the code for undeclared values by column."""
    if isinstance(handle_unknown, str) and handle_unknown in ("error", "uniform"):
        return handle_unknown
    value = as_objects([handle_unknown])
    codes = {}
    for name in domain.columns:
        codes[name] = int(domain[name].encode(value)[0])
        # The code after those of the declared values is that of all others.
        if codes[name] == len(domain[name]):
            kind = type(handle_unknown).__name__
            got = repr(handle_unknown) if kind == "str" else f"a value of type {kind}"
            raise ValueError(
                "handle_unknown must be 'error', 'uniform' or a value that every "
                f"column declares, got {got}, which column {name!r} does not declare"
            )
    return codes


def attribute_epsilons(
    epsilon: Fraction | None,
    attributes: Sequence[tuple[Any, ...]],
    sizes: Sequence[int],
    strategy: str,
    shares: Any,
) -> list[Fraction | None]:
    """Divide epsilon among the attributes of a record."""
    if isinstance(shares, str) and shares == "uniform":
        if epsilon is not None and strategy == "split":
            epsilon /= len(attributes)
        return [epsilon] * len(attributes)
    if strategy != "split":
        raise ValueError(
            f"shares divide epsilon under strategy='split'; with {strategy!r} leave "
            "them 'uniform'"
        )
    if isinstance(shares, str) and shares == "proportional":
        weights = list(map(Fraction, sizes))
    else:
        # Under "split", an attribute is one column.
        names = [columns[0] for columns in attributes]
        weights = read_weights("shares", shares, names, "'uniform', 'proportional'")
    if epsilon is None:
        raise ValueError(
            "p and q decide epsilon for each column: leave the shares 'uniform'"
        )
    total = sum(weights)
    return [epsilon * weight / total for weight in weights]


def check_several_values(domain: Domain) -> None:
    """Refuse a column of one declared value."""
    for name, size in zip(domain.columns, domain.sizes, strict=True):
        if size < 2:
            raise ValueError(
                f"column {name!r} has one category, so there is nothing to hide "
                "or to learn (more than one sample is needed to read categories "
                "from the data); drop the column or declare its other categories"
            )


def _list_categories(domain: Domain, name: Any, like: Any) -> NDArray[Any]:
    """List the declared values of a column, with missing as it is in reports like another column."""
    labels = as_objects(domain[name].labels)
    is_listed = None in domain[name].labels and not isinstance(domain[name], Interval)
    if like is not None and is_listed:
        place = domain[name].labels.index(None)
        (decode,) = domain.select([name]).decoders([like])
        # pandas has nan in columns of text, as OneHotEncoder then finds it.
        labels[place] = np.asarray(decode(np.array([place])))[0]
    return labels
