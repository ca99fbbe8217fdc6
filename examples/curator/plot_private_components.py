"""
Handwritten digits in two private components
============================================

Principal components of a few rows show them: each component is a weighted sum of rows. `DPPCA` computes components of a
noisy covariance matrix, which hardly depend on any single row.
"""

# %%
# 1,797 images of 64 pixels, of which the bounds are public: each is from 0 to 16.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from skdp import DPPCA

digits = load_digits()
pca = DPPCA(
    4, epsilon=4.0, delta=1e-6, bounds=(0, 16), random_state=0
).fit(digits.data)
pca.guarantee_

# %%
# The first components as images, beside those without privacy, whose signs are chosen alike.

exact = PCA(4).fit(digits.data)
figure, axes = plt.subplots(2, 4, figsize=(8, 4), layout="constrained")
for place, (noisy, true) in enumerate(
    zip(pca.components_, exact.components_, strict=True)
):
    images = {"DPPCA": noisy, "exact": true * np.sign(true @ noisy)}
    for panel, (name, image) in zip(
        axes[:, place], images.items(), strict=True
    ):
        panel.imshow(
            image.reshape(8, 8), cmap="RdBu", vmin=-0.35, vmax=0.35
        )
        panel.set(
            xticks=[], yticks=[], title=f"{name}, component {place + 1}"
        )
plt.show()

# %%
# What four components explain of the variance, over what the best four explain, for some ε.

covariance = np.cov(digits.data, rowvar=False)
best = exact.explained_variance_.sum()
for epsilon in (0.5, 1.0, 2.0, 4.0):
    fits = [
        DPPCA(
            4,
            epsilon=epsilon,
            delta=1e-6,
            bounds=(0, 16),
            random_state=seed,
        ).fit(digits.data)
        for seed in range(10)
    ]
    shares = [
        np.trace(one.components_ @ covariance @ one.components_.T) / best
        for one in fits
    ]
    print(f"epsilon {epsilon}: {np.mean(shares):.3f}")
