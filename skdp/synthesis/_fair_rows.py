"""Rows whose label is drawn again, so that it does not depend on a group."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skdp.domain import Categories, Domain
from skdp.synthesis._queries import find_column
from skdp.synthesis.model import GraphicalModel, sample

Rows = NDArray[np.int32]

_N_ROWS = 1 << 17
"""Rows of the model that ranks refer to: a rank among n of them is off by n**-.5 / 2."""


class Fair(NamedTuple):
    """The columns of which rows have a label that is independent of a group."""

    group: Any
    label: Any
    conditions: tuple[Any, ...] = ()
    """The columns given which it is."""

    def __str__(self) -> str:
        """Say what was changed in rows."""
        text = f"label {self.label!r} redrawn in rows, independent of {self.group!r}"
        if self.conditions:
            names = ", ".join(map(repr, self.conditions))
            text += f" given {names}"
        return text


def parse_fair(fair: Any) -> Fair:
    """Read the parameter `fair`, whatever columns there are."""
    expected = "fair must be (group, label) or (group, label, conditions)"
    if isinstance(fair, str | Mapping) or not isinstance(fair, Iterable):
        raise TypeError(f"{expected}, got {type(fair).__name__}")
    parts = list(fair)
    if len(parts) not in (2, 3):
        raise ValueError(f"{expected}, got {len(parts)} parts")
    group, label, *further = parts
    conditions: tuple[Any, ...] = ()
    if further:
        (condition_names,) = further
        if isinstance(condition_names, str | Mapping) or not isinstance(
            condition_names, Iterable
        ):
            raise TypeError(
                f"{expected}, where conditions is a list of column names, got "
                f"{type(condition_names).__name__}"
            )
        conditions = tuple(condition_names)
    names = [group, label, *conditions]
    if any(name in names[:place] for place, name in enumerate(names)):
        raise ValueError(
            "fair must name a group, another column as the label, and further ones as "
            f"conditions, each once, got {names}"
        )
    return Fair(group, label, conditions)


def read_fair(fair: Any, domain: Domain, zeros: Any = None) -> Fair | None:
    """Read the parameter `fair`, and check that the label can be drawn again."""
    if fair is None:
        return None
    parsed = parse_fair(fair)
    label = parsed.label
    for name in (parsed.group, label, *parsed.conditions):
        find_column(domain, name, "fair")
    values = domain[label]
    if not isinstance(values, Categories) or len(values) != 2 or None in values.values:
        raise ValueError(
            f"the label {label!r} of fair must be a list of two values, none missing: "
            f"declare one, got {values!r}"
        )
    for item in zeros or ():
        if label in item:
            raise ValueError(
                f"structural_zeros name the label {label!r} of fair, which is drawn "
                "again whatever a row's other values are: leave them out"
            )
    return parsed


class FairLabels:
    """The law of a label by a model, changed such that it is the same in all groups."""

    # Each row has a score, the probability of its label given all its other columns.
    # The new score is the mean over the groups t, by their shares w, of the score that
    # has the same rank in t as the row's own has in its group,
    #     new = sum(w[t] * quantile(t, rank of the row in its group)):
    # the barycentre of the groups' distributions of scores ([1]_, [2]_). Its distribution
    # is the same in all groups, so the label is independent of the group, and so are
    # decisions by any limit for the score; among all such scores it is nearest to the
    # old one, in squares. All other columns stay as they are: a model of the rows meets
    # the persons that the table has.
    # Reweighing, the projection of the model on independence, has the label independent
    # too, but changes the other columns: a classifier of its rows finds the group again.
    # .. [1] E. Chzhen, C. Denis, M. Hebiri, L. Oneto, M. Pontil (2020). Fair regression
    #    with Wasserstein barycenters. NeurIPS.
    # .. [2] T. Le Gouic, J.-M. Loubes, P. Rigollet (2020). Projection to fairness in
    #    statistical learning. arXiv:2005.11720.
    # **Privacy.** Of the model alone, which was released.

    def __init__(self, model: GraphicalModel, domain: Domain, fair: Fair) -> None:
        self._model = model
        self._label = domain.columns.index(fair.label)
        self._group = domain.columns.index(fair.group)
        self._conditions = list(map(domain.columns.index, fair.conditions))
        rows = sample(model, _N_ROWS, np.random.default_rng(0))
        # By stratum and group, the scores of rows of the model in order.
        self._scores: dict[tuple[int, int], NDArray[np.float64]] = {}
        scores = self._scores_of(rows)
        for key, places in self._split(rows).items():
            self._scores[key] = np.sort(scores[places])

    def redraw(self, rows: Rows, rng: np.random.Generator) -> Rows:
        """Draw the label of each row again."""
        changed = rows.copy()
        scores = self._scores_of(rows)
        for (stratum, group), places in self._split(rows).items():
            ranks = self._ranks(scores[places], stratum, group, rng)
            law = self._barycentre(ranks, stratum)
            changed[self._label, places] = _deal(law, rng)
        return changed

    def _scores_of(self, rows: Rows) -> NDArray[np.float64]:
        """Return the probability of the second label, given the other columns."""
        others = np.delete(rows, self._label, axis=0)
        return np.exp(self._model.log_law(self._label, others)[:, 1])

    def _strata_of(self, rows: Rows) -> NDArray[np.int64]:
        """Return the number of each row's combination of conditions."""
        strata = np.zeros(rows.shape[1], np.int64)
        for column in self._conditions:
            strata = strata * self._model.tree.sizes[column] + rows[column]
        return strata

    def _split(self, rows: Rows) -> dict[tuple[int, int], NDArray[np.intp]]:
        """Return the places of the rows of each stratum and group."""
        size = self._model.tree.sizes[self._group]
        keys = self._strata_of(rows) * size + rows[self._group]
        order = np.argsort(keys, kind="stable")
        numbers, starts = np.unique(keys[order], return_index=True)
        ends = itertools.pairwise(np.append(starts, keys.size))
        parts = {}
        for number, (start, end) in zip(numbers.tolist(), ends, strict=True):
            parts[divmod(number, size)] = order[start:end]
        return parts

    def _ranks(
        self,
        scores: NDArray[np.float64],
        stratum: int,
        group: int,
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:
        """Return the share of rows of the group with lower scores, ties at random."""
        uniforms = rng.random(scores.size)
        known = self._scores.get((stratum, group))
        if known is None:  # so rare that its scores have no order
            return uniforms
        below = np.searchsorted(known, scores, side="left")
        up_to = np.searchsorted(known, scores, side="right")
        ranks = (below + uniforms * (up_to - below)) / known.size
        return np.clip(ranks, 0, np.nextafter(1, 0))

    def _barycentre(
        self, ranks: NDArray[np.float64], stratum: int
    ) -> NDArray[np.float64]:
        """Return the mean of the scores that have these ranks in all groups."""
        sums = np.zeros(ranks.size)
        n_rows = 0
        for (known_stratum, _), scores in self._scores.items():
            if known_stratum == stratum:
                sums += scores.size * scores[(ranks * scores.size).astype(np.intp)]
                n_rows += scores.size
        if n_rows == 0:  # a stratum so rare that no row of the model has it
            return np.full(ranks.size, float(self._model.marginal([self._label])[1]))
        return sums / n_rows


def _deal(law: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw 1 with the probability of each row, of all rows as many as expected."""
    # Systematic sampling in random order: as often as the running sum of the
    # probabilities, from a random start, passes a whole number.
    order = rng.permutation(law.size)
    sums = np.cumsum(law[order], dtype=np.float64) + rng.random()
    labels = np.empty(law.size, np.intp)
    passed = np.floor(sums).astype(np.intp)
    labels[order] = np.diff(passed, prepend=0)
    return np.minimum(labels, 1)
