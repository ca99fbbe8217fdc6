"""
Audit: find a mechanism with a false guarantee
==============================================

`audit_epsilon` compares the reports of two records, and searches for events whose probabilities differ by more than
the guarantee allows. In this example, it detects a mechanism that returns the true value slightly too often.
"""

# %%
# Randomized response with two coins, and a version that returns the true value slightly too often.

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.preprocessing import FunctionTransformer

from skdp.evaluation import audit_epsilon

answers = [pd.DataFrame({"answer": [value]}) for value in ("no", "yes")]


def make_release(truth: float) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Report the truth with a probability, and a fair coin otherwise."""
    rng = np.random.default_rng(0)

    def release(rows: pd.DataFrame) -> pd.DataFrame:
        keep = rng.random(len(rows)) < truth
        return pd.DataFrame(
            {
                "answer": np.where(
                    keep,
                    rows["answer"],
                    rng.choice(["no", "yes"], len(rows)),
                )
            }
        )

    return release


results = {
    f"truth with probability {truth}": audit_epsilon(
        FunctionTransformer(make_release(truth)),
        answers,
        epsilon=np.log(3),
        n_draws=20_000,
    )
    for truth in (0.5, 0.55, 0.7)
}
for name, result in results.items():
    print(
        name,
        "- rejected" if result.rejected else "- no evidence against it",
    )

# %%
# The audit returns a lower bound of ε. A stated ε below this bound is false.

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
bounds = [result.epsilon_lower for result in results.values()]
axes.barh(
    list(results),
    bounds,
    color=[
        "C3" if result.rejected else "C0" for result in results.values()
    ],
)
axes.axvline(np.log(3), color="black", label="claimed: ln 3")
axes.set(xlabel="ε is at least (confidence 1 − 10⁻⁶)")
figure.legend(loc="outside lower center")
plt.show()
