"""Permanent reports: a keyed function of key, record, column and value, so that nothing is stored to repeat them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_flag
from skdp.exact import round_up
from skdp.local.memo._keys import (
    Digests,
    SecretKey,
    check_key,
    digest_blocks,
    framed,
    keyed_digests,
)
from skdp.oracles import NumericMechanism, check_size
from skdp.oracles.numeric import round_at_random
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import MOST_ROWS, DigestSource, RowStreams

FORMAT = b"skdp permanent report 7"
"""To be raised whenever an oracle uses its random bits differently: old and new reports must not share any."""

_HEAD = 16
"""The bytes of a digest that are used as they are; the others, as many, are the seed of further ones."""


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
        check_flag("memoize", self.memoize)
        check_key(self.secret_key)
        if self.memoize and self.secret_key is None:
            raise ValueError(
                "memoize=True needs a secret_key, such as SecretKey.generate()"
            )
        if not self.memoize and self.secret_key is not None:
            raise ValueError("secret_key requires memoize=True")
        if not self.memoize and self.instantaneous_epsilon is not None:
            raise ValueError(
                "instantaneous_epsilon bounds a single one of many memoised reports: "
                "set memoize=True"
            )

    def guarantee_for_changes(self, n_values: int) -> PrivacyGuarantee:
        """Return what all memoised reports of a record promise together if its values change.

        Parameters
        ----------
        n_values : int
            How many distinct values each column (or, under "joint", the columns
            together) takes over time, at least 1.

        Returns
        -------
        PrivacyGuarantee
            Epsilon of `guarantee_` times the number of values, but of no more than
            there are: with hashing, no more than the number of buckets; of numbers, no
            more than positions of the grid.

        Raises
        ------
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the number is no integer of at least 1, or the reports
            are not memoised: then every call costs `guarantee_`, whether or not a value
            changes.

        Notes
        -----
        **Privacy.** Any number of reports, for neighbouring histories: records whose
        values were other ones, but changed at the same calls, and returned to earlier
        values at the same calls (with hashing, read "buckets" for "values", and for
        numbers "positions of the grid"). One permanent report is drawn for each
        distinct value, so their epsilons add. *That* a value changes, and when, is not
        hidden: two different permanent reports of a record come from different values.
        A second round of noise blurs this, and the more reports of each value there
        are, the less.
        """
        check_is_fitted(self)
        check_size(n_values, least=1, most=1 << 62, name="n_values")
        if self.protocol_.permanent_key is None:
            raise ValueError(
                "without memoize=True every call costs guarantee_, whether or not a "
                "value changes"
            )
        # Both are bounds; the first one is rounded once only.
        epsilon = min(
            Fraction(self.guarantee_.epsilon) * n_values,
            self.protocol_.cost_of_changes(n_values),
        )
        mechanism = (
            f"{self._mechanism}, memoised: all reports of {n_values} values of a column"
        )
        return replace(
            self.guarantee_, epsilon=round_up(epsilon), mechanism=mechanism, losses=()
        )


class Memo:
    """What the permanent reports of a fitted transformer are a function of."""

    # **Privacy.** The random bits are those of a CBC-MAC with AES-256, and of
    # SHAKE-256: as good as uniform without the key. The columns, their declared values
    # and the parameters of the mechanism enter too, so that reports under other ones
    # share none.

    def __init__(self, key: bytes, owner: str, fields: Sequence[Any]) -> None:
        self.key = SecretKey(key)
        self._contexts = [
            hashlib.sha256(
                framed(FORMAT, owner.encode(), *field.permanent_parts())
            ).digest()
            for field in fields
        ]

    def marks(self, records: Sequence[bytes]) -> NDArray[np.uint8]:
        """Return a keyed mark of each record, of one length, for all that is drawn for it."""
        return keyed_digests(self.key, (FORMAT, "record"), records)[:, :_HEAD]

    def sample(self, sampling: Any, marks: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Draw which fields each record reports. The values have no part in it."""
        sampling_bytes = repr((sampling.weights, sampling.size)).encode()
        digests = self._digests(
            framed(*self._contexts, sampling_bytes), "sample", marks
        )
        blocks = []
        # At least one block: engines rehearse on no rows.
        for start in range(0, max(1, len(digests)), MOST_ROWS):
            block = digests[start : start + MOST_ROWS]
            source = RowStreams(block, head=_HEAD)
            blocks.append(sampling.draw(source, len(block)))
        return np.concatenate(blocks)

    def draws(self, place: int, marks: NDArray[np.uint8]) -> PermanentDraws:
        """Return the random bits of a field for the records with these marks."""
        return PermanentDraws(self, self._contexts[place], marks)

    def _digests(
        self, context: bytes, purpose: str | bytes, *parts: NDArray[np.uint8]
    ) -> Digests:
        return digest_blocks(self.key, (context, purpose), *parts)


@dataclass(frozen=True)
class PermanentDraws:
    """The permanent random bits of a field, for each record: of a purpose and of its values."""

    memo: Memo
    context: bytes
    marks: NDArray[np.uint8]

    def digests(self, purpose: str | bytes, *parts: NDArray[np.uint8]) -> Digests:
        """Return 32 pseudo-random bytes for each record, which depend on its rows of some bytes."""
        return self.memo._digests(self.context, purpose, self.marks, *parts)

    def sources(
        self, purpose: str | bytes, *parts: NDArray[np.uint8]
    ) -> Iterator[DigestSource]:
        """Yield a source of random bits for each record."""
        return map(DigestSource, self.digests(purpose, *parts))

    def written(self, values: Sequence[bytes]) -> NDArray[np.uint8]:
        """Return values of any length as keyed bytes of one length."""
        purpose = (self.context, "value")
        return keyed_digests(self.memo.key, purpose, values)[:, :_HEAD]

    def numbers(
        self, mechanism: NumericMechanism, scaled: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the permanent reports of numbers."""
        # A record rounds all values of a column by the same random bits, which are drawn
        # without looking at a value: fresh ones would report both neighbours of an
        # unchanged number in the end, and cost twice as much. So the range falls into
        # `steps` + 1 parts, and the values of each part share a report ([1]_).
        # .. [1] B. Ding, J. Kulkarni, S. Yekhanin (2017). Collecting telemetry data
        #    privately. NeurIPS, section 4.
        drawn = self.digests("rounding")
        positions = round_at_random(scaled, _Given(drawn[:, :2].tobytes()))
        position_bytes = positions.astype(">i8").view(np.uint8).reshape(-1, 8)
        return keyed_numbers(
            mechanism, positions, self.digests("report", position_bytes)
        )


def keyed_numbers(
    mechanism: NumericMechanism, positions: NDArray[np.int64], digests: Digests
) -> NDArray[np.int64]:
    """Randomise each position by a digest of its own, many records at a time: the same reports as one at a time."""
    reports = np.empty_like(positions)
    for start in range(0, positions.size, MOST_ROWS):
        rows = slice(start, start + MOST_ROWS)
        reports[rows] = mechanism.report(
            positions[rows], RowStreams(digests[rows], head=_HEAD)
        )
    return reports


class _Given:
    """The bytes that are given."""

    def __init__(self, data: bytes) -> None:
        self._given = data

    def bytes(self, size: int) -> NDArray[np.uint8]:
        return np.frombuffer(self._given, np.uint8, size)
