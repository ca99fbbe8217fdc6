# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Local sensitivity on Adult's ages
#
# The mean of a table changes by a large amount in the worst case if one person is added, but by a small amount in a
# typical table. The change in the given table is called the *local* sensitivity. Three methods use it without revealing
# it: propose-test-release, smooth sensitivity, and sample-and-aggregate. The usual code for these methods violates its
# guarantee. This notebook demonstrates the faults with exact computations, and compares all mechanisms on the mean age
# in Adult. `skdp.central` has correct versions of all three methods.
#
# Neighbors are tables that differ by one person who is added or removed. Ages are clipped to [0, 100], and δ = 10⁻⁶.

# %%
import itertools
import math
from fractions import Fraction

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPMean
from skdp.central import (
    propose_test_release,
    sample_and_aggregate,
    smooth_sensitivity_release,
)
from skdp.datasets import load_adult

ages = load_adult().frame[["age"]]
n, width, delta = len(ages), 100, 1e-6
true = float(ages["age"].mean())
print(f"{n:,} people, mean age {ages['age'].mean():.4f}")

# %% [markdown]
# ## How much one person changes a mean
#
# The textbook's local sensitivity of the mean is u / (n + 1) for values up to u. This covers added people only, and
# only values from 0 on. The next cell computes the largest change for all tables of up to 5 values between 0 and 100:

# %%
grid = [0, 50, 100]


def mean(table):
    return Fraction(sum(table), len(table)) if table else Fraction(50)


def local_sensitivity(table):
    removed = [table[:i] + table[i + 1 :] for i in range(len(table))]
    added = [(*table, value) for value in grid]
    return max(abs(mean(other) - mean(table)) for other in removed + added)


# %%
worst = [
    max(
        local_sensitivity(table)
        for table in itertools.combinations_with_replacement(grid, size)
    )
    for size in range(6)
]
pd.DataFrame(
    {
        "true maximum": [float(sensitivity) for sensitivity in worst],
        "the textbook's u / (n + 1)": [round(100 / (size + 1), 2) for size in range(6)],
        "w / max(n, 1)": [round(100 / max(size, 1), 2) for size in range(6)],
    },
    index=pd.Index(range(6), name="n"),
).round(2)

# %% [markdown]
# Let w be the distance between the bounds. The largest change is at most w / max(n, 1). Adding a person changes the
# mean by at most w / (n + 1), and removing a person changes it by at most w / n, if all other people are at the other
# bound. After k further changes, n − k people may be left, so the sensitivity at distance k is w / max(n − k, 1).
#
# Values must be clipped at both bounds. With `clip(upper=100)` alone, a single age of −10⁹ changes the mean of 20,000
# people from 30 to −49,967.

# %%
one_outlier = np.append(np.full(20_000, 30.0), -1e9)
print("clipped above only:", round(np.clip(one_outlier, None, 100).mean()))
print("clipped on both sides:", round(np.clip(one_outlier, 0, 100).mean(), 4))

# %% [markdown]
# ## Propose, test, release
#
# The method has three steps. Propose a bound b of the local sensitivity. Test with noise whether the distance D to a
# table with a larger sensitivity is sufficient. If it is, release the statistic with noise for b. The textbook proposes
# b = 0.005, tests whether D + Laplace(1/ε) exceeds ln(2/δ) / (2ε), and releases with Laplace noise of scale b/ε:

# %%
rng = np.random.default_rng(0)


def ls_at_distance(df, u, k):
    return np.abs(u / (len(df) - k + 1))


def dist_to_high_ls(df, u, b):
    k = 0
    while ls_at_distance(df, u, k) < b:
        k += 1
    return k


def ptr_avg(df, u, b, epsilon, delta):
    df_clipped = df.clip(upper=u)
    k = dist_to_high_ls(df_clipped, u, b)
    noisy_distance = k + rng.laplace(scale=1 / epsilon)
    threshold = np.log(2 / delta) / (2 * epsilon)
    print(f"Noisy distance is {noisy_distance:.2f} and threshold is {threshold:.2f}")
    if noisy_distance < threshold:
        return None
    return df_clipped.mean() + rng.laplace(scale=b / epsilon)


textbook_mean = ptr_avg(ages["age"], u=100, b=0.005, epsilon=1, delta=1 / n**2)
print(f"the textbook, epsilon = 1: {textbook_mean:.4f}")

