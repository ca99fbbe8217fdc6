"""Encoders of categorical columns with frequency oracles."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import Floats, TableLike
from skdp.base import apply_set_output, check_choice, make_domain
from skdp.domain import Domain, Interval
from skdp.local._memo import Memo, check_memo
from skdp.local._protocol_file import read_and_tally
from skdp.local._tally import ReportTally
from skdp.local._transformer import CategoryTransformer
from skdp.local.protocol._count_estimation import (
    InferenceTarget,
    SampledCounts,
    check_columns,
    estimate_joint_counts,
)
from skdp.local.protocol._fields import (
    CategoryField,
    ValueField,
)
from skdp.local.protocol._protocol import ReportProtocol, Sampling, make_guarantee
from skdp.oracles import (
    ORACLES,
    FrequencyOracle,
    LocalHashing,
    RandomizedResponse,
    SubsetSelection,
    TwoRoundUnaryEncoding,
    UnaryEncoding,
    choose_oracle,
)
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
    guarantees, and `_oracle_class`, or implements `_make_oracle`.
    """

    domain_: Domain
    oracles_: tuple[FrequencyOracle, ...]
    secret_key: Any

    _mechanism: str
    _oracle_class: ClassVar[Any]
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

    def _make_oracle(self, k: int, epsilon: Fraction) -> FrequencyOracle:
        """Make the oracle of an attribute with k values."""
        return self._oracle_class(k, epsilon)

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
        attributes = super()._get_fitted_attr_html(doc_link)
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
        reports: TableLike | ReportTally,
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


class RandomizedResponseEncoder(OracleEncoder):
    """Privatize categorical columns with k-ary randomized response.

    A report is the true value with probability
    ``e**epsilon / (e**epsilon + k - 1)``, and otherwise one of the k - 1 other values
    of the domain, chosen uniformly at random [1]_. The output has the columns of the
    input, so that `OneHotEncoder` can follow.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        Values of each column. A `Domain` may contain further columns, which are
        ignored. "auto" uses the values that a dtype declares and infers all other
        values from the data, with a `PrivacyLeakWarning`: their columns are not
        protected. None among the values declares missing.

    strategy : {"split", "joint", "sample"}, default="split"
        How epsilon is allocated to the columns.

        - "split" reports each column with a fraction of epsilon.
        - "joint" reports the combination of all columns as one value.
        - "sample" reports one random column per record.

    handle_unknown : {"error", "uniform"} or value, default="error"
        How to handle a value outside the domain. "error" raises `ValueError`, which
        reveals that such a value occurs. "uniform" replaces it by a random value of the
        domain, which biases the estimates toward equal counts. Any other argument must
        be a value of every column, and replaces it.

    memoize : bool, default=False
        If True, a record repeats its report while its value stays the same (permanent
        randomized response). `transform` then requires `person`.

    secret_key : bytes, default=None
        Key of at least 16 bytes, required if ``memoize=True``. Use
        ``SecretKey.generate()``.

    ledger : PrivacyLedger, default=None
        Ledger that is charged with `guarantee_` at each call of `transform`.

    random_state : int, default=None
        None uses secure randomness. Pass an int for reproducible experiments only: the
        reports are then not private.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of RandomizedResponse
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    See Also
    --------
    UnaryEncodingTransformer : Reports bits; smaller errors for many values.
    FrequencyOracleEncoder : Selects the oracle with the smallest error.
    OnFitOnly : Privatizes the training data only.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.
    Epsilon is computed from integer probabilities and rounded up; delta is 0.

    References
    ----------
    .. [1] P. Kairouz, S. Oh, P. Viswanath (2016). Extremal mechanisms for local
       differential privacy. Journal of Machine Learning Research 17.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import RandomizedResponseEncoder
    >>> people = pd.DataFrame({"sex": ["f", "m"] * 500})
    >>> encoder = RandomizedResponseEncoder(
    ...     1.0, categories={"sex": ["f", "m"]}, random_state=0
    ... )
    >>> reports = encoder.fit_transform(people)
    >>> print(encoder.estimate_counts(reports).round())
         count  std_error  lower  upper
    sex
    f    509.0       30.0  449.0  568.0
    m    491.0       30.0  432.0  551.0
    """

    _mechanism = "k-ary randomized response"
    _reports_values = True
    _oracle_class = RandomizedResponse


