"""Permanent reports: a keyed function of key, record, column and value, so that nothing is stored to repeat them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skdp.base import check_flag
from skdp.coding import ColumnError
from skdp.domain import Codes, Domain, Interval
from skdp.exact import round_up
from skdp.local.memo._keys import (
    Digests,
    SecretKey,
    canonical,
    check_key,
    digest_blocks,
    framed,
    keyed_digests,
    written_name,
)
from skdp.oracles import FrequencyOracle, NumericMechanism, check_size
from skdp.oracles.numeric import round_at_random
from skdp.privacy import PrivacyGuarantee
from skdp.randomness import MOST_ROWS, DigestSource, RowStreams, uniform_integers

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
                "instantaneous_epsilon bounds a single one of many memoised reports: set memoize=True"
            )

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
        NotFittedError, TypeError, ValueError
            Before `fit`, or if the number is no integer of at least 1, or the reports are not memoised: then every call
            costs `guarantee_`, whether or not a value changes.

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
            raise ValueError(
                "without memoize=True every call costs guarantee_, whether or not a value changes"
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

    # **Privacy.** The random bits are those of a CBC-MAC with AES-256, and of SHAKE-256: as good as uniform without the
    # key. Columns, domains and parameters of the oracles enter too, so that reports under other ones share none.

    def __init__(
        self,
        key: bytes,
        owner: str,
        domain: Domain,
        attributes: list[tuple[Any, ...]],
        oracles: tuple[FrequencyOracle, ...],
        *,
        sample: bool,
        unknown: bool,
    ) -> None:
        self.key = SecretKey(key)
        self._domains = [domain.select(columns) for columns in attributes]
        self._oracles, self._sample, self._unknown = oracles, sample, unknown
        self._contexts = [
            context_of(owner, *_written(part, oracle))
            for part, oracle in zip(self._domains, oracles, strict=True)
        ]
        self.n_states = [
            oracle.n_states(math.prod(size + unknown for size in part.sizes))
            for part, oracle in zip(self._domains, oracles, strict=True)
        ]

    def report(
        self, codes: list[Codes], records: Sequence[bytes]
    ) -> tuple[list[NDArray[Any]], NDArray[np.integer] | None]:
        """Compute the permanent reports."""
        marks, chosen = mark_records(self.key, records), None
        if self._sample:
            # Permanent too: fresh draws would report all columns in the end. The values have no part in it.
            number = len(self._oracles)
            sources = self._sources(framed(*self._contexts), "sample", marks)
            drawn = [uniform_integers(source, number, 1)[0] for source in sources]
            chosen = np.array(drawn, np.min_scalar_type(number - 1))
        reports, columns = [], iter(codes)
        for index, domain in enumerate(self._domains):
            own = np.stack(
                [next(columns).astype(np.int64) for _ in domain.columns], axis=1
            )
            if chosen is None:
                reports.append(self._report(index, own, marks))
                continue
            rows = np.flatnonzero(chosen == index)
            some = self._report(index, own[rows], marks[rows])
            reports.append(np.zeros((len(records), *some.shape[1:]), some.dtype))
            reports[-1][rows] = some
        return reports, chosen

    def _report(
        self, index: int, codes: NDArray[np.int64], marks: NDArray[np.uint8]
    ) -> NDArray[Any]:
        """Compute the reports of one attribute."""
        context, domain, oracle = (
            self._contexts[index],
            self._domains[index],
            self._oracles[index],
        )
        values = (
            codes.astype(">i8")
            .view(np.uint8)
            .reshape(len(codes), 8 * len(domain.columns))
        )
        columns = list(codes.T)
        if self._unknown:
            # Undeclared values are a value of their own, with random bits of their own for what replaces it.
            for row, source in enumerate(
                self._sources(context, "unknown", marks, values)
            ):
                for column, size in zip(columns, domain.sizes, strict=True):
                    drawn = uniform_integers(source, size, 1)[0]
                    column[row] = drawn if column[row] == size else column[row]
        joint = domain.join(columns)
        return oracle.report_keyed(
            joint,
            values,
            lambda purpose, *of: self._digests(context, purpose, marks, *of),
        )

    def _digests(self, context: bytes, purpose: str, *of: NDArray[np.uint8]) -> Digests:
        return digest_blocks(self.key, (context, purpose), *of)

    def _sources(
        self, context: bytes, purpose: str, *of: NDArray[np.uint8]
    ) -> Iterator[DigestSource]:
        return map(DigestSource, self._digests(context, purpose, *of))


def mark_records(key: bytes, records: Sequence[bytes]) -> NDArray[np.uint8]:
    """Return a keyed mark of each record, of one length, for all that is drawn for it."""
    return keyed_digests(key, (FORMAT, "record"), records)[:, :_HEAD]


def context_of(owner: str, *parts: bytes) -> bytes:
    """Write what permanent reports belong to: reports in different contexts share no random bits."""
    return hashlib.sha256(framed(FORMAT, owner.encode(), *parts)).digest()


def _written(domain: Domain, oracle: FrequencyOracle) -> list[bytes]:
    parts = [repr(sorted(oracle.parameters().items())).encode()]
    for name in domain.columns:
        attribute = domain[name]
        values: tuple[Any, ...] = attribute.values
        if isinstance(attribute, Interval):
            values = (*attribute.edges, None) if attribute.missing else attribute.edges
        kind = type(attribute).__name__.encode()
        try:
            parts += [
                canonical(name),
                kind,
                framed(
                    *(b"" if value is None else canonical(value) for value in values)
                ),
            ]
        except ColumnError:
            raise ValueError(
                f"memoize=True needs column names and categories of text, numbers, booleans or times; column {name!r} "
                "has others"
            ) from None
    return parts


class NumericMemo:
    """What the permanent reports of a fitted `NumericPerturber` are a function of."""

    # **Privacy.** The random bits are those of a CBC-MAC with AES-256, and of SHAKE-256: as good as uniform without the
    # key. A record rounds all values of a column by the same random bits, which are drawn without looking at a value:
    # fresh ones would report both neighbours of an unchanged number in the end, and cost twice as much. So the range
    # falls into `steps` + 1 parts, and the values of each part share a report ([1]_).
    # .. [1] B. Ding, J. Kulkarni, S. Yekhanin (2017). Collecting telemetry data privately. NeurIPS, section 4.

    def __init__(
        self,
        key: bytes,
        owner: str,
        names: tuple[Any, ...],
        bounds: NDArray[np.float64],
        mechanism: NumericMechanism,
        epsilon: Fraction,
    ) -> None:
        self.key, self._mechanism = SecretKey(key), mechanism
        parts = [str(epsilon), json.dumps(mechanism.parameters(), sort_keys=True)]
        self._contexts = [
            context_of(
                owner,
                *map(str.encode, parts),
                written,
                (ends + 0.0).astype(">f8").tobytes(),
            )
            for written, ends in zip(
                [written_name(name, "memoize=True") for name in names],
                bounds,
                strict=True,
            )
        ]

    def draw(self, sampling: Any, records: Sequence[bytes]) -> NDArray[np.bool_]:
        """Draw which columns a record reports: permanent too, as fresh draws would report all of them in the end."""
        context = framed(
            *self._contexts, repr((sampling.weights, sampling.size)).encode()
        )
        digests = digest_blocks(
            self.key, (context, "sample"), mark_records(self.key, records)
        )
        starts = range(
            0, max(1, len(digests)), MOST_ROWS
        )  # engines rehearse on no rows
        blocks = [digests[start : start + MOST_ROWS] for start in starts]
        return np.concatenate(
            [
                sampling.draw(RowStreams(block, head=_HEAD), len(block))
                for block in blocks
            ]
        )

    def report(
        self, scaled: list[NDArray[np.int64]], records: Sequence[bytes]
    ) -> list[NDArray[np.int64]]:
        """Compute the permanent reports."""
        marks, reports = mark_records(self.key, records), []
        for context, places in zip(self._contexts, scaled, strict=True):
            drawn = digest_blocks(self.key, (context, "rounding"), marks)
            positions = round_at_random(places, _Given(drawn[:, :2].tobytes()))
            written = positions.astype(">i8").view(np.uint8).reshape(-1, 8)
            digests = digest_blocks(self.key, (context, "report"), marks, written)
            reports.append(keyed_numbers(self._mechanism, positions, digests))
        return reports


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

    def __init__(self, given: bytes) -> None:
        self._given = given

    def bytes(self, size: int) -> NDArray[np.uint8]:
        return np.frombuffer(self._given, np.uint8, size)