# %% [markdown]
# `propose_test_release` uses the same proposal, and its test and release cost ε together:

# %%
release = propose_test_release(
    "mean", ages, sensitivity=0.005, bounds=(0, 100), epsilon=1.0, delta=1 / n**2
)
print(f"skdp: {release.value:.4f}, noise of standard deviation {release.std_error:.4f}")
print(release.guarantee)

# %% [markdown]
# The guarantee of the textbook's code can be computed exactly, because its output is either a refusal or the mean plus
# noise, and both have a closed form. `laplace_divergence` is the smallest δ for which (ε, δ) holds for two Laplace
# distributions, and `exact_delta` is the smallest δ for two neighbors. The logarithm of the ratio of two Laplace
# densities is linear on each of three pieces, so the part above ε is an interval on each piece.


# %%
def mass(low, high, scale):
    """Return the probability of an interval on one side of 0 for Laplace noise."""
    near, far = sorted((abs(low), abs(high)))
    return (math.exp(-near / scale) - math.exp(-far / scale)) / 2


# %%
def laplace_divergence(epsilon, scale, shift, other_scale):
    """Return the integral of (p - e^epsilon q)+ for Laplace densities p around 0 and q around the shift."""
    start = math.log(other_scale / scale) - epsilon
    pieces = [
        (-math.inf, 0, start + shift / other_scale, 1 / scale - 1 / other_scale),
        (0, shift, start + shift / other_scale, -1 / scale - 1 / other_scale),
        (shift, math.inf, start - shift / other_scale, 1 / other_scale - 1 / scale),
    ]
    total = 0.0
    for low, high, intercept, slope in pieces:
        if slope > 0:
            low = max(low, -intercept / slope)
        elif slope < 0:
            high = min(high, -intercept / slope)
        elif intercept <= 0:
            continue
        if low < high:
            total += mass(low, high, scale) - math.exp(epsilon) * mass(
                low - shift, high - shift, other_scale
            )
    return max(total, 0.0)


# %%
def exceeds(distance, scale, threshold):
    """Return the probability that a distance plus Laplace noise exceeds a threshold."""
    gap = (threshold - distance) / scale
    return math.exp(-gap) / 2 if gap > 0 else 1 - math.exp(gap) / 2


def exact_delta(epsilon, distances, passes, shift, scale):
    """Return the smallest delta of two neighbors under propose-test-release."""
    first, second = (passes(distance) for distance in distances)
    refused = max(0.0, (1 - first) - math.exp(epsilon) * (1 - second))
    released = laplace_divergence(
        epsilon + math.log(second / first), scale, shift, scale
    )
    return refused + first * released


# %% [markdown]
# The next cells compute the guarantee of the textbook's code for two tables: all values are 0, and the second table has
# an additional age of 100.


# %%
def textbook(epsilon, delta, left, right, at):
    least = math.ceil(width / 0.005)
    threshold = math.log(2 / delta) / (2 * epsilon)
    distances = [max(0, size - least + 1) for size in (left, right)]

    def passes(distance):
        return exceeds(distance, 1 / epsilon, threshold)

    return exact_delta(at, distances, passes, width / max(left, right), 0.005 / epsilon)


# %%
rows = []
for epsilon, claimed in [(1, 1 / n**2), (1, 1e-6), (1, 1e-5), (0.1, 1e-6)]:
    near = range(
        19_999, 20_000 + math.ceil(40 / epsilon), max(1, round(1 / epsilon / 2))
    )
    rows.append(
        {
            "ε": epsilon,
            "δ claimed": f"{claimed:.2g}",
            "exact δ at ε": f"{max(textbook(epsilon, claimed, size + 1, size, epsilon) for size in near):.2g}",
            "exact δ at 2 ε": f"{textbook(epsilon, claimed, 100, 101, 2 * epsilon):.2g}",
        }
    )
pd.DataFrame(rows)

# %% [markdown]
# The code has two faults. First, the test and the release use ε each, so for ε alone, two neighbors are distinguished
# with probability 0.2. Second, the threshold is half of the correct threshold: a table at the threshold passes with
# probability √(δ/8) instead of δ.
#
# `propose_test_release` uses a tenth of ε for the test and the rest for the release. Its threshold is the smallest
# integer T with e^(−ε₁T) ≤ δ, where ε₁ is the epsilon of the test, so a table at the threshold passes with a
# probability below δ.
#
# The next cell computes the guarantee of its test, which uses integers:


