"""
Synthetic tables: compare the marginals
=======================================

`DPMarginalSynthesizer` measures noisy marginals of a table, fits a model to them, and draws new rows.
`Domain.value_counts` counts the declared values in the true and in the synthetic rows. `marginal_errors` compares both.
"""

# %%
# Four columns of Adult, with their declared values and bins:

import matplotlib.pyplot as plt
import pandas as pd

from skdp import DPMarginalSynthesizer
from skdp.datasets import load_adult
from skdp.metrics import marginal_errors

adult = load_adult()
table = adult.frame[["age", "education", "sex", "income"]]
domain = adult.domain.select(table.columns)
synthesizer = DPMarginalSynthesizer(
    epsilon=1.0,
    delta=1e-6,
    domain=domain,
    target="income",
    random_state=0,
)
synthetic = synthesizer.fit(table).sample()
print(synthesizer.guarantee_)
synthetic.head()

# %%
# Total variation distances of the columns:

marginals = marginal_errors(table, synthetic, order=1, domain=domain)
errors = marginals.set_index("columns")["error"]
errors.index = [name for (name,) in errors.index]
errors.plot.barh(xlabel="total variation distance", ylabel="")
plt.show()

# %%
# Proportions of the values of each column, in both tables:

figure, panels = plt.subplots(2, 2, figsize=(7, 7), layout="constrained")
for axes, name in zip(panels.flat, table, strict=True):
    column = domain.select([name])
    proportions = pd.DataFrame(
        {
            "real": column.value_counts(table[[name]]) / len(table),
            "synthetic": column.value_counts(synthetic[[name]])
            / len(synthetic),
        }
    )
    proportions.plot.barh(
        ax=axes, ylabel="", title=f"{name}, TVD {errors[name]:.3f}"
    )
plt.show()
