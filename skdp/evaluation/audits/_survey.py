"""An audit of every local transformer of this library, as a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd

from skdp.evaluation.audits._audit import audit_epsilon
from skdp.local import (
    FrequencyOracleEncoder,
    HadamardResponseEncoder,
    HeavyHitters,
    LocalHashingEncoder,
    LocalTableEncoder,
    NumericPerturber,
    RandomizedResponseEncoder,
    RapporEncoder,
    SetValuedEncoder,
    SubsetSelectionEncoder,
    UnaryEncodingTransformer,
)
from skdp.oracles import check_size
from skdp.privacy import check_epsilon

_KEY = b"public: an audit hides nothing"
_GRID = 32
_BITS = 8


def audited_transformers(epsilon: float = 1.0, k: int = 4) -> Iterator[tuple[str, Any]]:
    """List the local transformers of this library."""
    one = {"column": list(range(k))}
    two = {"first": list(range(k)), "second": ["yes", "no", None]}
    yield "randomised response", RandomizedResponseEncoder(epsilon, categories=one)
    for strategy in ("split", "joint", "sample"):
        encoder = RandomizedResponseEncoder(
            epsilon, strategy=strategy, categories=two, handle_unknown="uniform"
        )
        yield f"randomised response, two columns, {strategy}", encoder
    yield (
        "randomised response, memoised",
        RandomizedResponseEncoder(
            epsilon, categories=one, memoize=True, secret_key=_KEY
        ),
    )
    for variant in ("optimized", "symmetric"):
        yield (
            f"unary encoding, {variant}",
            UnaryEncodingTransformer(epsilon, variant=variant, categories=one),
        )
    yield "subset selection", SubsetSelectionEncoder(epsilon, categories=one)
    yield "local hashing", LocalHashingEncoder(epsilon, categories=one)
    yield (
        "binary local hashing",
        LocalHashingEncoder(epsilon, n_buckets=2, categories=one),
    )
    yield "Hadamard response", HadamardResponseEncoder(epsilon, categories=one)
    yield "best oracle", FrequencyOracleEncoder(epsilon, categories=one)
    yield (
        "set selection",
        SetValuedEncoder(epsilon, categories=one, max_size=2, oracle="set_selection"),
    )
    yield (
        "unary encoding of sets",
        SetValuedEncoder(
            epsilon, categories=one, max_size=2, oracle="set_unary_encoding"
        ),
    )
    yield (
        "padding and sampling",
        SetValuedEncoder(epsilon, categories=one, max_size=2, oracle="local_hashing"),
    )
    numeric = {
        "optimal": "optimal",
        "square wave": "square_wave",
        "mixture of windows": "distribution",
        "clamped Laplace": "laplace",
    }
    for title, mechanism in numeric.items():
        yield (
            title,
            NumericPerturber(
                epsilon,
                mechanism=mechanism,
                bounds={"number": (0.0, 1.0)},
                grid_size=_GRID,
            ),
        )
    drawn: dict[Any, Any] = {
        "strategy": "sample",
        "bounds": dict.fromkeys(("low", "high"), (0.0, 1.0)),
    }
    yield "two numbers, sample", NumericPerturber(epsilon, **drawn, grid_size=_GRID)
    table: dict[str, Any] = {
        "categories": two,
        "bounds": {"number": (0.0, 1.0)},
        "grid_size": _GRID,
    }
    for strategy in ("split", "joint", "weighted"):
        yield (
            f"table, {strategy}",
            LocalTableEncoder(epsilon, **table | {"strategy": strategy}),
        )
    three = {name: list(range(k)) for name in ("first", "second", "third")}
    yield (
        "table, overlapping pairs",
        LocalTableEncoder(
            epsilon, categories=three, purpose="pairs", strategy="overlapping"
        ),
    )
    yield "RAPPOR, one report", RapporEncoder(epsilon, n_bits=_BITS, n_cohorts=1)
    yield (
        "RAPPOR, repeated reports",
        RapporEncoder(epsilon, n_bits=_BITS, n_cohorts=1, secret_key=_KEY),
    )
    yield "heavy hitters", HeavyHitters(epsilon, max_length=4)


def audit_table(
    epsilon: float = 1.0,
    *,
    k: int = 4,
    transformers: Mapping[str, Any] | None = None,
    n_draws: int = 100_000,
    confidence: float = 1 - 1e-6,
    random_state: int | None = None,
    advance: Callable[[], Any] = lambda: None,
) -> pd.DataFrame:
    """Audit every local transformer of this library, or others."""
    # The probability of a false alarm in the table is at most the sum of 1 - confidence over its rows.
    check_epsilon(epsilon)
    check_size(k, least=2, most=1 << 16, name="k")
    rows = []
    for name, transformer in dict(
        transformers or audited_transformers(epsilon, k)
    ).items():
        start = time.perf_counter()
        found = audit_epsilon(
            transformer,
            n_draws=n_draws,
            confidence=confidence,
            random_state=random_state,
        )
        numbers = (
            name,
            found.epsilon_claimed,
            found.epsilon_exact,
            found.epsilon_lower,
            found.event,
            found.n_draws,
        )
        verdict = (
            "rejected"
            if found.rejected
            else "not rejected"
            if found.event
            else "no event found"
        )
        rows.append((*numbers, time.perf_counter() - start, verdict))
        advance()
    columns = [
        "transformer",
        "claimed",
        "exact",
        "lower",
        "event",
        "draws",
        "seconds",
        "verdict",
    ]
    return pd.DataFrame(rows, columns=columns).astype({"exact": float})


def format_audit(table: pd.DataFrame) -> str:
    """Write the table of an audit as text."""
    shown = table.drop(columns="event").round(
        {"claimed": 4, "exact": 4, "lower": 3, "seconds": 1}
    )
    return shown.to_string(index=False, na_rep="-")
