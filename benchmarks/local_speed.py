"""Speed of the local model, compared with NumPy code that uses insecure floats, and with peers.

`nanoseconds` is the CPU time per cell (record and column), per draw, or per call for guarantees and ledgers. It is the
shortest of several runs, in which skdp and the reference alternate. `relative_time` is the time divided by the time of
the reference:

- transformers, oracles, words and lists: vectorized randomized response in NumPy;
- reports that are bits: one comparison of a random float per bit;
- exact noise: NumPy's Laplace and normal floats;
- guarantees and ledgers: a fixed loop in Python.

The tasks "growth" measure the CPU time of a call by the number of records, declared values, columns or rows, and the
time in which `os.urandom` draws as many random bytes. skdp draws them from OpenSSL, which may take less. Values and
columns are measured with 10,000 records, and rows with five columns; synthesizers have epsilon 10.

The rows named "peer" are results of pure-ldp and OpenDP, which process one record or one list at a time. They require
`benchmarks/requirements.txt`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from _tables import many_columns
from _tasks import Task, keep_scores, measure_seconds, time_in_turns

N_VALUES, N_COLUMNS = 14, 4
LABELS = [f"occupation {code:02d}" for code in range(N_VALUES)]
NAMES = [f"c{place}" for place in range(N_COLUMNS)]


def compare_times(
    own: Callable[[], object], rival: Callable[[], object], size: int, turns: int = 5
) -> dict[str, float]:
    """Return the CPU time of a call per item, and its ratio to the time of the reference."""
    own()
    rival()
    seconds, ratio = time_in_turns(own, rival, turns)
    return {"nanoseconds": 1e9 * seconds / size, "relative_time": ratio}


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


def time_encoder(
    name: str,
    options: dict[str, Any],
    is_estimate: bool,
    table: Any,
    epsilon: float,
    seed: int,
) -> dict[str, float]:
    """Time the transform of a fitted encoder, or the estimates from its reports."""
    import skdp

    rows, codes, values = table
    make = getattr(skdp, name)
    encoder = make(epsilon, categories=[values] * N_COLUMNS, **options).fit(rows)
    call = partial(encoder.transform, rows)
    if is_estimate:
        call = partial(encoder.estimate_counts, encoder.transform(rows))
    rival = partial(randomize_in_numpy, codes, N_VALUES, epsilon)
    return compare_times(call, rival, codes.size)


RESPONSE, UNARY = "RandomizedResponseEncoder", "UnaryEncodingTransformer"
TABLE_METHODS = {
    "randomized response": partial(time_encoder, RESPONSE, {}, False),
    "randomized response, joint": partial(
        time_encoder, RESPONSE, {"strategy": "joint"}, False
    ),
    "unary": partial(time_encoder, UNARY, {}, False),
    "subset selection": partial(time_encoder, "SubsetSelectionEncoder", {}, False),
    "local hashing": partial(time_encoder, "LocalHashingEncoder", {}, False),
    "randomized response, estimate": partial(time_encoder, RESPONSE, {}, True),
    "unary, estimate": partial(time_encoder, UNARY, {}, True),
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
    rival = partial(randomize_in_numpy, codes, k, epsilon)
    if name == "UnaryEncoding":
        rival = partial(compare_floats, (codes.size, k))
    return compare_times(report, rival, codes.size)


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
    return compare_times(
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
    return compare_times(
        lambda: [client.privatise(int(code)) for code in few], rival, few.size
    )


ORACLES = ("RandomizedResponse", "UnaryEncoding", "SubsetSelection", "LocalHashing")
ORACLE_METHODS = (
    {f"{name}, report": partial(time_report, name) for name in ORACLES}
    | {f"{name}, estimate": partial(time_oracle_estimate, name) for name in ORACLES}
    | {
        "peer: pure-ldp, direct encoding": partial(time_pure_ldp, False),
        "peer: pure-ldp, unary": partial(time_pure_ldp, True),
    }
)


# Words and lists.


def load_words(n_rows: int) -> pd.Series[Any]:
    """Return words of a Zipf distribution."""
    ranks = np.random.default_rng(0).zipf(1.3, n_rows)
    words = np.array([f"site {rank}" for rank in range(2_000)], dtype=object)
    return pd.Series(words[np.minimum(ranks - 1, 1_999)], name="word")


def time_rappor(
    is_decoded: bool, options: dict[str, Any], words: Any, epsilon: float, seed: int
) -> dict[str, float]:
    """Time the reports of words, or the counts of a hundred candidates."""
    from skdp import RapporEncoder

    rows = words.to_frame()
    ids = {"person": range(len(rows))} if options else {}
    encoder = RapporEncoder(epsilon, **options).fit(rows)
    call = partial(encoder.transform, rows, **ids)
    if is_decoded:
        candidates = [f"site {rank}" for rank in range(100)]
        call = partial(encoder.decode, encoder.transform(rows), candidates)
    return compare_to_numpy(call, len(rows), epsilon)


def time_heavy_hitters(words: Any, epsilon: float, seed: int) -> dict[str, float]:
    """Time the search for frequent words in reports."""
    from skdp import HeavyHitters

    finder = HeavyHitters(epsilon, max_length=8)
    call = partial(finder.fit, finder.report(words))
    return compare_to_numpy(call, len(words), epsilon)


def time_sets(words: Any, epsilon: float, seed: int) -> dict[str, float]:
    """Time the reports of lists of up to five values."""
    from skdp import SetValuedEncoder

    rng = np.random.default_rng(0)
    lists = [
        rng.choice(LABELS, size, replace=False).tolist()
        for size in rng.integers(6, size=len(words))
    ]
    rows = pd.DataFrame({"lists": pd.Series(lists, dtype=object)})
    encoder = SetValuedEncoder(epsilon, categories={"lists": LABELS}).fit(rows)
    return compare_to_numpy(partial(encoder.transform, rows), len(words), epsilon)


def time_permanent(
    name: str, words: Any, epsilon: float, seed: int
) -> dict[str, float]:
    """Time permanent reports of categories."""
    import skdp

    codes = np.random.default_rng(0).integers(N_VALUES, size=len(words))
    rows = pd.DataFrame({"value": np.array(LABELS, dtype=object)[codes]})
    encoder = getattr(skdp, name)(
        epsilon, categories={"value": LABELS}, memoize=True, secret_key=KEY
    )
    call = partial(encoder.fit(rows).transform, rows, person=range(len(rows)))
    return compare_to_numpy(call, len(words), epsilon)


def compare_to_numpy(
    call: Callable[[], object], n_rows: int, epsilon: float
) -> dict[str, float]:
    """Compare the time of a call with vectorized randomized response of as many codes."""
    codes = np.random.default_rng(0).integers(N_VALUES, size=n_rows, dtype=np.uint8)
    rival = partial(randomize_in_numpy, codes, N_VALUES, epsilon)
    return compare_times(call, rival, n_rows)


KEY = b"a public key for the benchmarks."
WORD_METHODS = {
    "RAPPOR, transform": partial(time_rappor, False, {}),
    "RAPPOR, decode": partial(time_rappor, True, {}),
    "RAPPOR, permanent": partial(time_rappor, False, {"secret_key": KEY}),
    "HeavyHitters, fit": time_heavy_hitters,
    "lists": time_sets,
    "randomized response, permanent": partial(time_permanent, RESPONSE),
    "unary, permanent": partial(time_permanent, UNARY),
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
    draw = partial(discrete_laplace, source, scale, size)
    rival = partial(rng.laplace, 0, scale, size)
    if gaussian:
        draw = partial(rounded_gaussian, source, scale**2, size)
        rival = partial(rng.normal, 0, scale, size)
    return compare_times(draw, rival, size)


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
        rival = partial(rng.normal, 0, scale, size)
    else:
        draw = dp.m.make_laplace(space, dp.l1_distance(T=int), scale=scale)
        rival = partial(rng.laplace, 0, scale, size)
    return compare_times(lambda: draw([0] * size), rival, size)


NOISE_METHODS = {
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

    return compare_times(charge, count_in_python, table)


def time_composition(table: int, epsilon: float, seed: int) -> dict[str, float]:
    """Time the composition of many guarantees."""
    from skdp import PrivacyGuarantee
    from skdp.privacy import GaussianLoss, compose, gaussian_epsilon

    mu = 0.1 + 1e-6 * seed  # A new value for each call, because results may be cached.
    release = PrivacyGuarantee(
        gaussian_epsilon(mu, 1e-7), delta=1e-7, losses=(GaussianLoss(mu),)
    )
    releases = [PrivacyGuarantee(0.1)] * table + [release] * 2
    return compare_times(
        partial(compose, releases, delta=1e-5), count_in_python, 1, turns=2
    )


# Growth.


@contextmanager
def count_random_bytes() -> Iterator[list[int]]:
    """Count the secure random bytes that are drawn in a block of code."""
    from skdp.randomness import SecureSource

    draw, sizes = SecureSource.bytes, []

    def count(source: Any, size: int) -> Any:
        sizes.append(size)
        return draw(source, size)

    SecureSource.bytes = count  # type: ignore[method-assign]
    try:
        yield sizes
    finally:
        SecureSource.bytes = draw  # type: ignore[method-assign]


def draw_from_system(n_bytes: int) -> None:
    """Draw random bytes of the operating system, in blocks of 64 KiB."""
    for start in range(0, n_bytes, 1 << 16):
        os.urandom(min(1 << 16, n_bytes - start))


def measure_growth(call: Callable[[], object], n_records: int) -> dict[str, float]:
    """Return the CPU time of a call, and the number and the CPU time of the random bytes of the system."""
    with count_random_bytes() as sizes:
        call()
    system = partial(draw_from_system, sum(sizes))
    seconds, ratio = time_in_turns(call, system, 2 if n_records > 1e6 else 5)
    result = {"seconds": seconds}
    if sum(sizes) > 0:
        result["random_bytes_per_record"] = sum(sizes) / n_records
        result["urandom_seconds"] = seconds / ratio
    return result


def grow_records(
    name: str, is_estimate: bool, n_rows: int, epsilon: float, seed: int
) -> dict[str, float]:
    """Measure the reports of a column of categories or of their estimate."""
    import skdp

    codes = np.random.default_rng(seed).integers(N_VALUES, size=n_rows)
    rows = pd.DataFrame({"value": pd.Categorical.from_codes(codes, LABELS)})
    encoder = getattr(skdp, name)(epsilon, categories={"value": LABELS}).fit(rows)
    call = partial(encoder.transform, rows)
    if is_estimate:
        call = partial(encoder.estimate_counts, encoder.transform(rows))
    return measure_growth(call, n_rows)


def grow_values(
    name: str, is_estimate: bool, k: int, epsilon: float, seed: int
) -> dict[str, float]:
    """Measure 10,000 reports of an oracle of k values, or their estimate."""
    from skdp import oracles
    from skdp.randomness import SecureSource

    n = 10_000
    codes = np.random.default_rng(seed).integers(k, size=n, dtype=np.uint16)
    oracle = getattr(oracles, name)(k, epsilon)
    call = partial(oracle.report, codes, SecureSource())
    if is_estimate:
        reports = call()
        call = partial(lambda: oracle.estimate(oracle.tally(reports), n))
    return measure_growth(call, n)


def load_rows(n_rows: int) -> tuple[pd.DataFrame, Any]:
    """Return a table of five columns that depend on their neighbors, and its domain."""
    from skdp import Domain

    rng = np.random.default_rng(0)
    steps = rng.integers([5, 2, 2, 2, 2], size=(n_rows, 5), dtype=np.uint8)
    table = pd.DataFrame(
        steps.cumsum(axis=1, dtype=np.uint8) % 5, columns=list("abcde")
    )
    return table, Domain({name: list(range(5)) for name in table})


def load_columns(n_columns: int) -> tuple[pd.DataFrame, Any]:
    """Return a table of 10,000 rows and its domain."""
    wide = many_columns(n_columns, 10_000)
    return wide.train, wide.domain


def grow_synthesis(
    made: tuple[pd.DataFrame, Any], epsilon: float, seed: int
) -> dict[str, float]:
    """Measure `fit` and `sample` of a synthesizer."""
    from skdp import DPMarginalSynthesizer

    table, domain = made
    synthesizer = DPMarginalSynthesizer(
        epsilon, delta=1e-9, domain=domain, random_state=seed
    )
    call = partial(lambda: synthesizer.fit(table).sample(len(table)))
    return {"seconds": min(measure_seconds(call) for _ in range(2))}


def list_sizes(
    unit: str, sizes: tuple[int, ...], make: Callable[[int], Any], quick: bool
) -> dict[str, Any]:
    """Return a table for each size, named by its number; with `quick`, for the two smallest."""
    chosen = sizes[:2] if quick else sizes
    return {f"{size:,} {unit}": partial(make, size) for size in chosen}


MANY = (10_000, 100_000, 1_000_000, 10_000_000)
GROWTH = {
    "growth with records": Task(
        partial(list_sizes, "records", MANY, int),
        {
            f"{name}{', estimate' if is_estimate else ''}": partial(
                grow_records, name, is_estimate
            )
            for name, is_estimate in [
                (RESPONSE, False),
                (RESPONSE, True),
                (UNARY, False),
                (UNARY, True),
                ("SubsetSelectionEncoder", False),
                ("LocalHashingEncoder", False),
            ]
        },
        keep_scores,
        (1.0,),
        5,
    ),
    "growth with values": Task(
        partial(list_sizes, "values", (2, 10, 100, 1_000), int),
        {
            f"{name}{', estimate' if is_estimate else ''}": partial(
                grow_values, name, is_estimate
            )
            for name in ORACLES
            for is_estimate in (False, True)
        },
        keep_scores,
        (1.0,),
        5,
    ),
    # With epsilon 10, the number of selected marginals grows with the columns.
    "growth with columns": Task(
        partial(list_sizes, "columns", (12, 24, 48, 96, 160), load_columns),
        {"DPMarginalSynthesizer": grow_synthesis},
        keep_scores,
        (10.0,),
        3,
    ),
    "growth with rows": Task(
        partial(list_sizes, "rows", (10_000, 100_000, 1_000_000, 5_000_000), load_rows),
        {"DPMarginalSynthesizer": grow_synthesis},
        keep_scores,
        (10.0,),
        3,
    ),
}


TASKS = {
    "tables": Task(load_tables, TABLE_METHODS, keep_scores, (1.0,), 10),
    "oracles": Task(load_oracle_tables, ORACLE_METHODS, keep_scores, (1.0,), 10),
    "words and lists": Task(
        lambda quick: {"words": partial(load_words, 2_000 if quick else 50_000)},
        WORD_METHODS,
        keep_scores,
        (4.0,),
        5,
    ),
    "noise": Task(load_noise_tables, NOISE_METHODS, keep_scores, (1.0,), 10),
    "guarantees": Task(
        lambda quick: {"many": lambda: 10 if quick else 100},
        {"charges": time_charges, "composition": time_composition},
        keep_scores,
        epsilons=(1.0,),
        n_seeds=10,
    ),
} | GROWTH