class UnaryEncodingTransformer(OracleEncoder):
    """Privatize categorical columns with unary encoding.

    A report has a bit for each category: 1 with probability p for the true category,
    and with probability q for each other category, so that
    ``e**epsilon = p (1 - q) / ((1 - p) q)`` [1]_. The output has a 0/1 column
    ``<column>_<category>`` for each category, and ``<column>_missing`` if missing is
    declared.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        See `RandomizedResponseEncoder`.

    variant : {"optimized", "symmetric"}, default="optimized"
        Choice of p and q for epsilon. "optimized" (OUE) has p = 1/2 and the smallest
        error for rare values, "symmetric" (SUE) has q = 1 - p. For p = 3/4 and q = 1/4,
        the example of textbooks, set ``variant="symmetric"`` and
        ``epsilon=2 * math.log(3)``.

    instantaneous_epsilon : float, default=None
        Privacy loss of a single report if ``memoize=True``, smaller than epsilon. Each
        release then flips the bits of the permanent report again, with new noise.

    strategy, handle_unknown : optional
        See `RandomizedResponseEncoder`. With ``strategy="sample"``, a record has zeros
        in the columns that it does not report.

    memoize, secret_key : optional
        See `RandomizedResponseEncoder`.

    ledger, random_state : optional
        See `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    instantaneous_guarantee_ : PrivacyGuarantee
        Privacy guarantee of a single report. Exists with `instantaneous_epsilon` only.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of UnaryEncoding
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    See Also
    --------
    RandomizedResponseEncoder : Smaller errors for few values or a large epsilon.
    SubsetSelectionEncoder : Bits with errors that are never larger.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import UnaryEncodingTransformer
    >>> people = pd.DataFrame({"town": ["A", "B"] * 500})
    >>> encoder = UnaryEncodingTransformer(
    ...     1.0, categories={"town": ["A", "B", "C"]}, random_state=0
    ... )
    >>> reports = encoder.fit_transform(people)
    >>> list(reports)
    ['town_A', 'town_B', 'town_C']
    >>> print(encoder.estimate_counts(reports).round())
          count  std_error  lower  upper
    town
    A     524.0       65.0  397.0  651.0
    B     489.0       65.0  363.0  616.0
    C    -108.0       61.0 -227.0   11.0
    """

    _mechanism = "unary encoding"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        variant: Literal["optimized", "symmetric"] = "optimized",
        instantaneous_epsilon: float | None = None,
        strategy: ReportStrategy = "split",
        handle_unknown: HandleUnknown = "error",
        memoize: bool = False,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            categories=categories,
            strategy=strategy,
            handle_unknown=handle_unknown,
            memoize=memoize,
            secret_key=secret_key,
            ledger=ledger,
            random_state=random_state,
        )
        self.variant = variant
        self.instantaneous_epsilon = instantaneous_epsilon

    def _check_parameters(self) -> Fraction:
        epsilon = super()._check_parameters()
        if self.instantaneous_epsilon is None:
            return epsilon
        if not self.memoize:
            raise ValueError(
                "`instantaneous_epsilon` requires memoize=True, got memoize=False."
            )
        name = "instantaneous_epsilon"
        if check_epsilon(self.instantaneous_epsilon, name=name) >= epsilon:
            raise ValueError(
                "`instantaneous_epsilon` must be smaller than epsilon, got "
                f"{self.instantaneous_epsilon} and {self.epsilon}."
            )
        return epsilon

    def _make_oracle(self, k: int, epsilon: Fraction) -> UnaryEncoding:
        """Make the oracle of k values; with `instantaneous_epsilon`, it has two rounds of noise.

        The first round spends `epsilon` once, for the permanent bits of a record. The
        second round adds fresh noise to these bits, so a single report has only the same
        fraction of `instantaneous_epsilon`.
        """
        oracle = UnaryEncoding(k, epsilon, variant=self.variant)
        if self.instantaneous_epsilon is None:
            return oracle
        fraction = epsilon / check_epsilon(self.epsilon)
        report_epsilon = fraction * check_epsilon(self.instantaneous_epsilon)
        return TwoRoundUnaryEncoding(oracle, report_epsilon)

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        """Set the fitted attributes; with `instantaneous_epsilon`, also the guarantee of a single report.

        A report is permanent bits of the record with fresh noise. `guarantee_` is for
        any number of reports, and `instantaneous_guarantee_` for an attacker who gets
        one report only.
        """
        super()._set_fitted(protocol)
        # Remove the attribute of an earlier fit with other parameters.
        self.__dict__.pop("instantaneous_guarantee_", None)
        if self.instantaneous_epsilon is not None:
            self.instantaneous_guarantee_ = make_guarantee(
                self.oracles_,
                protocol.sampling,
                scope=protocol.columns,
                observed=protocol.guarantee.observed,
                mechanism=self._mechanism,
                secure=self.random_state is None,
            )


