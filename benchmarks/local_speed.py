"""Speed of the local model, compared with NumPy code that uses insecure floats, and with peers.

`nanoseconds` is the CPU time per cell (record and column), per draw, or per call for guarantees and ledgers. It is the
shortest of several runs, in which skdp and the reference alternate. `relative_time` is the time divided by the time of
the reference:

- transformers and oracles: vectorized randomized response in NumPy;
- reports that are bits: one comparison of a random float per bit;
- exact noise: NumPy's Laplace and normal floats;
- guarantees and ledgers: a fixed loop in Python.

The rows named "peer" are results of pure-ldp and OpenDP, which process one record or one list at a time. They require
`benchmarks/requirements.txt`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

EPSILONS = (1.0,)
SEEDS = 10
N_VALUES, N_COLUMNS = 14, 4
LABELS = [f"occupation {code:02d}" for code in range(N_VALUES)]
NAMES = [f"c{place}" for place in range(N_COLUMNS)]


def time_in_turns(
    own: Callable[[], object], rival: Callable[[], object], size: int, turns: int = 5
) -> dict[str, float]:
    """Return the shortest CPU time of a call per item, and its ratio to the time of the reference."""
    own()
    rival()
    times: dict[Callable[[], object], float] = {own: math.inf, rival: math.inf}
    for _ in range(turns):
        for call in times:
            start = time.process_time()
            call()
            times[call] = min(times[call], time.process_time() - start)
    return {
        "nanoseconds": 1e9 * times[own] / size,
        "relative_time": times[own] / times[rival],
    }


def score(table: Any, times: dict[str, float]) -> dict[str, float]:
    """Return the times."""
    return times


def randomize_in_numpy(codes: Any, k: int, epsilon: float) -> Any:
    """Randomize uint8 codes with insecure floats, without a branch."""
    rng = np.random.default_rng(0)
    truth = rng.random(codes.size) < math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    reports = rng.integers(k - 1, size=codes.size, dtype=np.uint8)
    reports += reports >= codes
    reports ^= codes
    reports *= ~truth
    reports ^= codes
    return reports


def compare_floats(shape: tuple[int, int]) -> Any:
    """Draw bits from insecure floats."""
    return np.random.default_rng(0).random(shape) < 0.5


# Tables.


def load_table(kind: str, n_rows: int) -> tuple[Any, Any, list[Any]]:
    """Return a table of a library, its codes in one array, and the declared values."""
    codes = np.random.default_rng(0).integers(
        N_VALUES, size=(n_rows, N_COLUMNS), dtype=np.uint8
    )
    rows = pd.DataFrame(np.array(LABELS, dtype=object)[codes], columns=NAMES)
    if kind == "NumPy uint8":
        return codes, codes.ravel(), list(range(N_VALUES))
    table: Any = rows.astype("str")
    if kind == "pandas category":
        table = rows.astype(pd.CategoricalDtype(LABELS))
    elif kind == "polars Enum":
        import polars

        table = polars.DataFrame({name: rows[name].to_list() for name in NAMES}).cast(
            polars.Enum(LABELS)
        )
    elif kind == "pyarrow string":
        import pyarrow

        table = pyarrow.table({name: rows[name].to_list() for name in NAMES})
    return table, codes.ravel(), LABELS


def load_tables(quick: bool) -> dict[str, Any]:
    """Return the same table in several libraries."""
    kinds = (
        "pandas category",
        "pandas str",
        "NumPy uint8",
        "polars Enum",
        "pyarrow string",
    )
    return {
        kind: partial(load_table, kind, 2_000 if quick else 50_000) for kind in kinds
    }


def time_transform(
    name: str, options: dict[str, Any], table: Any, epsilon: float, seed: int
) -> dict[str, float]:
    """Time the transform of a fitted encoder."""
    import skdp

    rows, codes, values = table
    encoder = getattr(skdp, name)(
        epsilon, categories=[values] * N_COLUMNS, **options
    ).fit(rows)
    rival = partial(randomize_in_numpy, codes, N_VALUES, epsilon)
    return time_in_turns(partial(encoder.transform, rows), rival, codes.size)


def time_estimate(
    name: str, options: dict[str, Any], table: Any, epsilon: float, seed: int
) -> dict[str, float]:
    """Time the estimates from reports."""
    import skdp

    rows, codes, values = table
    encoder = getattr(skdp, name)(
        epsilon, categories=[values] * N_COLUMNS, **options
    ).fit(rows)
    reports = encoder.transform(rows)
    rival = partial(randomize_in_numpy, codes, N_VALUES, epsilon)
    return time_in_turns(partial(encoder.estimate_counts, reports), rival, codes.size)


def table_methods() -> dict[str, Any]:
    """Return the calls of transformers."""
    response, unary = "RandomizedResponseEncoder", "UnaryEncodingTransformer"
    return {
        "randomized response": partial(time_transform, response, {}),
        "randomized response, joint": partial(
            time_transform, response, {"strategy": "joint"}
        ),
        "unary": partial(time_transform, unary, {}),
        "subset selection": partial(time_transform, "SubsetSelectionEncoder", {}),
        "local hashing": partial(time_transform, "LocalHashingEncoder", {}),
        "randomized response, estimate": partial(time_estimate, response, {}),
        "unary, estimate": partial(time_estimate, unary, {}),
    }


# Oracles.


def load_codes(k: int, n_rows: int) -> tuple[Any, int]:
    """Return random codes."""
    return np.random.default_rng(0).integers(k, size=n_rows, dtype=np.uint8), k


def load_oracle_tables(quick: bool) -> dict[str, Any]:
    """Return codes of few and of many values."""
    sizes = {4: 200_000, 100: 20_000}
    return {
        f"{k} values": partial(load_codes, k, n_rows // (100 if quick else 1))
        for k, n_rows in sizes.items()
    }


def time_report(name: str, table: Any, epsilon: float, seed: int) -> dict[str, float]:
    """Time the reports of an oracle."""
    from skdp import oracles
    from skdp.randomness import SecureSource

    codes, k = table
    report = partial(getattr(oracles, name)(k, epsilon).report, codes, SecureSource())
    if name == "UnaryEncoding":
        rival = partial(compare_floats, (codes.size, k))
        return time_in_turns(report, rival, codes.size)
    return time_in_turns(
        report, partial(randomize_in_numpy, codes, k, epsilon), codes.size
    )


def time_oracle_estimate(
    name: str, table: Any, epsilon: float, seed: int
) -> dict[str, float]:
    """Time the tally and the estimate of an oracle."""
    from skdp import oracles
    from skdp.randomness import SecureSource

    codes, k = table
    oracle = getattr(oracles, name)(k, epsilon)
    reports = oracle.report(codes, SecureSource())
    rival = partial(randomize_in_numpy, codes, k, epsilon)
    return time_in_turns(
        lambda: oracle.estimate(oracle.tally(reports), codes.size), rival, codes.size
    )


def time_pure_ldp(
    unary: bool, table: Any, epsilon: float, seed: int
) -> dict[str, float]:
    """Time reports of pure-ldp, for a thousand records."""
    from pure_ldp.frequency_oracles import direct_encoding, unary_encoding

    codes, k = table
    few = codes[:1_000]
    rival = partial(randomize_in_numpy, few, k, epsilon)
    if unary:
        client = unary_encoding.UEClient(epsilon, k, use_oue=True, index_mapper=int)
        rival = partial(compare_floats, (few.size, k))
    else:
        client = direct_encoding.DEClient(epsilon, k, index_mapper=int)
    return time_in_turns(
        lambda: [client.privatise(int(code)) for code in few], rival, few.size
    )


def oracle_methods() -> dict[str, Any]:
    """Return the calls of oracles."""
    names = ("RandomizedResponse", "UnaryEncoding", "SubsetSelection", "LocalHashing")
    methods: dict[str, Any] = {
        f"{name}, report": partial(time_report, name) for name in names
    }
    methods |= {
        f"{name}, estimate": partial(time_oracle_estimate, name) for name in names
    }
    peers = {"peer: pure-ldp, direct encoding": False, "peer: pure-ldp, unary": True}
    return methods | {
        name: partial(time_pure_ldp, unary) for name, unary in peers.items()
    }


# Noise.


def load_noise_tables(quick: bool) -> dict[str, Any]:
    """Return scales of noise, and the number of draws."""
    return {
        f"scale {scale}": partial(tuple, (scale, 1_000 if quick else 100_000))
        for scale in (1, 100)
    }


def time_noise(
    gaussian: bool, table: Any, epsilon: float, seed: int
) -> dict[str, float]:
    """Time exact draws."""
    from skdp.randomness import SecureSource, discrete_laplace, rounded_gaussian

    scale, size = table
    source, rng = SecureSource(), np.random.default_rng(0)
    if gaussian:
        return time_in_turns(
            lambda: rounded_gaussian(source, scale**2, size),
            lambda: rng.normal(0, scale, size),
            size,
        )
    return time_in_turns(
        lambda: discrete_laplace(source, scale, size),
        lambda: rng.laplace(0, scale, size),
        size,
    )


def time_opendp(
    gaussian: bool, table: Any, epsilon: float, seed: int
) -> dict[str, float]:
    """Time exact draws of OpenDP, a thousand of them."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    scale, size, rng = float(table[0]), 1_000, np.random.default_rng(0)
    space = dp.vector_domain(dp.atom_domain(T=int))
    if gaussian:
        draw = dp.m.make_gaussian(space, dp.l2_distance(T=float), scale=scale)
        return time_in_turns(
            lambda: draw([0] * size), lambda: rng.normal(0, scale, size), size
        )
    draw = dp.m.make_laplace(space, dp.l1_distance(T=int), scale=scale)
    return time_in_turns(
        lambda: draw([0] * size), lambda: rng.laplace(0, scale, size), size
    )