# %%
guess = 20_000


def corrected(epsilon, delta, left, right, min_n):
    test, release = 0.1 * epsilon, 0.9 * epsilon
    share, threshold = 1 / (1 + math.exp(-test)), math.ceil(math.log(1 / delta) / test)

    def passes(distance):
        need = threshold - distance
        return (
            share * math.exp(-test * need)
            if need > 0
            else 1 - share * math.exp(-test * (1 - need))
        )

    distances = [max(0, size - min_n + 1) for size in (left, right)]
    return exact_delta(
        epsilon, distances, passes, width / max(left, right), width / min_n / release
    )


def largest(form, epsilon, sizes, *options):
    """Return the largest exact delta over sizes of the smaller table, divided by the stated delta."""
    pairs = [pair for size in sizes for pair in ((size, size + 1), (size + 1, size))]
    return max(form(epsilon, delta, *pair, *options) for pair in pairs) / delta


# %%
share_of_corrected = {}
for epsilon in (0.1, 1):
    sizes = [
        100,
        *range(19_990, 20_030),
        *range(20_030, 20_000 + math.ceil(200 / epsilon), 7),
    ]
    share_of_corrected[epsilon] = largest(corrected, epsilon, sizes, 20_000)
print(
    "the largest exact δ, as a share of the stated one:",
    {e: round(v, 3) for e, v in share_of_corrected.items()},
)

# %% [markdown]
# ## Smooth sensitivity
#
# The noise must not be proportional to the local sensitivity itself, because the amount of noise would reveal it. The
# smooth sensitivity S is the maximum over k of e^(−βk) times the sensitivity at distance k. Between neighbors, it
# changes by a factor of at most e^β. The textbook computes the maximum over k < 200, and uses the sensitivity for
# adding a person. But the maximum of e^(−βk) w / (n − k) is attained at k = 0 or at k = n − 1, so S is large for a
# small table. The textbook's S is therefore not smooth:

# %%
beta = 0.1 / (2 * math.log(2 / delta))
sizes = np.arange(2, 6000)
smooth = width * np.maximum(1 / sizes, np.exp(-beta * (sizes - 1)))
naive = [
    max(
        math.exp(-beta * k) * width / max(size - k + 1, 1)
        for k in range(min(200, size + 1))
    )
    for size in sizes
]

# %%
fig, ax = plt.subplots(figsize=(7, 3.5))
ax.loglog(sizes, smooth, label="smooth sensitivity", color="#0072B2")
ax.loglog(sizes, naive, label="maximum over k < 200", color="#D55E00", linestyle="--")
ax.loglog(
    sizes, width / sizes, label="local sensitivity", color="#999999", linestyle=":"
)
ax.set_xlabel("number of people")
ax.set_ylabel("years")
ax.set_title("ε = 0.1, δ = 1e-6")
ax.legend()
plt.show()

# %%
jump = [naive[size - 2] for size in (199, 200)]
found = laplace_divergence(0.1, 2 * jump[0] / 0.1, width / 200, 2 * jump[1] / 0.1)
print(
    f"199 or 200 people: the textbook's S is {jump[0]:.1f} or {jump[1]:.1f}; smooth: a ratio of {math.exp(beta):.4f}"
)
print(f"exact δ of its release at ε = 0.1: {found:.3f}")

# %% [markdown]
# The textbook's noise of scale 2S/ε is a second fault. The exact δ of the worst two neighbors shows that this scale is
# nearly twice as large as necessary for a small ε, and too small for a large ε:

# %%
rows = []
for epsilon in (0.1, 1, 5, 10, 16, 20):
    beta = epsilon / (2 * math.log(2 / delta))
    worst_delta = laplace_divergence(
        epsilon, 2 / epsilon * math.exp(beta), 1, 2 / epsilon
    )
    rows.append((epsilon, f"{worst_delta / delta:.3g}", worst_delta <= delta))
pd.DataFrame(
    rows, columns=["ε", "exact δ as a multiple of the stated one", "keeps its promise"]
)

