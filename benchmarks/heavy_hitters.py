"""How many of the most frequent words are found, and how many that are listed do not occur: skdp and its rivals.

Run ``make bench``, or ``python benchmarks/heavy_hitters.py`` wherever skdp is installed. Argument: the number of seeds.

The rivals, the prefix extending method and TreeHist as published, estimate by local hashing into about e**epsilon + 1
buckets. The support of a candidate is a sum of two binomial numbers, and those of others are nearly independent of it:
it is drawn from this law, with the largest of all other candidates in place of each of them. To hash millions of
candidates for 200,000 reports in Python would take hours, and gives numbers of the same law.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
import string
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO

import numpy as np
import pandas as pd
import sklearn
from _timing import verdict, write_results
from numpy.typing import NDArray
from scipy.stats import norm

from skdp.local import HeavyHitters

SEEDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
N, TOP, LENGTH, SYMBOLS = 200_000, 20, 12, 27
RIVALS = (
    "prefix extending, 1 letter a step",
    "prefix extending, 3 letters a step",
    "TreeHist",
)
Words = NDArray[np.str_]


def zipf(exponent: float, seed: int) -> Words:
    """Draw words of a vocabulary of 10,000 made-up ones."""
    rng = np.random.default_rng(seed)
    letters = np.array([*string.ascii_lowercase])
    made: dict[str, None] = {}
    while len(made) < 10_000:
        made["".join(rng.choice(letters, np.clip(rng.poisson(6), 2, LENGTH)))] = None
    shares = 1 / np.arange(1, len(made) + 1) ** exponent
    return rng.choice(np.array([*made]), N, p=shares / shares.sum())


def documentation(seed: int) -> Words:
    """Draw words of the docstrings of scikit-learn."""
    words: list[str] = []
    for module in pkgutil.walk_packages(sklearn.__path__, "sklearn."):
        if ".tests" in module.name or module.name.endswith("conftest"):
            continue
        with (
            suppress(ImportError),
            warnings.catch_warnings(),
            redirect_stdout(StringIO()),
        ):
            warnings.simplefilter("ignore")
            found = vars(importlib.import_module(module.name)).values()
            own = [
                one for one in found if getattr(one, "__module__", None) == module.name
            ]
            words += [
                word
                for one in own
                for word in re.findall("[a-z]+", (one.__doc__ or "").lower())
            ]
    return np.random.default_rng(seed).choice(
        np.array([word[:LENGTH] for word in words]), N
    )


class Hashing:
    """Estimates by optimised local hashing, drawn from their law."""

    def __init__(self, epsilon: float, rng: np.random.Generator) -> None:
        buckets = round(math.exp(epsilon)) + 1
        self.p, self.q = (
            math.exp(epsilon) / (math.exp(epsilon) + buckets - 1),
            1 / buckets,
        )
        self._rng = rng

    def estimate(self, counts: Iterable[int], n: int) -> NDArray[np.float64]:
        counts = np.array([*counts], int)
        support = self._rng.binomial(counts, self.p) + self._rng.binomial(
            n - counts, self.q
        )
        return (support - n * self.q) / (self.p - self.q)

    def spread(self, n: int) -> float:
        return math.sqrt(n * self.q * (1 - self.q)) / (self.p - self.q)

    def largest(self, number: int, n: int, kept: int) -> NDArray[np.float64]:
        """Draw the largest estimates of candidates that do not occur."""
        places = np.arange(min(number, kept))
        below = np.cumprod(self._rng.random(places.size) ** (1 / (number - places)))
        return norm.isf(np.clip(1 - below, 1e-300, 1)) * self.spread(n)


def grown(
    parts: list[tuple[int, Words]], oracle: Hashing, kept: int
) -> list[tuple[float, str]]:
    """Grow the prefixes with the largest estimates; those that do not occur begin with #."""
    best, before = [(0.0, "")], 0
    for length, words in parts:
        counts = Counter(word.ljust(LENGTH)[:length] for word in words.tolist())
        heads = {prefix for _, prefix in best}
        real = [prefix for prefix in counts if prefix[:before] in heads]
        found = list(
            zip(
                oracle.estimate([counts[one] for one in real], len(words)) / len(words),
                real,
                strict=True,
            )
        )
        others = len(best) * SYMBOLS ** (length - before) - len(real)
        false = oracle.largest(others, len(words), kept) / len(words)
        found += [
            (share, f"#{length}-{place}") for place, share in enumerate(false.tolist())
        ]
        best, before = sorted(found, reverse=True)[:kept], length
    return best


def prefix_extending(
    words: Words, epsilon: float, step: int, rng: np.random.Generator
) -> list[str]:
    """Return the top words of the prefix extending method: groups by length, 2 * TOP candidates kept."""
    lengths = [*range(3, LENGTH, step), LENGTH]
    groups = rng.integers(0, len(lengths), words.size)
    parts = [(length, words[groups == group]) for group, length in enumerate(lengths)]
    return [
        word.strip() for _, word in grown(parts, Hashing(epsilon, rng), 2 * TOP)[:TOP]
    ]


