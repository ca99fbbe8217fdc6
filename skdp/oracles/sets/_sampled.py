"""Padding and sampling: one member of a padded set, reported by any frequency oracle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.oracles._base import FrequencyOracle
from skdp.oracles._choice import ORACLES
from skdp.oracles.sets._base import SetOracle
from skdp.randomness import ByteSource, uniform_integers


class SampledSet(SetOracle):
    """Padding and sampling of sets of codes ("PSFO"): report one member of the padded set by a frequency oracle.

    The set is padded to m members, one of these is drawn, each alike, and reported by an oracle for k + 1 codes, the
    last of which stands for "none" ([1]_). The error is m**2 times that of the oracle.

    Parameters
    ----------
    k : int
        The number of values, at least 2.
    max_size : int
        The number m of values of a set that are reported, from 1 to k.
    epsilon : float or Fraction
        The requested privacy loss, finite and > 0.
    oracle : str, default="local_hashing"
        One of the frequency oracles, but for Hadamard response and the sketch.

    Attributes
    ----------
    oracle : FrequencyOracle
        The oracle for k + 1 codes.
    p, q : Fraction
        The probabilities that a report supports a value of the set, and another one.

    Notes
    -----
    **Privacy.** Local model, replacement of the whole set. A report of a set is a mean of reports of its members, so
    that the ratio for two sets is at most that for two codes. It is not smaller: of an empty set, "none" is drawn for
    sure.

    References
    ----------
    .. [1] T. Wang, N. Li, S. Jha (2018). Locally differentially private frequent itemset mining. IEEE S&P.

    Examples
    --------
    >>> oracle = SampledSet(100, 5, 1.0)
    >>> oracle.report_bytes, round(oracle.mean_squared_error, 1)
    (5, 92.8)
    """

    def __init__(
        self,
        k: int,
        max_size: int,
        epsilon: float | Fraction,
        *,
        oracle: str = "local_hashing",
    ) -> None:
        super().__init__(k, max_size)
        if not isinstance(oracle, str) or oracle not in ORACLES:
            raise ValueError(
                f"oracle must be one of {', '.join(map(repr, ORACLES))}, got {oracle!r}"
            )
        self.oracle: FrequencyOracle = ORACLES[oracle](self.k + 1, epsilon)
        if self.oracle.is_signed or self.oracle.error_floor > 0:
            raise ValueError(
                f"padding and sampling needs an oracle that counts supporting reports, got {oracle!r}"
            )
        self.has_bits, self.shows_hash = self.oracle.has_bits, self.oracle.shows_hash  # type: ignore[misc]
        self.q = self.oracle.q
        self.p = self.q + (self.oracle.p - self.q) / self.max_size

    @property
    def worst_ratio(self) -> Fraction:
        return self.oracle.worst_ratio

    @property
    def pair_supports(self) -> tuple[float, float]:
        own, other = self.oracle.pair_supports
        return (own + (self.max_size - 1) * other) / self.max_size, other

    @property
    def variation(self) -> Fraction:
        return self.oracle.variation

    @property
    def n_reports(self) -> int:
        return self.oracle.n_reports

    @property
    def width(self) -> int:
        return self.oracle.width

    @property
    def report_bytes(self) -> int:
        return self.oracle.report_bytes

    def report(
        self, sets: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[Any]:
        self._check_sets(sets)
        place = uniform_integers(source, self.max_size, len(sets)).astype(np.intp)
        codes = np.minimum(sets[np.arange(len(sets)), place], self.k)
        return self.oracle.report(codes.astype(np.min_scalar_type(self.k)), source)

    def supports(self, reports: NDArray[Any]) -> NDArray[np.bool_]:
        return self.oracle.supports(reports)[:, : self.k]

    def channel(self) -> list[list[Fraction]]:
        return self._mix(self.oracle.channel())

    def channels(self) -> Iterator[list[list[Fraction]]]:
        return map(self._mix, self.oracle.channels())

    def fields(self, labels: Sequence[str]) -> list[str]:
        return self.oracle.fields([*labels, "none"])

    def read(self, block: NDArray[Any]) -> NDArray[Any]:
        return self.oracle.read(block)

    def parameters(self) -> dict[str, Any]:
        return super().parameters() | {"of": self.oracle.parameters()}
