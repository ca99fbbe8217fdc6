"""What the estimators of the curator's side share: their checks, their promise, one charge, their coins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skdp.base import (
    OnSite,
    as_asked,
    check_ledger,
    check_names,
    check_random_state,
    coins,
    read_bounds,
    read_input,
    read_numbers,
)
from skdp.central.statistics import BoundedColumn
from skdp.exact import round_up
from skdp.frames import LargeTable, Table, open_large
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_delta, check_epsilon
from skdp.randomness import ByteSource


class CentralEstimator(OnSite, BaseEstimator):
    """A statistic of a table that a trusted curator holds, released once in `fit`."""

    # `fit` checks everything, charges the ledger, draws, and sets attributes, in this order: an error costs nothing,
    # and what was charged is never refunded. Only noisy statistics stay on the estimator.

    protects_rows = False
    """The statistics are private; rows that a `transform` returns are not."""

    epsilon: Any
    ledger: PrivacyLedger | None
    random_state: int | None
    guarantee_: PrivacyGuarantee

    def _check_promise(self) -> Fraction:
        """Check the parameters that all estimators have, and return epsilon exactly."""
        epsilon = check_epsilon(self.epsilon)
        check_ledger(self.ledger)
        check_random_state(self.random_state)
        return epsilon

    def _read_table(self, X: Any) -> Table:
        """Read a private table; even a table without rows is answered, since how many rows there are is private."""
        return read_input(self, X, reset=True, least=0)

    def _open_table(self, X: Any) -> tuple[Table, LargeTable | None]:
        """Read a private table; of one that stays where it is, the names and dtypes."""
        large = open_large(X)
        return self._read_table(X if large is None else large.sample), large

    def _spend(
        self,
        columns: Sequence[Any],
        mechanism: str,
        *,
        delta: Fraction | float = 0.0,
        rho: Fraction | None = None,
    ) -> ByteSource:
        """Charge what the fit releases, keep the promise on the estimator, and return the coins."""
        guarantee = PrivacyGuarantee(
            round_up(check_epsilon(self.epsilon)),
            round_up(check_delta(delta)),
            relation="add_remove",
            trust="central",
            scope=tuple(columns),
            mechanism=mechanism,
            secure=self.random_state is None,
            rho=None if rho is None else round_up(rho),
        )
        if self.ledger is not None:
            self.ledger.charge(guarantee, type(self).__name__)
        self.guarantee_ = guarantee
        return coins(self.random_state, type(self).__name__)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")  # a `fit` that failed has set n_features_in_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def bounded_columns(table: Table, bounds: Any) -> list[BoundedColumn]:
    """Read the numbers of a table between declared bounds."""
    ends = read_bounds(bounds, table.names)
    numbers = read_numbers(table, missing=True)
    return [BoundedColumn(column, *map(float, pair)) for column, pair in zip(numbers, ends, strict=True)]


Columns = list[NDArray[Any]]


class CentralTransformer(OneToOneFeatureMixin, TransformerMixin, CentralEstimator):
    """A transformer whose statistics are private, while its output is the rows themselves."""

    # After `fit`, `transform` is a plain function of each row: it draws nothing, and it protects nobody. A subclass
    # gives `_transform_columns`.

    def transform(self, X: Any) -> Any:
        """Transform the rows of a table.

        Parameters
        ----------
        X : dataframe or array-like of shape (n_samples, n_features)
            Numbers, in the columns of `fit`; values may be missing.

        Returns
        -------
        same kind as X
            The transformed rows, which are as private as those of X: no noise is added to them.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If X has other columns, or is not numeric.
        """
        check_is_fitted(self)
        table = read_input(self, X, reset=False, least=0)
        check_names(self, table, self.guarantee_.scope)
        return as_asked(self, self._apply(table, self._transform_columns, self._output_names()))

    def _spend_nothing(self, columns: Sequence[Any], mechanism: str) -> None:
        """Keep the promise of a fit that reads no value: it costs nothing, and nobody needs to be trusted with it."""
        self.guarantee_ = PrivacyGuarantee(0.0, scope=tuple(columns), mechanism=mechanism)

    def _transform_columns(self, columns: Columns) -> Columns:
        """Transform all columns; a missing value is nan. They may be views of X, and are not written to."""
        raise NotImplementedError

    def _output_names(self) -> Sequence[Any]:
        return self.guarantee_.scope

    def _invert(self, X: Any, function: Callable[[Columns], Columns]) -> Any:
        """Apply the inverse of `_transform_columns` to what `transform` returned, or to an array of it."""
        check_is_fitted(self)
        # By an estimator that has seen no names: scikit-learn would warn of an array where `fit` saw a frame.
        table = read_input(BaseEstimator(), X, reset=True, least=0)
        if len(table.names) != self.n_features_in_:
            raise ValueError(f"X has {len(table.names)} features; fit saw {self.n_features_in_}")
        check_names(self, table, self.guarantee_.scope)
        return self._apply(table, function, self.guarantee_.scope)

    @staticmethod
    def _apply(table: Table, function: Callable[[Columns], Columns], names: Sequence[Any]) -> Any:
        columns = function(read_numbers(table, missing=True))
        if not isinstance(table.native, np.ndarray | pd.DataFrame):
            columns = [with_nulls(column, nw.get_native_namespace(table.native)) for column in columns]
        return table.rebuild(columns, names)


def with_nulls(column: Any, backend: Any) -> Any:
    """Write nan as polars and pyarrow write what is missing: for them, nan is a number."""
    if column.dtype.kind != "f" or not np.isnan(column).any():
        return column
    frame = nw.new_series("column", column, backend=backend).to_frame()
    return frame.select(nw.when(~nw.col("column").is_nan()).then("column"))["column"].to_native()


def keep_missing(codes: NDArray[Any], column: NDArray[np.float64]) -> NDArray[Any]:
    """Write nan to where a column has one; without any, the codes keep their integer dtype."""
    missing = np.isnan(column)
    return np.where(missing, np.nan, codes) if missing.any() else codes
