"""Reading reports, or their tally, with the protocol of the transformer that made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from skdp.domain import Domain
from skdp.local import (
    OracleProtocol,
    ReportTally,
    ReportTransformer,
    TableProtocol,
    TableTally,
    read_carried,
    refuse_impossible,
)
from skdp.synthesis.reports._reported import Matrix, Reported, ReportedGroup

_CHUNK = 1 << 20
_MOST_VALUES = 8_192
"""Of all columns together: their products are a dense matrix."""


def check_encoder(encoder: Any) -> ReportTransformer:
    """Check that a transformer is fitted, and that its reports tell of declared values, once a person."""
    found = encoder.estimator if isinstance(encoder, FrozenEstimator) else encoder
    if not isinstance(found, ReportTransformer):
        name = found.__name__ if isinstance(found, type) else type(found).__name__
        raise TypeError(f"encoder must be a fitted local transformer, such as LocalTableEncoder, got {name}")
    check_is_fitted(found)
    protocol = found.protocol_
    if protocol.permanent_key is not None:
        raise ValueError(
            "encoder makes permanent reports: those of one person in several calls are the same noise, so that no "
            "error could be stated; use an encoder with memoize=False"
        )
    parts: Any = protocol.parts if isinstance(protocol, TableProtocol) else [protocol]
    known = [name for part in parts if isinstance(part, OracleProtocol) for name in part.columns]
    if numbers := [name for name in protocol.columns if name not in known]:
        raise ValueError(
            f"the columns {numbers} are not reported as declared values, which a model counts; declare numbers among "
            "the categories of the encoder, as Interval(low, high, bins=…)"
        )
    return found


def read_reported(encoder: ReportTransformer, reports: Any, *, pairs: bool) -> tuple[Domain, Reported]:
    """Read reports or their tally; what goes together is read of reports alone, and only if pairs are wanted."""
    protocol: Any = encoder.protocol_
    arrays = None
    if isinstance(reports, ReportTally | TableTally):
        tally = reports
    elif hasattr(reports, "with_sums"):
        raise TypeError(f"the tally must be one of {type(encoder).__name__}, got {type(reports).__name__}")
    else:
        arrays, tally = read_carried(reports, encoder)
    expected = protocol.empty_tally()
    if type(tally) is not type(expected) or tally._meaning() != expected._meaning():
        raise ValueError("the tally comes from an encoder with different parameters or another domain")
    if tally.n_reports == 0:
        raise ValueError("there must be at least 1 report, got a tally or table of 0")
    refuse_impossible(protocol, tally)
    owned = tally.parts if isinstance(tally, TableTally) else [tally]
    support = [one for own in owned for one in own.support]
    sizes = [size for own in owned for size in own.sizes]
    domain, found = reported_of(encoder, tally.n_reports, support, sizes)
    groups = found.groups
    if arrays is None or not pairs or len(groups) < 2:
        return domain, found
    if sum(domain.sizes) > _MOST_VALUES:
        raise ValueError(
            f"the columns declare {sum(domain.sizes):,} values; pairs are estimated of at most {_MOST_VALUES:,}. Take "
            "coarser values, or marginals='independent'"
        )
    drawn = _drawn(protocol, arrays, len(groups))
    both = drawn.T.astype(np.int64) @ drawn.astype(np.int64)
    if not np.triu(both, 1).any():  # no record makes two reports
        return domain, found
    products = _products(found, arrays, drawn)
    return domain, replace(found, products=products, both=both)


def reported_of(
    encoder: ReportTransformer, n_rows: int, support: Sequence[NDArray[np.int64]], sizes: Sequence[int]
) -> tuple[Domain, Reported]:
    """Return what sums of reports say: for each attribute how many reports support its values, and their number."""
    protocol: Any = encoder.protocol_
    parts: Any = protocol.parts if isinstance(protocol, TableProtocol) else [protocol]
    known = {name: part.domain[name] for part in parts for name in part.domain.columns}
    domain = Domain({name: known[name] for name in protocol.columns})
    attributes = [pair for part in parts for pair in zip(part.attributes, part.oracles, strict=True)]
    groups = tuple(
        ReportedGroup(
            tuple(domain.columns.index(name) for name in columns),
            tuple(len(domain[name]) for name in columns),
            oracle,
            own,
            size,
        )
        for (columns, oracle), own, size in zip(attributes, support, sizes, strict=True)
    )
    return domain, Reported(domain.sizes, n_rows, groups)


def _drawn(protocol: Any, arrays: Sequence[NDArray[Any]], n_groups: int) -> NDArray[np.bool_]:
    """Return which row reports which group."""
    if isinstance(protocol, TableProtocol):
        return protocol.rows(list(arrays))
    if protocol.strategy == "sample":
        return np.asarray(arrays[-1])[:, np.newaxis] == np.arange(n_groups)
    return np.ones((len(arrays[0]), n_groups), bool)


def _products(reported: Reported, arrays: Sequence[NDArray[Any]], drawn: NDArray[np.bool_]) -> Matrix:
    """Sum the products of the unbiased one-hot vectors of all columns over the records."""
    width = sum(reported.sizes)
    starts = np.cumsum([0, *reported.sizes])
    total = np.zeros((width, width))
    step = max(1, _CHUNK // max(width, *(group.oracle.k for group in reported.groups)))
    for start in range(0, len(drawn), step):
        rows = np.zeros((len(drawn[start : start + step]), width))
        for place, group in enumerate(reported.groups):
            own = drawn[start : start + step, place]
            if not own.any() or not group.is_known:
                continue
            vectors = group.oracle.unbiased(arrays[place][start : start + step][own]).reshape(-1, *group.sizes)
            for axis, column in enumerate(group.columns):
                others = tuple(other + 1 for other in range(len(group.sizes)) if other != axis)
                rows[own, starts[column] : starts[column + 1]] = vectors.sum(axis=others)
        total += rows.T @ rows
    return total
