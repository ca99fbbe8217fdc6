"""
How far can false reports move a count?
=======================================

Anyone can send reports that no person made. Each oracle limits differently how much a false report raises the
estimate of a value.
"""

# %%
# An estimate is :math:`(C - nq) / (p - q)`, where :math:`C` of :math:`n` reports support the value. A false report that
# supports it adds :math:`(1 - q) / (p - q)`; so many true answers would have to change to do the same.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp.oracles import LocalHashing, RandomizedResponse, UnaryEncoding

n_values, n_false, n_true = 20, 1_000, 100_000
kinds = {
    "randomised response": RandomizedResponse,
    "unary encoding": UnaryEncoding,
    "local hashing": LocalHashing,
}
rows = []
for epsilon in (0.5, 1.0, 2.0, 4.0):
    for name, kind in kinds.items():
        oracle = kind(n_values, epsilon)
        raised = float((1 - oracle.q) / (oracle.p - oracle.q))
        std_error = np.sqrt(oracle.variance(np.zeros(n_values), n_true)[0])
        rows.append((name, epsilon, raised, n_false * raised / std_error))
table = pd.DataFrame(
    rows,
    columns=[
        "oracle",
        "epsilon",
        "raised by one",
        "shift in standard errors",
    ],
)
table.round(2)

# %%
# One per cent of false reports moves the count of a value by many standard errors.

figure, axes = plt.subplots(layout="constrained")
for name, part in table.groupby("oracle"):
    axes.semilogx(part["epsilon"], part["raised by one"], "o-", label=name)
axes.set(xlabel="ε", ylabel="what one false report adds to a count")
axes.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"], minor=False)
axes.minorticks_off()
axes.legend()
plt.show()
