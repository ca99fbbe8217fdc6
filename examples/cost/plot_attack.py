"""
The best attack on a release
============================

An attacker tests whether a person is in a table. The ROC curve of the best attack follows from the guarantee.
"""

# %%
# Three releases with epsilon 1 or 3: a count with Gaussian noise, and a yes/no answer by randomized response.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import RocCurveDisplay

from skdp import PrivacyGuarantee
from skdp.privacy import GaussianLoss, Mu


def add_gaussian_noise(epsilon):
    loss = GaussianLoss(Mu.of(epsilon, 1e-6).mu)
    return PrivacyGuarantee(epsilon, delta=1e-6, losses=(loss,))


releases = {
    "Gaussian noise, ε = 1": add_gaussian_noise(1),
    "Gaussian noise, ε = 3": add_gaussian_noise(3),
    "yes/no answer, ε = 1": PrivacyGuarantee(1.0),
}
for name, guarantee in releases.items():
    print(
        f"{name}: {guarantee.guess_probability:.1%} right guesses, and "
        f"{guarantee.true_positive_rate(0.01):.1%} detections with 1 % false alarms"
    )

# %%
# Without a release, the best attack is on the diagonal.

rates = np.linspace(0, 1, 201)
figure, axes = plt.subplots(figsize=(5, 4.4), layout="constrained")
for name, guarantee in releases.items():
    curve = guarantee.true_positive_rate(rates)
    RocCurveDisplay(fpr=rates, tpr=curve).plot(ax=axes, name=name)
axes.plot([0, 1], [0, 1], ":", color="black", label="no release")
axes.legend(loc="lower right")
plt.show()
