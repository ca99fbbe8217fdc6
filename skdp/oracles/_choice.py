"""The oracles by name, the best one for a number of values and an epsilon, and second rounds of noise."""

from __future__ import annotations

from collections.abc import Callable, Collection
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skdp.exact import exp_bounds
from skdp.oracles._base import FrequencyOracle, capped_epsilon, check_bits, pure_noise
from skdp.oracles._bits import SubsetSelection, UnaryEncoding
from skdp.oracles._hashing import LocalHashing, best_n_buckets
from skdp.oracles._randomized_response import RandomizedResponse
from skdp.randomness import ONE, ByteSource, bernoulli, check_size

# Two rounds of noise: a permanent report that is drawn once, and fresh noise on it each
# time that it is sent. **Privacy.** `worst_ratio` and `epsilon` are those of a single
# report, given its public seed. Any number of reports that share their first round and
# seed have at most the epsilon of `permanent`; there is no better bound for a few: two
# may cost more than twice a single one (of 1,000 values, with 4 for the permanent round
# and 0.5 for both: 2.2).


class TwoRoundResponse(RandomizedResponse):
    """Randomised response to the report of randomised response ("L-GRR")."""

    # Two replacements by uniform draws, with probabilities l1 and l2, are one with
    # probability ``l = 1 - (1 - l1) (1 - l2)``: both rounds together are randomised
    # response again.

    def __init__(
        self, permanent: RandomizedResponse, epsilon: float | Fraction
    ) -> None:
        k = permanent.k
        truth = 1 - permanent.lie
        lie = k / (exp_bounds(capped_epsilon(epsilon))[0] + k - 1)
        second = 1 - (1 - lie) / truth if truth > 1 - lie else Fraction(0)
        self.k = k
        self.permanent = permanent
        self.instantaneous = RandomizedResponse.from_lie(k, second)
        self.lie = 1 - truth * (1 - self.instantaneous.lie)
        if self.lie == 1:
            raise pure_noise(epsilon)
        self.p = 1 - self.lie * (k - 1) / k
        self.q = self.lie / k

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.unsignedinteger]:
        return self.report_again(self.permanent.report(codes, source), source)

    def report_again(self, reports: NDArray[Any], source: ByteSource) -> NDArray[Any]:
        """Add the noise of the second round."""
        return self.instantaneous.report(reports, source)


class TwoRoundUnaryEncoding(UnaryEncoding):
    """Unary encoding whose bits are randomised twice ("L-OSUE" after optimised bits, "L-SUE" after symmetric ones)."""

    # The second round flips each bit with probability f. A bit that is 1 with
    # probability s after the first round is 1 with probability ``s (1 - f) + (1 - s)
    # f`` after both. The ratio ``p (1 - q) / ((1 - p) q)`` of these falls as f grows to
    # 1/2: with x either of p and q, the derivative of ln(x / (1 - x)) in f is (1/x -
    # 1/(1 - x)) / (1 - 2 f), which is smaller for the larger x. Bisection finds the
    # least f that achieves epsilon, among integers over 2**64.

    def __init__(self, permanent: UnaryEncoding, epsilon: float | Fraction) -> None:
        self.k = permanent.k
        self.permanent = permanent
        bound = exp_bounds(capped_epsilon(epsilon))[0]
        low = 0
        high = ONE // 2  # at 1/2 the bits are pure noise
        while low < high:
            middle = (low + high) // 2
            self._set_flip(middle)
            if self.worst_ratio <= bound:
                high = middle
            else:
                low = middle + 1
        self._set_flip(low)
        if self.p == self.q:
            raise pure_noise(epsilon)

    def _set_flip(self, heads: int) -> None:
        self._flip = heads
        self.flip = Fraction(heads, ONE)
        self.p = self.permanent.p + self.flip * (1 - 2 * self.permanent.p)
        self.q = self.permanent.q + self.flip * (1 - 2 * self.permanent.q)

    def report(
        self, codes: NDArray[np.unsignedinteger], source: ByteSource
    ) -> NDArray[np.uint8]:
        return self.report_again(self.permanent.report(codes, source), source)

    def report_again(
        self, reports: NDArray[Any], source: ByteSource
    ) -> NDArray[np.uint8]:
        """Add the noise of the second round."""
        bits = check_bits(reports, self.k)
        flips = bernoulli(source, self._flip, bits.size).reshape(bits.shape)
        return (bits ^ flips).view(np.uint8)


class TwoRoundHashing(LocalHashing):
    """Local hashing whose bucket is randomised twice ("LOLOHA", [1]_)."""

    # .. [1] H. Arcolezi, C. Pinzón, C. Palamidessi, S. Gambs (2023). Frequency
    #    estimation of evolving data under local differential privacy. EDBT.

    def __init__(self, permanent: LocalHashing, epsilon: float | Fraction) -> None:
        self.k = permanent.k
        self.hash_family = permanent.hash_family
        self.permanent = permanent
        self._rounds = TwoRoundResponse(permanent._inner, epsilon)
        self._set_inner(self._rounds)

    def report_again(
        self, reports: NDArray[Any], source: ByteSource
    ) -> NDArray[np.uint64]:
        """Add the noise of the second round."""
        self._check_reports(reports)
        buckets = self._rounds.report_again(reports[:, 1], source)
        return np.column_stack([reports[:, 0], buckets])


