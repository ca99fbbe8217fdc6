"""The sensitivity of a release, from its noise on one table and on a neighbour, against its guarantee."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone

from skdp.base import TableLike, heard, rows_and_target
from skdp.privacy import PrivacyGuarantee
from skdp.tables import is_frame, take_rows
from skdp.testing._leak_checks import leaves
from skdp.testing._tools import released_attributes, require
from skdp.testing.replay._losses import (
    ROUNDING,
    DrawLoss,
    epsilon_of,
    loss_of,
    understated,
)
from skdp.testing.replay._recording import (
    ROWS,
    Draw,
    Recording,
    reused,
    scores_of,
    unused,
)

_SHOWN = 3
_MOST_NEIGHBOURS = 20


@dataclass(frozen=True)
class Replay:  # numpydoc ignore=PR02
    """The result of `replay_release`.

    Parameters
    ----------
    draws : pandas.DataFrame
        One row per draw that protects the release: ``sampler, size, difference, epsilon, rho``. The difference is that
        of the numbers which the noise was added to, in the norm of the sampler (of scores: the largest less the
        smallest change); epsilon and rho are the losses that follow from it and the scale of the noise, inf if they are
        not bounded.
    guarantee : PrivacyGuarantee
        What is stated, for the relation of the two tables.
    epsilon : float
        What all draws lose together, at the delta of the guarantee; inf if that is not bounded.
    findings : tuple of str
        What contradicts the guarantee.

    Notes
    -----
    **Privacy.** It holds differences of exact statistics: the tables must be public.

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
        """Whether nothing contradicts the guarantee, on these two tables."""
        return not self.findings


