"""Bounds on the accuracy of guesses from locally private reports."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skdp.evaluation.attacks._attacker import check_declared
from skdp.evaluation.attacks._ranking import best_of_report
from skdp.local import SAMPLED, ReportProtocol
from skdp.oracles import FrequencyOracle


def guessing_bound(prior: ArrayLike, epsilon: float) -> float:
    """Return the largest expected accuracy of guesses from reports of a given epsilon.

    Parameters
    ----------
    prior : array-like of shape (k,)
        The probability of each value; at least 0, with a sum of 1.
    epsilon : float
        The privacy loss of a report, at least 0; may be infinite.

    Returns
    -------
    float
        Between the largest probability (at epsilon 0) and 1.

    Raises
    ------
    TypeError
        If epsilon is no number.
    ValueError
        If the prior is no distribution, or epsilon is negative or nan.

    Notes
    -----
    The Bayes guess from a report r is the value v with the largest ``P(v) P(r | v)``, and is right with probability
    ``sum_r max_v P(v) P(r | v)``. Over all epsilon-locally private protocols, the largest such probability is

        max over m of  E P_m / (E + m - 1),  with E = e^epsilon and P_m the sum of the m largest probabilities.

    *Reached*: randomised response among the m most frequent values, which the other values answer uniformly. *Not
    exceeded*: call it T, and let y be numbers at least ``max(0, (E P(v) - T) / (E - 1))`` with the sum T; these exist,
    as for any m values the terms add up to at most T. For any report r and value v, no other value gives r with less
    than ``P(r | v) / E``, so ``sum_u y_u P(r | u) >= P(r | v) (T + (E - 1) y_v) / E >= P(v) P(r | v)``. Over all
    reports, the left side adds up to T. For k equally frequent values, it is ``E / (E + k - 1)``.

    **Privacy.** The bound holds for guesses from the report alone. An attacker with other knowledge of the record that
    is correlated with the value may be right more often, also without the report.

    Examples
    --------
    >>> round(guessing_bound([0.5, 0.5], np.log(3)), 6)
    0.75
    >>> round(guessing_bound([0.9, 0.1], np.log(3)), 6)
    0.9
    """
    shares = _check_prior(prior)
    if isinstance(epsilon, bool | np.bool_) or not isinstance(epsilon, Real):
        raise TypeError(
            f"epsilon must be a number, at least 0, got {type(epsilon).__name__}"
        )
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")
    sums = np.cumsum(np.sort(shares)[::-1])
    return min(
        1.0,
        float(np.max(sums / (1 + np.arange(shares.size) * np.exp(-float(epsilon))))),
    )


def bayes_accuracy(
    oracle: FrequencyOracle, prior: ArrayLike, *, groups: ArrayLike | None = None
) -> float | None:
    """Return the exact probability that the best guess from a report of an oracle is right.

    Parameters
    ----------
    oracle : FrequencyOracle
        The protocol.
    prior : array-like of shape (k,)
        The probability of each value; at least 0, with a sum of 1.
    groups : array-like of shape (k,), optional
        Groups of values to guess instead of values: those with the same entry are one, such as all ages of a sex if age
        and sex are reported together.

    Returns
    -------
    float or None
        ``sum_r max_v P(v) P(r | v)`` over all reports of the channel, in closed form if there is one; None for
        protocols that hash, and Hadamard response of many values; with `groups`, for all channels of many reports
        except that of randomised response.

    Raises
    ------
    ValueError
        If the prior is no distribution of k values, or there is not a group for each.

    Examples
    --------
    >>> from skdp.oracles import RandomizedResponse
    >>> round(bayes_accuracy(RandomizedResponse(2, np.log(3)), [0.5, 0.5]), 6)
    0.75
    """
    shares = _check_prior(prior)
    if shares.size != oracle.k:
        raise ValueError(f"prior must have {oracle.k} entries, got {shares.size}")
    if groups is None:
        return oracle.guess_accuracy(shares)
    codes = np.unique(np.asarray(groups), return_inverse=True)[1]
    if codes.shape != shares.shape:
        raise ValueError(f"groups must have {shares.size} entries, got {codes.size}")
    return oracle.guess_accuracy(shares, codes)


def _check_prior(prior: Any) -> NDArray[np.float64]:
    shares = np.asarray(prior, float)
    if (
        shares.ndim != 1
        or shares.size == 0
        or not (shares >= 0).all()
        or abs(shares.sum() - 1) > 1e-9
    ):
        raise ValueError("prior must be probabilities, at least 0, that add up to 1")
    return shares


EXACT = "the exact value of the protocol"


def bound_of_reports(
    protected: pd.DataFrame,
    shares: NDArray[np.float64],
    encoder: Any,
    epsilon: Any,
    reports: list[Any],
) -> tuple[float, str]:
    """Return the bound on guesses from the visible reports alone, and its kind."""
    if encoder is None:
        if epsilon is None:
            return math.nan, ""
        return guessing_bound(
            shares, epsilon
        ), f"the best protocol of epsilon = {epsilon:g}"
    protocol = encoder.protocol_
    names = _names_of(protected, protocol)
    whole = [
        index
        for index, field in enumerate(protocol.fields)
        if set(field.columns) == set(names)
    ]
    if not whole or not _is_alone(protocol, whole[0], reports):
        # Columns may be correlated, so every report of a record may reveal the protected ones.
        total = encoder.guarantee_.epsilon
        together = (
            ", for all reports of a record together"
            if len(protocol.oracles) > 1
            else ""
        )
        return guessing_bound(
            shares, total
        ), f"the best protocol of epsilon = {total:g}{together}"
    exact = _exact_bound(protected.set_axis(names, axis=1), protocol, whole[0])
    if exact is not None:
        return exact, EXACT
    own = protocol.oracles[whole[0]].epsilon
    return guessing_bound(shares, own), f"the best protocol of epsilon = {own:g}"


def _is_alone(protocol: ReportProtocol, place: int, reports: list[Any]) -> bool:
    """Whether no report of another attribute is visible; a renamed report may be one."""
    return len(protocol.oracles) == 1 or set(reports) <= {
        *protocol.fields[place].names(),
        SAMPLED,
    }


def _names_of(protected: pd.DataFrame, protocol: ReportProtocol) -> list[Any]:
    """Find the protected columns among those of the encoder; a single one needs no name."""
    names, domain = list(protected.columns), protocol.domain
    assert domain is not None
    if len(names) == len(domain.columns) == 1:
        return list(domain.columns)
    absent = [name for name in names if name not in domain.columns]
    if absent:
        raise ValueError(
            f"sensitive must be columns of the encoder, by their names {list(domain.columns)}; {absent} are not"
        )
    return names


def _exact_bound(
    protected: pd.DataFrame, protocol: ReportProtocol, place: int
) -> float | None:
    prior, _ = _prior_of(protected, protocol, place)
    exact = bayes_accuracy(protocol.oracles[place], prior)
    if exact is None or protocol.strategy != "sample":
        return exact
    # One attribute of each record is reported; of the others, the guess is the most frequent value.
    d = len(protocol.oracles)
    return float((exact + (d - 1) * prior.max()) / d)


def _prior_of(
    protected: pd.DataFrame, protocol: ReportProtocol, place: int
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the shares of the values of an attribute, and the values of the rows."""
    field: Any = protocol.fields[place]
    domain = field.domain
    codes = domain.encode([protected[name] for name in domain.columns])
    check_declared(domain, codes, " of sensitive")
    cells = domain.join(codes).astype(np.intp)
    return np.bincount(cells, minlength=domain.size) / len(protected), cells