def tree_hist(words: Words, epsilon: float, rng: np.random.Generator) -> list[str]:
    """Return the top words of TreeHist: a prefix of random length and the word, with half of epsilon each."""
    oracle, lengths = Hashing(epsilon / 2, rng), range(1, LENGTH + 1)
    groups = rng.integers(0, LENGTH, words.size)
    candidates = grown(
        [(length, words[groups == length - 1]) for length in lengths], oracle, 2 * TOP
    )
    counts = Counter(words.tolist())
    names = [word.strip() for _, word in candidates]
    estimates = oracle.estimate([counts[name] for name in names], words.size)
    return [names[place] for place in np.argsort(-estimates)[:TOP]]


def known(words: Words, epsilon: float, rng: np.random.Generator) -> list[str]:
    """Return the significant ones of all words that occur, which are known beforehand: what cannot be surpassed."""
    oracle, counts = Hashing(epsilon, rng), Counter(words.tolist())
    reach = norm.isf(0.025 / len(counts)) * oracle.spread(words.size)
    estimates = oracle.estimate(counts.values(), words.size)
    order = np.argsort(-estimates)[:TOP]
    return [[*counts][place] for place in order if estimates[place] > reach]


def by_skdp(words: Words, epsilon: float, seed: int) -> list[str]:
    """Return the words that skdp finds."""
    finder = HeavyHitters(
        epsilon,
        n_top=TOP,
        max_length=LENGTH,
        alphabet=string.ascii_lowercase,
        random_state=seed,
    )
    return finder.fit(finder.report(pd.Series(words))).top_["value"].tolist()


def found(
    make: Callable[[int], Words], epsilon: float
) -> dict[str, tuple[float, float, float]]:
    """Return the means of each method: top words that are listed, listed words that do not occur, and seconds."""
    totals: dict[str, list[tuple[int, int, float]]] = {}
    for seed in range(SEEDS):
        words, rng = make(seed), np.random.default_rng(seed + 1_000)
        counts = Counter(words.tolist())
        top = {word for word, _ in counts.most_common(TOP)}
        methods = {
            "skdp": lambda: by_skdp(words, epsilon, seed),  # noqa: B023 - called now
            RIVALS[0]: lambda: prefix_extending(words, epsilon, 1, rng),  # noqa: B023
            RIVALS[1]: lambda: prefix_extending(words, epsilon, 3, rng),  # noqa: B023
            RIVALS[2]: lambda: tree_hist(words, epsilon, rng),  # noqa: B023
            "words known": lambda: known(words, epsilon, rng),  # noqa: B023
        }
        for name, method in methods.items():
            start = time.perf_counter()
            listed = {*method()}
            seconds = time.perf_counter() - start
            totals.setdefault(name, []).append(
                (len(listed & top), len(listed - counts.keys()), seconds)
            )
    return {
        name: tuple(np.mean(rows, axis=0).tolist()) for name, rows in totals.items()
    }


def main() -> None:
    tables = {
        "Zipf 1.0": partial(zipf, 1.0),
        "Zipf 1.5": partial(zipf, 1.5),
        "scikit-learn's docstrings": documentation,
    }
    rows: list[list[str]] = []
    for name, make in tables.items():
        for epsilon in (1.0, 2.0):
            means = found(make, epsilon)
            best = max(
                true for method, (true, _, _) in means.items() if method in RIVALS
            )
            for method, (true, false, seconds) in means.items():
                last = (
                    [f"{seconds:.0f}", verdict(true >= best and not false)]
                    if method == "skdp"
                    else ["", ""]
                )
                rows.append(
                    [name, f"{epsilon:g}", method, f"{true:.1f}", f"{false:.1f}", *last]
                )
                print(rows[-1], flush=True)
    columns = [
        "words",
        "ε",
        "method",
        f"of the top {TOP}",
        "do not occur",
        "seconds",
        "target met?",
    ]
    write_results(
        "heavy_hitters",
        "Frequent words of an open vocabulary",
        ("skdp", "numpy", "scipy", "scikit-learn"),
        f"{N:,} words of at most {LENGTH} lower-case letters, means over {SEEDS} seeds: how many of the {TOP} most "
        f"frequent words each method lists, among {TOP} at most, and how many listed words nobody has. skdp lists what "
        "is significant only, at a level of 95 % for all words at once. It should find as many as the best rival, none "
        f"false. The rivals always list {TOP}, with estimates drawn from their law. *Words known*: local hashing of "
        "all reports, where all words that occur are known beforehand, and the significant ones are listed.",
        {"Found": (columns, rows)},
    )


if __name__ == "__main__":
    main()