def noise_methods() -> dict[str, Any]:
    """Return the samplers."""
    return {
        "discrete Laplace": partial(time_noise, False),
        "discrete Gaussian": partial(time_noise, True),
        "peer: OpenDP, Laplace": partial(time_opendp, False),
        "peer: OpenDP, Gaussian": partial(time_opendp, True),
    }


# Guarantees and ledgers.


def count_in_python() -> int:
    """Run a fixed loop in Python."""
    return sum(number % 7 for number in range(20_000))


def time_charges(table: int, epsilon: float, seed: int) -> dict[str, float]:
    """Time charges of a ledger in memory."""
    from skdp import PrivacyGuarantee, PrivacyLedger

    guarantee = PrivacyGuarantee(0.01, trust="central", relation="add_remove")

    def charge() -> None:
        ledger = PrivacyLedger(epsilon=100.0)
        for _ in range(table):
            ledger.charge(guarantee, "a release")

    return time_in_turns(charge, count_in_python, table)


def time_composition(table: int, epsilon: float, seed: int) -> dict[str, float]:
    """Time the composition of many guarantees."""
    from skdp import PrivacyGuarantee
    from skdp.privacy import GaussianLoss, compose, gaussian_epsilon

    mu = 0.1 + 1e-6 * seed  # A new value for each call, because results may be cached.
    release = PrivacyGuarantee(
        gaussian_epsilon(mu, 1e-7), delta=1e-7, losses=(GaussianLoss(mu),)
    )
    releases = [PrivacyGuarantee(0.1)] * table + [release] * 2
    return time_in_turns(
        partial(compose, releases, delta=1e-5), count_in_python, 1, turns=2
    )


def guarantee_methods() -> dict[str, Any]:
    """Return the calls of guarantees and ledgers."""
    return {"charges": time_charges, "composition": time_composition}


TASKS = {
    "tables": (load_tables, table_methods, score),
    "oracles": (load_oracle_tables, oracle_methods, score),
    "noise": (load_noise_tables, noise_methods, score),
    "guarantees": (
        lambda quick: {"many": lambda: 10 if quick else 100},
        guarantee_methods,
        score,
    ),
}
