"""Replay a release on a neighboring table, and compare the losses of its draws with its guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator, clone

from skdp.base import TableLike, collect_output, split_if_supervised
from skdp.privacy import (
    Loss,
    PrivacyGuarantee,
    exponential_loss,
    gaussian_loss,
    laplace_loss,
    pure_mu,
    smallest_epsilon,
    zcdp_epsilon,
)
from skdp.testing._recording import (
    ROWS,
    Draw,
    Recording,
    differences,
    find_reused,
    scores_of,
)
from skdp.testing._subject import fitted_attributes, hash_value

# Relative error of sums of floats: sums of a few dozen draws are exact to about 1e-14,
# and a wrong sensitivity adds far more than 1e-9.
ROUNDING = 1e-9


@dataclass(frozen=True)
class DrawLoss:
    """Privacy loss of a draw between two tables."""

    sampler: str
    size: int
    difference: float
    epsilon: Fraction | float
    rho: float
    # The losses of the independent parts of the draw, as the accountant knows them.
    parts: tuple[Loss, ...] = ()
    # Smallest squared mu that covers the draw; None if no mu is known to cover it.
    mu_squared: Fraction | None = None


def compute_loss(draw: Draw, other: Draw) -> DrawLoss:
    """Return the loss of a draw, from the numbers to which its noise was added in both runs."""
    if "scores" in draw.parameters:
        return _choice_loss(draw, other)
    changes = differences(draw, other)
    size = math.prod(draw.shape)
    if changes is None:
        return DrawLoss(draw.sampler, size, math.nan, math.inf, math.inf)
    if "variance" in draw.parameters:
        square = sum((change**2 for change in changes), Fraction(0))
        mu_squared = square / draw.parameters["variance"]
        return DrawLoss(
            sampler=draw.sampler,
            size=size,
            difference=math.sqrt(square),
            epsilon=math.inf if square else 0,
            rho=float(mu_squared / 2),
            parts=(gaussian_loss(mu_squared),),
            mu_squared=mu_squared,
        )
    return _laplace_loss(draw, changes)


def _choice_loss(draw: Draw, other: Draw) -> DrawLoss:
    """Return the loss of a choice by scores, which depends on the range of their changes."""
    changes = []
    for score, other_score in zip(scores_of(draw), scores_of(other), strict=True):
        changes.append(Fraction(int(score)) - int(other_score))
    spread = max(changes, default=Fraction(0)) - min(changes, default=Fraction(0))
    epsilon = draw.parameters["rate"] * spread
    if draw.sampler == "exponential_mechanism":
        # Its losses lie in an interval of length epsilon: see `skdp.privacy.Rho` and
        # `Mu` for what follows.
        loss = exponential_loss(epsilon)
        rho = float(epsilon) ** 2 / 8
        mu = pure_mu(epsilon / 2)
    else:
        loss = laplace_loss(epsilon)
        rho = _pure_rho(epsilon)
        mu = pure_mu(epsilon)
    return DrawLoss(
        sampler=draw.sampler,
        size=len(changes),
        difference=float(spread),
        epsilon=epsilon,
        rho=min(rho, _pure_rho(epsilon)),
        parts=(loss,),
        mu_squared=None if mu is None else mu**2,
    )


def _laplace_loss(draw: Draw, changes: Sequence[Fraction]) -> DrawLoss:
    norms = [change for change in changes if change]
    if draw.sampler == "cube_noise":
        # The norm of a row is the norm of its largest change.
        width = draw.shape[1]
        rows = range(0, len(changes), width)
        norms = [max(changes[start : start + width]) for start in rows]
    # Each number, or each row of a cube, has independent noise. Each change by 1 is a
    # link of the chain of `laplace_loss`.
    epsilons = [norm / draw.parameters["scale"] for norm in norms]
    parts = map(laplace_loss, epsilons, (max(1, int(norm)) for norm in norms))
    mus = list(map(pure_mu, epsilons))
    mu_squared = None
    if None not in mus:
        mu_squared = sum((mu**2 for mu in mus if mu), Fraction(0))
    return DrawLoss(
        sampler=draw.sampler,
        size=math.prod(draw.shape),
        difference=float(sum(norms)),
        epsilon=sum(epsilons, Fraction(0)),
        rho=sum(map(_pure_rho, epsilons)),
        parts=tuple(parts),
        mu_squared=mu_squared,
    )


def _pure_rho(epsilon: Fraction) -> float:
    return float(epsilon) * math.tanh(epsilon / 2)


def epsilon_of(losses: Sequence[DrawLoss], delta: Fraction) -> float:
    """Return the smallest epsilon at a delta that covers all draws together."""
    # The budget of a release may be a sum of epsilon, rho or mu, or computed by the accountant; none of them is always
    # the smallest.
    epsilons = [float(sum(loss.epsilon for loss in losses))]
    rho = sum(loss.rho for loss in losses)
    if not delta or rho == math.inf:
        return epsilons[0]
    epsilons.append(zcdp_epsilon(rho, delta) if rho else 0.0)
    covers: list[list[Loss]] = [[part for loss in losses for part in loss.parts]]
    squares = [loss.mu_squared for loss in losses if loss.mu_squared is not None]
    if len(squares) == len(losses):
        covers.append([gaussian_loss(sum(squares, Fraction(0)))])
    for cover in covers:
        epsilon = smallest_epsilon(cover, delta)
        if epsilon is not None:
            epsilons.append(epsilon)
    return min(epsilons)


def understatement(losses: Sequence[DrawLoss], claim: PrivacyGuarantee) -> str | None:
    """Describe a total loss of the draws that exceeds the stated losses; None if there is none."""
    if not claim.losses:
        return None
    # Of two lists of losses, one may be the smaller at a large delta, and the other at a
    # small one: from much of the tail to nearly nothing of it.
    deltas = tuple(Fraction(1, 10**power) for power in (1, 2, 4, 8, 16))
    # `smallest_epsilon` rounds the losses that it composes up, by at most some
    # thousandths of the total. It rounds two lists alike, but not equally. At a
    # large delta, the stated epsilon may be a small part of the total, and that of the
    # claim is nearer to it.
    slack = 2e-3
    for delta in deltas:
        stated_epsilon = smallest_epsilon(claim.losses, delta)
        if stated_epsilon is None:
            continue
        most = stated_epsilon * (1 + slack) + slack * claim.epsilon
        drawn_epsilon = epsilon_of(losses, delta)
        # `_find_understatements` already reports an infinite epsilon.
        if most < drawn_epsilon < math.inf:
            return (
                f"the draws lose epsilon {drawn_epsilon:.6g} at delta {float(delta):g};"
                f" the stated losses {stated_epsilon:.6g}"
            )
    return None


# The name of a function's result in findings.
_RESULT = "the result"


@dataclass(frozen=True)
class Replay:  # numpydoc ignore=PR02
    """The result of `replay_release`.

    Parameters
    ----------
    draws : pandas.DataFrame
        One row per draw that protects the release: ``sampler, size, difference, epsilon, rho``. The difference is the
        distance between the numbers to which the noise was added, in the norm of the sampler (for scores: the largest
        change minus the smallest); epsilon and rho are the resulting losses, inf if they are not bounded.
    guarantee : PrivacyGuarantee
        Stated guarantee, for the relation of the two tables.
    epsilon : float
        Total loss of all draws, at the delta of the guarantee; inf if it is not bounded.
    findings : tuple of str
        Contradictions to the guarantee.

    Notes
    -----
    **Privacy.** The result contains differences of exact statistics, so the tables must be public.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPMean
    >>> from skdp.testing import replay_release
    >>> ages = pd.DataFrame({"age": [31.0, 47.0, 52.0]})
    >>> replay_release(DPMean(bounds=(0, 100)), ages, ages[:2]).passed
    True
    """

    draws: pd.DataFrame
    guarantee: PrivacyGuarantee
    epsilon: float
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:  # numpydoc ignore=RT01
        """True if there are no findings for these two tables."""
        return not self.findings


def replay_release(
    release: BaseEstimator | Callable[..., Any],
    X: TableLike,
    neighbour: TableLike,
    *,
    guarantee: PrivacyGuarantee | None = None,
    random_state: int = 0,
) -> Replay:
    """Record the noise of a release, and replay it on a neighboring table.

    Both runs have the same results of all draws: the same choices, and the same sums of statistics and noise. So every
    value that is computed from released numbers must be equal in both runs, and the numbers before the noise reveal the
    sensitivity. A wrong sensitivity is found in a single run (grey-box auditing, [1]_). The losses of the draws are
    added up and compared with the guarantee.

    Parameters
    ----------
    release : estimator or callable
        An estimator whose `fit` releases statistics, or a function from a table to a result. Both must draw their noise
        with the samplers of `skdp.randomness`, and add it as it comes: ``numbers + noise`` of arrays, or
        ``number + noise.item()``. Other noise is an unprotected difference here.
    X : dataframe or ndarray
        Public table; for an estimator that requires a target, its last column is the target.
    neighbour : dataframe or ndarray
        Neighboring table: with one row (or the rows of one person) added or removed at the end, or with one row
        replaced.
    guarantee : PrivacyGuarantee, optional
        Claimed guarantee. By default, the attribute ``guarantee_`` or ``guarantee`` of the result.
    random_state : int, default=0
        Seed of an estimator. A function must use its own seed, so that each call draws the same noise.

    Returns
    -------
    Replay
        The draws, their losses, and contradictions to the guarantee.

    Raises
    ------
    TypeError, ValueError
        If there is no guarantee, or the release of both tables fails.

    See Also
    --------
    skdp.evaluation.audit_epsilon : For any release: a lower bound of epsilon from many draws.

    Notes
    -----
    **Privacy.** The tables must be public; a ledger of an estimator is not charged. A pass means that the noise is
    large enough for these two tables; other tables may differ by more. Wrong samplers are not found (enumerate their
    probabilities instead), nor is a difference between the tables that has no effect in this run. A random choice of
    rows by another generator must be the same for rows that both tables have.

    Noise must be as large, and added to as many numbers, in both runs: the count of a value that one record alone has
    is a finding, so check the threshold of such a release by its probabilities. A random choice of rows is treated as
    known, so sampling adds no privacy here.

    References
    ----------
    .. [1] Privacy in theory, bugs in practice: grey-box auditing of differential privacy libraries (2026).
       arXiv:2602.17454.

    Examples
    --------
    A sum of ages up to 100, protected as if one were at most 50:

    >>> from fractions import Fraction
    >>> import numpy as np
    >>> from skdp import PrivacyGuarantee
    >>> from skdp.randomness import SeededSource, discrete_laplace
    >>> from skdp.testing import replay_release
    >>> def noisy_sum(ages):
    ...     return ages.sum() + discrete_laplace(SeededSource(0), Fraction(50), 1)
    >>> claim = PrivacyGuarantee(1.0, relation="add_remove", trust="central")
    >>> found = replay_release(noisy_sum, np.array([20, 30, 100]), np.array([20, 30]), guarantee=claim)
    >>> found.epsilon, found.findings
    (2.0, ('the draws lose epsilon 2 together, more than the stated 1',))
    """
    first = _Run.of(release, X, Recording(), random_state)
    second = _Run.of(release, neighbour, Recording(first.draws), random_state)
    if first.error is not None and second.error is not None:
        raise first.error
    result = second.result if first.result is None else first.result
    stated = _find_guarantee(result, guarantee)
    if first.error is not None or second.error is not None:
        return _replay_of_one_error(first, second, stated)
    claim = stated
    if first.n_rows == second.n_rows and stated.relation == "add_remove":
        claim = stated.to("replace")
    pairs, findings = _pair_draws(first.draws, second.draws)
    losses = [compute_loss(draw, other_draw) for draw, other_draw in pairs]
    epsilon = math.inf
    if not findings:
        epsilon = epsilon_of(losses, Fraction(claim.delta))
        findings += _find_understatements(losses, epsilon, claim)
    if guarantee is None and _find_guarantee(second.result, None) != stated:
        findings.append("the guarantee depends on the rows")
    for sampler in find_reused(first.draws):
        findings.append(
            f"{sampler} noise is added to two numbers: their difference is exact"
        )
    findings += _differences_of_results(first, second)
    if first.messages != second.messages:
        findings.append("a warning, a log record or the output depends on the rows")
    return Replay(_table(losses), claim, epsilon, tuple(findings))


@dataclass(frozen=True)
class _Run:
    """A release of one table: its draws, its result or error, and what it printed."""

    n_rows: int
    draws: list[Draw]
    result: Any
    error: Exception | None
    messages: list[str]

    @classmethod
    def of(
        cls, release: Any, table: Any, recording: Recording, random_state: int
    ) -> _Run:
        result = error = None
        with collect_output() as messages:
            try:
                result = recording.run(partial(_release, release, table, random_state))
            except Exception as raised:
                error = raised
        return cls(len(table), recording.draws, result, error, messages)


def _release(release: Any, table: Any, random_state: int) -> Any:
    """Fit a clone of an estimator without its ledger, or call a function."""
    if not hasattr(release, "fit"):
        return release(table)
    estimator = clone(release)
    parameters = {"random_state": random_state, "ledger": None}
    for name in parameters.keys() & estimator.get_params(deep=False).keys():
        estimator.set_params(**{name: parameters[name]})
    return estimator.fit(*split_if_supervised(release, table))


def _find_guarantee(
    result: Any, guarantee: PrivacyGuarantee | None
) -> PrivacyGuarantee:
    stated = guarantee
    for name in ("guarantee_", "guarantee"):
        stated = stated or getattr(result, name, None)
    if not isinstance(stated, PrivacyGuarantee):
        raise ValueError(
            "`guarantee` is required, because the result has no guarantee_"
        )
    return stated


def _replay_of_one_error(first: _Run, second: _Run, stated: PrivacyGuarantee) -> Replay:
    failed, passed = (first, second) if second.error is None else (second, first)
    finding = (
        f"only one of the tables is an error: {type(failed.error).__name__} with "
        f"{failed.n_rows} rows, none with {passed.n_rows}"
    )
    return Replay(_table([]), stated, math.inf, (finding,))


def _pair_draws(
    draws: Sequence[Draw], other_draws: Sequence[Draw]
) -> tuple[list[tuple[Draw, Draw]], list[str]]:
    """Pair the draws of noise of the two runs, and list how the runs differ."""
    noise = [draw for draw in draws if draw.sampler not in ROWS]
    other_noise = [draw for draw in other_draws if draw.sampler not in ROWS]
    if [draw.sampler for draw in noise] != [draw.sampler for draw in other_noise]:
        return [], ["which samplers are used depends on the rows"]
    pairs = list(zip(noise, other_noise, strict=True))
    findings: dict[str, None] = {}
    for draw, other in pairs:
        same_scores = len(scores_of(draw)) == len(scores_of(other))
        if not same_scores or draw.shape != other.shape:
            findings[f"the number of draws of {draw.sampler} depends on the rows"] = (
                None
            )
            continue
        for name in ("rate", "variance", "scale"):
            if draw.parameters.get(name) != other.parameters.get(name):
                findings[f"the scale of {draw.sampler} depends on the rows"] = None
    return ([] if findings else pairs), list(findings)


def _find_understatements(
    losses: Sequence[DrawLoss], epsilon: float, claim: PrivacyGuarantee
) -> list[str]:
    """Describe losses of all draws together that exceed the stated guarantee."""
    findings = []
    if not epsilon <= claim.epsilon * (1 + ROUNDING):
        findings.append(
            f"the draws lose epsilon {epsilon:.6g} together, more than the stated "
            f"{claim.epsilon:.6g}"
        )
    finding = understatement(losses, claim)
    if finding is not None:
        findings.append(finding)
    rho = sum(loss.rho for loss in losses)
    if claim.rho is not None and rho > claim.rho * (1 + ROUNDING):
        findings.append(
            f"the draws lose rho {rho:.6g} together, more than the stated "
            f"{claim.rho:.6g}"
        )
    return findings


def _differences_of_results(first: _Run, second: _Run) -> list[str]:
    """Name the parts of the results that differ although all draws are equal."""
    hashes, other_hashes = _hash_parts(first.result), _hash_parts(second.result)
    names = []
    for name in sorted(hashes.keys() | other_hashes.keys()):
        if hashes.get(name) != other_hashes.get(name):
            names.append(name)
    if not names:
        return []
    return [f"{', '.join(names)}: differs, although all draws are equal"]


def _hash_parts(result: Any) -> dict[str, str]:
    """Hash the parts of a result except its guarantee, which is compared separately."""
    if hasattr(result, "get_params"):
        parts = fitted_attributes(result)
    elif isinstance(result, list | tuple):
        parts = {f"{_RESULT}[{place}]": part for place, part in enumerate(result)}
    elif (
        hasattr(result, "__dict__")
        and type(result).__module__.split(".")[0] != "pandas"
    ):
        parts = {f"{_RESULT}.{name}": part for name, part in vars(result).items()}
    else:
        parts = {_RESULT: result}
    return {
        name: hash_value(part)
        for name, part in parts.items()
        if not isinstance(part, PrivacyGuarantee)
    }


def _table(losses: Sequence[DrawLoss]) -> pd.DataFrame:
    rows = []
    for loss in losses:
        epsilon, rho = float(loss.epsilon), float(loss.rho)
        rows.append((loss.sampler, loss.size, loss.difference, epsilon, rho))
    names = ["sampler", "size", "difference", "epsilon", "rho"]
    return pd.DataFrame(rows, columns=names)
