"""
Composition of many releases
============================

The epsilons of several releases add up. For a fixed delta, the composition in rho (zCDP) grows only with the square
root of the number of releases.
"""

# %%
# Compare both rules for up to 100 releases with ε = 0.1, which have ρ = 0.005 each, at δ = 10⁻⁶.

import matplotlib.pyplot as plt

from skdp.privacy import zcdp_epsilon

counts = list(range(1, 101, 3))
rho = 0.1**2 / 2
figure, axes = plt.subplots(layout="constrained")
axes.plot(
    counts, [0.1 * count for count in counts], label="sum of pure epsilons"
)
axes.plot(
    counts,
    [zcdp_epsilon(rho * count, 1e-6) for count in counts],
    label="zCDP at δ = 10⁻⁶",
)
axes.set(xlabel="releases", ylabel="ε of all together")
axes.legend()
plt.show()