def replay_release(
    release: BaseEstimator | Callable[..., Any],
    X: TableLike,
    neighbour: TableLike,
    *,
    guarantee: PrivacyGuarantee | None = None,
    random_state: int = 0,
) -> Replay:
    """Record the noise of a release, and replay it on a neighbouring table.

    Both runs have the same results of all draws: the same choices, and the same sums of statistics and noise. So all
    that follows from released numbers must be the same in both, and what the noise was added to shows the sensitivity
    itself: no events, and no repetitions, are needed to see a wrong one (grey-box auditing, [1]_). The losses of the
    draws are added up and compared with the guarantee.

    Parameters
    ----------
    release : estimator or callable
        An estimator whose `fit` releases statistics, or a function from a table to a result. Both must draw their noise
        with the samplers of `skdp.randomness`, and add it as it comes: ``numbers + noise`` of arrays, or
        ``number + noise.item()``. Other noise is an unprotected difference here.
    X : dataframe or ndarray
        A table; for an estimator that needs a target, this is the last column.
    neighbour : dataframe or ndarray
        Its neighbour: with a row less or more at the end (or the rows of a person), or with one row replaced.
    guarantee : PrivacyGuarantee, optional
        What is claimed. By default, the attribute ``guarantee_`` or ``guarantee`` of the result.
    random_state : int, default=0
        A seed for an estimator. A function must draw the same in each call, from a seed.

    Returns
    -------
    Replay
        The draws, what they lose, and what contradicts the guarantee.

    Raises
    ------
    TypeError, ValueError
        If there is no guarantee, or the release of both tables fails.

    See Also
    --------
    check_sensitivity : Raise an error if something contradicts the guarantee, on many neighbours.
    audit_epsilon : For any release: a lower bound of epsilon from many draws.

    Notes
    -----
    **Privacy.** The tables must be public; a ledger of an estimator is not charged. A pass says that the noise covers
    these two tables; it does not prove that no other two differ by more. Not seen are wrong samplers (enumerate their
    probabilities instead), and a difference between the tables that this run of the noise hides. A choice of rows by
    another generator, such as which rows of a person are kept, must not change where both tables have the same rows:
    the difference would be taken for that of the row.

    Noise must have the same scale in both runs. A random choice of rows is taken as known: a sample of them hides
    nothing here.

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
    >>> def noisy_sum(ages):
    ...     return ages.sum() + discrete_laplace(SeededSource(0), Fraction(50), 1)
    >>> claim = PrivacyGuarantee(1.0, relation="add_remove", trust="central")
    >>> found = replay_release(noisy_sum, np.array([20, 30, 100]), np.array([20, 30]), guarantee=claim)
    >>> found.epsilon, found.findings
    (2.0, ('the draws lose epsilon 2 together, more than the stated 1',))
    """
    runs = []
    earlier: Sequence[Draw] = ()
    tables: tuple[Any, Any] = (X, neighbour)
    for table in tables:
        recording = Recording(earlier)
        runs.append((recording, *_outcome(release, table, recording, random_state)))
        earlier = recording.draws
    (first, result, said, failed), (second, other, said_too, failed_too) = runs
    if failed is not None and failed_too is not None:
        raise failed
    stated = _stated(other if failed is not None else result, guarantee)
    if failed is not None or failed_too is not None:
        error = type(failed or failed_too).__name__
        rows = [
            len(table) for table in (tables if failed is not None else tables[::-1])
        ]
        found = f"only one of the tables is an error: {error} with {rows[0]} rows, none with {rows[1]}"
        return Replay(_table([]), stated, math.inf, (found,))
    findings = []
    if guarantee is None and _stated(other, None) != stated:
        findings.append("the guarantee depends on the rows")
    claim = (
        stated.to("replace")
        if len(tables[0]) == len(tables[1]) and stated.relation == "add_remove"
        else stated
    )
    pairs, unlike = _paired(first.draws, second.draws)
    losses = [loss_of(*pair) for pair in pairs]
    drawn = losses or [
        DrawLoss(one.sampler, math.prod(one.shape), math.nan, math.nan, math.nan)
        for one in first.draws
    ]
    epsilon = math.inf if unlike else epsilon_of(losses, Fraction(claim.delta))
    rho = sum(loss.rho for loss in losses)
    findings += unlike
    if not unlike and not epsilon <= claim.epsilon * (1 + ROUNDING):
        findings.append(
            f"the draws lose epsilon {epsilon:.6g} together, more than the stated {claim.epsilon:.6g}"
        )
    if not unlike and (less := understated(losses, claim)) is not None:
        findings.append(less)
    if claim.rho is not None and rho > claim.rho * (1 + ROUNDING):
        findings.append(
            f"the draws lose rho {rho:.6g} together, more than the stated {claim.rho:.6g}"
        )
    findings += [
        f"{name} noise is added to two numbers: their difference is exact"
        for name in reused(first.draws)
    ]
    shown, shown_too = (dict(_parts(one)) for one in (result, other))
    differing = sorted(
        path
        for path in shown.keys() | shown_too.keys()
        if shown.get(path) != shown_too.get(path)
    )
    if differing:
        findings.append(
            f"{', '.join(differing[:_SHOWN])}: not the same, although all that was drawn is"
        )
        # Such as that of ``int(noise)``: what it is added to is not seen.
        findings += [
            f"{name} noise is not added as it comes" for name in unused(first.draws)
        ]
    if said != said_too:
        findings.append("a warning, a log record or the output depends on the rows")
    return Replay(_table(drawn), claim, epsilon, tuple(findings))


def check_sensitivity(
    release: BaseEstimator | Callable[..., Any],
    X: TableLike,
    neighbours: Sequence[Any] | None = None,
    *,
    guarantee: PrivacyGuarantee | None = None,
    random_state: int = 0,
) -> None:
    """Check that the noise of a release covers what one record changes.

    The noise of a release of X is recorded and replayed on neighbouring tables, which shows what it is added to
    (`replay_release`).

    Parameters
    ----------
    release : estimator or callable
        An estimator whose `fit` releases statistics, or a function from a table to a result.
    X : dataframe or ndarray
        A table of a few rows, with the target as the last column where one is needed: include the extremes of the
        declared values, and rows that are alone in a cell.
    neighbours : sequence of tables, optional
        Its neighbours, each with another last row or without it. By default X without each of its first 20 rows (that
        row then comes last in X), and each of the first 20 rows added to those before it.
    guarantee : PrivacyGuarantee, optional
        What is claimed. By default, the attribute ``guarantee_`` or ``guarantee`` of the result.
    random_state : int, default=0
        The first of the seeds for an estimator.

    Raises
    ------
    AssertionError
        If something contradicts the guarantee, with what it is.
    TypeError, ValueError
        If there is no guarantee, or the release of both tables fails.

    See Also
    --------
    replay_release : What is drawn for two tables.
    check_curator : All checks of an estimator.

    Notes
    -----
    **Privacy.** X must be public. A pass proves nothing of other tables: try the worst ones.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdp import DPHistogram
    >>> from skdp.testing import check_sensitivity
    >>> words = pd.DataFrame({"job": ["clerk", "nurse", "clerk"]})
    >>> check_sensitivity(DPHistogram(domain={"job": ["clerk", "nurse"]}), words)
    """
    pairs = (
        _without_a_row(X)
        if neighbours is None
        else ((X, neighbour) for neighbour in neighbours)
    )
    # Each pair has its own seed: what a release does next may depend on its noise.
    for turn, (one, other) in enumerate(pairs):
        found = replay_release(
            release, one, other, guarantee=guarantee, random_state=random_state + turn
        )
        require(found.passed, "; ".join(found.findings))