# %% [markdown]
# `smooth_sensitivity_release` uses noise of scale S / κ with κ = ε − ln(1/δ) (e^β − 1). If the neighbor has the larger
# scale, the privacy loss is at most β + κ, which is below ε. If it has the smaller scale, the loss exceeds ε only for
# noise of more than (ε − κ) / (e^β − 1) scales, which has a probability of at most δ. With β = ln(1 + ε / (2 ln(1/δ))), κ is ε/2.

# %%
release = smooth_sensitivity_release(
    "mean", ages, bounds=(0, 100), epsilon=1.0, delta=delta
)
print(f"{release.value:.4f}")
print(release.guarantee)


# %%
def smooth_delta(epsilon):
    """Return the largest delta of neighbors that differ by S in the center and by e^beta in the scale."""
    beta = math.log1p(epsilon / (2 * math.log(1 / delta)))
    kappa = epsilon + math.log(delta) * math.expm1(beta)
    scale, wider = 1 / kappa, math.exp(beta) / kappa
    pairs = [(scale, wider), (wider, scale), (scale, scale)]
    return max(laplace_divergence(epsilon, first, 1, other) for first, other in pairs)


share_of_smooth = {epsilon: smooth_delta(epsilon) / delta for epsilon in (0.1, 1, 20)}
print(
    "the largest exact δ, as a share of the stated one:",
    {e: round(v, 3) for e, v in share_of_smooth.items()},
)

# %% [markdown]
# ## Sample and aggregate
#
# The statistic is computed on chunks of the table, the results are clipped, and noise is added to their mean. One
# person is in one chunk. The textbook divides the table by position into chunks of ⌈n/k⌉ people. This results in ⌈n /
# ⌈n/k⌉⌉ chunks instead of k, and one additional person may shift all later people into other chunks, or change the size
# of all chunks.


# %%
def positional_centre(values, k):
    """Return the mean of the clipped results of the textbook's chunks, without noise."""
    size = math.ceil(len(values) / k)
    chunks = [values[start : start + size] for start in range(0, len(values), size)]
    return np.mean([np.clip(np.mean(chunk), 0, 100) for chunk in chunks]), len(chunks)


# %%
alternating = [0, 160] * 500
for values in (alternating, [*alternating, 160]):
    centre, chunks = positional_centre(values, 1000)
    print(
        f"{len(values)} people, k = 1000: {chunks} chunks, centre {centre:.2f}; scale of the noise {100 / 1000}"
    )
print(
    "Adult, k = 600 and 20,000:",
    [positional_centre(ages["age"].to_numpy(), k)[1] for k in (600, 20_000)],
    "chunks",
)

# %% [markdown]
# The centers of the two distributions differ by 300 scales, so an attacker can detect one person with certainty at "ε =
# 1". In `sample_and_aggregate`, each person is assigned to a chunk independently of all other people, the number of
# chunks is fixed, and the result of an empty chunk is a public default. It accepts any statistic:

# %%
median = sample_and_aggregate(
    np.median, ages, bounds=(0, 100), n_chunks=600, epsilon=1.0
)
print(f"median {median.value:.2f}, noise of standard deviation {median.std_error:.2f}")
print(median.guarantee)

# %% [markdown]
# The next cell checks all ways to assign 4 people to 3 chunks. If a person is removed, the sum over the chunks changes
# by at most the width of the bounds.

# %%
people = [0, 160, 30, 90]


def chunk_sum(values, labels):
    chunks = [
        [value for value, label in zip(values, labels, strict=True) if label == chunk]
        for chunk in range(3)
    ]
    return sum(np.clip(np.mean(chunk), 0, 100) if chunk else 50 for chunk in chunks)


# %%
moved = max(
    abs(
        chunk_sum(people, labels)
        - chunk_sum(people[:i] + people[i + 1 :], labels[:i] + labels[i + 1 :])
    )
    for labels in itertools.product(range(3), repeat=4)
    for i in range(4)
)
print("one person moves the sum by at most", moved)

# %% [markdown]
# ## A noisy sum over a noisy count
#
# Many textbooks add noise of scale 100 / ε to the sum of the ages, add noise of scale 1 / ε to their number, and
# divide. One person changes both numbers, so the two releases together cost 2 ε. The ratio alone reveals nearly as
# much: the next cell computes the largest change of the odds of a mean near 0 by one person, from two Laplace
# distributions with the scales 100 and 1 ("ε = 1"). With half of ε for each number, the guarantee holds.


