"""What measurements lose for the values of named columns: what is known beforehand, and caps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from skdp.exact import round_up
from skdp.privacy import (
    GaussianLoss,
    Loss,
    PureLoss,
    Reading,
    Share,
    gaussian_loss,
)
from skdp.synthesis.model import Clique

# Another value of a record moves it from one cell of a marginal to another, if the
# marginal has its column, and no count of others. So of what a share of the budget
# loses for adding a record, it loses this much: two counts change by 1 each, and the
# change has the L1 norm 2 and the squared L2 norm 2.
_OF_COUNTS = 2

# A score is a sum of absolute values over cells: it changes by at most 2. Scores share
# joint pure noise for the largest change, or Gaussian noise for the sum of squares, of
# which each score of n has an equal part.
_OF_SCORES = {"epsilon": 2, "mu": 4}

# A loss is stated up to mu = 1e100: this is less than a quarter of its square.
_MOST = 10**199

# Shares are rounded down to such parts, so that fractions stay short.
_PARTS = 1 << 40


@dataclass(frozen=True)
class PlannedShare:
    """A share of the budget that counts, or scores, of some columns get at most."""

    columns: Clique
    share: Fraction
    of_scores: bool = False


def moved_amount(share: Share, *, of_scores: bool = False) -> Fraction:
    """Return what a share loses, in epsilon or mu squared, if all that it is for changes."""
    factor = _OF_SCORES[share.kind] if of_scores else _OF_COUNTS
    return share.amount * factor


def plan_readings(
    budget: Share, shares: Sequence[PlannedShare], names: Sequence[Any]
) -> tuple[Reading, ...] | None:
    """Return what is lost at most for the values of columns, whatever is chosen; None beyond all stated losses."""
    if budget.amount > _MOST:
        return None
    readings = []
    for planned in shares:
        columns = tuple(names[column] for column in planned.columns)
        part = budget * planned.share
        amount = moved_amount(part, of_scores=planned.of_scores)
        loss: Loss = PureLoss(round_up(amount))
        if budget.kind == "mu":
            loss = gaussian_loss(amount)
        readings.append(Reading(columns, loss))
    return tuple(readings)


def is_within(
    readings: Sequence[Reading], columns: Sequence[Any], cap: Fraction
) -> bool:
    """Whether readings lose no more for the values of columns than a cap, in epsilon or mu squared."""
    amount = Fraction(0)
    for reading in readings:
        if set(columns).isdisjoint(reading.columns):
            continue
        if isinstance(reading.loss, PureLoss):
            amount += reading.loss.count * Fraction(reading.loss.epsilon)
        elif isinstance(reading.loss, GaussianLoss):
            amount += reading.loss.count * Fraction(reading.loss.mu) ** 2
        else:
            return False
    return amount <= cap


class ColumnCap:
    """What is left of the most that measurements may lose for the values of columns."""

    def __init__(self, columns: Iterable[int], amount: Fraction) -> None:
        self.columns = frozenset(columns)
        self.left = amount

    def holds(self, clique: Clique) -> bool:
        """Whether counts of a marginal change with the values of these columns."""
        return not self.columns.isdisjoint(clique)


class Caps:
    """The caps of a whole budget, of which parts may be spent by several tables."""

    # A filter: before anything is drawn, what it loses for the columns of a cap is
    # taken from the cap, or refused. What is drawn next, and for which columns, may
    # follow from all that was drawn before: epsilons add along each sequence of results
    # ([1]_), and so do squares of mu ([2]_).
    # .. [1] R. Rogers, A. Roth, J. Ullman, S. Vadhan (2016). Privacy odometers and
    #    filters: pay-as-you-go composition. NeurIPS. arXiv:1605.08294
    # .. [2] A. Smith, A. Thakurta (2022). Fully adaptive composition for Gaussian
    #    differential privacy. arXiv:2210.17520

    def __init__(
        self, caps: Sequence[ColumnCap] = (), amount: Fraction = Fraction(0)
    ) -> None:
        self._caps = caps
        # Of the whole budget, in epsilon or mu squared.
        self._left = amount

    def __bool__(self) -> bool:
        return bool(self._caps)

    def spend_counts(self, clique: Clique, share: Share) -> None:
        """Spend a share of the budget on counts of a marginal."""
        if self:
            self._spend([clique], moved_amount(share), share.amount, is_split=False)

    def spend_scores(self, cliques: Sequence[Clique], share: Share) -> None:
        """Spend a share of the budget on scores of marginals."""
        if self:
            amount = moved_amount(share, of_scores=True)
            is_split = share.kind == "mu"
            self._spend(cliques, amount, share.amount, is_split=is_split)

    def _spend(
        self,
        cliques: Sequence[Clique],
        amount: Fraction,
        of_budget: Fraction,
        *,
        is_split: bool,
    ) -> None:
        """Take an amount from the caps of marginals; in Gaussian noise, each has a part of it."""
        amounts = []
        for cap in self._caps:
            n_moved = sum(map(cap.holds, cliques))
            part = Fraction(n_moved > 0)
            if is_split:
                part = Fraction(n_moved, len(cliques))
            amounts.append(amount * part)
            if amounts[-1] > cap.left:
                raise RuntimeError(
                    "more than a cap of columns was asked for; nothing was drawn"
                )
        for cap, spent in zip(self._caps, amounts, strict=True):
            cap.left -= spent
        self._left -= of_budget

    @property
    def part_for_counts(self) -> Fraction:
        """The part of a share that all counts with a cap may have together, by the least cap; 1 without caps."""
        parts = [cap.left / (_OF_COUNTS * self._left) for cap in self._caps]
        return min([*parts, Fraction(1)])

    def hold(self, clique: Clique) -> bool:
        """Whether a marginal has a cap."""
        return bool(self._holders(clique))

    def ration(
        self, cliques: Sequence[Clique], shares: Sequence[Fraction], budget: Share
    ) -> list[Fraction]:
        """Lower shares for counts such that caps last, and give what is saved to marginals without a cap."""
        if not self:
            return list(shares)
        amounts = [moved_amount(budget * share) for share in shares]
        total = sum(shares, Fraction(0))
        parts = self._parts([[clique] for clique in cliques], amounts, budget * total)
        rationed = []
        saved = of_others = Fraction(0)
        for clique, share, part in zip(cliques, shares, parts, strict=True):
            rationed.append(share * part)
            saved += share - rationed[-1]
            if not self.hold(clique):
                of_others += share
        if of_others == 0:
            return rationed
        factor = _rounded(1 + saved / of_others)
        for index, clique in enumerate(cliques):
            if not self.hold(clique):
                rationed[index] *= factor
        return rationed

    def ration_scores(
        self, cliques: Sequence[Clique], share: Fraction, budget: Share
    ) -> list[tuple[list[Clique], Fraction]]:
        """Split scores into lists of those with the same caps, and lower their shares such that caps last."""
        if not self:
            return [(list(cliques), share)]
        by_caps: dict[frozenset[int], list[Clique]] = {}
        for clique in cliques:
            by_caps.setdefault(self._holders(clique), []).append(clique)
        lists = list(by_caps.values())
        shares = []
        amounts = []
        for list_cliques in lists:
            shares.append(share * Fraction(len(list_cliques), len(cliques)))
            amounts.append(moved_amount(budget * shares[-1], of_scores=True))
        parts = self._parts(lists, amounts, budget * share)
        if min(parts) == 1:  # no cap binds: all are drawn together, as without caps
            return [(list(cliques), share)]
        rations = []
        for list_cliques, list_share, part in zip(lists, shares, parts, strict=True):
            rations.append((list_cliques, list_share * part))
        return rations

    def _holders(self, clique: Clique) -> frozenset[int]:
        """Return the numbers of the caps of a marginal."""
        holders = [index for index, cap in enumerate(self._caps) if cap.holds(clique)]
        return frozenset(holders)

    def _parts(
        self,
        lists: Sequence[Sequence[Clique]],
        amounts: Sequence[Fraction],
        share: Share,
    ) -> list[Fraction]:
        """Return the part of each amount for which the caps of its marginals have enough."""
        # Of a share of what is left of the budget, a cap pays this share of what is left
        # of itself: the first measurements leave something for the last.
        parts = [Fraction(1)] * len(lists)
        for index, cap in enumerate(self._caps):
            # The marginals of a list have the same caps.
            is_held = [index in self._holders(cliques[0]) for cliques in lists]
            needed = Fraction(0)
            for amount, is_moved in zip(amounts, is_held, strict=True):
                needed += amount * is_moved
            most = cap.left * share.amount / self._left
            if needed <= most:
                continue
            part = _rounded(most / needed)
            for place, is_moved in enumerate(is_held):
                if is_moved:
                    parts[place] = min(parts[place], part)
        return parts


def _rounded(part: Fraction) -> Fraction:
    """Round a positive part down, but not to 0."""
    rounded = Fraction(int(part * _PARTS), _PARTS)
    return rounded or part
