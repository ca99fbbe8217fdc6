"""Base class of the encoders that report columns with frequency oracles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats
from skdp.base import (
    TableLike,
    apply_set_output,
    check_choice,
    make_domain,
)
from skdp.domain import Domain, Interval
from skdp.local._memo import Memo, check_memo
from skdp.local._protocol_file import read_and_tally
from skdp.local._tally import ReportTally
from skdp.local._transformer import CategoryTransformer
from skdp.local.protocol._count_estimation import (
    InferenceTarget,
    SampledCounts,
    check_columns,
)
from skdp.local.protocol._debias import estimate_joint_counts
from skdp.local.protocol._fields import (
    CategoryField,
    ValueField,
)
from skdp.local.protocol._protocol import ReportProtocol, Sampling, make_guarantee
from skdp.oracles import FrequencyOracle
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_epsilon
from skdp.tables import Table, to_objects

# Allocation of epsilon to the columns.
ReportStrategy: TypeAlias = Literal["split", "joint", "sample"]

# Replacement of a value outside the domain: an error, a uniform draw, or a value.
HandleUnknown: TypeAlias = Hashable | Literal["error", "uniform"]

# Declared values: a list for each column in order, a dict by column name, or a domain.
Categories: TypeAlias = (
    Literal["auto"] | Sequence[ArrayLike] | Mapping[Any, Any] | Domain
)

# Why categories should be declared if reports are permanent, for a warning.
_REASON_TO_DECLARE = (
    "memoize=True draws all permanent reports again, at their full privacy loss, if "
    "categories that are read from the data change"
)


class OracleEncoder(CategoryTransformer):
    """Base class of the encoders that report columns with frequency oracles.

    An oracle reports one *attribute*: a column, or the combination of all columns with
    ``strategy="joint"``. A subclass sets `_mechanism`, the name of the mechanism in
    guarantees, and implements `_make_oracle`.
    """

    domain_: Domain
    oracles_: tuple[FrequencyOracle, ...]
    secret_key: Any

    _mechanism: str
    # True if reports are values of the input columns, and not codes or bits.
    _reports_values: bool = False

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        strategy: ReportStrategy = "split",
        handle_unknown: HandleUnknown = "error",
        memoize: bool = False,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.categories = categories
        self.strategy = strategy
        self.handle_unknown = handle_unknown
        self.memoize = memoize
        self.secret_key = secret_key
        self.ledger = ledger
        self.random_state = random_state

    @abstractmethod
    def _make_oracle(self, k: int, epsilon: Any) -> FrequencyOracle:
        """Make the oracle of an attribute with k values."""

    # Methods for fit.

    def _make_protocol(self, table: Table) -> ReportProtocol:
        """Build the protocol from the declared values of the columns: a field for each attribute.

        An attribute is a column, or with strategy="joint" the combination of all
        columns. With strategy="sample", each record reports one attribute, drawn
        uniformly.
        """
        epsilon = self._check_parameters()
        reason = _REASON_TO_DECLARE if self.memoize else ""
        domain = make_domain(table, self.categories, why_declared=reason)
        fields = self._make_fields(domain, epsilon)
        self._set_categories(domain, table)
        # The name of the class is part of the context of permanent reports, so encoders of
        # different classes with one secret key share no random bits.
        name = type(self).__name__
        # The sample does not depend on the values, so it is public.
        is_sampled = self.strategy == "sample"
        sampling = Sampling((1,) * len(fields)) if is_sampled else None
        oracles = [field.oracle for field in fields]
        return ReportProtocol(
            encoder=name,
            fields=fields,
            guarantee=self._make_guarantee(domain, oracles, sampling),
            sampling=sampling,
            memo=Memo(self.secret_key, name, fields) if self.memoize else None,
        )

    def _check_parameters(self) -> Fraction:
        """Check the parameters that do not depend on X, and return epsilon."""
        check_choice("strategy", self.strategy, get_args(ReportStrategy))
        check_memo(self.memoize, self.secret_key)
        return check_epsilon(self.epsilon)

    def _make_fields(
        self, domain: Domain, epsilon: Fraction
    ) -> tuple[CategoryField, ...]:
        """Make the field of each attribute, which has its declared values and its oracle.

        An attribute is a column, or with strategy="joint" the combination of all
        columns.
        """
        field_class = ValueField if self._reports_values else CategoryField
        settings: dict[str, Any] = {
            "unknown": encode_handle_unknown(self.handle_unknown, domain)
        }
        if self._reports_values:
            settings["is_sampled"] = self.strategy == "sample"
        attributes = self._select_attributes(domain)
        if self.strategy == "split":
            epsilon /= len(attributes)
        # Attributes of equal size share an oracle, which may take long to make.
        make_oracle = cache(self._make_oracle)
        fields = []
        for attribute in attributes:
            oracle = make_oracle(attribute.size, epsilon)
            fields.append(field_class(attribute, oracle, **settings))
        return tuple(fields)

    def _select_attributes(self, domain: Domain) -> list[Domain]:
        """Return the domain of each attribute: of each column, or of all columns together with strategy="joint"."""
        check_several_values(domain)
        attributes = []
        groups: list[Any] = [(name,) for name in domain.columns]
        if self.strategy == "joint":
            groups = [domain.columns]
        for columns in groups:
            attribute = domain.select(columns)
            if attribute.size >= 1 << 32:  # joint codes have 32 bits
                raise ValueError(
                    f"`strategy={self.strategy!r}` must have less than 2**32 joint "
                    f"cells, got {attribute.size:,}. Use `strategy='split'` or fewer "
                    "columns."
                )
            attributes.append(attribute)
        return attributes

    def _make_guarantee(
        self,
        domain: Domain,
        oracles: Sequence[FrequencyOracle],
        sampling: Sampling | None,
    ) -> PrivacyGuarantee:
        """Make the guarantee of a release; with `memoize`, of all releases together.

        With `memoize`, a record repeats its reports as long as its values, or their
        hash buckets, are equal.
        """
        mechanism = self._mechanism
        if self.memoize:
            oracles = [oracle.permanent for oracle in oracles]
            states = " or ".join(dict.fromkeys(oracle.state for oracle in oracles))
            unit = "the columns together" if self.strategy == "joint" else "a column"
            mechanism += f", memoised: epsilon per distinct {states} of {unit}"
        return make_guarantee(
            oracles,
            sampling,
            is_permanent=self.memoize,
            scope=domain.columns,
            mechanism=mechanism,
            # Permanent reports are drawn from the key, and not from `random_state`.
            secure=self.memoize or self.random_state is None,
        )

    def _set_categories(self, domain: Domain, table: Table) -> None:
        """Set `categories_`, the array of values that each column of the reports can have, for `OneHotEncoder`."""
        self.categories_ = []
        for name, column in zip(domain.columns, table.columns, strict=True):
            labels = to_objects(domain[name].labels)
            is_listed = not isinstance(domain[name], Interval) and None in labels
            if self._reports_values and is_listed:
                # Replace None by the missing value of the library of the reports, such as
                # NaN in pandas, which OneHotEncoder recognizes.
                index = domain[name].labels.index(None)
                (decode,) = domain.select([name]).decoders([column])
                labels[index] = np.asarray(decode(np.array([index])))[0]
            self.categories_.append(labels)

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        """Set the declared values of the columns, with their guarantee if they were discovered, and the oracles."""
        assert protocol.domain is not None
        self.domain_ = protocol.domain
        self.oracles_ = protocol.oracles

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        attributes: Any = super()._get_fitted_attr_html(doc_link)
        if "categories_" in attributes:
            # Display the values as `domain_` does, which hides values that were inferred
            # from the data.
            values = [self.domain_[name] for name in self.domain_.columns]
            attributes["categories_"]["value"] = values
        return attributes

    # Method for `OnFitOnly`.

    def _encode(self, X: TableLike) -> Any:
        """Encode a table in the format of the reports, without noise. Not private."""
        check_is_fitted(self)
        encoded = self.protocol_.encode(self._read(X), self._randomness())
        return apply_set_output(self, encoded)

    # Method for tables that are not in memory.

    def _declared_domain(self) -> Domain:
        if hasattr(self, "domain_"):
            return self.domain_
        return self._domain_of_categories()

    # Estimates.

    def estimate_joint_counts(
        self,
        reports: Any,
        *,
        columns: Sequence[Any] | None = None,
        confidence_level: float = 0.95,
        rows: InferenceTarget = "table",
    ) -> pd.DataFrame:
        """Estimate the joint counts of columns that were reported separately.

        Reports of columns are independent given the record, so the product of their
        unbiased values (`debias`) is unbiased for the combination.

        Parameters
        ----------
        reports : same type as returned by `transform`
            Privatized rows of an encoder with ``strategy="split"``.
        columns : list of column names, default=None
            Columns to combine. None selects all.
        confidence_level, rows : optional
            See `estimate_counts`.

        Returns
        -------
        pandas.DataFrame
            Columns 'count', 'std_error', 'lower' and 'upper', indexed by the values of
            the columns.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if `strategy` is not "split", `reports` is a tally, or a column
            or a parameter is invalid.

        Notes
        -----
        Each record counts once. For survey weights, use `skdp.survey.survey_mean` with
        products of the values of `debias`.

        **Privacy.** Post-processing of the reports, without privacy loss. The standard
        error grows quickly with the number of columns.
        """
        check_is_fitted(self)
        protocol = self.protocol_
        if protocol.strategy != "split":
            raise ValueError(
                "`estimate_joint_counts` requires `strategy='split'`, got "
                f"{protocol.strategy!r}."
            )
        if isinstance(reports, ReportTally):
            raise TypeError(
                "`reports` must be a DataFrame or an array, got a ReportTally, which "
                "has no joint counts of separate reports. Pass the reports, or use "
                "`strategy='joint'`."
            )
        arrays, _ = read_and_tally(reports, self)
        names = list(protocol.columns)
        if columns is not None:
            names = check_columns(names, columns)
        options = {"confidence_level": confidence_level, "rows": rows}
        return estimate_joint_counts(protocol, arrays, names, **options)

    def count_variances(self, counts: ArrayLike) -> Floats:
        """Compute the variances of unbiased counts for given true counts.

        Parameters
        ----------
        counts : array-like of shape (n_cells,)
            True counts, in the order of the rows of `estimate_counts`.

        Returns
        -------
        ndarray of shape (n_cells,)
            Exact variances. With ``strategy="sample"``, each column is assumed to be
            reported by an equal number of records.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, if `counts` has another shape or negative values, or does not
            have the same sum in each column.
        """
        check_is_fitted(self)
        oracles = self.protocol_.oracles
        stops = np.cumsum([oracle.k for oracle in oracles])
        cells = np.asarray(counts, float)
        if cells.shape != (stops[-1],):
            raise ValueError(
                f"`counts` must have shape ({stops[-1]},), got {cells.shape}."
            )
        parts = np.split(cells, stops[:-1])
        totals = list(map(np.sum, parts))
        if (cells < 0).any() or not np.allclose(totals, totals[0]):
            raise ValueError(
                "`counts` must be at least 0, and have the same sum in each column."
            )
        n = totals[0]
        # With strategy="sample", a record reports each field with the same probability.
        size = n if self.protocol_.sampling is None else n / len(oracles)
        estimates = []
        for oracle, part in zip(oracles, parts, strict=True):
            reported = part * size / n
            noise = oracle.variance(reported, size)
            estimates.append(SampledCounts.from_sample(reported, noise, size, n))
        return SampledCounts.concatenate(estimates).variances

    def channel(self) -> list[list[list[Fraction]]]:
        """Return the exact transition probabilities of the reports.

        Returns
        -------
        list
            Table of each attribute (a column, or all columns with
            ``strategy="joint"``), with a row for each true value and a column for each
            report. The entries are Fractions.
        """
        check_is_fitted(self)
        return [oracle.channel() for oracle in self.protocol_.oracles]


def encode_handle_unknown(handle_unknown: Any, domain: Domain) -> str | dict[Any, int]:
    """Return "error", "uniform", or a dict with the code that replaces values outside the domain in each column."""
    if isinstance(handle_unknown, str) and handle_unknown in ("error", "uniform"):
        return handle_unknown
    value = to_objects([handle_unknown])
    codes = {}
    for name in domain.columns:
        codes[name] = int(domain[name].encode(value)[0])
        # A value outside the domain has the code after the declared values.
        if codes[name] == len(domain[name]):
            type_name = type(handle_unknown).__name__
            is_text = type_name == "str"
            got = repr(handle_unknown) if is_text else f"a value of type {type_name}"
            raise ValueError(
                "`handle_unknown` must be 'error', 'uniform' or a value that every "
                f"column declares, got {got}, which column {name!r} does not declare."
            )
    return codes


def check_several_values(domain: Domain) -> None:
    """Check that each column has at least two declared values."""
    for name, size in zip(domain.columns, domain.sizes, strict=True):
        if size < 2:
            # scikit-learn's check of estimators requires the words "one sample".
            origin = ""
            if domain[name].observed:
                origin = (
                    " (more than one sample is needed to read categories from the data)"
                )
            raise ValueError(
                f"Column {name!r} must have at least 2 categories, got 1{origin}. Add "
                "categories or drop the column."
            )
