"""What is drawn on the pages of guarantees: exact channels, and laws of released numbers."""

import math
from itertools import combinations, product
from warnings import catch_warnings

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from scipy.stats import binom, gamma, norm
from sklearn.base import clone

from skdp import (
    DPPCA,
    DPGaussianNB,
    DPHistogram,
    DPKBinsDiscretizer,
    DPMean,
    DPSelectKBest,
    discover_domain,
)
from skdp.central import sample_and_aggregate
from skdp.oracles import (
    ORACLES,
    ClampedLaplace,
    LocalHashing,
    Optimal,
    SetSelection,
    SquareWave,
    SubsetSelection,
    UnaryEncoding,
)
from skdp.privacy import Mu

from .channels import heat_map

VALUES = ["a", "b", "c", "d"]


def one_heat_map(channel, reports, values=VALUES):
    axes = plt.subplots(
        figsize=(max(3.6, 0.75 * len(reports) + 1.2), 3.2)
    )[1]
    heat_map(
        axes,
        [[float(entry) for entry in row] for row in channel],
        reports,
        values,
    )
    return axes


def subset_selection():
    """Draw the channel of sets of two of four values."""
    channel = SubsetSelection(4, 1.0, subset_size=2).channel()
    one_heat_map(
        channel, ["".join(pair) for pair in combinations(VALUES, 2)]
    )


def set_selection():
    """Draw the channel of sets of at most two of three values."""
    oracle, every = (
        SetSelection(3, 2, 1.0, subset_size=2),
        [*product((0, 1), repeat=3)],
    )
    reports = [
        "".join(
            value for value, bit in zip("abc", bits, strict=True) if bit
        )
        or "none"
        for bits in every
    ]
    sets = [
        "".join("abc"[value] for value in members) or "none"
        for members in oracle.sets()
    ]
    seen = [place for place, bits in enumerate(every) if sum(bits) <= 2]
    channel = [[row[place] for place in seen] for row in oracle.channel()]
    one_heat_map(channel, [reports[place] for place in seen], sets)


def unary_encoding():
    """Draw the channel of three bits."""
    one_heat_map(
        UnaryEncoding(3, 2.0).channel(),
        [format(code, "03b") for code in range(8)],
        VALUES[:3],
    )


def local_hashing():
    """Draw the channel of the buckets of one hash function under which two values meet."""
    oracle = LocalHashing(4, 1.0, n_buckets=3)
    seeds = np.random.default_rng(0).integers(1 << 32, size=100).tolist()
    seed = next(
        seed
        for seed in seeds
        if len({tuple(row) for row in oracle.channel(seed)}) == 3
    )
    one_heat_map(
        oracle.channel(seed), ["bucket 0", "bucket 1", "bucket 2"]
    )


def oracle_errors():
    """Draw the standard errors of oracles by the number of values."""
    sizes = np.unique(np.geomspace(2, 500, 20).astype(int))
    axes = plt.subplots()[1]
    for name in (
        "randomized_response",
        "subset_selection",
        "optimized_unary_encoding",
    ):
        errors = [
            ORACLES[name](int(k), 1.0).variance(
                np.full(k, 10_000 / k), 10_000
            )[0]
            ** 0.5
            / 10_000
            for k in sizes
        ]
        axes.loglog(sizes, errors, label=name.replace("_", " "))
    axes.set(xlabel="declared values", ylabel="standard error of a share")
    axes.legend()


def numeric_perturber():
    """Draw the channels of three mechanisms for numbers, without the numbers written in."""
    panels = plt.subplots(1, 3, figsize=(8.6, 3.2))[1]
    mechanisms = {
        "optimal": Optimal(16, 2.0),
        "square wave": SquareWave(16, 2.0),
        "Laplace": ClampedLaplace(16, 2.0),
    }
    for axes, (title, mechanism) in zip(
        panels, mechanisms.items(), strict=True
    ):
        channel = np.array(
            [
                [float(entry) for entry in row]
                for row in mechanism.channel()
            ]
        )
        axes.imshow(
            channel / channel.max(axis=0),
            aspect="auto",
            cmap="Blues",
            vmin=0,
        )
        axes.set(title=title, xlabel="report", xticks=[], yticks=[])
        axes.grid(False)
    panels[0].set_ylabel("true position")