def _without_a_row(X: Any) -> Iterator[tuple[Any, Any]]:
    """Yield tables with a row at the end, and without it."""
    if not is_frame(X) and not isinstance(X, np.ndarray | pd.Series):
        raise TypeError(f"X must be a dataframe or an array, got {type(X).__name__}")
    rows, take = np.arange(len(X)), partial(take_rows, X)
    for row in rows[:_MOST_NEIGHBOURS]:
        rest = rows[rows != row]
        yield take(np.append(rest, row)), take(rest)
    for row in rows[: min(_MOST_NEIGHBOURS, len(X) - 1)]:
        yield take(rows[: row + 1]), take(rows[:row])


def _outcome(
    release: Any, table: Any, recording: Recording, random_state: int
) -> tuple[Any, list[str], Exception | None]:
    """Release a table; return the result, what was said, and the error."""
    run: Callable[[], Any]
    if hasattr(release, "fit"):
        names = release.get_params(deep=False)
        given = {
            name: value
            for name, value in (("random_state", random_state), ("ledger", None))
            if name in names
        }
        run = lambda: (  # noqa: E731
            clone(release).set_params(**given).fit(*rows_and_target(release, table))
        )
    else:
        run = lambda: release(table)  # noqa: E731
    with heard() as said:
        try:
            result, failed = recording.run(run), None
        except Exception as error:
            result, failed = None, error
    return result, said, failed


def _stated(result: Any, guarantee: PrivacyGuarantee | None) -> PrivacyGuarantee:
    stated = (
        guarantee
        or getattr(result, "guarantee_", None)
        or getattr(result, "guarantee", None)
    )
    if not isinstance(stated, PrivacyGuarantee):
        raise ValueError(
            "give the guarantee that is claimed: the result has no guarantee_"
        )
    return stated


def _parts(result: Any) -> Iterator[tuple[str, str]]:
    """Yield what a result holds as texts, but its guarantee, which is compared before."""
    held = (
        released_attributes(result)
        if hasattr(result, "get_params")
        else getattr(result, "__dict__", None)
    )
    if not held:
        return leaves("the result", result, ())
    return leaves(
        "",
        {
            name: part
            for name, part in held.items()
            if name not in ("guarantee_", "guarantee")
        },
        (),
    )


def _table(losses: Sequence[DrawLoss]) -> pd.DataFrame:
    rows = [
        (loss.sampler, loss.size, loss.difference, float(loss.epsilon), float(loss.rho))
        for loss in losses
    ]
    return pd.DataFrame(
        rows, columns=["sampler", "size", "difference", "epsilon", "rho"]
    )


def _paired(
    draws: Sequence[Draw], others: Sequence[Draw]
) -> tuple[list[tuple[Draw, Draw]], list[str]]:
    """Pair the draws of noise of the two runs, and list how the runs differ."""
    ours, theirs = (
        [draw for draw in each if draw.sampler not in ROWS] for each in (draws, others)
    )
    if [draw.sampler for draw in ours] != [draw.sampler for draw in theirs]:
        return [], ["which samplers are used depends on the rows"]
    unlike = []
    for one, other in zip(ours, theirs, strict=True):
        if one.shape != other.shape or len(scores_of(one)) != len(scores_of(other)):
            unlike.append(f"the number of draws of {one.sampler} depends on the rows")
        elif any(
            one.parameters.get(name) != other.parameters.get(name)
            for name in ("rate", "variance", "scale")
        ):
            unlike.append(f"the scale of {one.sampler} depends on the rows")
    return [] if unlike else list(zip(ours, theirs, strict=True)), list(
        dict.fromkeys(unlike)
    )
