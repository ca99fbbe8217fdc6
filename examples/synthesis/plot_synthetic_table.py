"""
Synthetic tables: compare the marginals
=======================================

`DPMarginalSynthesizer` measures noisy marginals of a table, fits a model to them, and draws new rows.
`MarginalDisplay` compares the marginals of the true and the synthetic rows.
"""

# %%
# In the simulated table, income depends on education and age. The domain declares the values, and bins for the numbers.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.evaluation import MarginalDisplay

rng = np.random.default_rng(0)
n = 5_000
age = rng.gamma(6, 7, n).clip(18, 89).astype(int)
education = rng.choice(
    ["school", "college", "university"], n, p=[0.5, 0.3, 0.2]
)
level = (
    pd.Series(education).map({"school": 0, "college": 1, "university": 2})
    + (age > 40)
    + rng.normal(0, 0.7, n)
)
people = pd.DataFrame(
    {
        "age": age,
        "education": education,
        "income": np.where(level > 1.6, "high", "low"),
    }
)
domain = Domain(
    {
        "age": Interval(18, 90, bins=12),
        "education": ["school", "college", "university"],
        "income": ["low", "high"],
    }
)
synthesizer = DPMarginalSynthesizer(
    1.0, delta=1e-9, domain=domain, random_state=0
).fit(people)
synthetic = synthesizer.sample()
print(synthesizer.guarantee_)
synthetic.head()

# %%
# Plot the distribution of each column in the true and in the synthetic table.

MarginalDisplay.from_tables(people, synthetic, domain=domain)
plt.show()