class SubsetSelectionEncoder(OracleEncoder):
    """Privatize categorical columns with subset selection.

    A report is a random set of w of the k categories, where w has the smallest error and is
    near ``k / (e**epsilon + 1)``. A set that contains the true category is ``e**epsilon``
    times as likely as a set that does not [1]_. The output has a 0/1 column
    ``<column>_<category>`` for each category, with w ones in each row.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        See `RandomizedResponseEncoder`.

    strategy, handle_unknown : optional
        See `RandomizedResponseEncoder`. With ``strategy="sample"``, a record has zeros
        in the columns that it does not report.

    memoize, secret_key, ledger, random_state : optional
        See `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of SubsetSelection
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    See Also
    --------
    UnaryEncodingTransformer : Independent bits.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.

    References
    ----------
    .. [1] M. Ye, A. Barg (2018). Optimal schemes for discrete distribution estimation
       under locally differential privacy. IEEE Transactions on Information Theory
       64(8).

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import SubsetSelectionEncoder
    >>> people = pd.DataFrame({"town": ["A", "B"] * 500})
    >>> encoder = SubsetSelectionEncoder(
    ...     1.0, categories={"town": ["A", "B", "C"]}, random_state=0
    ... )
    >>> reports = encoder.fit_transform(people)
    >>> print(encoder.estimate_counts(reports).round())
          count  std_error  lower  upper
    town
    A     470.0       39.0  393.0  546.0
    B     470.0       39.0  393.0  546.0
    C      61.0       36.0  -10.0  131.0
    """

    _mechanism = "subset selection"
    _oracle_class = SubsetSelection


class LocalHashingEncoder(OracleEncoder):
    """Privatize categorical columns with local hashing.

    A report is the seed of a random hash function, which is public, and the bucket of
    the true value among about ``e**epsilon + 1`` buckets, which have the smallest error
    (OLH), privatized by randomized response [1]_. Reports are
    small for any number k of values. The output has the columns ``<column>_seed`` and
    ``<column>_bucket``. The estimation from n records computes n k hashes.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        See `RandomizedResponseEncoder`.

    strategy, handle_unknown : optional
        See `RandomizedResponseEncoder`. With ``strategy="sample"``, a record has zeros
        in the columns that it does not report.

    memoize : bool, default=False
        See `RandomizedResponseEncoder`. The hash function of a record and column is
        permanent, and values in the same bucket have the same permanent report [2]_. So
        the privacy loss of all reports of a record is at most g times epsilon.

    secret_key, ledger, random_state : optional
        See `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of LocalHashing
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    See Also
    --------
    HeavyHitters : Finds frequent strings of an open vocabulary.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.

    References
    ----------
    .. [1] T. Wang, J. Blocki, N. Li, S. Jha (2017). Locally differentially private
       protocols for frequency estimation. USENIX Security.
    .. [2] H. Arcolezi et al. (2023). Frequency estimation of evolving data under local
       differential privacy. EDBT.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import LocalHashingEncoder
    >>> visits = pd.DataFrame({"page": [7] * 6_000 + [8] * 4_000})
    >>> encoder = LocalHashingEncoder(
    ...     2.0, categories={"page": range(1_000)}, random_state=0
    ... )
    >>> reports = encoder.fit_transform(visits)
    >>> list(reports)
    ['page_seed', 'page_bucket']
    >>> print(encoder.estimate_counts(reports).loc[[7, 8]].round())
           count  std_error   lower   upper
    page
    7     5807.0      112.0  5586.0  6027.0
    8     4031.0      105.0  3825.0  4236.0
    """

    _mechanism = "local hashing"
    _oracle_class = LocalHashing