def repeated():
    """Draw how often the most frequent of m reports of one record is the truth."""
    p = math.e / (math.e + 1)
    numbers = np.arange(1, 32, 2)
    axes = plt.subplots()[1]
    axes.plot(
        numbers,
        binom.sf(numbers // 2, numbers, p),
        "o-",
        label="fresh reports",
    )
    axes.plot(
        numbers, np.full(len(numbers), p), "s-", label="permanent reports"
    )
    axes.set(
        xlabel="reports of one record",
        ylabel="probability to see the truth",
        ylim=(0.5, 1.02),
    )
    axes.legend()


def rappor():
    """Draw epsilon of RAPPOR by the probability of a flip."""
    flip = np.linspace(0.02, 0.5, 50)
    axes = plt.subplots()[1]
    for hashes, style in ((1, "-"), (2, "--")):
        epsilon = 2 * hashes * np.log((1 - flip) / flip)
        axes.plot(flip, epsilon, style, label=f"hash functions: {hashes}")
    axes.set(xlabel="probability that a bit is flipped", ylabel="epsilon")
    axes.legend()


def mean():
    """Draw released means of two neighbours."""
    table = pd.DataFrame({"age": np.linspace(20, 60, 100)})
    neighbour = pd.concat(
        [table, pd.DataFrame({"age": [100.0]})], ignore_index=True
    )
    axes = plt.subplots()[1]
    for label, rows, style in (
        ("100 records", table, "-"),
        ("one record more", neighbour, "--"),
    ):
        means = [
            DPMean(0.5, bounds=(0, 100), random_state=seed)
            .fit(rows)
            .mean_[0]
            for seed in range(500)
        ]
        axes.hist(
            means,
            bins=np.linspace(25, 56, 32),
            histtype="step",
            linewidth=2,
            linestyle=style,
            label=label,
        )
    axes.set(xlabel="released mean", ylabel="releases")
    axes.legend()


def histogram():
    """Draw the laws of a released count of neighbours."""
    epsilon, numbers = 0.7, np.arange(-3, 15)
    factor = math.expm1(epsilon) / (math.exp(epsilon) + 1)
    axes = plt.subplots()[1]
    for place, count in ((-0.2, 5), (0.2, 6)):
        law = factor * np.exp(-epsilon * np.abs(numbers - count))
        axes.bar(
            numbers + place,
            law,
            0.4,
            label=f"{count} records",
            hatch="//" if place > 0 else None,
        )
    axes.set(
        xlabel="released count", ylabel="probability", xticks=numbers[::2]
    )
    axes.grid(axis="x", visible=False)
    axes.legend()


def discovery():
    """Draw how often a text is published, by the number of records with it."""
    records, axes = np.arange(1, 121), plt.subplots()[1]
    words = np.repeat(records, records).astype(str)
    for n_columns, style in ((1, "-"), (8, "--")):
        names = [f"word {place}" for place in range(n_columns)]
        table, times = pd.DataFrame(dict.fromkeys(names, words)), 0
        for seed in range(80 // n_columns):
            domain = discover_domain(table, 1.0, 1e-6, random_state=seed)
            for name in domain.columns:
                found = list(map(int, domain[name].values))
                times = times + np.isin(records, found) / 80
        axes.plot(
            records,
            times,
            style,
            label=f"{n_columns} column{'s' if n_columns > 1 else ''}",
        )
    axes.set(
        xlabel="records with the text",
        ylabel="proportion of releases that publish it",
    )
    axes.legend()


def aggregate():
    """Draw released medians by the number of chunks."""
    incomes = (
        np.random.default_rng(0)
        .lognormal(10, 0.5, 5_000)
        .reshape(-1, 1)
        .clip(0, 100_000)
    )
    numbers = (40, 80, 160, 320, 640)
    spread = [
        [
            sample_and_aggregate(
                np.median,
                incomes,
                bounds=(0, 100_000),
                n_chunks=chunks,
                epsilon=1.0,
                random_state=seed,
            ).value
            for seed in range(20)
        ]
        for chunks in numbers
    ]
    axes = plt.subplots()[1]
    axes.boxplot(spread, tick_labels=[str(number) for number in numbers])
    axes.axhline(
        float(np.median(incomes)),
        color="C1",
        linestyle="--",
        label="true median",
    )
    axes.set(xlabel="chunks", ylabel="released median")
    axes.legend()


def propose_test():
    """Draw the probability that a noisy distance reaches the threshold."""
    epsilon, delta = 1.0, 1e-6
    threshold = math.ceil(-math.log(delta) / epsilon)
    distances = np.arange(0, 31)
    tail = np.exp(-epsilon * np.abs(threshold - distances)) / (
        1 + math.exp(-epsilon)
    )
    passes = np.where(
        distances < threshold, tail, 1 - tail * math.exp(-epsilon)
    )
    axes = plt.subplots()[1]
    axes.plot(distances, passes, "o-", markersize=4)
    axes.axvline(
        threshold,
        color="C1",
        linestyle="--",
        label=f"threshold {threshold}",
    )
    axes.set(
        xlabel="distance to a table of larger sensitivity",
        ylabel="probability to pass",
    )
    axes.legend()


def smooth():
    """Draw densities of neighbors under noise of other scales."""
    numbers = np.linspace(-12, 14, 400)
    axes = plt.subplots()[1]
    axes.plot(numbers, np.exp(-np.abs(numbers) / 2) / 4, label="a table")
    axes.plot(
        numbers,
        np.exp(-np.abs(numbers - 1) / 2.4) / 4.8,
        "--",
        label="a neighbor",
    )
    axes.set(xlabel="released value", ylabel="density")
    axes.legend()


def cube():
    """Draw noise of two numbers whose contours are squares."""
    rng = np.random.default_rng(0)
    points = rng.gamma(3, 1, (1_500, 1)) * rng.uniform(-1, 1, (1_500, 2))
    axes = plt.subplots(figsize=(4, 4))[1]
    axes.plot(*points.T, ".", markersize=3)
    for radius in (1, 2, 4):
        axes.add_patch(
            plt.Rectangle(
                (-radius, -radius),
                2 * radius,
                2 * radius,
                fill=False,
                color="C1",
            )
        )
    axes.set(
        xlabel="noise of the sum",
        ylabel="noise of the count",
        aspect="equal",
        xlim=(-7, 7),
        ylim=(-7, 7),
    )


def gradients():
    """Draw the laws of a released sum of gradients for tables with and without the row that changes it most."""
    mu = Mu.of(1.0, 1e-6).mu
    sums = np.linspace(-4.5, 4.5, 200)
    axes = plt.subplots()[1]
    for n_steps, color in ((1, "C0"), (50, "C1")):
        deviation = math.sqrt(n_steps) / mu
        for shift, style in ((0, "-"), (1, "--")):
            label = f"{n_steps} step{'s' * (n_steps > 1)}, {'one row more' if shift else 'a table'}"
            density = norm.pdf(sums * 8, shift, deviation)
            axes.plot(
                sums * 8,
                density,
                color=color,
                linestyle=style,
                label=label,
            )
    axes.set(
        xlabel="released sum less the true one, in norms of a row",
        ylabel="density",
    )
    axes.legend()


def products():
    """Draw the laws of a released sum of products by Gaussian and by K-norm noise, with and without a row."""
    sums = np.linspace(-40, 40, 400)
    deviation = 1 / (Mu.of(1.0, 1e-6).mu * math.sqrt(0.46 * 7 / 8))
    # Of K-norm noise: uniform on a cube whose half side has a gamma distribution of shape 11, one more than the sums.
    radii = gamma(11).ppf((np.arange(2_000) + 0.5) / 2_000)
    axes = plt.subplots()[1]
    for shift, style in ((0, "-"), (1, "--")):
        label = "one row more" if shift else "a table"
        gaussian = norm.pdf(sums, shift, deviation)
        cubes = (
            (np.abs(sums[:, np.newaxis] - shift) < radii) / (2 * radii)
        ).mean(axis=1)
        axes.plot(
            sums,
            gaussian,
            color="C0",
            linestyle=style,
            label=f"Gaussian, {label}",
        )
        axes.plot(
            sums,
            cubes,
            color="C1",
            linestyle=style,
            label=f"K-norm, {label}",
        )
    axes.set(
        xlabel="released sum less the true one, in changes by a row",
        ylabel="density",
    )
    axes.legend()


def class_means():
    """Draw released means of two classes, with and without a record of one of them."""
    random = np.random.default_rng(0)
    classes = np.repeat(["no", "yes"], [120, 80])
    rows = pd.DataFrame(
        {
            "age": (
                random.normal(45, 10, 200) + 20 * (classes == "yes")
            ).clip(0, 100)
        }
    )
    axes = plt.subplots()[1]
    for more, style in ((0, "-"), (1, "--")):
        table = pd.concat(
            [rows, pd.DataFrame({"age": [100.0] * more})],
            ignore_index=True,
        )
        target = np.append(classes, ["yes"] * more)
        model = DPGaussianNB(0.5, bounds=(0, 100), classes=["no", "yes"])
        found = [
            model.set_params(random_state=seed)
            .fit(table, target)
            .theta_[:, 0]
            for seed in range(300)
        ]
        for place, label in enumerate(("no", "yes")):
            axes.hist(
                np.array(found)[:, place],
                bins=np.arange(30, 80),
                histtype="step",
                linestyle=style,
                color=f"C{place}",
                label=f"{label}, {'one row more' if more else 'a table'}",
            )
    axes.set(xlabel="released mean", ylabel="releases")
    axes.set_xlim(20, 80)
    axes.legend(loc="upper left")


def components():
    """Draw how often the first component of neighbouring tables has each direction."""
    rows = np.random.default_rng(0).normal(size=(60, 2)) @ [
        [2.0, 1.0],
        [0.0, 0.7],
    ]
    rows[-1] = 8, -8
    axes = plt.subplots()[1]
    for table, label in ((rows, "a table"), (rows[:-1], "one row less")):
        # The table is small, so that one row can be seen.
        with catch_warnings(action="ignore"):
            pca = DPPCA(n_components=1, epsilon=0.5, bounds=(-8, 8))
            found = [
                clone(pca)
                .set_params(random_state=seed)
                .fit(table)
                .components_
                for seed in range(400)
            ]
        angles = [math.degrees(math.atan(y / x)) for ((x, y),) in found]
        axes.hist(
            angles,
            bins=np.linspace(-90, 90, 37),
            histtype="step",
            label=label,
        )
    axes.set(
        xlabel="angle of the first component, in degrees",
        ylabel="releases",
    )
    axes.legend()


def selection():
    """Draw how often each column of neighbouring tables is chosen."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    rows = rng.normal(size=(60, 5)) + np.outer(y, [0, 0.4, 0.8, 1.2, 1.6])
    axes = plt.subplots()[1]
    for place, (table, label) in enumerate(
        ((rows, "a table"), (rows[:-1], "one row less"))
    ):
        with catch_warnings(action="ignore"):
            select = DPSelectKBest(
                k=1, epsilon=1.0, bounds=(-4, 6), classes=[0, 1]
            )
            fits = (
                clone(select)
                .set_params(random_state=seed)
                .fit(table, y[: len(table)])
                for seed in range(400)
            )
            counts = np.bincount(
                [fitted.ranking_[0] for fitted in fits], minlength=5
            )
        axes.bar(
            np.arange(5) + 0.4 * place - 0.2,
            counts,
            0.4,
            label=label,
            hatch="//" if place else None,
        )
    axes.set(xlabel="column", ylabel="releases")
    axes.grid(axis="x", visible=False)
    axes.legend()


def quantile():
    """Draw how often each candidate is released as the median."""
    ages = pd.DataFrame(
        {
            "age": np.random.default_rng(0)
            .gamma(8, 5, 60)
            .clip(0, 100)
            .round()
        }
    )
    found = [
        DPKBinsDiscretizer(
            0.5,
            n_bins=2,
            bounds=(0, 100),
            random_state=seed,
        )
        .fit(ages)
        .bin_edges_[0][1]
        for seed in range(1_000)
    ]
    axes = plt.subplots()[1]
    axes.hist(found, bins=np.arange(-1, 102, 2))
    axes.axvline(
        float(ages["age"].median()),
        color="C1",
        linestyle="--",
        label="true median",
    )
    axes.set(xlabel="released median", ylabel="releases")
    axes.legend()


def most_frequent():
    """Draw the probability of the most frequent of two values by its lead."""
    leads = np.arange(0, 31)
    axes = plt.subplots()[1]
    for epsilon, style in ((0.1, ":"), (0.3, "--"), (1.0, "-")):
        axes.plot(
            leads,
            1 - np.exp(-epsilon * leads) / 2,
            style,
            label=f"epsilon {epsilon:g}",
        )
    axes.set(
        xlabel="records by which it leads",
        ylabel="probability",
        ylim=(0.45, 1.02),
    )
    axes.legend()


def marginal():
    """Draw a true and a noisy marginal."""
    rng = np.random.default_rng(0)
    levels, jobs = (
        ["school", "college", "university"],
        ["none", "part time", "full time"],
    )
    people = pd.DataFrame(
        {
            "level": rng.choice(levels, 150, p=[0.6, 0.3, 0.1]),
            "job": rng.choice(jobs[1:], 150),
        }
    )
    noisy = (
        DPHistogram(
            0.5, domain={"level": levels, "job": jobs}, random_state=0
        )
        .fit(people)
        .to_frame()["count"]
    )
    true = people.value_counts().reindex(noisy.index, fill_value=0)
    panels = plt.subplots(1, 2, figsize=(7.6, 3.2))[1]
    for axes, counts, title in zip(
        panels, (true, noisy), ("true", "measured"), strict=True
    ):
        numbers = counts.unstack()
        axes.imshow(
            numbers,
            cmap="Blues",
            vmin=0,
            vmax=2 * true.max(),
            aspect="auto",
        )
        for row, column in np.ndindex(*numbers.shape):
            axes.text(
                column,
                row,
                f"{numbers.iloc[row, column]:.0f}",
                ha="center",
                va="center",
            )
        axes.set(xticks=range(3), yticks=range(3), title=title)
        axes.set_xticklabels(numbers.columns)
        axes.set_yticklabels(numbers.index if axes is panels[0] else [])
        axes.grid(False)
