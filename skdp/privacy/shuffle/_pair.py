"""Two values of a record in the shuffled model: what their reports are likelier under, and what hides them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from skdp.privacy.shuffle._divergence import Class, Ratios, delta_above

# Fractional bits of a ratio that is rounded up, as those of many steps of a grid have
# thousands.
_BITS = 128


@dataclass(frozen=True)
class ReportPair:
    """The reports of two values of a record, in classes, beside what every other record reports at least."""

    # A class holds reports y for which ``P(y | x0) / m(y)`` is the same, and so is
    # ``P(y | x1) / m(y)``: it is the sums of the three over the class. The measure m is
    # the blanket ([1]_): ``0 < m(y) <= P(y | x)`` for every value x. So the first two
    # of all classes add up to 1 each, the third to at most 1. A pair may stand for all
    # pairs of values: `FrequencyOracle.shuffle_pair`.
    # .. [1] B. Balle, J. Bell, A. Gascón, K. Nissim (2019). The privacy blanket of the
    #    shuffle model. CRYPTO.

    classes: tuple[Class, ...]
    beside: tuple[ReportPair, ...] = ()
    """Further independent reports of the record that stay together with this one."""

    def __post_init__(self) -> None:
        merged: dict[tuple[Fraction, Fraction], Class] = {}
        for part in self.classes:
            first, second, mass = part
            if min(part) < 0 or (mass == 0 and max(part) > 0):
                raise ValueError(
                    "classes must hold probabilities, and a mass > 0 where these are "
                    "not 0"
                )
            if mass:
                ratios = first / mass, second / mass
                total = merged.get(ratios, (Fraction(0),) * 3)
                merged[ratios] = total[0] + first, total[1] + second, total[2] + mass
        sums = [sum(column) for column in zip(*merged.values(), strict=True)]
        if sums[:2] != [1, 1] or sums[2] > 1:
            raise ValueError(
                "the probabilities of the classes must add up to 1, and the masses to "
                "at most 1"
            )
        object.__setattr__(self, "classes", tuple(merged.values()))

    @property
    def worst_ratio(self) -> Fraction:
        """The largest ratio of the probabilities of reports under x0 and x1, in that order."""
        if any(first and not second for first, second, _ in self.classes):
            raise ValueError("a report has probability 0 under the other value")
        ratio = max(first / second for first, second, _ in self.classes if second)
        for pair in self.beside:
            ratio *= pair.worst_ratio
        return ratio

    @property
    def largest_ratio(self) -> Fraction:
        """The largest ratio in either order."""
        return max(self.worst_ratio, self.swapped().worst_ratio)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether the two values may be exchanged in each part."""
        mirrored = {(second, first, mass) for first, second, mass in self.classes}
        is_mirrored = set(self.classes) == mirrored
        return is_mirrored and all(pair.is_symmetric for pair in self.beside)

    @cached_property
    def ratios(self) -> Ratios:
        """The classes of all parts together, as floats."""
        if not self.beside:
            return Ratios.of(self.classes)
        parts = [self.classes, *(pair.classes for pair in self.beside)]
        return Ratios.product(parts) or ReportPair.of_any(self.largest_ratio).ratios

    def swapped(self) -> ReportPair:
        """Return the pair with its two values exchanged."""
        classes = tuple((second, first, mass) for first, second, mass in self.classes)
        return ReportPair(classes, tuple(pair.swapped() for pair in self.beside))

    def delta(self, n: int, epsilon: float) -> float:
        """Bound delta of n shuffled reports for an epsilon."""
        order = math.exp(epsilon)
        delta = delta_above(self.ratios, n, order)
        if not self.is_symmetric:
            delta = max(delta, delta_above(self.ratios.swapped(), n, order))
        return delta

    @classmethod
    def of_any(cls, worst_ratio: Fraction) -> ReportPair:
        """Return the pair that is as revealing as any pair of a local randomiser with this worst ratio."""
        # By [1]_, the rows of any two values are mixtures ``(r Q0 + Q1) / (r + 1)`` and
        # ``(Q0 + r Q1) / (r + 1)`` of two distributions. Every other row is at least 1
        # / r times either row, thus 1 / r times their mean: it contains ``(Q0 + Q1) /
        # (2 r)``. To learn from which of Q0 and Q1 the reports are can only help the
        # attacker.
        # .. [1] P. Kairouz, S. Oh, P. Viswanath (2017). The composition theorem for
        #    differential privacy. IEEE Transactions on Information Theory 63(6).
        if worst_ratio < 1:
            raise ValueError(
                f"worst_ratio must be at least 1, got {float(worst_ratio)}"
            )
        ratio = Fraction(math.ceil(worst_ratio * 2**_BITS), 2**_BITS)
        mass = 1 / (2 * ratio)
        likely, unlikely = ratio / (ratio + 1), 1 / (ratio + 1)
        return cls(((likely, unlikely, mass), (unlikely, likely, mass)))

    @classmethod
    def of_support(
        cls,
        high: Fraction,
        low: Fraction,
        counts: Sequence[int],
    ) -> ReportPair:
        """Return the pair of an oracle whose reports have one probability for the values they support, else another."""
        # Of reports that support x0 only, x1 only, both and none; the blanket is `low`
        # for all.
        shares = (high, low), (low, high), (high, high), (low, low)
        classes = []
        for (first, second), count in zip(shares, counts, strict=True):
            classes.append((first * count, second * count, low * count))
        return cls(tuple(classes))

    @classmethod
    def product(cls, pairs: Sequence[ReportPair]) -> ReportPair:
        """Return the pair of several independent reports of a record that stay together."""
        # Where they are hundreds, it counts as that of any randomiser with its worst
        # ratio.
        if len(pairs) == 1:
            return pairs[0]
        parts = [part for pair in pairs for part in (cls(pair.classes), *pair.beside)]
        return cls(parts[0].classes, tuple(parts[1:]))

    @classmethod
    def mixed(cls, parts: Iterable[tuple[Fraction, ReportPair]]) -> ReportPair:
        """Return the pair of a report that names which part it is of, drawn independently of the value."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0][1]
        classes = []
        for share, pair in parts:
            if pair.beside:
                raise ValueError("parts must be pairs without others beside them")
            for first, second, mass in pair.classes:
                classes.append((first * share, second * share, mass * share))
        return cls(tuple(classes))
