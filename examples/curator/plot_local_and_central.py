"""
The local and the central model compared
========================================

In the central model, a trusted curator adds noise to a count, and the error does not depend on the number of people.
In the local model, each person randomizes an answer, and the error grows with the square root of this number.
"""

# %%
# Both estimators compute the standard error of a count in closed form. Compare them at ε = 1.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import DPHistogram, RandomizedResponseEncoder

values = {"ill": ["no", "yes"]}
sizes = [100, 1_000, 10_000, 100_000]
local, central = [], []
for size in sizes:
    people = pd.DataFrame(
        {"ill": np.where(np.arange(size) % 10 == 0, "yes", "no")}
    )
    encoder = RandomizedResponseEncoder(
        1.0, categories=values, random_state=0
    ).fit(people)
    local.append(
        encoder.count_variances([size - size // 10, size // 10])[1] ** 0.5
    )
    # Replacing a record is removing one and adding another: half of epsilon for each.
    central.append(
        float(
            np.max(
                DPHistogram(0.5, domain=values, random_state=0)
                .fit(people)
                .std_error_
            )
        )
    )

figure, axes = plt.subplots(layout="constrained")
axes.loglog(
    sizes,
    np.array(local) / np.array(sizes),
    "o-",
    label="local: randomized response",
)
axes.loglog(
    sizes,
    np.array(central) / np.array(sizes),
    "s-",
    label="central: noise on the count",
)
axes.set(
    xlabel="people",
    ylabel="standard error of the proportion",
    title="ε = 1 for replacing a record, in both",
)
axes.legend()
plt.show()

# %%
# With 10,000 people, the error in the local model is about a hundred times as large as in the central model. In
# exchange, the collector does not have to be trusted.

print([round(a / b) for a, b in zip(local, central, strict=True)])
