"""
The best guess of a value from its report
=========================================

An attacker knows the distribution of the answers, and guesses a value from its report. The best possible accuracy
has a closed form.
"""

# %%
# If 5 % of the people have an illness and ε is small, the report does not change the best guess. With two
# values, subset selection is randomized response. With ten values and a small ε, its reports are sets.

import matplotlib.pyplot as plt
import numpy as np

from skdp.oracles import (
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)

epsilons = np.linspace(0.05, 6, 40)
priors = {
    "yes or no, 50 : 50": [0.5, 0.5],
    "yes or no, 95 : 5": [0.95, 0.05],
    "ten equal values": [0.1] * 10,
}
makers = {
    "randomized response": RandomizedResponse,
    "unary encoding": UnaryEncoding,
    "subset selection": SubsetSelection,
}

figure, panels = plt.subplots(
    3, sharex=True, sharey=True, figsize=(5, 6), layout="constrained"
)
for axes, (title, prior) in zip(panels, priors.items(), strict=True):
    axes.set(title=title, ylabel="accuracy")
    for style, (name, make) in zip(
        ("-", "-", ":"), makers.items(), strict=True
    ):
        accuracy = [
            make(len(prior), float(e)).guess_accuracy(np.array(prior))
            for e in epsilons
        ]
        axes.plot(epsilons, accuracy, style, label=name)
panels[-1].set_xlabel("ε")
figure.legend(
    *panels[-1].get_legend_handles_labels(),
    loc="outside lower center",
    ncols=2,
)
plt.show()
