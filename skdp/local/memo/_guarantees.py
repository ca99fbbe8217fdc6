"""Repeated collection: the parameters and the promises of memoised reports."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp.exact import round_up
from skdp.local.memo._keys import check_key
from skdp.oracles import check_size
from skdp.privacy import PrivacyGuarantee


class MemoisedReports:
    """The part of a local transformer that is about records which report more than once."""

    # Not every transformer has these as parameters.
    memoize: Any = False
    secret_key: Any = None
    instantaneous_epsilon: Any = None

    protocol_: Any
    guarantee_: PrivacyGuarantee
    _mechanism: str

    def _check_memo(self) -> None:
        if not isinstance(self.memoize, bool | np.bool_):
            raise TypeError(f"memoize must be True or False, got {type(self.memoize).__name__}")
        check_key(self.secret_key)
        if self.memoize and self.secret_key is None:
            raise ValueError("memoize=True needs a secret_key, such as SecretKey.generate()")
        if not self.memoize and self.secret_key is not None:
            raise ValueError("secret_key requires memoize=True")
        if not self.memoize and self.instantaneous_epsilon is not None:
            raise ValueError("instantaneous_epsilon bounds a single one of many memoised reports: set memoize=True")

    def guarantee_for_changes(self, n_values: int) -> PrivacyGuarantee:
        """Return what all memoised reports of a record promise together if its values change.

        Parameters
        ----------
        n_values : int
            How many distinct values each column (or, under "joint", the columns together) takes over time, at least 1.

        Returns
        -------
        PrivacyGuarantee
            Epsilon of `guarantee_` times the number of values, but of no more than there are: with hashing, no more
            than the number of buckets; of numbers, no more than positions of the grid.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError, ValueError
            If the number is no integer of at least 1, or the reports are not memoised: then every call costs
            `guarantee_`, whether or not a value changes.

        Notes
        -----
        **Privacy.** Any number of reports, for neighbouring histories: records whose values were other ones, but
        changed at the same calls, and returned to earlier values at the same calls (with hashing, read "buckets" for
        "values", and for numbers "positions of the grid"). One permanent report is drawn for each distinct value, so
        their epsilons add. *That* a value changes, and when, is not hidden: two different permanent reports of a record
        come from different values. A second round of noise blurs this, and the more reports of each value there are,
        the less.
        """
        check_is_fitted(self)
        check_size(n_values, least=1, most=1 << 62, name="n_values")
        if self.protocol_.permanent_key is None:
            raise ValueError("without memoize=True every call costs guarantee_, whether or not a value changes")
        # Both are bounds; the first one is rounded once only.
        epsilon = min(Fraction(self.guarantee_.epsilon) * n_values, self.protocol_.cost_of_changes(n_values))
        mechanism = f"{self._mechanism}, memoised: all reports of {n_values} values of a column"
        return replace(self.guarantee_, epsilon=round_up(epsilon), mechanism=mechanism)