class FrequencyOracleEncoder(OracleEncoder):
    """Privatize categorical columns with the oracle that has the smallest error.

    The mean squared error of an oracle is a closed form of epsilon and the number of
    values, so the choice depends on no data. The columns of the output depend on the
    oracle: the code of the category for randomized response, bits for unary encoding
    and subset selection, seed and bucket for local hashing.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy loss of one record over all columns together, > 0.

    categories : "auto", list of array-like, dict or Domain, default="auto"
        See `RandomizedResponseEncoder`.

    oracle : str, default="auto"
        Name of the oracle of all columns, a key of `skdp.oracles.ORACLES` such as
        "subset_selection". "auto" selects the oracle of each column among those with
        reports of at most 1,024 bytes.

    strategy, handle_unknown : optional
        See `RandomizedResponseEncoder`. With ``strategy="sample"``, a record has zeros
        in the columns that it does not report.

    memoize : bool, default=False
        See `RandomizedResponseEncoder` and, for columns with local hashing,
        `LocalHashingEncoder`. Permanent reports change if another oracle is selected.

    secret_key, ledger, random_state : optional
        See `RandomizedResponseEncoder`.

    Attributes
    ----------
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`. If ``memoize=True``, it covers all
        calls while the values stay the same.

    domain_ : Domain
        Domain of the fitted columns.

    categories_ : list of ndarray
        Values of each column, as in `OneHotEncoder`. Bins of an `Interval` are text.

    oracles_ : tuple of FrequencyOracle
        Frequency oracle of each column, or of their combination if
        ``strategy="joint"``.

    protocol_ : ReportProtocol
        Parameters that client and server share.

    oracle_ : list of str
        Name of the oracle of each attribute.

    expected_error_ : list of float
        Mean over the values of an attribute of n times the variance of an estimated
        frequency.

    See Also
    --------
    LocalTableEncoder.plan : Compares strategies before data are collected.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values in the
    fitted columns. Other columns and the row index are not protected. Each call of
    `transform` is a new release unless ``memoize=True``.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import FrequencyOracleEncoder
    >>> domain = {"sex": ["F", "M"], "zip": range(100_000)}
    >>> people = {"sex": ["F", "M"], "zip": [10_001, 94_105]}
    >>> encoder = FrequencyOracleEncoder(2.0, categories=domain)
    >>> encoder.fit(pd.DataFrame(people)).oracle_
    ['randomized_response', 'local_hashing']
    """

    _mechanism = "frequency oracle"

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        categories: Categories = "auto",
        oracle: str = "auto",
        strategy: ReportStrategy = "split",
        handle_unknown: HandleUnknown = "error",
        memoize: bool = False,
        secret_key: bytes | None = None,
        ledger: PrivacyLedger | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            epsilon,
            categories=categories,
            strategy=strategy,
            handle_unknown=handle_unknown,
            memoize=memoize,
            secret_key=secret_key,
            ledger=ledger,
            random_state=random_state,
        )
        self.oracle = oracle

    def _check_parameters(self) -> Fraction:
        check_choice("oracle", self.oracle, ("auto", *ORACLES))
        return super()._check_parameters()

    def _make_fields(self, *args: Any) -> Any:
        # The name of each oracle, until `_set_fitted` sets the fitted attributes.
        self._names: dict[FrequencyOracle, str] = {}
        return super()._make_fields(*args)

    def _make_oracle(self, k: int, epsilon: Fraction) -> FrequencyOracle:
        """Make the oracle of k values: the chosen one, or with "auto" the oracle with the smallest error."""
        if self.oracle == "auto":
            name, oracle = choose_oracle(k, epsilon)
        else:
            name, oracle = self.oracle, ORACLES[self.oracle](k, epsilon)
        self._names[oracle] = name
        return oracle

    def _set_fitted(self, protocol: ReportProtocol) -> None:
        """Set the fitted attributes: also the name and the mean squared error of each oracle."""
        super()._set_fitted(protocol)
        self.oracle_ = [self._names[oracle] for oracle in self.oracles_]
        del self._names
        self.expected_error_ = [oracle.mean_squared_error for oracle in self.oracles_]


def encode_handle_unknown(
    handle_unknown: object, domain: Domain
) -> str | dict[Any, int]:
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
