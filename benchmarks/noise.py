"""How fast exact noise is drawn, beside NumPy's floats and peers.

Run ``make bench``, or ``python benchmarks/noise.py`` wherever skdp is installed; peers that are missing are left out.
All run in one process, and the rivals of a row take turns; what counts are the ratios.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import count
from typing import Any

import numpy as np
from _timing import best_of, peak_memory, verdict, write_results

from skdp.randomness import (
    SecureSource,
    cube_noise,
    discrete_laplace,
    exponential_mechanism,
    permute_and_flip,
    rounded_gaussian,
)

SIZE = 1_000_000
PEER_SIZE = 20_000  # peers are slower, by so much that fewer draws tell enough
SCALES = (1, 10, 100, 1000)
TURNS = 7
MOST = {"discrete Laplace": 80, "discrete Gaussian": 150}  # ns a draw
LEAST_RATIO = 100  # to OpenDP
MOST_SINGLE = 2  # ms for a draw of a scale that was never seen before
SINGLE_TIMES = 50


def number(value: float) -> str:
    """Write a time or a ratio with about three digits."""
    return (
        f"{value:,.0f}"
        if value >= 100
        else f"{value:.1f}"
        if value >= 10
        else f"{value:.2f}"
    )


def of_opendp() -> dict[str, Callable[[int], Callable[[], object]]]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int))
    zeros = [0] * PEER_SIZE

    def laplace(scale: int) -> Callable[[], object]:
        return partial(
            dp.m.make_laplace(space, dp.l1_distance(T=int), scale=float(scale)), zeros
        )

    def gaussian(scale: int) -> Callable[[], object]:
        return partial(
            dp.m.make_gaussian(space, dp.l2_distance(T=float), scale=float(scale)),
            zeros,
        )

    return {"discrete Laplace": laplace, "discrete Gaussian": gaussian}


def of_diffprivlib() -> dict[str, Callable[[int], Callable[[], object]]]:
    # Its models (0.6.6) import what scikit-learn 1.9 no longer has; its mechanisms do not need them.
    sys.modules.setdefault("diffprivlib.models", types.ModuleType("diffprivlib.models"))
    from diffprivlib.mechanisms import Geometric

    def laplace(scale: int) -> Callable[[], object]:
        mechanism = Geometric(epsilon=1 / scale)
        return lambda: [mechanism.randomise(0) for _ in range(PEER_SIZE)]

    return {"discrete Laplace": laplace}


def of_numpy() -> dict[str, Callable[[int], Callable[[], object]]]:
    rng = np.random.default_rng(0)
    return {
        "discrete Laplace": lambda scale: lambda: rng.laplace(scale=scale, size=SIZE),
        "discrete Gaussian": lambda scale: lambda: rng.normal(scale=scale, size=SIZE),
    }


RIVALS = {
    "NumPy's floats": (of_numpy, SIZE),
    "opendp": (of_opendp, PEER_SIZE),
    "diffprivlib": (of_diffprivlib, PEER_SIZE),
}


def rivals() -> Iterator[
    tuple[str, dict[str, Callable[[int], Callable[[], object]]], int]
]:
    for name, (make, size) in RIVALS.items():
        try:
            yield name, make(), size
        except ImportError as reason:
            print(f"{name} is left out: {reason}", file=sys.stderr)


def own(law: str, scale: int) -> Callable[[], np.ndarray]:
    if law == "discrete Laplace":
        return lambda: discrete_laplace(SecureSource(), scale, SIZE)
    return lambda: rounded_gaussian(SecureSource(), scale**2, SIZE)


def vectors() -> list[list[str]]:
    """Time a million draws at once."""
    found, rows = list(rivals()), []
    for law, most in MOST.items():
        for scale in SCALES:
            mine = own(law, scale)
            calls = {"skdp": mine} | {
                name: laws[law](scale) for name, laws, _ in found if law in laws
            }
            sizes = {"skdp": SIZE} | {name: size for name, _, size in found}
            per_draw = {
                name: time * 1e9 / sizes[name]
                for name, time in best_of(calls, TURNS).items()
            }
            memory = peak_memory(mine) / mine().nbytes
            row = [
                law,
                str(scale),
                number(per_draw["skdp"]),
                verdict(per_draw["skdp"] <= most),
                f"{memory:.1f}",
            ]
            for name in RIVALS:
                both = name in per_draw
                row.append(
                    f"{number(per_draw[name])} ({number(per_draw[name] / per_draw['skdp'])} ×)"
                    if both
                    else "–"
                )
            ratio = per_draw.get("opendp", math.nan) / per_draw["skdp"]
            rows.append(
                [*row, "–" if math.isnan(ratio) else verdict(ratio >= LEAST_RATIO)]
            )
    return rows


def singles() -> list[list[str]]:
    """Time single draws, each of a scale that was never seen before."""
    fresh = (Fraction(2**30 * i, 10 * i + 1) for i in count(1))  # about 2^30 / 10
    source = SecureSource()
    draws: dict[str, Callable[[Fraction], Any]] = {
        "discrete_laplace, size 2": lambda scale: discrete_laplace(source, scale, 2),
        "rounded_gaussian, size 2": lambda scale: rounded_gaussian(source, scale**2, 2),
        "cube_noise of 11 dimensions": lambda scale: cube_noise(source, scale, 11),
    }
    calls = {name: partial(again, draw, fresh) for name, draw in draws.items()}
    times = {
        name: time * 1e3 / SINGLE_TIMES for name, time in best_of(calls, TURNS).items()
    }
    return [
        [name, f"{time:.3f}", verdict(time <= MOST_SINGLE)]
        for name, time in times.items()
    ]


def again(draw: Callable[[Fraction], object], scales: Iterator[Fraction]) -> None:
    for _ in range(SINGLE_TIMES):
        draw(next(scales))


def choices() -> list[list[str]]:
    """Time the choice among a million candidates, as integers of a wide spread."""
    scores = np.random.default_rng(0).integers(10_000, size=SIZE)
    source, rate = SecureSource(), Fraction(1, 10)
    calls: dict[str, Callable[[], object]] = {
        "permute_and_flip": lambda: permute_and_flip(source, scores, rate),
        "exponential_mechanism": lambda: exponential_mechanism(source, scores, rate),
        "NumPy: scores + Gumbel floats": lambda: (
            scores * 0.1 + np.random.default_rng(0).gumbel(size=SIZE)
        ).argmax(),
    }
    sizes = dict.fromkeys(calls, SIZE)
    try:
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=int))
        choose = dp.m.make_noisy_max(
            space, dp.linf_distance(T=int), dp.max_divergence(), scale=10.0
        )
        calls["opendp: noisy_max"] = partial(choose, scores[:PEER_SIZE].tolist())
        sizes["opendp: noisy_max"] = PEER_SIZE
    except ImportError as reason:
        print(f"opendp is left out: {reason}", file=sys.stderr)
    return [
        [name, number(time * 1e9 / sizes[name])]
        for name, time in best_of(calls, TURNS).items()
    ]


def main() -> None:
    columns = (
        "law",
        "scale or sigma",
        "skdp, ns a draw",
        f"≤ {' / '.join(map(str, MOST.values()))}?",
    )
    columns += (
        "peak memory / output",
        *(f"{name}, ns" for name in RIVALS),
        f"opendp ≥ {LEAST_RATIO} ×?",
    )
    write_results(
        "noise",
        "Exact noise",
        ("skdp", "numpy", "opendp", "diffprivlib"),
        "skdp with secure coins, exact to the last bit and without an end of the tail; the best of several turns, all "
        f"in one process. skdp and NumPy draw {SIZE:,} numbers a call. Peers add noise to {PEER_SIZE:,} zeros, opendp "
        "in one call on a list, diffprivlib one by one. NumPy's floats are insecure noise: they stand for the speed of "
        "an inexact sampler.",
        {
            f"{SIZE:,} draws": (columns, vectors()),
            "A single draw of a new scale of about 2^30 / 10": (
                ("draw", "ms", f"≤ {MOST_SINGLE}?"),
                singles(),
            ),
            f"The choice among {SIZE:,} candidates": (
                ("mechanism", "ns a candidate"),
                choices(),
            ),
        },
    )


if __name__ == "__main__":
    main()
