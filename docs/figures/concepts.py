"""Pictures of ideas."""

import numpy as np
from matplotlib import pyplot as plt

from skdp.oracles import RandomizedResponse


def ratio() -> None:
    """Draw the probabilities of the reports of two true values."""
    channel = RandomizedResponse(4, 1).channel()
    names, places = ["a", "b", "c", "d"], np.arange(4)
    axes = plt.subplots(figsize=(6.4, 3))[1]
    for shift, row, hatch in ((-0.2, 0, ""), (0.2, 1, "//")):
        heights = [float(entry) for entry in channel[row]]
        bars = axes.bar(
            places + shift,
            heights,
            0.38,
            label=f"true value {names[row]}",
            hatch=hatch,
        )
        axes.bar_label(bars, fmt="%.2f", fontsize=9)
    axes.set(
        xticks=places,
        xticklabels=names,
        xlabel="report",
        ylabel="probability",
    )
    axes.legend()
