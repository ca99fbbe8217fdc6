"""Exact channels of mechanisms on small domains."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import matplotlib.colors
from matplotlib import pyplot as plt

from skdp.oracles import RandomizedResponse


def heat_maps(
    channels: dict[str, Sequence[Sequence[Fraction]]],
    reports: Sequence[str],
    values: Sequence[str],
) -> None:
    """Draw channels side by side: a row a true value, a column a report, with the probabilities written in."""
    _, many = plt.subplots(
        1, len(channels), figsize=(3.4 * len(channels), 3.4), squeeze=False
    )
    for axes, (title, channel) in zip(
        many[0], channels.items(), strict=True
    ):
        heat_map(
            axes,
            [[float(entry) for entry in row] for row in channel],
            reports,
            values,
        )
        axes.set_title(title, fontsize=11)


def heat_map(
    axes: Any,
    channel: list[list[float]],
    reports: Sequence[str],
    values: Sequence[str],
) -> None:
    """Draw one channel."""
    colour = plt.rcParams["axes.prop_cycle"].by_key()["color"][0]
    shades = matplotlib.colors.LinearSegmentedColormap.from_list(
        "channel", [f"{colour}00", colour]
    )
    axes.pcolormesh(
        channel, cmap=shades, vmin=0, vmax=1, edgecolors="none"
    )
    axes.set_aspect("equal")
    axes.invert_yaxis()
    for row, entries in enumerate(channel):
        for column, entry in enumerate(entries):
            axes.text(
                column + 0.5,
                row + 0.5,
                f"{entry:.2f}",
                ha="center",
                va="center",
                fontsize=10,
            )
    axes.set_xticks(
        [column + 0.5 for column in range(len(reports))], reports
    )
    axes.set_yticks([row + 0.5 for row in range(len(values))], values)
    axes.set(xlabel="report", ylabel="true value")
    axes.grid(False)
    axes.spines[:].set_visible(False)


def randomized_response() -> None:
    """Draw the channel of randomized response at two epsilons."""
    names = ["a", "b", "c", "d"]
    heat_maps(
        {
            f"epsilon = {epsilon}": RandomizedResponse(
                4, epsilon
            ).channel()
            for epsilon in (1, 3)
        },
        names,
        names,
    )
