"""
What of a synthetic table can be used
=====================================

`TableQualityDisplay` shows how far a synthetic table is off in each column, in the worst pairs and in the numbers, and
names what is not to be used of it.
"""

# %%
# Shoppers: what they pay depends on their town and on the goods, which go together by age.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skdp import Domain, DPMarginalSynthesizer, Interval
from skdp.evaluation import TableQualityDisplay

rng = np.random.default_rng(0)
n = 8_000
age = rng.gamma(6, 7, n).clip(18, 89).astype(int)
town = rng.zipf(1.6, n).clip(max=40)
goods = (age // 12 + rng.integers(0, 4, n)) % 10
paid = np.round(rng.gamma(2, 10 + goods, n).clip(0, 199), 2)
shoppers = pd.DataFrame(
    {
        "age": age,
        "town": town,
        "goods": goods,
        "paid": paid,
        "member": np.where(rng.random(n) < age / 120, "yes", "no"),
    }
)
domain = Domain(
    {
        "age": Interval(18, 90, bins=12),
        "town": list(range(1, 41)),
        "goods": list(range(10)),
        "paid": Interval(0, 200, bins=20, decimals=2),
        "member": ["yes", "no"],
    }
)
synthesizer = DPMarginalSynthesizer(
    1.0, delta=1e-6, domain=domain, random_state=0
).fit(shoppers)

# %%
# Anyone who has the synthesizer can look at it: the model is compared with the noisy counts that it was fitted to. Grey
# is what noise alone makes, so a dot within it says that the model agrees with all that is known. Below each panel it
# is said what is not to be used. The figures are tables, too.

display = TableQualityDisplay.from_estimator(synthesizer)
plt.show()
display.unsupported

# %%
# The curator, who has the real rows, can compare these. That picture is not for release, as it shows them.

TableQualityDisplay.from_tables(
    shoppers, synthesizer.sample(), domain=domain
)
plt.show()