# %%
def log_odds(epsilon, people, ratio):
    """Return the log-density of noisy sum / noisy count for zeros, with or without one age of 100."""
    counts = np.linspace(-60, 60, 400_001) / epsilon + people[1]
    logs = -epsilon * np.abs(ratio * counts - people[0]) / width - epsilon * np.abs(
        counts - people[1]
    )
    return np.log(np.sum(np.exp(logs - logs.max()) * np.abs(counts))) + logs.max()


ratios = np.linspace(-200, 200, 801)
of_ratio = {
    each: max(
        abs(log_odds(each, (0, 20), ratio) - log_odds(each, (width, 21), ratio))
        for ratio in ratios
    )
    for each in (1.0, 0.5)
}
for each, loss in of_ratio.items():
    print(
        f"ε of each number: {each}; both together cost {2 * each}, and the ratio shows {loss:.3f}"
    )


# %%
def sum_over_count(epsilon):
    noisy_sum = n * true + rng.laplace(scale=width / (epsilon / 2))
    noisy_count = n + rng.laplace(scale=1 / (epsilon / 2))
    return noisy_sum / noisy_count


# %% [markdown]
# ## All mechanisms on one question
#
# The next cells compute the root mean square error of the mean age over 200 runs of each mechanism. `DPMean` releases
# two noisy sums, of the distances to both bounds. It requires neither a proposal nor δ, and is the most accurate.


# %%
def chunk_mean(epsilon, k=3000):
    labels = rng.integers(k, size=n)  # each person draws a chunk
    sizes = np.bincount(labels, minlength=k)
    sums = np.bincount(labels, ages["age"], minlength=k)
    means = np.where(sizes > 0, sums / np.maximum(sizes, 1), width / 2)
    return means.mean() + rng.laplace(scale=width / k / epsilon)


def proposed_mean(epsilon):
    return propose_test_release(
        "mean",
        ages,
        sensitivity=width / guess,
        bounds=(0, width),
        epsilon=epsilon,
        delta=delta,
    ).value


def smooth_mean(epsilon):
    return smooth_sensitivity_release(
        "mean", ages, bounds=(0, width), epsilon=epsilon, delta=delta
    ).value


runs = 200
mechanisms = {
    "two sums (DPMean)": (
        lambda epsilon: DPMean(epsilon, bounds=(0, width)).fit(ages).mean_[0],
        0,
    ),
    "smooth sensitivity": (smooth_mean, delta),
    "propose-test-release, 20,000 proposed": (proposed_mean, delta),
    "noisy sum over noisy count": (sum_over_count, 0),
    "sample and aggregate, 3,000 chunks": (chunk_mean, 0),
}


# %%
def error(epsilon, release):
    return math.sqrt(np.mean([(release(epsilon) - true) ** 2 for _ in range(runs)]))


table = pd.DataFrame(
    {
        f"ε = {epsilon:g}": {
            name: error(epsilon, release) for name, (release, _) in mechanisms.items()
        }
        for epsilon in (0.1, 1)
    }
)
table["δ"] = [f"{of_release:g}" for _, of_release in mechanisms.values()]
table.round(4)

# %%
fig, ax = plt.subplots(figsize=(7, 3.2))
order = table.sort_values("ε = 0.1", ascending=False)
ax.plot(order["ε = 0.1"], order.index, "o", color="#0072B2", label="ε = 0.1")
ax.plot(order["ε = 1"], order.index, "s", color="#D55E00", label="ε = 1")
ax.set_xscale("log")
ax.set_xlabel("root mean square error of the mean age, years")
ax.grid(axis="x", alpha=0.3)
ax.legend()
plt.show()

# %% [markdown]
# Use the local sensitivity for statistics that have no better mechanism. For the mean, the sums of the distances to
# both bounds together change by w for every table, and their ratio is the mean. At the same ε, the error of `DPMean` is
# less than half of the error of the best of the three methods, without δ.
#
# ## Guarantees and limits
#
# - The releases of skdp are private for adding or removing one person, with the ε and δ of their guarantee. The curator
#   of the table is trusted. The draws of this notebook with NumPy's floats are not private.
# - This notebook made thousands of releases about the same people, and their ε add up. Use a `PrivacyLedger` for your
#   own releases.
# - The bounds, the guess of 20,000 people and the number of chunks were chosen without the data. If you choose them by
#   the data, the choice reveals information about the data.
