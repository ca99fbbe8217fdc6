"""
The best guess of a value from its report
=========================================

An attacker knows the distribution of the answers, and guesses a value from its report. The best possible accuracy
has a closed form.
"""

# %%
# If 5 % of the people have an illness and ε is small, the report does not change the best guess.

import matplotlib.pyplot as plt
import numpy as np

from skdp.evaluation import bayes_accuracy
from skdp.oracles import LocalHashing, RandomizedResponse, UnaryEncoding

epsilons = np.linspace(0.05, 6, 40)
priors = {
    "yes or no, 50 : 50": [0.5, 0.5],
    "yes or no, 95 : 5": [0.95, 0.05],
    "ten equal values": [0.1] * 10,
}
makers = {
    "randomized response": RandomizedResponse,
    "unary encoding": UnaryEncoding,
    "local hashing": LocalHashing,
}

figure, panels = plt.subplots(
    1, 3, figsize=(10, 3.4), sharey=True, layout="constrained"
)
for axes, (title, prior) in zip(panels, priors.items(), strict=True):
    for name, make in makers.items():
        axes.plot(
            epsilons,
            [
                bayes_accuracy(make(len(prior), float(e)), np.array(prior))
                for e in epsilons
            ],
            label=name,
        )
    axes.set(title=title, xlabel="ε")
panels[0].set_ylabel("accuracy of the best guess")
panels[0].legend()
plt.show()
