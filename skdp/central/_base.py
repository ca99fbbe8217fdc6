"""What the estimators of the curator's side share: their checks, their promise, one charge, their coins."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from skdp.base import check_ledger, check_random_state, coins, read_bounds, read_input, read_numbers
from skdp.central._sums import BoundedColumn
from skdp.exact import round_up
from skdp.frames import LargeTable, Table, open_large
from skdp.privacy import PrivacyGuarantee, PrivacyLedger, check_delta, check_epsilon
from skdp.randomness import ByteSource


class CentralEstimator(BaseEstimator):
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
