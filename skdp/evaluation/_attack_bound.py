"""The bound that an attack on a release is compared with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skdp.evaluation._bayes_bound import bayes_accuracy, guessing_bound
from skdp.local import RandomizedResponseEncoder
from skdp.local._base import LocalTransformer
from skdp.local._report_columns import SAMPLED
from skdp.oracles import SubsetSelection, UnaryEncoding

EXACT = "the exact value of the protocol"


def bound_of_reports(
    protected: pd.DataFrame, shares: NDArray[np.float64], encoder: Any, epsilon: Any, reports: list[Any]
) -> tuple[float, str]:
    """Return what the best guess from the visible reports alone gets right, and what kind of bound that is."""
    if encoder is None:
        if epsilon is None:
            return math.nan, ""
        return guessing_bound(shares, epsilon), f"the best protocol of epsilon = {epsilon:g}"
    names = _names_of(protected, encoder)
    whole = [index for index, columns in enumerate(encoder._attributes) if set(columns) == set(names)]
    if not whole or not _is_alone(encoder, whole[0], reports):
        # The columns of a record may go together, so every report of it may tell of the protected ones.
        total = encoder.guarantee_.epsilon
        together = ", for all reports of a record together" if len(encoder.oracles_) > 1 else ""
        return guessing_bound(shares, total), f"the best protocol of epsilon = {total:g}{together}"
    exact = _exact_bound(protected.set_axis(names, axis=1), encoder, whole[0])
    if exact is not None:
        return exact, EXACT
    own = encoder.oracles_[whole[0]].epsilon
    return guessing_bound(shares, own), f"the best protocol of epsilon = {own:g}"


def _is_alone(encoder: LocalTransformer, place: int, reports: list[Any]) -> bool:
    """Say whether the attacker sees no report of another attribute; a report that was renamed may be one."""
    return len(encoder.oracles_) == 1 or set(reports) <= {*_reports_of(encoder, place), SAMPLED}


def _reports_of(encoder: LocalTransformer, place: int) -> list[Any]:
    """List the columns of the output that report an attribute."""
    if isinstance(encoder, RandomizedResponseEncoder):
        widths = [len(columns) for columns in encoder._attributes]
    else:
        widths = [
            oracle.k if isinstance(oracle, UnaryEncoding | SubsetSelection) else oracle.width
            for oracle in encoder.oracles_
        ]
    start = sum(widths[:place])
    return list(encoder.get_feature_names_out()[start : start + widths[place]])


def _names_of(protected: pd.DataFrame, encoder: LocalTransformer) -> list[Any]:
    """Find the protected columns among those of the encoder; a single one needs no name."""
    names, domain = list(protected.columns), encoder.domain_
    if len(names) == len(domain.columns) == 1:
        return list(domain.columns)
    absent = [name for name in names if name not in domain.columns]
    if absent:
        raise ValueError(
            f"sensitive must be columns of the encoder, by their names {list(domain.columns)}; {absent} are not"
        )
    return names


def _exact_bound(protected: pd.DataFrame, encoder: LocalTransformer, place: int) -> float | None:
    domain = encoder.domain_.select(encoder._attributes[place])
    codes = domain.encode([protected[name] for name in domain.columns])
    for name, size, column in zip(domain.columns, domain.sizes, codes, strict=True):
        if column.max(initial=0) == size:
            raise ValueError(f"column {name!r} of sensitive holds a value outside the declared categories")
    prior = np.bincount(domain.join(codes).astype(np.intp), minlength=domain.size) / len(protected)
    exact = bayes_accuracy(encoder.oracles_[place], prior)
    if exact is None or encoder._strategy != "sample":
        return exact
    # One attribute of each record is reported; of the others, the guess is the most frequent value.
    d = len(encoder.oracles_)
    return float((exact + (d - 1) * prior.max()) / d)
