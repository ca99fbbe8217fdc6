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

figure, axes = plt.subplots(layout="constrained")
for style, (title, prior) in zip(
    ("-", "--", ":"), priors.items(), strict=True
):
    for color, (name, make) in enumerate(makers.items()):
        accuracy = [
            make(len(prior), float(e)).guess_accuracy(np.array(prior))
            for e in epsilons
        ]
        axes.plot(
            epsilons,
            accuracy,
            style,
            color=f"C{color}",
            label=f"{title}, {name}",
        )
axes.set(xlabel="ε", ylabel="accuracy of the best guess")
figure.legend(loc="outside lower center")
plt.show()
