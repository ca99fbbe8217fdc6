"""How fast codes are privatised by k-ary randomised response, beside NumPy, the notebook's way, and peers.

Run ``make bench``, or ``python benchmarks/randomized_response.py`` wherever skdp is installed; peers that are missing
are left out. All run in one process and take turns; what counts are the ratios.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _timing import best_of, peak_memory, verdict, write_results

from skdp.oracles import RandomizedResponse
from skdp.randomness import BLOCK, SecureSource

EPSILON = 1.0
SIZES = ((10_000_000, 4, 7), (200_000, 100, 60))  # records, values, repetitions
PEER_RECORDS = 20_000  # peers take one record at a time

COLUMNS = (
    "what",
    "ns per record",
    "ratio to skdp",
    "peak memory / output",
    "target",
    "met?",
)


def in_numpy(codes: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Randomise uint8 codes in NumPy with insecure coins: floats below p, and a branch-free choice."""
    p = math.exp(EPSILON) / (math.exp(EPSILON) + k - 1)
    truth = rng.random(codes.size) < p
    reports = rng.integers(k - 1, size=codes.size, dtype=np.uint8)
    reports += reports >= codes
    # where(truth, codes, reports) by arithmetic, which is faster than np.where here.
    reports ^= codes
    reports *= ~truth
    reports ^= codes
    return reports


def in_numpy_blocks(codes: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Do the same in blocks that fit in the cache."""
    reports = np.empty_like(codes)
    for start in range(0, codes.size, BLOCK):
        reports[start : start + BLOCK] = in_numpy(codes[start : start + BLOCK], k, rng)
    return reports


def in_notebook(codes: np.ndarray, k: int) -> np.ndarray:
    """Take the notebook's steps: int64 codes, NumPy's global generator, boolean masks."""
    p = math.exp(EPSILON) / (math.exp(EPSILON) + k - 1)
    kept = np.random.rand(codes.size) < p  # noqa: NPY002 (what is measured)
    result = np.empty_like(codes)
    result[kept] = codes[kept]
    truth = codes[~kept]
    other = np.random.randint(0, k - 1, size=truth.size)  # noqa: NPY002
    other += (other >= truth).astype(int)
    result[~kept] = other
    return result


def one_by_one(client: Callable[[int], int], records: list[int]) -> list[int]:
    return [client(record) for record in records]


def peers(k: int) -> dict[str, Callable[[int], int] | None]:
    """Return a client for each peer, None where it is not installed."""
    found: dict[str, Callable[[int], int] | None] = {
        "pure-ldp": None,
        "multi-freq-ldpy": None,
    }
    try:
        from pure_ldp.frequency_oracles.direct_encoding import DEClient

        found["pure-ldp"] = DEClient(
            EPSILON, k, index_mapper=lambda index: index
        ).privatise
    except ImportError:
        pass
    try:
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client

        GRR_Client(0, k, EPSILON)  # compiles it
        found["multi-freq-ldpy"] = partial(_positional, GRR_Client, k)
    except ImportError:
        pass
    return found


def _positional(client: Callable[..., Any], k: int, record: int) -> int:
    return client(record, k, EPSILON)


def again(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()


def compare(n: int, k: int, repeats: int) -> list[list[str]]:
    rng = np.random.default_rng(0)
    codes = rng.integers(k, size=n, dtype=np.uint8)
    wide, few = codes.astype(np.int64), codes[:PEER_RECORDS].tolist()
    oracle = RandomizedResponse(k, EPSILON)
    arrays = {
        "skdp, secure coins": lambda: oracle.report(codes, SecureSource()),
        "well-vectorised NumPy": lambda: in_numpy(codes, k, rng),
        "well-vectorised NumPy, in blocks": lambda: in_numpy_blocks(codes, k, rng),
        "the notebook's function": lambda: in_notebook(wide, k),
    }
    targets = dict(zip(arrays, (None, 2, 2, 8), strict=True))
    clients = peers(k)
    items = {
        name: partial(one_by_one, client, few)
        for name, client in clients.items()
        if client is not None
    }

    # A short call right after a long Python loop would measure cold caches: each turn repeats it, for all rivals alike.
    times = max(1, 2_000_000 // n)
    turns = {name: partial(again, call, times) for name, call in arrays.items()}
    seconds = best_of({**turns, **items}, repeats)
    per_record = {
        name: time * 1e9 / (n * times if name in arrays else len(few))
        for name, time in seconds.items()
    }
    own = per_record["skdp, secure coins"]
    rows = []
    for name, call in arrays.items():
        memory, target = peak_memory(call) / call().nbytes, targets[name]
        ratio = per_record[name] / own
        wanted, met = (
            ("memory ≤ 3", memory <= 3)
            if target is None
            else (f"≥ {target}", ratio >= target)
        )
        rows.append(
            [
                name,
                f"{per_record[name]:.2f}",
                f"{ratio:.1f}",
                f"{memory:.1f}",
                wanted,
                verdict(met),
            ]
        )
    for name in clients:
        if name in items:
            ratio = per_record[name] / own
            rows.append(
                [
                    name,
                    f"{per_record[name]:.0f}",
                    f"{ratio:.0f}",
                    "–",
                    "≥ 40",
                    verdict(ratio >= 40),
                ]
            )
        else:
            rows.append([name, "not installed", "–", "–", "≥ 40", "–"])
    return rows


def main() -> None:
    tables = {
        f"n = {n:,}, k = {k}": (COLUMNS, compare(n, k, repeats))
        for n, k, repeats in SIZES
    }
    write_results(
        "randomized_response",
        "Privatising codes by randomised response",
        ("skdp", "numpy", "pure-ldp", "multi-freq-ldpy"),
        f"ε = {EPSILON:g}, uint8 codes (int64 for the notebook's function, as it has them); the best of several turns, "
        f"all in one process. Peers take one record at a time, here {PEER_RECORDS:,}. Memory is the peak of the call.",
        tables,
    )


if __name__ == "__main__":
    main()
