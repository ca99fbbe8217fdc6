"""Randomized response with different epsilons in two random halves of the records."""

from __future__ import annotations

from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MetaEstimatorMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from skdp._arrays import ColumnLike, ColumnName, Mask, TableLike
from skdp.base import (
    PrivateEstimator,
    apply_set_output,
    check_input,
    check_names,
    restore_on_error,
)
from skdp.local import RandomizedResponseEncoder
from skdp.privacy import PrivacyGuarantee, check_epsilon
from skdp.randomness import uniform_integers
from skdp.survey._design import ReportDesign
from skdp.tables import Table, is_frame

# Output column with the half of each record.
GROUP = "half"


class PerHalf(MetaEstimatorMixin, TransformerMixin, PrivateEstimator):
    """Privatize two random halves of the records with different epsilons.

    The proportion of non-compliant respondents, such as respondents who always report "no", can
    then be estimated together with the frequencies [1]_. Their reports have the same
    distribution in both halves, and all other reports have the distributions that the two
    epsilons imply.

    Parameters
    ----------
    encoder : RandomizedResponseEncoder
        Encoder of both halves, with ``strategy="split"`` and ``memoize=False``. It is
        cloned for each half, with the epsilon of the half. Its ledger is charged at each
        call of `transform`.
    epsilons : tuple of (float, float), default=(0.5, 2.0)
        Epsilons of half 0 and half 1, which must differ. The error of the proportion of
        non-compliance is smaller for a larger difference.

    Attributes
    ----------
    encoders_ : tuple of RandomizedResponseEncoder
        Fitted encoders of the two halves.
    guarantee_ : PrivacyGuarantee
        Privacy guarantee of one call of `transform`, which is the guarantee of the half
        with the larger epsilon.

    Raises
    ------
    TypeError, ValueError
        By `fit`, if the encoder is of another class, or the epsilons are not two
        different numbers > 0.

    See Also
    --------
    skdp.ReportDesign.with_cheaters : Estimates non-compliance for other questionnaires.

    Notes
    -----
    **Privacy.** Local model, for each record, under replacement of its values. The half
    is drawn by a fair coin from the random source of the encoder, independent of the
    data, and is public.

    Non-compliance can be estimated only if respondents choose their report. If a device
    randomizes the answer, a false answer has the same distribution of reports as a true
    answer.

    References
    ----------
    .. [1] S. J. Clark, R. A. Desharnais (1998). Honest answers to embarrassing
       questions: detecting cheating in the randomized response model. Psychological
       Methods 3.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import PerHalf, RandomizedResponseEncoder
    >>> people = pd.DataFrame({"copied": ["no", "yes", "no", "no"] * 500})
    >>> encoder = RandomizedResponseEncoder(categories={"copied": ["no", "yes"]}, random_state=0)
    >>> halves = PerHalf(encoder, epsilons=(0.5, 2.0))
    >>> reports = halves.fit_transform(people)
    >>> list(reports.columns)
    ['copied', 'half']
    >>> design = halves.design("copied").with_cheaters("no")
    >>> design.estimate_frequencies(reports).round(2)
              frequency  std_error  lower  upper
    copied
    no             0.75       0.06   0.62   0.87
    yes            0.25       0.02   0.21   0.30
    cheaters      -0.00       0.05  -0.09   0.10
    """

    def __init__(
        self,
        encoder: RandomizedResponseEncoder,
        *,
        epsilons: tuple[float, float] = (0.5, 2.0),
    ) -> None:
        self.encoder = encoder
        self.epsilons = epsilons

    @restore_on_error
    def fit(self, X: TableLike, y: ColumnLike | None = None) -> Self:
        """Fit the encoders of both halves to the declared values.

        Parameters
        ----------
        X : dataframe
            Only the column names and dtypes are used, unless the encoder infers its
            categories.
        y : None
            Ignored.

        Returns
        -------
        self
            Fitted transformer.
        """
        self._check_parameters()
        self._read_table(X, reset=True)
        encoders = []
        for epsilon in self.epsilons:
            encoder = clone(self.encoder).set_params(epsilon=epsilon)
            # This transformer applies `set_output` to the output of both halves.
            encoder.set_output(transform="default")
            encoders.append(encoder.fit(X))
        if GROUP in encoders[0].protocol_.columns:
            raise ValueError(
                f"X must not have a column {GROUP!r}, because `transform` adds it. "
                "Rename the column."
            )
        self.encoders_ = tuple(encoders)
        return self

    @property
    def guarantee_(self) -> PrivacyGuarantee:
        """Privacy guarantee of one call of `transform`."""
        return self._weaker_encoder().guarantee_

    def _read_table(self, X: TableLike, *, reset: bool) -> Table:
        """Check that X is a dataframe, and return its columns."""
        if not is_frame(X):
            raise TypeError(
                f"X must be a dataframe, got {type(X).__name__}. Use "
                "pandas.DataFrame(X)."
            )
        return check_input(self, X, reset=reset)

    def _check_parameters(self) -> None:
        """Check the encoder and the two epsilons."""
        encoder = self.encoder
        if type(encoder) is not RandomizedResponseEncoder:
            raise TypeError(
                "`encoder` must be a RandomizedResponseEncoder, got "
                f"{type(encoder).__name__}."
            )
        if encoder.strategy != "split" or encoder.memoize:
            raise ValueError(
                "`encoder` must have strategy='split' and memoize=False, got "
                f"strategy={encoder.strategy!r} and memoize={encoder.memoize!r}."
            )
        epsilons = self.epsilons
        is_pair = isinstance(epsilons, tuple | list) and len(epsilons) == 2
        if not is_pair or len(set(map(check_epsilon, epsilons))) < 2:
            raise ValueError(
                f"`epsilons` must be two different floats > 0, got {epsilons!r}."
            )

    def _weaker_encoder(self) -> RandomizedResponseEncoder:
        """Return the encoder with the larger epsilon, which bounds the loss of each record."""
        return max(self.encoders_, key=lambda encoder: encoder.guarantee_.epsilon)

    def transform(self, X: TableLike) -> Any:
        """Draw the half of each row, and privatize the row with the epsilon of its half.

        Parameters
        ----------
        X : dataframe
            True values, with the columns of `fit`.

        Returns
        -------
        dataframe of the same library
            Reports, and the half of each row.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if X has other columns or values outside the domain.
        BudgetExceeded
            If the ledger does not cover the release.
        """
        check_is_fitted(self)
        table = self._read_table(X, reset=False)
        protocols = [encoder.protocol_ for encoder in self.encoders_]
        check_names(self, table, protocols[0].columns)
        # The codes of both protocols are equal, because they have the same domain.
        codes = protocols[0].prepare(table)
        # The charge covers both halves. No random bit is drawn before it.
        encoder = self._weaker_encoder()
        encoder._charge()
        randomness = encoder._randomness()
        n_rows = len(table.columns[0])
        is_second = uniform_integers(randomness("half"), 2, n_rows) == 1
        # Each row is randomized with both epsilons, and one of the reports is released.
        drawn = []
        for half, protocol in enumerate(protocols):
            drawn.append(protocol.randomize(codes, [], randomness.part(half)))
        reports = []
        for first, second in zip(*drawn, strict=True):
            reports.append(np.where(is_second, second, first))
        released = protocols[0].write(reports, table)
        return apply_set_output(self, _add_halves(released, is_second))

    def _planned_guarantee(self) -> PrivacyGuarantee | None:
        """Return the guarantee of a call of `transform` before `fit`, or None if it is unknown."""
        encoder = clone(self.encoder).set_params(epsilon=max(self.epsilons))
        return encoder._planned_guarantee()

    def get_feature_names_out(
        self, input_features: ArrayLike | None = None
    ) -> NDArray[np.object_]:
        """Get the names of the output columns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            The report columns, and the column 'half'.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        names = [*self.encoders_[0].protocol_.report_columns, GROUP]
        return np.array(list(map(str, names)), dtype=object)

    def design(self, column: ColumnName | None = None) -> ReportDesign:
        """Make the design of the reports of a column, for estimates and regressions.

        Parameters
        ----------
        column : column name, default=None
            Column. None uses the only column.

        Returns
        -------
        ReportDesign
            Design with the exact channels of both halves.

        Raises
        ------
        NotFittedError, ValueError
            Before `fit`, or if the column is not declared.
        """
        check_is_fitted(self)
        domain = self.encoders_[0].domain_
        if column is None and len(domain.columns) == 1:
            column = domain.columns[0]
        if column not in domain.columns:
            raise ValueError(
                f"`column` must be one of {list(domain.columns)}, got {column!r}."
            )
        index = list(domain.columns).index(column)
        channels = {
            half: np.array(encoder.channel()[index], float)
            for half, encoder in enumerate(self.encoders_)
        }
        values = domain[column]
        return ReportDesign(
            column,
            channels,
            values=list(values.values),
            group=GROUP,
            observed=values.observed,
        )


def _add_halves(frame: object, is_second: Mask) -> Any:
    """Add the column of the halves to a dataframe of any library."""
    halves = is_second.astype(np.int64)
    table = nw.from_native(frame, eager_only=True)
    column = nw.new_series(GROUP, halves, backend=table.implementation)
    return table.with_columns(column).to_native()
