"""The choice of the pairs that a model has, from their estimated dependence, and the fit to it."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.domain import Domain
from skdp.oracles import project_to_simplex
from skdp.synthesis.model import Clique, GraphicalModel, JunctionTree, Marginal, expand, fit_model, independent_start
from skdp.synthesis.reports._dependence import MOST_PAIRED, Contrast, dependence_of, margin_of
from skdp.synthesis.reports._reported import Matrix, Reported, independent
from skdp.synthesis.selection import Plan, Room, forbid, read_cliques

_LEAST_RATIO = 2.0
"""Of dependence to independence, a logarithm: noise alone exceeds it with a probability of at most exp(-2)."""
_MOST_IN_TRIPLE = 600
"""Cells of a triple that is looked for; larger ones can be asked for."""

_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class MeasuredReports:
    """A model of reports, and what it was fitted to."""

    model: GraphicalModel
    marginals: list[Marginal]
    scores: dict[Clique, tuple[float, float]]
    """Of each pair that the reports tell of, the gain and the logarithm of the likelihood ratio."""
    chosen: list[Clique]
    n_iter: int


def check_reported(marginals: Any, domain: Domain, reported: Reported) -> list[Clique] | None:
    """Read `marginals`: None for "auto", or the cliques to model."""
    if isinstance(marginals, str):
        if marginals not in ("auto", "independent"):
            raise ValueError(f"marginals must be 'auto', 'independent', or a list of tuples, got {marginals!r}")
        return None if marginals == "auto" else []
    given = [clique for clique in read_cliques("marginals", marginals, domain) if len(clique) > 1]
    cliques = [clique for clique in given if not any({*clique} < {*other} for other in given)]
    for clique in cliques:
        names = tuple(domain.columns[column] for column in clique)
        cells = int(np.prod([domain.sizes[column] for column in clique]))
        if cells > MOST_PAIRED:
            raise ValueError(
                f"marginals: {names} has {cells:,} cells; of reports at most {MOST_PAIRED:,} are estimated"
            )
        if not reported.size_of(clique):
            raise ValueError(
                f"marginals: the reports do not tell of {names} together; they tell of columns of one group, and of "
                "two columns that records report both, if they are given themselves and not as a tally"
            )
    return cliques


def measure_reports(reported: Reported, plan: Plan, cliques: Sequence[Clique] | None) -> MeasuredReports:
    """Estimate the columns and their dependence, choose pairs unless they are given, and fit a model."""
    known = [margin_of(reported, column) for column in range(len(plan.sizes))]
    shares = [_shares(one, size, reported.n_rows) for one, size in zip(known, plan.sizes, strict=True)]
    margins = [marginal for marginal in known if marginal is not None]
    asked = _candidates(reported, plan) if cliques is None else cliques
    contrasts: dict[Clique, Contrast] = {}
    for clique in sorted(asked, key=len):
        own = [shares[column] for column in clique]
        guess = _by_pairs(clique, own, contrasts) if cliques is None and len(clique) > 2 else None
        contrasts[clique] = dependence_of(reported, clique, own, guess)
    chosen = _choose(contrasts, plan) if cliques is None else list(cliques)
    marginals = [*margins, *(contrasts[clique].marginal for clique in chosen)]
    tree = JunctionTree(plan.sizes, [*chosen, *(clique for clique, _ in plan.zeros)])
    start = forbid(tree, independent_start(tree, shares), plan.zeros)
    if not marginals:  # nothing is known: what may occur is uniform
        fit = fit_model(tree, [_uniform(plan, reported)], reported.n_rows, max_iter=1, start=start)
    else:
        fit = fit_model(tree, marginals, reported.n_rows, max_iter=plan.max_iter, tol=_TOLERANCE, start=start)
    scores: dict[Clique, tuple[float, float]] = {
        one: (found.gain, found.log_ratio) for one, found in contrasts.items() if len(one) == 2
    }
    return MeasuredReports(fit.model, marginals, scores, chosen, len(fit.losses))


def _choose(contrasts: Mapping[Clique, Contrast], plan: Plan) -> list[Clique]:
    """Take dependence beyond noise, in the order of its gain: triples that add to their pairs first, then pairs."""
    worth = [clique for clique, found in contrasts.items() if found.log_ratio > _LEAST_RATIO]
    chosen: list[Clique] = []
    room = Room(plan)
    for clique in sorted(worth, key=lambda one: (-len(one), -contrasts[one].gain)):
        # The same reports are measured once: no two of them have more than one column in common.
        again = any(len({*clique} & {*other}) > 1 for other in chosen)
        if not again and room.take(clique):
            chosen.append(clique)
    return chosen


def _by_pairs(clique: Clique, shares: Sequence[Matrix], contrasts: Mapping[Clique, Contrast]) -> Matrix:
    """Guess a triple from its two pairs of the most gain, as if two of its columns were independent given the third."""
    pairs = [pair for pair in itertools.combinations(clique, 2) if contrasts[pair].log_ratio > _LEAST_RATIO]
    guess = independent(shares)
    for pair in sorted(pairs, key=lambda pair: -contrasts[pair].gain)[:2]:
        found = np.clip(contrasts[pair].marginal.counts, 0, None)
        apart = independent([shares[clique.index(column)] for column in pair])
        guess = guess * expand(found / found.sum() / apart, pair, clique)
    return np.asarray(guess / guess.sum())


def _uniform(plan: Plan, reported: Reported) -> Marginal:
    size = plan.sizes[0]
    return Marginal((0,), np.full(size, reported.n_rows / size), float(reported.n_rows))


def _candidates(reported: Reported, plan: Plan) -> Collection[Clique]:
    """List the pairs that reports tell of, and the triples of one group, that are small enough."""
    found = []
    for order, most in ((2, MOST_PAIRED), (3, _MOST_IN_TRIPLE)):
        known = (clique for clique in plan.candidates(order) if reported.size_of(clique))
        found += [clique for clique in known if plan.n_cells(clique) <= min(most, plan.max_cells)]
    return found


def _shares(marginal: Marginal | None, size: int, n: int) -> Matrix:
    """Estimate the distribution of a column, positive everywhere."""
    if marginal is None:
        return np.full(size, 1 / size)
    counts = project_to_simplex(marginal.counts, n) + min(marginal.std_error, n / size)
    return counts / counts.sum()
