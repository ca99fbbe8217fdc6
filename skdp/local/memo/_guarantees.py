"""Repeated collection: the parameters, the promises and the record ids of memoised reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp.exact import round_up
from skdp.local._row_reports import attribute_epsilons
from skdp.local.memo._keys import check_key, read_record_ids
from skdp.oracles import FrequencyOracle, TwoRounds, check_size, two_rounds
from skdp.privacy import PrivacyGuarantee, check_epsilon


class MemoisedReports(ABC):
    """The part of a local transformer that is about records which report more than once."""

    # Not every transformer has these as parameters.
    memoize: Any = False
    secret_key: Any = None
    instantaneous_epsilon: Any = None

    guarantee_: PrivacyGuarantee
    _mechanism: str
    _memo: Any

    @abstractmethod
    def _cost_of_changes(self, n_values: int) -> Fraction:
        """Add up the epsilons of a record's permanent reports: so many of each column, or as many as there are."""

    def _check_memo(self) -> None:
        if not isinstance(self.memoize, bool | np.bool_):
            raise TypeError(f"memoize must be True or False, got {type(self.memoize).__name__}")
        check_key(self.secret_key)
        if self.memoize and self.secret_key is None:
            raise ValueError("memoize=True needs a secret_key, such as SecretKey.generate()")
        if not self.memoize and self.secret_key is not None:
            raise ValueError("a secret_key is of use with memoize=True only")
        if not self.memoize and self.instantaneous_epsilon is not None:
            raise ValueError("instantaneous_epsilon bounds a single one of many memoised reports: set memoize=True")

    @property
    def _permanent_key(self) -> bytes | None:
        return None if self._memo is None else self._memo.key

    def _read_records(self, record_id: Any, rows: int) -> list[bytes]:
        if self._memo is None:
            if record_id is not None:
                raise ValueError("record_id is of use with memoize=True only")
            return []
        if record_id is None:
            raise ValueError(
                "memoize=True needs record_id, an id for each row; in a Pipeline, route it with "
                "set_transform_request(record_id=True)"
            )
        ids = read_record_ids(record_id, rows)
        if len({*ids}) < rows:
            # Rows of one record with different values would cost more than the one charge of a call.
            raise ValueError("record_id has repeated entries; a record reports once in a call")
        return ids

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
        if self._memo is None:
            raise ValueError("without memoize=True every call costs guarantee_, whether or not a value changes")
        # Both are bounds; the first one is rounded once only.
        epsilon = min(Fraction(self.guarantee_.epsilon) * n_values, self._cost_of_changes(n_values))
        mechanism = f"{self._mechanism}, memoised: all reports of {n_values} values of a column"
        return replace(self.guarantee_, epsilon=round_up(epsilon), mechanism=mechanism)


class RepeatedReports(MemoisedReports):
    """The same for reports of frequency oracles, which may have a second round of noise."""

    epsilon: Any
    shares: Any
    strategy: Any
    permanent_oracles_: tuple[FrequencyOracle, ...]
    _strategy: str

    @abstractmethod
    def _make_oracle(self, k: int, epsilon: Any) -> FrequencyOracle: ...

    def _make_first_round(self, k: int, epsilon: Any, again: Fraction) -> FrequencyOracle:
        """Make the oracle of permanent reports, whose second round shall bound a single report by another epsilon."""
        return self._make_oracle(k, epsilon)

    def _make_oracles(
        self, epsilon: Fraction | None, attributes: Sequence[tuple[Any, ...]], sizes: Sequence[int]
    ) -> tuple[tuple[FrequencyOracle, ...], list[Any]]:
        """Make the oracle of each attribute; with a second round, also return the epsilon of a single report of it."""
        epsilons = attribute_epsilons(epsilon, attributes, sizes, self.strategy, self.shares)
        if self.instantaneous_epsilon is None:
            return tuple(self._make_oracle(k, part) for k, part in zip(sizes, epsilons, strict=True)), []
        wanted = check_epsilon(self.instantaneous_epsilon, name="instantaneous_epsilon")
        again: list[Any] = attribute_epsilons(wanted, attributes, sizes, self.strategy, self.shares)
        parts = zip(sizes, epsilons, again, strict=True)
        return tuple(self._make_first_round(k, first, second) for k, first, second in parts), again

    def _add_round(
        self, oracles: Sequence[FrequencyOracle], again: list[Any], guarantee: PrivacyGuarantee
    ) -> tuple[TwoRounds, ...]:
        if not again:
            return ()
        whole = guarantee.epsilon if self.epsilon is None else self.epsilon
        if check_epsilon(self.instantaneous_epsilon) >= whole:
            raise ValueError(
                f"instantaneous_epsilon must be smaller than epsilon, got {self.instantaneous_epsilon} and {whole}"
            )
        return tuple(two_rounds(oracle, part) for oracle, part in zip(oracles, again, strict=True))

    def _cost_of_changes(self, n_values: int) -> Fraction:
        costs = [
            Fraction(oracle.epsilon) * min(n_values, most)
            for oracle, most in zip(self.permanent_oracles_, self._memo.n_states, strict=True)
        ]
        return max(costs) if self._strategy == "sample" else sum(costs, Fraction(0))