def best_guess(
    protected: pd.DataFrame, truth: NDArray[np.intp], encoder: Any, seed: int | None
) -> tuple[float | None, NDArray[np.float64]]:
    """Return the accuracy of the best guess from the report alone, and for each true value the area under its curve."""
    unknown = np.full(truth.max() + 1, np.nan)
    if encoder is None:
        return None, unknown
    protocol = encoder.protocol_
    names = _names_of(protected, protocol)
    whole = [
        index
        for index, field in enumerate(protocol.fields)
        if set(field.columns) == set(names)
    ]
    if not whole:
        return None, unknown
    prior, cells = _prior_of(protected.set_axis(names, axis=1), protocol, whole[0])
    rate = 1 / len(protocol.oracles) if protocol.strategy == "sample" else 1.0
    accuracy, areas = best_of_report(protocol.oracles[whole[0]], prior, rate, seed)
    _, first = np.unique(truth, return_index=True)
    return accuracy, areas[cells[first]]


def declared_labels(
    protected: pd.DataFrame, truth: NDArray[np.intp], encoder: Any
) -> list[Any]:
    """Return the declared labels of the true values; without a declaration, which is public, their numbers."""
    if encoder is None:
        return list(range(truth.max() + 1))
    domain = encoder.protocol_.domain.select(_names_of(protected, encoder.protocol_))
    codes = domain.encode(
        [protected.iloc[:, place] for place in range(protected.shape[1])]
    )
    check_declared(domain, codes, " of sensitive")
    cells = domain.cells()[
        domain.join(codes).astype(np.intp)[np.unique(truth, return_index=True)[1]]
    ]
    return list(cells)
