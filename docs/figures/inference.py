"""Pictures of how often intervals of synthetic tables hold the truth."""

from pathlib import Path

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.ticker import MultipleLocator

from skdp.evaluation.displays import INK

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
# The range that the benchmark asks for, and a normal interval of 95 %.
LEAST, MOST, WIDTH = 0.93, 0.97, 1.96
MARKERS = {0.3: "o", 1.0: "s", 3.0: "D"}
# A row for each, from above.
SIZES = (1_000, 5_000, 30_000)
PARTS = {
    "All marginals listed": ("marginals",),
    "Planned analyses": ("analyses", "private bins"),
}


def coverage():
    """Draw the coverage of each setting, beside that of synthetic rows."""
    data = pd.read_csv(RESULTS / "synthetic_inference.csv")
    data = data[data["analysis"] == "all"]
    parts = {}
    for title, declared in PARTS.items():
        parts[title] = _rows(data, declared)
    figure, panels = plt.subplots(
        2,
        2,
        figsize=(7.2, 9.6),
        height_ratios=[_height(rows) for rows in parts.values()],
        width_ratios=[3, 2],
        sharex="col",
        sharey="row",
    )
    for (title, rows), (by_counts, by_rows) in zip(
        parts.items(), panels, strict=True
    ):
        _draw_rows(by_counts, rows)
        _draw_naive(by_rows, rows)
        by_counts.set_title(title, loc="left", fontsize=11)
        for axes in (by_counts, by_rows):
            axes.axvspan(LEAST, MOST, color=INK, alpha=0.15, linewidth=0)
            axes.grid(axis="y", visible=False)
    panels[1, 0].set_xlabel("coverage,\nsynthetic_inference")
    panels[1, 1].set_xlabel(
        "coverage, synthetic rows\ntaken for true ones"
    )
    panels[1, 0].xaxis.set_major_locator(MultipleLocator(0.05))
    panels[1, 1].set_xlim(-0.02, 1.02)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=3, fontsize=10
    )


def _rows(data, declared):
    """Return the settings of a part, and where each row is drawn."""
    rows = []
    y = 0.0
    for kind in declared:
        of_kind = data[data["declared"] == kind]
        for table, own in of_kind.groupby("table", sort=False):
            y += 0.7
            name = table
            if kind == "private bins":
                name = f"{table}, private bins"
            for n in SIZES:
                of_size = own[own["n"] == n]
                if of_size.empty:
                    continue
                rows.append((y, f"{name}, n = {n:,}", of_size))
                name = ""
                y += 1
    return [(y, label.strip(", "), own) for y, label, own in rows]


def _height(rows):
    """Return the height of a panel in rows."""
    return rows[-1][0] + 1


def _offset(epsilon):
    """Return where an epsilon is within its row, so that none hides another."""
    return {0.3: -0.25, 1.0: 0.0, 3.0: 0.25}[epsilon]


def _draw_rows(axes, rows):
    """Draw a dot for each setting, with an interval for its own error."""
    for place, (epsilon, marker) in enumerate(MARKERS.items()):
        ys = []
        covered = []
        errors = []
        for y, _, own in rows:
            for setting in own[own["epsilon"] == epsilon].itertuples():
                ys.append(y + _offset(epsilon))
                covered.append(setting.coverage)
                errors.append(WIDTH * setting.std_error)
        axes.errorbar(
            covered,
            ys,
            xerr=errors,
            fmt=marker,
            markersize=4,
            linewidth=1,
            color=f"C{place}",
            label=f"epsilon {epsilon:g}",
        )
    axes.set_yticks(
        [y for y, _, _ in rows],
        [label for _, label, _ in rows],
        fontsize=9,
    )
    axes.set_ylim(_height(rows) - 0.2, 0)


def _draw_naive(axes, rows):
    """Draw a hollow dot for each setting, on the whole range."""
    naive = "synthetic rows as true ones"
    for place, (epsilon, marker) in enumerate(MARKERS.items()):
        for y, _, own in rows:
            of_epsilon = own[own["epsilon"] == epsilon]
            axes.scatter(
                of_epsilon[naive],
                [y + _offset(epsilon)] * len(of_epsilon),
                marker=marker,
                s=16,
                facecolors="none",
                edgecolors=f"C{place}",
            )
