"""
Synthetic tables: compare the marginals
=======================================

`DPMarginalSynthesizer` measures noisy marginals of a table, fits a model to them, and draws new rows.
`MarginalDisplay` compares the marginals of the true and the synthetic rows.
"""

# %%
# Four columns of Adult, with their declared values and bins:

import matplotlib.pyplot as plt

from skdp import DPMarginalSynthesizer
from skdp.datasets import load_adult
from skdp.evaluation import MarginalDisplay

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
# Plot the distribution of a column in the true and in the synthetic table.

MarginalDisplay.from_tables(table, synthetic, ["age"], domain=domain)
plt.show()

# %%
# All columns:

MarginalDisplay.from_tables(table, synthetic, domain=domain)
plt.show()