def hashing_for_two_rounds(
    k: int, epsilon: float | Fraction, report_epsilon: float | Fraction
) -> LocalHashing:
    """Return the local hashing with the least error after a second round."""
    # Both rounds together are randomised response over the buckets with the epsilon of
    # a single report, for any first round. The number of buckets with the least error
    # is that of one round with this epsilon, less than for one round with all of
    # epsilon. Fewer buckets also give a record fewer permanent reports.
    return LocalHashing(k, epsilon, n_buckets=best_n_buckets(k, report_epsilon))


TwoRounds = TwoRoundResponse | TwoRoundUnaryEncoding | TwoRoundHashing


def two_rounds(permanent: FrequencyOracle, epsilon: float | Fraction) -> TwoRounds:
    """Add a second round to an oracle."""
    if isinstance(permanent, RandomizedResponse):
        return TwoRoundResponse(permanent, epsilon)
    if isinstance(permanent, UnaryEncoding):
        return TwoRoundUnaryEncoding(permanent, epsilon)
    if isinstance(permanent, LocalHashing):
        return TwoRoundHashing(permanent, epsilon)
    raise TypeError(f"{type(permanent).__name__} has no second round")


ORACLES: dict[str, Callable[[int, Any], FrequencyOracle]] = {
    "randomized_response": RandomizedResponse,
    "subset_selection": SubsetSelection,
    "optimized_unary_encoding": partial(UnaryEncoding, variant="optimized"),
    "symmetric_unary_encoding": partial(UnaryEncoding, variant="symmetric"),
    "local_hashing": LocalHashing,
    "binary_local_hashing": partial(LocalHashing, n_buckets=2),
}
"""The oracles by name, as classes or partial calls of them; of two with equal errors, the first is chosen."""


def names_with(ability: str) -> tuple[str, ...]:
    """Return the names of the oracles with a property, such as "has_bits" or "has_second_round"."""
    return tuple(name for name in ORACLES if getattr(ORACLES[name](2, 1.0), ability))


def make_first_round(
    name: str,
    k: int,
    epsilon: float | Fraction,
    report_epsilon: float | Fraction | None,
) -> FrequencyOracle:
    """Return the oracle of a name, for reports to which a second round of noise may be added."""
    if report_epsilon is not None and name == "local_hashing":
        return hashing_for_two_rounds(k, epsilon, report_epsilon)
    return ORACLES[name](k, epsilon)


def choose_oracle(
    k: int,
    epsilon: float | Fraction,
    *,
    again: float | Fraction | None = None,
    max_report_bytes: int | None = None,
    among: Collection[str] = tuple(ORACLES),
) -> tuple[str, FrequencyOracle]:
    """Return the oracle with the least mean squared error among those whose report fits, and its name."""
    # `again` is the loss of one report after a second round of noise: the error is that
    # of both rounds, and the oracle that of the first.
    costs = _costs(
        check_size(k),
        capped_epsilon(epsilon),
        None if again is None else capped_epsilon(again),
        tuple((name, ORACLES[name]) for name in among),
    )
    name = least_error_name(costs, max_report_bytes, f"{k} values")
    return name, make_first_round(name, k, epsilon, again)


def least_error_name(
    costs: dict[str, tuple[float, int]], max_report_bytes: int | None, inputs: str
) -> str:
    """Return the name with the least error of those that fit; a name has its error and the bytes of a report."""
    fitting = {}
    for name, (error, report_bytes) in costs.items():
        if max_report_bytes is None or report_bytes <= max_report_bytes:
            fitting[name] = error
    if not fitting:
        names = ", ".join(costs)
        least = min(report_bytes for _, report_bytes in costs.values())
        raise ValueError(
            f"none of {names} for {inputs} has reports of {max_report_bytes} bytes; "
            f"the smallest has {least}"
        )
    return min(fitting, key=fitting.__getitem__)


# Without the cache, a third of the time of a fit on few rows. The classes are a part of
# the key, as a name may be registered again.
@lru_cache(maxsize=512)
def _costs(
    k: int,
    epsilon: Fraction,
    report_epsilon: Fraction | None,
    among: tuple[tuple[str, Any], ...],
) -> dict[str, tuple[float, int]]:
    """Return the error of each oracle, that of both rounds if there are two, and the bytes of a report."""
    costs = {}
    for name, _ in among:
        oracle = make_first_round(name, k, epsilon, report_epsilon)
        error = oracle.mean_squared_error
        if report_epsilon is not None:
            error = two_rounds(oracle, report_epsilon).mean_squared_error
        costs[name] = error, oracle.report_bytes
    return costs
